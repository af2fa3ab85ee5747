"""The rule on LoadGen's clock, for every kind of LoadGen run that a session makes.

LoadGen's timer is the system's clock, unless its build has a steady high_resolution_clock.
"""

from __future__ import annotations

from functools import partial

from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, VerdictError, not_judged, verdict

clock_rule = partial(
    rule,
    required="as CLOCK_MONOTONIC_RAW, to 0.1% and 2 ms",
    official=False,
    source="LoadGen's sources: its timer is high_resolution_clock, the system's clock",
    fix="Stop what sets the system's clock, or let it finish, then repeat the run.",
    session_only=True,
)
"""`rule` for `loadgen_clock`, which judges every kind of LoadGen run."""


@clock_rule("performance", "accuracy", *AUDIT_MODES)
def loadgen_clock(run: RunFacts) -> Verdict:
    """LoadGen's clock kept time during the run: it was not set, and its rate was right.

    The system's clock is read beside CLOCK_MONOTONIC_RAW four times a second, and the timestamps
    of LoadGen's log are compared with the time that the run and its answers took.
    """
    logs = run.blocks or (run.logs,)
    if any(each.clock is None for each in logs):
        raise VerdictError(not_judged("no reading of the clocks"))
    faults = [fault for each in logs for fault in each.clock_faults]
    return verdict(not faults, "; ".join(faults) or "no step, the same rate")
