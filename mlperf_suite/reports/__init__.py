"""What people read: made from summary.json alone, so that no report disagrees with it."""
