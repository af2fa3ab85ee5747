"""Are the answers still right: one scorer a file, each behind the same small protocol."""
