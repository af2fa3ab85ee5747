"""With --find-peak-qps: the highest Server or Interactive rate whose run is VALID."""

import warnings

import pytest

pytestmark = pytest.mark.performance


def test_a_rate_is_confirmed_at_full_length(peak_search):
    """The highest rate was VALID in a full-length run; a lower bound gives a warning."""
    assert peak_search.peak_qps is not None, peak_search.words
    if not peak_search.bounded:
        warnings.warn(peak_search.words, stacklevel=1)
