"""Engines answer prompts. `protocol` defines the interface; other modules work with any engine."""
