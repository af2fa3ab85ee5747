"""Servers for measuring and testing the suite itself: a stand-in, and real ones on this machine."""
