"""With -m tune: the search for the best settings, and what its winner must show."""

import warnings

import pytest

pytestmark = pytest.mark.tune


def test_a_winner_is_better_than_the_default(tuning):
    """Either the whole interval of the gain is above zero, or the answer is that there is none; a
    winner gives a warning, as the settings in use are not the best."""
    if tuning.is_better:
        assert tuning.gain.low > 0
        warnings.warn(tuning.words, stacklevel=1)


def test_no_run_of_the_pairs_broke_a_rule(tuning):
    """Default and candidate passed the accuracy gate and every other rule in each run."""
    assert not tuning.failure, tuning.failure


def test_a_claim_has_enough_pairs(tuning):
    """A gain is from at least five pairs of runs that the search has not seen."""
    from mlperf_suite.features.tuning.tuning_result import PAIRS

    assert tuning.gain is None or len(tuning.pairs) >= PAIRS


def test_what_the_winner_costs_is_known(tuning):
    """A winner comes with its latencies beside the default's."""
    assert tuning.costs or not tuning.is_better
