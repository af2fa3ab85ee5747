"""Readers of data sets: published data, pickles of other versions, files made to do harm."""
