"""Judging logs that exist already, whoever made them."""
