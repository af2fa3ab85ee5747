"""How long the short runs of a search are."""

from mlperf_suite.loadgen.load_plan import Shortened

SHORT: dict[bool, Shortened] = {
    True: Shortened(10_000, 64, latency_percent=90),
    False: Shortened(60_000, 1),
}
"""A trial run of the peak search, by whether the profile is smoke."""
MAX_TRIAL_SAMPLES = 1024
"""Equal issue mode sends whole multiples of the samples, so a trial run needs fewer of them."""
