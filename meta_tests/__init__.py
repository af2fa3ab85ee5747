"""Tests of the suite itself: each fails when the thing it names is broken."""
