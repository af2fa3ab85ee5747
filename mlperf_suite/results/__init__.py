"""What a run leaves behind: its folder, its summary, the index over all runs."""
