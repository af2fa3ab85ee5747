"""The fixtures of the tests of reports, for those of curves."""

from meta_tests.reports.conftest import compare

__all__ = ["compare"]
