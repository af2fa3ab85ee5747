"""Rules of a log's origin: LoadGen's sources and lines, the summary file, the accuracy run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from mlperf_suite.features.log_consistency.agreement import FigureRange, agreement_rule
from mlperf_suite.features.log_consistency.log_figures import (
    LATENCY,
    PERCENTILES,
    TPOT,
    TTFT,
    answer_count,
    tokens_reported,
)
from mlperf_suite.features.log_consistency.releases import (
    CHOICE,
    RELEASES,
    fingerprint,
    is_known,
    out_of_place,
    unfollowed_setting,
)
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, failure, not_judged, verdict

_SHA1 = re.compile(r"[0-9a-f]{40}")
TOKENS_APART = 0.05
"""The share by which answers may be shorter than in the accuracy run: at most 0.023 in 362 public
results, whose systems batch differently or sample tokens."""
TOKENS_LONGER = 0.03
"""The share by which they may be longer, which makes a system look faster: at most 0.013 there."""
_FEW_ANSWERS_FACTOR = 2.0
"""For few answers, the share is this divided by the root of their number, if that is more."""


@rule(
    "performance",
    "accuracy",
    required="the files of a released LoadGen of that version",
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
    version, _, commit = logged_version.partition(" @ ")
    log_message = str(run.detail["loadgen_git_log_message"])
    if not log_message.startswith(commit):
        raise failure(f"LoadGen {logged_version}, its git log begins with {log_message[:40]}")
    prints = RELEASES.get(version)
    if prints is None:
        return _unknown_release_verdict(run, logged_version)
    own_print = fingerprint(files)
    words = f"{len(files)} files of LoadGen {logged_version}, fingerprint {own_print}"
    return verdict(own_print in prints, words, f"{version}: {' or '.join(prints)}")


def _unknown_release_verdict(run: RunFacts, version: str) -> Verdict:
    first, last = next(iter(RELEASES)), list(RELEASES)[-1]
    words, required = f"LoadGen {version}", f"a LoadGen from {first} to {last}"
    if run.session is not None:
        return not_judged(words, required, "this version is not known")
    return verdict(
        False, words, required, "this version is not known: only a newer suite may know it"
    )


@rule(
    "performance",
    required="answers as long as in the accuracy run",
    official=False,
    source="Inference rules, LoadGen Operation: the same code runs in both modes",
    fix="Use the same engine settings and answer limit in both runs, and repeat them.",
    same_samples=True,
    whole_log=True,
    of_tokens=True,
)
def tokens_as_in_accuracy(run: RunFacts) -> Verdict:
    """Answers of the performance run have as many tokens as those of the accuracy run."""
    accuracy = run.accuracy_tokens
    tokens, count = tokens_reported(run).middle, answer_count(run)
    mean = tokens / count
    words = f"{tokens:,.0f} tokens / {count:,} answers = {mean:,.3f} tokens an answer"
    if accuracy is None or accuracy.answers < 1 or accuracy.mean <= 0:
        return not_judged(words, why="no accuracy run says how long its answers are")
    few = _FEW_ANSWERS_FACTOR / min(accuracy.answers, count) ** 0.5
    less, more = max(TOKENS_APART, few), max(TOKENS_LONGER, few)
    return verdict(
        -less <= mean / accuracy.mean - 1 <= more,
        words,
        f"{accuracy.mean:,.3f} tokens, {less:.1%} less to {more:.1%} more, as in "
        f"{accuracy.answers:,} answers",
    )


@rule(
    "performance",
    "accuracy",
    required="the detail log's figures",
    official=False,
    source="LoadGen's results.cc writes both files",
    fix="Submit the summary and the detail log of one run.",
    whole_log=True,
)
def summary_agrees(run: RunFacts) -> Verdict:
    """The run's summary file agrees with its detail log, in LoadGen's lines; an accuracy run's says
    how many warnings and errors there were."""
    detail = run.detail
    if run.mode == "accuracy":
        told = [line for line in run.logs.summary.splitlines() if " encountered" in line]
        # A missing or empty file fails the rule on those that are required.
        return verdict(len(told) == 2 or not run.logs.summary, f"{len(told)} of 2 lines")
    lines = "\n".join(line.rstrip() for line in run.logs.summary.splitlines())
    text, stopping = _without_stopping(lines)
    sentences, keys, figures = _sentences(detail), set(), 0
    for line in text.split("\n"):
        label, _, words = line.partition(":")
        key = LABELS.get(label := label.strip())
        if key is None:
            if line not in sentences and not _is_advice(line, detail):
                raise failure(f"'{line}' in the summary", why="LoadGen writes no such line there")
            continue
        words, figures = words.strip(), figures + 1
        keys.add(key)
        if (value := detail[key]) is not None and not _same(words, value):
            return verdict(False, f"{label}: {words}", f"{key} {value}")
    absent = [s for s in sentences[:2] if s not in text.split("\n")]
    single = run.scenario.name == "SingleStream"
    rare = _RARE | {"Completed tokens per second"} if single else _RARE
    absent += [
        label
        for label, key in LABELS.items()
        if label not in rare and detail[key] is not None and key not in keys
    ]
    if absent:
        raise failure(f"no line '{absent[0]}' in the summary")
    if problem := _other_stopping(stopping, detail):
        raise failure(problem)
    return verdict(True, f"{figures} lines, as in the detail log")


_STOPPING = re.compile(r"^((?:TTFT |TPOT )?)Early Stopping Result:\n", re.MULTILINE)
_STOPPING_KEYS = {
    "": "early_stopping_result",
    "TTFT ": "early_stopping_ttft_result",
    "TPOT ": "early_stopping_tpot_result",
}


def _without_stopping(text: str) -> tuple[str, dict[str, str]]:
    """A summary without the lines on early stopping, and those by the detail log's keys."""
    before, *rest = _STOPPING.split(text)
    if rest[::2] not in ([""], ["TTFT ", "TPOT "]):
        return text, {}
    rest[-1], end, after = rest[-1].partition("\n\n=")
    pairs = zip(rest[::2], rest[1::2], strict=True)
    stopping = {_STOPPING_KEYS[name]: words for name, words in pairs}
    return (f"{before}={after}", stopping) if end else (text, {})


