"""What the suite itself costs, each as a ratio of rates measured side by side in one run."""
