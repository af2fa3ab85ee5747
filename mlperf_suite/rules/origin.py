"""Rules of a log's origin: LoadGen's sources and lines, the summary file, the accuracy run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mlperf_suite.loadgen.releases import (
    RELEASES,
    fingerprint,
    is_known,
    out_of_place,
    unfollowed_setting,
)
from mlperf_suite.rules.facts import Facts, Range, RunFacts, Subject
from mlperf_suite.rules.figures import (
    LATENCY,
    PERCENTILES,
    TPOT,
    TTFT,
    answer_count,
    tokens_reported,
)
from mlperf_suite.rules.registry import agreement_rule, rule
from mlperf_suite.rules.verdict import Verdict, failure, not_judged, verdict

_SHA1 = re.compile(r"[0-9a-f]{40}")
TOKENS_APART = 0.05
"""The share by which answers may be longer or shorter than in the accuracy run: at most 0.023 in
362 public results, whose systems batch differently or sample tokens."""
_FEW = 2.0
"""For few answers, the share is this divided by the root of their number, if that is more."""


@rule(
    "performance",
    "accuracy",
    demand="the files of a released LoadGen of that version",
    source="Inference rules, LoadGen Operation: LoadGen is compiled from a tagged revision",
    fix="Install a released LoadGen instead of one with changed sources.",
    whole_log=True,
)
def loadgen_files(run: RunFacts) -> Verdict:
    """The run's LoadGen was built from the sources of its version, by their SHA-1.

    A version that is not known fails in logs that exist already: it would leave lines, settings and
    files without a judge. In a session it is the LoadGen installed, and is not judged.
    """
    logged_version = str(run.detail["loadgen_version"])
    files = run.detail["loadgen_file_sha1"]
    if not isinstance(files, dict) or not all(
        isinstance(sha, str) and _SHA1.fullmatch(sha) for sha in files.values()
    ):
        raise failure("no hashes of LoadGen's files")
    version = logged_version.partition(" @ ")[0]
    prints = RELEASES.get(version)
    if prints is None:
        return _of_no_release(run, logged_version)
    own_print = fingerprint(files)
    words = f"{len(files)} files of LoadGen {logged_version}, fingerprint {own_print}"
    return verdict(own_print in prints, words, f"{version}: {' or '.join(prints)}")


def _of_no_release(run: RunFacts, version: str) -> Verdict:
    first, last = next(iter(RELEASES)), list(RELEASES)[-1]
    words, demand = f"LoadGen {version}", f"a LoadGen from {first} to {last}"
    if run.departures is not None:
        return not_judged(words, demand, "this version is not known")
    return verdict(
        False, words, demand, "this version is not known: only a newer suite may know it"
    )


@rule(
    "performance",
    demand="answers as long as in the accuracy run",
    official=False,
    source="Inference rules, LoadGen Operation: the same code runs in both modes",
    fix="Use the same engine settings and answer limit in both runs, and repeat them.",
    same_samples=True,
    whole_log=True,
)
def tokens_as_in_accuracy(run: RunFacts) -> Verdict:
    """Answers of the performance run have as many tokens as those of the accuracy run."""
    accuracy = run.accuracy_tokens
    tokens, count = tokens_reported(run).middle, answer_count(run)
    mean = tokens / count
    words = f"{tokens:,.0f} tokens / {count:,} answers = {mean:,.3f} tokens an answer"
    if accuracy is None or accuracy.answers < 1 or accuracy.mean <= 0:
        return not_judged(words, why="no accuracy run says how long its answers are")
    apart = max(TOKENS_APART, _FEW / min(accuracy.answers, count) ** 0.5)
    return verdict(
        abs(mean / accuracy.mean - 1) <= apart,
        words,
        f"{accuracy.mean:,.3f} tokens, within {apart:.1%}, as in {accuracy.answers:,} answers",
    )


@rule(
    "performance",
    demand="the detail log's figures",
    official=False,
    source="LoadGen's results.cc writes both files",
    fix="Submit the summary and the detail log of one run.",
    whole_log=True,
)
def summary_agrees(run: RunFacts) -> Verdict:
    """The performance run's summary file says what its detail log says."""
    lines = _summary(run.logs.summary)
    agreements = 0
    for label, words in lines:
        key = _LABELS.get(label)
        if key is None or (value := run.detail[key]) is None:
            continue
        agreements += 1
        if not _same(words, value):
            return verdict(False, f"{label}: {words}", f"{key} {value}")
    labels = {label for label, _ in lines}
    absent = [label for label in _ALWAYS if label not in labels]
    if absent:
        raise failure(f"no line '{absent[0]}' in the summary")
    return verdict(True, f"{agreements} lines, as in the detail log")


def _labels(label: str, key: str, names: Iterable[str] = PERCENTILES) -> dict[str, str]:
    return {label.format(name): key.format(name.lower()) for name in names}