def _sentences(detail: DetailLog) -> list[str]:
    """The lines of a summary that have no figure of the detail log; first those that count its
    warnings and errors."""
    lines = []
    for texts, one, more in (
        (detail.warnings, "warning", "warnings"),
        (detail.errors, "ERROR", "ERRORS"),
    ):
        number = f"{len(texts)} {one if len(texts) == 1 else more} encountered. See detailed log."
        lines.append(number if texts else f"No {more.lower()} encountered during test.")
    lines += ["", "=" * 48, "MLPerf Results Summary", "Additional Stats", "Test Parameters Used"]
    if detail["effective_sample_concatenate_permutation"] is True:
        lines += [
            "WARNING: sample_concatenate_permutation was set to true.",
            "Generated samples per query might be different as the one in the setting.",
            "Check the generated_samples_per_query line in the detailed log for the real",
            "samples_per_query value",
        ]
    return lines


def _is_advice(line: str, detail: DetailLog) -> bool:
    """Whether it is one of LoadGen's lines on why a run is not valid."""
    advice = line.startswith((" * ", "   See")) or line == "Recommendations:"
    return advice and detail["result_validity"] == "INVALID"


def _other_stopping(stopping: Mapping[str, str], detail: DetailLog) -> str:
    """How the summary's words on early stopping differ from the detail log's; "" if not."""
    for key in _STOPPING_KEYS.values():
        logged = " ".join(str(detail[key] or "").split())
        written = " ".join(stopping.get(key, "").split())
        if written != logged:
            return f"'{written}' in the summary, {key} '{logged}'"
    return ""


def _labels(label: str, key: str, names: Iterable[str] = PERCENTILES) -> dict[str, str]:
    return {label.format(name): key.format(name.lower()) for name in names}


_IN_SINGLE_STREAM = {
    "TPS w/ loadgen overhead": "result_token_throughput_with_loadgen_overhead",
    # Of tokens per s, where the detail log has tokens per ns.
    "TPS w/o loadgen overhead": "",
    **{
        f"{float(p)}th {first}percentile latency (ns)": family.percentile.format(p)
        for p in PERCENTILES
        for first, family in (("", LATENCY), ("first token ", TTFT))
    },
}
_EXTREMES = ("Min", "Max", "Mean")
LABELS = {
    "SUT name": "sut_name",
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
    "Samples per second": "result_samples_per_second",
    "Tokens per second": "result_tokens_per_second",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
    **_IN_SINGLE_STREAM,
    **_labels("{} latency (ns)", LATENCY.extreme, _EXTREMES),
    **_labels("{} percentile latency (ns)", LATENCY.percentile),
    **_labels("{} First Token latency (ns)", TTFT.extreme, _EXTREMES),
    **_labels("{} percentile first token latency (ns)", TTFT.percentile),
    **_labels("{} Time to Output Token (ns)", TPOT.extreme, _EXTREMES),
    **_labels("{} Time per Output Token (ns)", TPOT.extreme, _EXTREMES),
    **_labels("{} percentile time to output token (ns)", TPOT.percentile),
    "samples_per_query": "effective_samples_per_query",
    "target_qps": "effective_target_qps",
    "target_latency (ns)": "effective_target_latency_ns",
    "ttft_latency (ns)": "requested_server_ttft_latency",
    "tpot_latency (ns)": "requested_server_tpot_latency",
    "max_async_queries": "effective_max_async_queries",
    "min_duration (ms)": "effective_min_duration_ms",
    "max_duration (ms)": "effective_max_duration_ms",
    "min_query_count": "effective_min_query_count",
    "max_query_count": "effective_max_query_count",
    **{name: f"effective_{name}" for name in CHOICE},
    "performance_sample_count": "effective_performance_sample_count",
    "accuracy_sample_count": "effective_accuracy_sample_count",
}
"""The summary's labels, with the detail log key of the same figure."""
_RARE = frozenset({"target_latency (ns)", *_IN_SINGLE_STREAM})
"""Labels that not every summary has whose detail log has the key."""
_MAX_NUMBER = 2**64
_CENT = 0.005
"""The summary has two decimals where the detail log has six digits."""


