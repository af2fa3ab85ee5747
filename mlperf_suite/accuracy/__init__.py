"""Are the answers still right: ROUGE and its gate."""
