"""Plans the steps of a session, executes them and records their results."""