_EXTREMES = ("Min", "Max", "Mean")
_LABELS = {
    "SUT name": "sut_name",
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
    "Samples per second": "result_samples_per_second",
    "Tokens per second": "result_tokens_per_second",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
    **_labels("{} latency (ns)", LATENCY.extreme, _EXTREMES),
    **_labels("{} percentile latency (ns)", LATENCY.percentile),
    **_labels("{} First Token latency (ns)", TTFT.extreme, _EXTREMES),
    **_labels("{} percentile first token latency (ns)", TTFT.percentile),
    **_labels("{} Time to Output Token (ns)", TPOT.extreme, _EXTREMES),
    **_labels("{} Time per Output Token (ns)", TPOT.extreme, _EXTREMES),
    **_labels("{} percentile time to output token (ns)", TPOT.percentile),
    "samples_per_query": "effective_samples_per_query",
    "target_qps": "effective_target_qps",
    "ttft_latency (ns)": "requested_server_ttft_latency",
    "tpot_latency (ns)": "requested_server_tpot_latency",
    "max_async_queries": "effective_max_async_queries",
    "min_duration (ms)": "effective_min_duration_ms",
    "max_duration (ms)": "effective_max_duration_ms",
    "min_query_count": "effective_min_query_count",
    "max_query_count": "effective_max_query_count",
    "qsl_rng_seed": "effective_qsl_rng_seed",
    "sample_index_rng_seed": "effective_sample_index_rng_seed",
    "schedule_rng_seed": "effective_schedule_rng_seed",
    "accuracy_log_rng_seed": "effective_accuracy_log_rng_seed",
    "performance_sample_count": "effective_performance_sample_count",
}
"""The summary's labels, with the detail log key of the same figure."""
_ALWAYS = ("SUT name", "Scenario", "Mode", "Result is", "Min latency (ns)", "target_qps")
_MOST = 2**64
_CENT = 0.005
"""The summary has two decimals where the detail log has six digits."""


def _summary(text: str) -> list[tuple[str, str]]:
    """The lines of a summary with a name and a value."""
    parts = (line.partition(":") for line in text.splitlines())
    return [(name.strip(), words.strip()) for name, colon, words in parts if colon]


def _same(words: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return words == str(value).strip()
    try:
        number = int(words) if isinstance(value, int) and words.isdigit() else float(words)
    except ValueError:
        return False
    # A damaged value may not be a number, or be too large for a float.
    if not (abs(number) < _MOST and abs(value) < _MOST):
        return False
    if isinstance(value, int) and isinstance(number, int):
        # A double without a fraction is printed as an integer.
        return number == value
    return Range.of_printed(float(value)).holds(float(number), _CENT * (1 + 1e-9))


# Lines and settings


@agreement_rule(
    "performance",
    "accuracy",
    demand="every line that LoadGen writes, in its order",
    source="LoadGen's loadgen.cc, test_settings_internal.cc and results.cc",
)
def log_lines(run: RunFacts) -> Verdict:
    """The run's log has each line that LoadGen writes of such a run, in its order."""
    version = run.detail["loadgen_version"]
    if not isinstance(version, str):
        return verdict(False, f"loadgen_version {version}")
    if not is_known(version):
        return _of_no_release(run, version)
    keys = [entry.key for entry in run.detail.entries]
    errors = [key for key in keys if key.startswith("error")]
    if len(errors) > len(run.detail.errors):
        return verdict(False, f"{errors[0]} that is marked as none")
    problem = out_of_place(
        keys,
        run.scenario.loadgen_scenario,
        version,
        accuracy=run.is_accuracy,
        valid=run.detail["result_validity"] == "VALID",
    )
    return verdict(not problem, problem or f"{len(keys)} lines")


_EFFECTIVE = "the settings that follow from those requested"


@agreement_rule(
    "performance", "accuracy", demand=_EFFECTIVE, source="LoadGen's test_settings_internal.cc"
)
def settings_took(run: RunFacts) -> Verdict:
    """The run's effective settings are those that follow from what was requested."""
    problem = unfollowed_setting(run.detail.values)
    return verdict(not problem, problem or _EFFECTIVE)


_PLAIN = "no sample repeated or chosen, no answer logged"


@rule(
    "performance",
    "accuracy",
    demand=_PLAIN,
    official=False,
    source="LoadGen's test_settings_internal.cc; the audits' audit.config",
    fix="Remove a leftover audit.config from LoadGen's folder, and repeat the run.",
    whole_log=True,
)
def samples_drawn(run: RunFacts) -> Verdict:
    """Samples are issued as in every such run: not one over and over, none for an audit."""
    for key in ("effective_performance_issue_same", "effective_performance_issue_unique"):
        if run.flag(key):
            return verdict(False, f"{key} true")
    for key in ("effective_accuracy_log_probability", "effective_accuracy_log_sampling_target"):
        if number := run.amount(key):
            return verdict(False, f"{key} {number}")
    return verdict(True, _PLAIN)


@dataclass(frozen=True, slots=True)
class KeptRunFacts(Facts):
    """The logs of one LoadGen run in a result folder of this suite. `changed`: a line for each
    file that differs from the checksum that the session recorded."""

    changed: tuple[str, ...]

    @property
    def subject(self) -> Subject:
        return "kept_run"


@rule(
    "kept_run",
    demand="as the session recorded them",
    official=False,
    source="checksums.json, which the session wrote beside its results",
    fix="Judge the folder as the session left it.",
)
def unchanged(kept: KeptRunFacts) -> Verdict:
    """The logs, settings and scores of a kept run are those that its session wrote."""
    return verdict(not kept.changed, "; ".join(kept.changed) or "unchanged")
