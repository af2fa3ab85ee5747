"""The fixtures of the tests of sessions, reports and judging, for those of features."""

from meta_tests.judging.conftest import submission
from meta_tests.reports.conftest import undrawn
from meta_tests.session.conftest import lines, make, quick, short

__all__ = ["lines", "make", "quick", "short", "submission", "undrawn"]
