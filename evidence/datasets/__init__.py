"""Readers of data sets: published data, files made to do harm."""
