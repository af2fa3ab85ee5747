"""Systems whose highest rate is known."""

from collections.abc import Callable

from mlperf_suite.features.peak_search.figures import RateTrial


def trial(rate: float, full_length: bool, valid: bool) -> RateTrial:
    return RateTrial(rate, full_length, valid, rate, 100.0, 10.0)


def system(short_peak: float, full_peak: float | None = None) -> Callable[[float, bool], RateTrial]:
    """Holds every rate up to its peak; a full-length run may hold less than a short one."""
    peaks = {False: short_peak, True: full_peak or short_peak}
    return lambda rate, full: trial(rate, full, rate <= peaks[full])
