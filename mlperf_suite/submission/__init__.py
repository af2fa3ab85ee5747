"""Builds the official directory tree of a submission from this suite's result folders."""
