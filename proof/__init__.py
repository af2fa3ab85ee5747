"""The proof of the submission command: runs of full size, their tree, the checker's word.

`python -m proof` makes all of it; the engine is a replay, so nothing is measured.
"""
