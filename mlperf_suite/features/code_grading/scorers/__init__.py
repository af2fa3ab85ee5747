"""Scores choices, numbers, mathematics and programs in answers."""
