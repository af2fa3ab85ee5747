"""How many samples a smoke run takes on machines from fast to slow. Times of runs are evidence."""

from mlperf_suite.session.timing.estimate import size_that_fits


def test_a_slow_machine_is_given_more_time_for_few_samples() -> None:
    # 32 samples fit into 15 s at 0.4 s each; at 0.7 s more time is given for 24 of them.
    for each_s, taken in ((0.1, 84), (0.4, 32), (0.7, 24), (1.8, 16), (4.0, 16)):
        size = size_that_fits(84, each_s.__mul__)
        assert size.samples == taken
    assert size.why == "16 of 84 samples: about 64 s a run on this machine"
    # SingleStream asks at least 64 queries one by one: fewer samples would save no time.
    assert size_that_fits(22, lambda n: 300.0).samples == 22
    assert size_that_fits(22, lambda n: 300.0 + n).samples == 22