def _same(words: str, value: object) -> bool:
    if isinstance(value, bool):
        return words in (("Yes", "1") if value else ("NO", "0"))
    if not isinstance(value, int | float):
        return words == str(value).strip()
    try:
        number = int(words) if isinstance(value, int) and words.isdigit() else float(words)
    except ValueError:
        return False
    # A damaged value may not be a number, or be too large for a float.
    if not (abs(number) < _MAX_NUMBER and abs(value) < _MAX_NUMBER):
        return False
    if isinstance(value, int) and isinstance(number, int):
        # A double without a fraction is printed as an integer.
        return number == value
    return FigureRange.from_printed(float(value)).holds(float(number), _CENT * (1 + 1e-9))


# Lines and settings


@agreement_rule(
    "performance",
    "accuracy",
    required="every line that LoadGen writes, in its order",
    source="LoadGen's loadgen.cc, test_settings_internal.cc and results.cc",
)
def log_lines(run: RunFacts) -> Verdict:
    """The run's log has each line that LoadGen writes for such a run, in order.

    Counts and settings that no other rule reads are whole numbers, as in 870 public logs.
    """
    version = run.detail["loadgen_version"]
    if not isinstance(version, str):
        return verdict(False, f"loadgen_version {version}")
    if not is_known(version):
        return _unknown_release_verdict(run, version)
    keys = tuple(entry.key for entry in run.detail.entries)
    errors = [key for key in keys if key.startswith("error")]
    if len(errors) > len(run.detail.errors):
        return verdict(False, f"{errors[0]} that is marked as none")
    problem = out_of_place(
        keys,
        run.scenario.loadgen_scenario,
        version,
        accuracy=run.is_accuracy,
        valid=run.detail["result_validity"] == "VALID",
        counts_tokens=run.scenario.counts_tokens,
    )
    for key in _counted(keys):
        run.whole(key)
    return verdict(not problem, problem or f"{len(keys)} lines")


@lru_cache(maxsize=8)
def _counted(keys: tuple[str, ...]) -> list[str]:
    return [key for key in keys if _COUNTED.fullmatch(key)]


_COUNTED = re.compile(
    r"logger_\w+|get_sut_name_duration_ns|qsl_reported_performance_count"
    r"|requested_server_(find_peak_qps_\w+|num_issue_query_threads|tpot_latency|ttft_latency)"
)


_EFFECTIVE = "the settings that follow from those requested"


@agreement_rule(
    "performance", "accuracy", required=_EFFECTIVE, source="LoadGen's test_settings_internal.cc"
)
def settings_took(run: RunFacts) -> Verdict:
    """The run's effective settings follow from the requested ones."""
    problem = unfollowed_setting(run.detail.values)
    return verdict(not problem, problem or _EFFECTIVE)


_PLAIN = "no sample repeated or chosen, no answer logged"


@rule(
    "performance",
    "accuracy",
    required=_PLAIN,
    official=False,
    source="LoadGen's test_settings_internal.cc; the audits' audit.config",
    fix="Remove a leftover audit.config from LoadGen's folder, and repeat the run.",
    whole_log=True,
)
def samples_drawn(run: RunFacts) -> Verdict:
    """Samples are issued as in any such run: not one repeatedly, and not as an audit does."""
    for key in ("effective_performance_issue_same", "effective_performance_issue_unique"):
        if run.flag(key):
            return verdict(False, f"{key} true")
    for key in ("effective_accuracy_log_probability", "effective_accuracy_log_sampling_target"):
        if number := run.amount(key):
            return verdict(False, f"{key} {number}")
    return verdict(True, _PLAIN)
