"""Measures an LLM serving stack the way MLPerf Inference does, and judges it."""

__version__ = "0.1.0"
