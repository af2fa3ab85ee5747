"""What the suite is measured and tested with; no result comes of it."""
