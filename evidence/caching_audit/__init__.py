"""A hidden cache of answers before a real HTTP server, and the caching audit, which finds it."""
