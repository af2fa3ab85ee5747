"""The plan of a session's steps, what executes them and what records them."""
