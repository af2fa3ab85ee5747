"""Scorers beside the official ones, in languages and with data that few machines have."""
