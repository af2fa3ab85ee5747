"""Scores answers for accuracy: one scorer per file, all behind the same small protocol."""
