"""Rules of a performance run's validity: a valid result, a complete log, the round's seeds."""

from __future__ import annotations

from mlperf_suite.rules import checks
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict


@rule("performance")
def result_valid(run: RunFacts) -> Verdict:
    """LoadGen's own verdict on the run is VALID.

    The official checker reads it and lets every other verdict pass.
    """
    found = run.logs.detail["result_validity"]
    advice = run.logs.detail["result_invalid_reason"]
    if found is None:
        return checks.missing("result_validity", "VALID")
    return verdict(found == "VALID", found, "VALID", "" if advice is None else advice)


@rule("performance")
def log_is_whole(run: RunFacts) -> Verdict:
    """The performance run's detail log can be read in whole."""
    return checks.log_is_whole(run)


@rule("performance")
def no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in the performance run.

    The official checker looks only where it was told to ignore some of them.
    """
    return checks.no_loadgen_errors(run)


@rule("performance")
def test_mode(run: RunFacts) -> Verdict:
    """The performance run was made in PerformanceOnly mode of this scenario."""
    return checks.test_mode(run)


@rule("performance")
def result_reported(run: RunFacts) -> Verdict:
    """The figure that the scenario is compared by is in the log."""
    key, unit = run.scenario.metric, run.scenario.metric_unit
    found = checks.number(run, key, f"more than 0 {unit}")
    if isinstance(found, Verdict):
        return found
    return verdict(found > 0, f"{found:,} {unit}", f"more than 0 {unit}")


@rule("performance", shortens=checks.departs_in_length_alone, session_only=True)
def generation(run: RunFacts) -> Verdict:
    """The performance run generates as the benchmark says: at most 128 tokens, no prefix cache.

    Neither LoadGen's log nor the official checker knows.
    """
    return checks.generates_as_specified(run)


@rule("performance", session_only=True)
def cached_prompt_tokens(run: RunFacts) -> Verdict:
    """The engine took no prompt token of the performance run from a cache, as it counts them.

    MLPerf issues samples more than once, and each must be computed each time.
    """
    return checks.no_cached_tokens(run.cached_tokens)


@rule("performance")
def seeds(run: RunFacts) -> Verdict:
    """The performance run's three random seeds are those of the round."""
    return checks.seeds(run)


@rule("performance")
def equal_issue_mode(run: RunFacts) -> Verdict:
    """Every sample is issued equally often (sample_concatenate_permutation).

    The official checker tests this the wrong way round, and since v5.0 not at all; the rule is
    mlperf.conf's.
    """
    return checks.is_true(run, "effective_sample_concatenate_permutation")


@rule("performance")
def token_latencies(run: RunFacts) -> Verdict:
    """LoadGen counts tokens (use_token_latencies)."""
    return checks.is_true(run, "requested_use_token_latencies")


@rule("performance")
def loadgen_unmodified(run: RunFacts) -> Verdict:
    """The performance run's LoadGen was built without local changes."""
    return checks.loadgen_unmodified(run)


@rule("performance", divisions=CLOSED)
def accuracy_passed(run: RunFacts) -> Verdict:
    """The accuracy run of the same system passed; without it a performance counts nothing."""
    if run.accuracy_passed is None:
        return not_judged("no accuracy run", "accuracy passed", "no accuracy run was judged")
    found = "accuracy passed" if run.accuracy_passed else "accuracy failed"
    return verdict(run.accuracy_passed, found, "accuracy passed")
