"""The search for the best settings, and what it is compared with."""
