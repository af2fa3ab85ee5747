"""Judges existing logs, whoever made them."""
