"""Measures what the suite itself costs, as ratios of rates measured side by side in one run."""
