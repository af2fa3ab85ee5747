"""Writes reports from summary.json alone, so that they cannot disagree with it."""
