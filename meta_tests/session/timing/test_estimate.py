"""How many samples a smoke run takes on machines from fast to slow. Times of runs are evidence."""

import pytest

from meta_tests.session.scripted_session import inputs
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.session.timing.estimate import (
    EngineSpeed,
    Estimator,
    TokenLengths,
    size_that_fits,
)


def test_a_slow_machine_is_given_more_time_for_few_samples() -> None:
    # 32 samples fit into 15 s at 0.4 s each; at 0.7 s more time is given for 24 of them.
    for each_s, taken in ((0.1, 84), (0.4, 32), (0.7, 24), (1.8, 16), (4.0, 16)):
        size = size_that_fits(84, each_s.__mul__)
        assert size.samples == taken
    assert size.why == "16 of 84 samples: about 64 s a run on this machine"
    # SingleStream asks at least 64 queries one by one: fewer samples would save no time.
    assert size_that_fits(22, lambda n: 300.0).samples == 22
    assert size_that_fits(22, lambda n: 300.0 + n).samples == 22


@pytest.mark.parametrize(
    ("each_s", "kept", "taken"),
    [(0.7, 48, 48), (0.1, 24, 24), (1.8, 16, 16), (0.4, 8, 32), (1.8, 84, 16)],
)
def test_equal_commands_take_as_many_samples_as_the_last_run(
    each_s: float, kept: int, taken: int
) -> None:
    """Unless these are too few where more fit, or take too long now."""
    place = (LLAMA3_1_8B.id, "Offline")
    estimator = Estimator(
        inputs().settings,
        EngineSpeed(each_s / 100, 0.0, 0.0),
        lambda benchmark, mode: TokenLengths([100] * 84, 1),
        lambda benchmark, mode: 84,
        {},
        lambda kind: None,
        {place: kept},
    )
    size = estimator.size(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"))
    assert size.samples == taken
