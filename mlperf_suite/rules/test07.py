"""Rules of TEST07: the accuracy of a performance run, if performance has a separate data set.

Source: compliance/TEST07 of github.com/mlcommons/inference.
"""

from __future__ import annotations

from mlperf_suite.rules import checks
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict


@rule("test07", divisions=CLOSED)
def test07_log_is_whole(run: RunFacts) -> Verdict:
    """TEST07's logs can be read in whole; a submission need not bring the detail log."""
    return checks.audit_log_is_whole(run)


@rule("test07", divisions=CLOSED, shortens=checks.audit_is_shortened)
def test07_settings(run: RunFacts) -> Verdict:
    """The audit's settings took: every answer logged, each sample issued once."""
    return checks.audit_settings(run)


@rule("test07", divisions=CLOSED)
def test07_test_mode(run: RunFacts) -> Verdict:
    """TEST07 was a performance run of this scenario."""
    return checks.audit_test_mode(run)


@rule("test07", divisions=CLOSED)
def test07_no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in TEST07, apart from the audit.config that the test wants."""
    return checks.audit_no_loadgen_errors(run)


@rule("test07", divisions=CLOSED, shortens=checks.audit_shortened_and_whole)
def test07_every_sample(run: RunFacts) -> Verdict:
    """Each sample of the audit's data set was issued, and its answer logged."""
    return checks.audit_every_sample(run)


@rule("test07", divisions=CLOSED, session_only=True)
def test07_score(run: RunFacts) -> Verdict:
    """The audit's answers score at least what the audit asks for.

    Of a submission only the official script's word is known: its data set is not at hand.
    """
    least = checks.audit_of(run).least_score
    if least is None:
        return not_judged("no figure", "a score", "the audit asks for none")
    name, value = least
    required = f"{name} of at least {value:g}"
    if name in run.figures_not_judged:
        return not_judged("no figure", required, run.figures_not_judged[name])
    found = (run.scores or {}).get(name)
    if found is None:
        return verdict(False, "no figure", required)
    if run.reference is None and run.unreferenced:
        return not_judged(f"{found:.3f}", required, run.unreferenced)
    return verdict(found >= value, f"{found:.3f}", required)


@rule("test07", divisions=CLOSED, submitted_only=True)
def test07_verified(run: RunFacts) -> Verdict:
    """The submission's verify_accuracy.txt says that TEST07 passed."""
    return checks.audit_verified(run)
