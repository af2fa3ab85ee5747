"""Comparisons of runs that were made to harm."""
