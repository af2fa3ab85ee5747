"""Rules of TEST09: a performance run's answers are as long as the reference's.

Source: compliance/TEST09 of github.com/mlcommons/inference.
"""

from __future__ import annotations

from mlperf_suite.rules import checks
from mlperf_suite.rules.facts import TEXT_ALONE, RunFacts
from mlperf_suite.rules.registry import CLOSED, rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict


@rule("test09", divisions=CLOSED)
def test09_log_is_whole(run: RunFacts) -> Verdict:
    """TEST09's logs can be read in whole; a submission need not bring the detail log."""
    return checks.audit_log_is_whole(run)


@rule("test09", divisions=CLOSED, shortens=checks.audit_is_shortened)
def test09_settings(run: RunFacts) -> Verdict:
    """The audit's settings took: every answer logged, each sample issued once."""
    return checks.audit_settings(run)


@rule("test09", divisions=CLOSED)
def test09_test_mode(run: RunFacts) -> Verdict:
    """TEST09 was a performance run of this scenario."""
    return checks.audit_test_mode(run)


@rule("test09", divisions=CLOSED)
def test09_no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in TEST09, apart from the audit.config that the test wants."""
    return checks.audit_no_loadgen_errors(run)


@rule("test09", divisions=CLOSED, shortens=checks.audit_shortened_and_whole)
def test09_every_sample(run: RunFacts) -> Verdict:
    """Each sample of the performance data set was issued, and its answer logged."""
    return checks.audit_every_sample(run)


@rule("test09", divisions=CLOSED)
def test09_mean_tokens(run: RunFacts) -> Verdict:
    """The mean length of the answers logged is within the audit's limits, in tokens.

    As in the official script the mean is over every entry of the log, a sample's second too.
    """
    limits = checks.audit_of(run).mean_tokens
    if limits is None:
        return not_judged("no figure", "a mean length", "the audit asks for none")
    low, high = limits
    required = f"{low:,.2f} to {high:,.2f} tokens"
    if run.text_alone:
        return not_judged("no token ids from the engine", required, TEXT_ALONE)
    lengths = [len(sample.token_ids) for sample in run.logs.accuracy.samples]
    if not lengths:
        return verdict(False, "no answer", required)
    mean = sum(lengths) / len(lengths)
    if run.reference is None and run.unreferenced:
        return not_judged(f"{mean:,.2f} tokens", required, run.unreferenced)
    return verdict(low <= mean <= high, f"{mean:,.2f} tokens", required)


@rule("test09", divisions=CLOSED, submitted_only=True)
def test09_verified(run: RunFacts) -> Verdict:
    """The submission's verify_output_len.txt says that TEST09 passed."""
    return checks.audit_verified(run)
