"""Serving on real engines, where a stand-in answers in the tests."""
