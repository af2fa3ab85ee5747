"""Benchmarks of conversations and tools beside MLCommons' own scorers and check."""
