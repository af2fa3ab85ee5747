"""What answers prompts. `protocol` says what an engine is; the rest are engines."""
