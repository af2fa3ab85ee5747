"""Servers for measuring and testing the suite itself: stand-ins, and Ray nodes on this machine."""
