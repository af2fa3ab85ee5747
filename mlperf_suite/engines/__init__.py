"""What answers prompts. `protocol` says what an engine is; beside engines, what works with any."""
