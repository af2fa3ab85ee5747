"""Rules of an accuracy run, apart from its scores: complete logs, every sample, nothing changed."""

from __future__ import annotations

from mlperf_suite.benchmarks.definition import COUNTED_IN_A_SENTENCE
from mlperf_suite.loadgen.logs import ACCURACY
from mlperf_suite.rules import checks
from mlperf_suite.rules.accuracy_txt import parse_accuracy_txt
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

MAX_ACCURACY_LOG_BYTES = 10 * 1024
"""A submission's accuracy log is truncated to less (MAX_ACCURACY_LOG_SIZE of the official
checker)."""


@rule("accuracy")
def accuracy_log_is_whole(run: RunFacts) -> Verdict:
    """The accuracy run's detail log and accuracy log can be read in whole.

    A submission's accuracy log is cut in the middle, so there only its presence counts.
    """
    whole = checks.log_is_whole(run)
    damage = run.logs.accuracy.damage
    cut = run.submitted is not None and ACCURACY in run.logs.files
    if whole.passed and damage and not cut:
        return verdict(False, damage[0], "whole")
    return whole


@rule("accuracy")
def accuracy_no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in the accuracy run."""
    return checks.no_loadgen_errors(run)


@rule("accuracy")
def accuracy_test_mode(run: RunFacts) -> Verdict:
    """The accuracy run was made in AccuracyOnly mode of this scenario."""
    return checks.test_mode(run)


@rule("accuracy")
def accuracy_every_sample(run: RunFacts) -> Verdict:
    """Every sample that LoadGen issues in an accuracy run was answered.

    The QSL may have more of them: accuracy_sample_count_override, which mlperf.conf sets for
    gpt-oss-120b, has LoadGen take its first ones.
    A submission's log is cut, so there the number of answers that were scored counts.
    """
    wanted = checks.number(run, run.logs.detail.accuracy_count_key, "every sample")
    if isinstance(wanted, Verdict):
        return wanted
    required = f"{wanted:,} samples"
    if run.submitted is None:
        found = run.logs.accuracy.first_of_each()
        whole = len(found) == wanted and all(0 <= index < wanted for index in found)
        return verdict(whole, f"{len(found):,} samples", required)
    name = run.benchmark.counted_as
    scored = (run.scores or {}).get(name)
    if scored is None and run.scores and name == COUNTED_IN_A_SENTENCE:
        return not_judged("nothing", required, "accuracy.txt need not say how many were scored")
    if scored is None:
        return verdict(False, "nothing", required, f"accuracy.txt has no {name}")
    return verdict(scored == wanted, f"{scored:,.0f} samples", required)


@rule("accuracy", shortens=True)
def accuracy_whole_dataset(run: RunFacts) -> Verdict:
    """The accuracy run takes the benchmark's whole data set."""
    whole = run.benchmark.samples_of("accuracy")
    required = f"{whole:,} samples"
    found = checks.number(run, run.logs.detail.accuracy_count_key, required)
    if isinstance(found, Verdict):
        return found
    return verdict(found == whole, f"{found:,} samples", required)


@rule("accuracy", shortens=checks.departs_in_length_alone, session_only=True)
def accuracy_generation(run: RunFacts) -> Verdict:
    """The accuracy run generates as the benchmark says: no more tokens, no prefix cache."""
    return checks.generates_as_specified(run)


@rule("accuracy", divisions=CLOSED, submitted_only=True)
def accuracy_hash(run: RunFacts) -> Verdict:
    """accuracy.txt ends with the SHA-256 of the accuracy log as it was before it was cut."""
    required = "a line hash=<64 hex digits>"
    text = run.submitted.accuracy_txt if run.submitted else None
    if text is None:
        return verdict(False, "no accuracy.txt", required)
    found = parse_accuracy_txt(text).hash
    return verdict(found is not None, f"hash={found}" if found else "no such line", required)


@rule("accuracy", submitted_only=True)
def accuracy_log_is_cut(run: RunFacts) -> Verdict:
    """The submission has the accuracy log, cut to its first and last entries."""
    required = f"at most {MAX_ACCURACY_LOG_BYTES:,} bytes"
    found = run.logs.sizes.get(ACCURACY)
    if found is None:
        return verdict(False, f"no {ACCURACY}", required)
    return verdict(0 < found <= MAX_ACCURACY_LOG_BYTES, f"{found:,} bytes", required)


@rule("accuracy")
def accuracy_loadgen_unmodified(run: RunFacts) -> Verdict:
    """The accuracy run's LoadGen was built without local changes."""
    return checks.loadgen_unmodified(run)
