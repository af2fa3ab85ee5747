"""Servers for trying the suite: real ones of the embedded model, and one of known delays."""
