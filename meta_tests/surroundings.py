"""What tests of the suite itself run in: hypothesis's profiles, threads that do not spin,
Ctrl-C."""

import os
import signal

from hypothesis import HealthCheck, settings

# A shell ignores SIGINT for what it starts in the background, and so would every process that a
# test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Real engines are tested beside other tests. By default, an OpenMP thread that waits for another
# one spins, on the core that the other may need. Every process that a test starts inherits this.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# What sessions of the tests measure belongs in nobody's tracker.
os.environ.pop("MLFLOW_TRACKING_URI", None)
# A deadline, or hypothesis's own look at the time, would fail a test for being slow, as any is on a
# machine that is busy. The same examples each time: what fails is then of the change that is
# tested. `--hypothesis-profile search` draws others, and more of them.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("suite")
