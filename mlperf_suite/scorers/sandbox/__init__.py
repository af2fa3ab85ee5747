"""Runs one program that a model wrote, kept apart from the machine; root is not needed."""
