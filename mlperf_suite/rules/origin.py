"""Rules of a log's origin: LoadGen's sources, the summary file, the accuracy run."""

from __future__ import annotations

import re

from mlperf_suite.loadgen.releases import RELEASES, fingerprint
from mlperf_suite.rules.agreement import Log, agrees
from mlperf_suite.rules.figures import PERCENTILES, answered, tokens_reported
from mlperf_suite.rules.printed import printed
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict

_RELEASED = "the files of a released LoadGen of that version"
_FILES = re.compile(r"[0-9a-f]{40}")
TOKENS_APART = 0.05
"""The share by which answers may be longer or shorter than in the accuracy run: at most 0.023 in
362 public results, whose systems batch differently or sample tokens."""
_FEW = 2.0
"""For few answers, the share is this divided by the root of their number, if that is more."""


@rule("performance")
@agrees(_RELEASED)
def loadgen_files(log: Log) -> Verdict:
    """The performance run's LoadGen was built from the sources of its version."""
    return _files(log)


@rule("accuracy")
@agrees(_RELEASED)
def accuracy_loadgen_files(log: Log) -> Verdict:
    """The accuracy run's LoadGen was built from the sources of its version."""
    return _files(log)


@rule("performance", same_samples=True)
@agrees("answers as long as in the accuracy run")
def tokens_as_in_accuracy(log: Log) -> Verdict:
    """Answers of the performance run have as many tokens as those of the accuracy run."""
    accuracy = log.run.accuracy_tokens
    tokens, count = tokens_reported(log).middle, answered(log)
    each = tokens / count
    found = f"{tokens:,.0f} tokens / {count:,} answers = {each:,.3f} tokens an answer"
    if accuracy is None or accuracy.answers < 1 or accuracy.mean <= 0:
        return log.not_judged(found, "no accuracy run says how long its answers are")
    apart = max(TOKENS_APART, _FEW / min(accuracy.answers, count) ** 0.5)
    ok = abs(each / accuracy.mean - 1) <= apart
    return log.verdict(
        ok,
        found,
        f"{accuracy.mean:,.3f} tokens, within {apart:.1%}, as in {accuracy.answers:,} answers",
    )


@rule("performance")
@agrees("the detail log's figures")
def summary_agrees(log: Log) -> Verdict:
    """The performance run's summary file says what its detail log says."""
    said = _summary(log.run.logs.summary)
    wanted = _LABELS | {
        label.format(p): key.format(p) for label, key in _PERCENTILES.items() for p in PERCENTILES
    }
    compared = 0
    for label, words in said:
        key = wanted.get(label)
        if key is None or (value := log.detail[key]) is None:
            continue
        compared += 1
        if not _same(words, value):
            return log.verdict(False, f"{label}: {words}", f"{key} {value}")
    missing = [label for label in _ALWAYS if label not in {name for name, _ in said}]
    if missing:
        raise log.wrong(f"no line '{missing[0]}' in the summary")
    return log.verdict(True, f"{compared} lines, as in the detail log")


def _files(log: Log) -> Verdict:
    """loadgen_file_sha1 has the sources of one of the commits of the log's version."""
    said = str(log.detail["loadgen_version"])
    files = log.detail["loadgen_file_sha1"]
    if not isinstance(files, dict) or not all(
        isinstance(sha, str) and _FILES.fullmatch(sha) for sha in files.values()
    ):
        raise log.wrong("no hashes of LoadGen's files")
    version = said.partition(" @ ")[0]
    known = RELEASES.get(version)
    if known is None:
        return log.not_judged(f"LoadGen {said}", "the files of this version are not known")
    found = fingerprint(files)
    shown = f"{len(files)} files of LoadGen {said}, fingerprint {found}"
    return log.verdict(found in known, shown, f"{version}: {' or '.join(known)}")


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
    "Min latency (ns)": "result_min_latency_ns",
    "Max latency (ns)": "result_max_latency_ns",
    "Mean latency (ns)": "result_mean_latency_ns",
    "Min First Token latency (ns)": "result_first_token_min_latency_ns",
    "Max First Token latency (ns)": "result_first_token_max_latency_ns",
    "Mean First Token latency (ns)": "result_first_token_mean_latency_ns",
    **{
        f"{name} Time {of} Output Token (ns)": f"result_time_to_output_token_{name.lower()}"
        for name in ("Min", "Max", "Mean")
        for of in ("to", "per")
    },
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
_PERCENTILES = {
    "{} percentile latency (ns)": "result_{}_percentile_latency_ns",
    "{} percentile first token latency (ns)": "result_first_token_{}_percentile_latency_ns",
    "{} percentile time to output token (ns)": "result_time_per_output_token_{}_percentile_ns",
}
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
    return printed(float(value)).holds(float(number), _CENT * (1 + 1e-9))
