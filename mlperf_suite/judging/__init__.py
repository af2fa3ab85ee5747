"""Judges existing logs."""
