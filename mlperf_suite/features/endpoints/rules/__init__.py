"""The rules of the official client's results, of packages and of their curves."""
