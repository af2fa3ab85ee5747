"""The fixtures of the tests of sessions and reports, for those of features."""

from meta_tests.reports.conftest import undrawn
from meta_tests.session.conftest import lines, make, quick, short

__all__ = ["lines", "make", "quick", "short", "undrawn"]
