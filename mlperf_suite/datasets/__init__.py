"""Loaders for the data sets that samples come from."""
