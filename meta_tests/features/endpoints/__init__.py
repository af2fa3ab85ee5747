"""Tests of the readers of the official client's files."""
