"""Set-up with the real tools."""
