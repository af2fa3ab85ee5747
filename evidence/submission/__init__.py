"""Tests the submission command end to end: full-size runs, their tree, the official checker.

`python -m evidence.submission` does all of it; the engine is a replay, so nothing is measured.
"""
