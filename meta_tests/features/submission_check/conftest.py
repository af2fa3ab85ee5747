"""What every test of judging may have."""

from meta_tests.judging.conftest import submission

__all__ = ["submission"]
