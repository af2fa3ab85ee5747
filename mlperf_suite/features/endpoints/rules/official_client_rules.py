"""Rules of a result that the official HTTP client measured (round v6.1, mlcommons/endpoints).

Sources: parsers/endpoints_parser.py and checks/ of the official submission checker, and
metrics/report.py of the client. What the checker does not look at is the suite's own.
"""

from __future__ import annotations

import math
import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import PurePath

from mlperf_suite.benchmarks.definition import MIN_DURATION_MS
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OFFICIAL_CLIENT_MODELS,
    QWEN3_6,
    WAN,
    OfficialClientBenchmark,
)
from mlperf_suite.features.endpoints.official_client_results.client_events import RunEvents
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    OFFICIAL_CLIENT_ACCURACY,
    OFFICIAL_CLIENT_SUMMARY,
    AccuracyResults,
    AuditResult,
    Distribution,
    OfficialClientConfig,
    ResultSummary,
)
from mlperf_suite.features.endpoints.official_client_results.sent_prompts import SentPrompts
from mlperf_suite.features.endpoints.rules.distribution_checks import (
    bucket_edges,
    discarded_of,
    estimates_of,
    longest_ns,
    negative_faults,
    percent_of,
    percentile_rank,
    shape_faults,
    whole_faults,
)
from mlperf_suite.features.submission_check.submission_rules import SubmittedFacts
from mlperf_suite.loadgen.load_plan import SMOKE
from mlperf_suite.rules.facts import Subject
from mlperf_suite.rules.registry import Rule, rule, rules_of
from mlperf_suite.rules.stopping_criterion import queries_needed
from mlperf_suite.rules.verdict import (
    Verdict,
    VerdictError,
    failure,
    lasted_words,
    no_demand,
    not_judged,
    time_words,
    verdict,
)

_client_rule = partial(rule, "client")
_own_rule = partial(_client_rule, official=False)
_FIGURE_TOLERANCE = 1e-9
"""Figures that one program computed from the same integers."""
_ZONES_NS = 86_400 * 10**9
"""Clocks may be wrong by their time zones."""
_P90, _P99 = "90.0", "99.0"
_LENGTHS = 0.1
"""How far mean lengths of one model's answers to one data set may differ."""
_DIFFERENT = 0.9
"""Of a data set's samples, those that have a prompt of their own."""
_SENT_BEFORE = 0.1
"""Of the prompts, those that a warm-up may have sent: the client salts its own."""
_MAX_OF_PERFORMANCE = 1000
"""How many times as fast an accuracy run may be: a replay of prepared answers is 140 times."""
_DELAYED = 1.1
"""How many times as long requests at a rate may take on a client that delays some."""
_SIGMAS = 6.0
"""How far the time of n Poisson arrivals may be from its mean, in standard deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialClientFacts(SubmittedFacts):
    """One scenario's result of the official client. `name`, `scenario`: the names of folders.

    `problems`: of each file that cannot be read, one line. `audits`: by the name of the test, what
    its file has, or one line on why nothing. `events`: None without the file, else as `audits`.
    `power_logs`: whether there is a folder of them. `smoke`: rules may be shortened.
    """

    benchmark: OfficialClientBenchmark
    name: str
    scenario: str
    config: OfficialClientConfig | None
    summary: ResultSummary | None
    accuracy: AccuracyResults | None
    problems: tuple[str, ...]
    audits: Mapping[str, AuditResult | str] = field(default_factory=dict)
    events: RunEvents | str | None = None
    power_logs: bool = False
    smoke: bool = False

    @property
    def subject(self) -> Subject:
        return "client"

    @property
    def issues_at_a_rate(self) -> bool:
        return self.benchmark.scenario in ("Server", "Interactive")

    @property
    def settings(self) -> OfficialClientConfig:
        """The configuration. Raises VerdictError if there is none."""
        if self.config is None:
            raise self._without("config.yaml")
        return self.config

    @property
    def run(self) -> ResultSummary:
        """The summary of the performance run. Raises VerdictError if there is none."""
        if self.summary is None:
            raise self._without(f"performance/{OFFICIAL_CLIENT_SUMMARY}")
        return self.summary

    @property
    def scored(self) -> AccuracyResults:
        """The scores. Raises VerdictError if there are none."""
        if self.accuracy is None or not self.accuracy.counted_scores:
            raise self._without(f"accuracy/{OFFICIAL_CLIENT_ACCURACY} with scores")
        return self.accuracy

    def _without(self, path: str) -> VerdictError:
        """To be raised: not judged where `files_readable` fails what is missing, once."""
        why = f"no {path} that can be read"
        if self.problems:
            return VerdictError(not_judged("nothing", why=why))
        return failure(why, "what the client wrote")


def _is_whole(result: OfficialClientFacts) -> bool:
    """Whether the files of a run can be read: smoke excuses no file that is missing."""
    return result.config is not None and result.summary is not None


def _is_scored(result: OfficialClientFacts) -> bool:
    return result.accuracy is not None and bool(result.accuracy.counted_scores)


# Files and configuration


@_client_rule(
    required="all of them",
    source="submission checker, endpoints_parser.py: config.yaml, result_summary.json, "
    "accuracy_results.json",
    fix="Submit the files exactly as the client wrote them.",
)
def files_readable(result: OfficialClientFacts) -> Verdict:
    """The client's files can be read, and have the expected members with their types."""
    return verdict(not result.problems, "; ".join(result.problems) or "all of them")


@_client_rule(
    source="submission checker, endpoints_model_check: ENDPOINTS_ALLOWED_MODELS",
    fix="Measure the benchmark with LoadGen.",
)
def benchmark_allowed(result: OfficialClientFacts) -> Verdict:
    """The benchmark may be measured with the client, in that round."""
    required = f"one of {', '.join(OFFICIAL_CLIENT_MODELS)}, from v6.1 on"
    ok = result.benchmark.id in OFFICIAL_CLIENT_MODELS and result.round.name >= "v6.1"
    return verdict(ok, f"{result.name} in {result.round.name}", required)


@_client_rule(
    source="submission checker, endpoints_parser.py: type; performance_check.py: "
    "map_endpoints_scenario",
    fix="Run the scenario with its own type: online for Server and Interactive.",
)
def scenario_type(result: OfficialClientFacts) -> Verdict:
    """The configuration's type is the scenario's: online, or offline."""
    kinds = {"Offline": "offline"}
    required = kinds.get(result.benchmark.scenario, "online")
    return verdict(result.settings.type == required, result.settings.type or "no type", required)


@_client_rule(
    required="none",
    source="submission checker, power/: its times are compared with those of LoadGen's detail log",
    fix="Remove performance/power/, or measure the power of a run of LoadGen.",
)
def power_logs(result: OfficialClientFacts) -> Verdict:
    """A result of the client has no power measurement; only LoadGen runs have one."""
    return verdict(not result.power_logs, "performance/power/" if result.power_logs else "none")


_PATTERNS = {"Offline": ("max_throughput",), "SingleStream": ("concurrency", "agentic_inference")}


@_own_rule(
    source="Inference rules, Scenarios; the client's load_pattern",
    fix="Use poisson for Server and Interactive, max_throughput for Offline.",
)
def load_pattern(result: OfficialClientFacts) -> Verdict:
    """Requests are issued as the scenario requires: at once, at Poisson times, or one by one.

    The official checker does not look.
    """
    patterns = _PATTERNS.get(result.benchmark.scenario, ("poisson",))
    pattern = result.settings.settings.load_pattern
    one_by_one = result.benchmark.scenario == "SingleStream"
    ok = pattern.type in patterns and (not one_by_one or pattern.target_concurrency == 1)
    ok &= not result.issues_at_a_rate or bool(pattern.target_qps)
    at = pattern.target_qps or pattern.target_concurrency
    required = " or ".join(patterns) + (" at concurrency 1" if one_by_one else "")
    required += " at a rate" if result.issues_at_a_rate else ""
    return verdict(ok, f"{pattern.type or 'none'}{f' at {at:,g}' if at else ''}", required)


@_own_rule(
    required="the same in config.yaml and result_summary.json",
    source="the client's report.py: run_config repeats the configuration of the run",
    fix="Submit the configuration with which the run was made.",
)
def config_of_its_run(result: OfficialClientFacts) -> Verdict:
    """The configuration is that of the run: the summary repeats its load and seeds, its model is
    not another benchmark's, and answers are no longer than it allows."""
    config, repeated = result.settings.settings, result.run.run_config
    if repeated is None:
        return verdict(False, "no run_config in result_summary.json")
    names = ("scheduler_random_seed", "dataloader_random_seed")
    pairs = [(n, getattr(config.runtime, n), getattr(repeated, n)) for n in names]
    pairs += [
        (f"load_pattern.{n}", getattr(config.load_pattern, n), getattr(repeated.load_pattern, n))
        for n in ("type", "target_qps", "target_concurrency")
    ]
    wrong = [f"{name} {first} and {second}" for name, first, second in pairs if first != second]
    if (other := _other_model(result)) is not None:
        wrong.append(f"model {other}")
    most, mean = result.settings.model_params.get("max_new_tokens"), _mean_length(result.run)
    if type(most) is int and mean > (1 + _LENGTHS) * most:
        wrong.append(f"max_new_tokens {most:,} and answers of {mean:,.1f} tokens")
    return verdict(not wrong, "; ".join(wrong) or "the same")


def _other_model(result: OfficialClientFacts) -> object:
    """The configured model if its name is another benchmark's; a name of its own says nothing."""
    name = result.settings.model_params.get("name")
    words = _plain(PurePath(name).name) if isinstance(name, str) else ""
    known = {_plain(id_.removesuffix("-edge")) for id_ in OFFICIAL_CLIENT_MODELS}
    own = _plain(result.benchmark.id.removesuffix("-edge"))
    return name if any(id_ in words for id_ in known - {own}) else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _mean_length(run: ResultSummary) -> float:
    return run.output_sequence_lengths.avg or 0.0


@_client_rule(
    source="submission checker, seed_check: dataloader_random_seed, scheduler_random_seed",
    fix="Set the round's seeds in settings.runtime.",
)
def seeds(result: OfficialClientFacts) -> Verdict:
    """The seeds of samples and schedule are the round's.

    Not judged for qwen3.6-27b: MLCommons' own configuration has the seed 42, which its checker
    refuses.
    """
    runtime = result.settings.settings.runtime
    values = (runtime.dataloader_random_seed, runtime.scheduler_random_seed)
    required = (result.round.sample_index_rng_seed, result.round.schedule_rng_seed)
    words = [f"samples {a}, schedule {b}" for a, b in (values, required)]
    if result.benchmark.id == QWEN3_6:
        return not_judged(words[0], words[1], "MLCommons' configuration and its checker differ")
    return verdict(values == required, words[0], words[1])


@_client_rule(
    source="submission checker, min_duration_check: TEST_DURATION_MS",
    fix="Set settings.runtime.min_duration_ms to 600000.",
    shortens=_is_whole,
)
def min_duration(result: OfficialClientFacts) -> Verdict:
    """The run is set to last at least ten minutes.

    Not judged for qwen3.6-27b: MLCommons' own configuration has 0, which its checker refuses.
    """
    value_ms = result.settings.settings.runtime.min_duration_ms
    words = "not set" if value_ms is None else time_words(value_ms, exact=True)
    required = f"at least {time_words(MIN_DURATION_MS, exact=True)}"
    if result.benchmark.id == QWEN3_6:
        return not_judged(words, required, "MLCommons' configuration and its checker differ")
    return verdict((value_ms or 0) >= MIN_DURATION_MS, words, required)


# The performance run


@_own_rule(
    source="Inference rules: every scenario runs ten minutes",
    fix="Let the run last at least ten minutes: raise n_samples_to_issue, or leave it out.",
    shortens=_is_whole,
)
def lasted(result: OfficialClientFacts) -> Verdict:
    """The run lasted at least ten minutes; the official checker reads only the setting."""
    duration_s = (result.run.duration_ns or 0) / 1e9
    required = f"at least {MIN_DURATION_MS / 1e3:,g} s"
    if result.benchmark.id == QWEN3_6:
        return not_judged(f"{duration_s:,.1f} s", required, "its replay has no minimum duration")
    return verdict(duration_s * 1e3 >= MIN_DURATION_MS, lasted_words(duration_s), required)


@_own_rule(
    required="state complete, and complete",
    source="the client's report.py: state, complete",
    fix="Repeat the run, and let it end by itself.",
)
def run_complete(result: OfficialClientFacts) -> Verdict:
    """The run ended by itself, all of its figures were computed, and its day has come."""
    run = result.run
    ok = run.state == "complete" and run.complete
    if (began_ns := run.test_started_at) is not None and began_ns > time.time_ns() + _ZONES_NS:
        return verdict(False, f"test_started_at {began_ns}, a day to come")
    return verdict(ok, f"state {run.state}, {'' if run.complete else 'not '}complete")


@_own_rule(
    source="Inference rules: a result has no failed query; the client's report.py",
    fix="Find why requests failed (report.txt), and repeat the run.",
)
def every_request_answered(result: OfficialClientFacts) -> Verdict:
    """Every request was issued and answered: none failed, none is missing, and answers have a token
    at least."""
    run = result.run
    target = result.settings.settings.runtime.n_samples_to_issue
    counts = (run.n_samples_issued, run.n_samples_completed, run.n_samples_failed)
    ok = run.n_samples_failed == 0 and run.n_samples_issued == run.n_samples_completed > 0
    ok &= target in (None, 0, run.n_samples_issued)
    words = "{:,} issued, {:,} completed, {:,} failed".format(*counts)
    if (mean := run.output_sequence_lengths.avg) is not None and mean < 1:
        ok, words = False, f"{words}, answers of {mean:g} tokens"
    required = "as many completed as issued, none failed"
    return verdict(ok, words, required + (f", {target:,} issued" if target else ""))


@_own_rule(
    source="mlperf.conf: Offline.min_query_count; submission checker, min_query_count_check",
    fix="Issue the whole data set at least once.",
    shortens=_is_whole,
)
def whole_dataset(result: OfficialClientFacts) -> Verdict:
    """A run issues at least as many requests as the data set has samples, with as many prompts.

    By events.jsonl, if it has the prompts, of which data sets may have a tenth twice.
    """
    count, least = result.run.n_samples_issued, result.benchmark.samples
    words, prompts = f"{count:,} requests", sent_prompts(result)
    few = prompts is not None and prompts.different < _DIFFERENT * min(least, prompts.count)
    if prompts is not None:
        words += f" of {prompts.different:,} different prompts"
    return verdict(count >= least and not few, words, f"at least {least:,}")


def _limit(result: OfficialClientFacts, name: str) -> Verdict:
    limit_ms = result.benchmark.limits_ms.get(name)
    if limit_ms is None:
        return no_demand("no limit in this scenario")
    # The checker refuses a latency above the limit, and of TTFT and TPOT one at the limit too.
    at_limit = name == "latency"
    required = f"{'at most' if at_limit else 'below'} {time_words(limit_ms, exact=True)}"
    series: Distribution = getattr(result.run, name)
    estimate = series.early_stopping_percentiles.get(_P99)
    if estimate is None:
        why = f"an estimate needs at least {queries_needed(1, 0.99)} samples"
        return verdict(False, f"no early_stopping_percentiles of {name}", required, why)
    if result.division == "open":
        return verdict(True, time_words(estimate / 1e6, exact=True), "none in the open division")
    limit_ns = limit_ms * 1e6
    ok = 0 < estimate <= limit_ns if at_limit else 0 < estimate < limit_ns
    return verdict(ok, time_words(estimate / 1e6, exact=True), required)


_latency_rule = partial(
    _client_rule, fix="Lower target_qps.", source="submission checker, llm_check, latency_check"
)


def _has_too_few(name: str, result: OfficialClientFacts) -> bool:
    """Whether a run that was measured is too short for an estimate of a series at p99, and its p90
    is within what a smoke run under LoadGen keeps to: ten times the limit."""
    if result.summary is None:
        return False
    series: Distribution = getattr(result.summary, name)
    p90_ns, limit_ms = series.percentiles.get(_P90), result.benchmark.limits_ms.get(name)
    if series.early_stopping_percentiles.get(_P99) is not None or p90_ns is None:
        return False
    return limit_ms is None or p90_ns < limit_ms * 1e6 * SMOKE["Server"].latency_factor


@_latency_rule(shortens=partial(_has_too_few, "ttft"))
def ttft_limit(result: OfficialClientFacts) -> Verdict:
    """The early-stopping estimate of TTFT at p99 is below the scenario's limit."""
    return _limit(result, "ttft")


@_latency_rule(shortens=partial(_has_too_few, "tpot"))
def tpot_limit(result: OfficialClientFacts) -> Verdict:
    """The early-stopping estimate of TPOT at p99 is below the scenario's limit."""
    return _limit(result, "tpot")


@_latency_rule(shortens=partial(_has_too_few, "latency"))
def latency_limit(result: OfficialClientFacts) -> Verdict:
    """The early-stopping estimate of the latency at p99 is at most the scenario's limit."""
    return _limit(result, "latency")


@_client_rule(
    source="submission checker, compliance_endpoints_check: TEST09_LOW, TEST09_HIGH",
    fix="Find why answers are shorter or longer than the reference's.",
)
def mean_tokens(result: OfficialClientFacts) -> Verdict:
    """gpt-oss-120b's answers have the mean length that TEST09 requires, in every scenario."""
    if result.benchmark.mean_tokens is None:
        return no_demand("a benchmark without TEST09")
    mean = result.run.output_sequence_lengths.avg
    words = "no mean" if mean is None else f"{mean:,.2f} tokens"
    low, high = result.benchmark.mean_tokens
    ok = mean is not None and low <= mean <= high
    return verdict(ok, words, f"{low:,g} to {high:,g} tokens")


# Figures that follow from others


def tokens_per_s(run: ResultSummary) -> float | None:
    """Output tokens a second: over LoadGen's window if the run has one, else over its duration."""
    window_ns = run.legacy_loadgen_window_duration_ns or run.duration_ns
    total = run.output_sequence_lengths.total
    return total / window_ns * 1e9 if window_ns and total is not None else None


@_own_rule(
    source="the client's report.py: qps, tps",
    fix="Submit result_summary.json exactly as the client wrote it.",
)
def rates(result: OfficialClientFacts) -> Verdict:
    """Requests/s and tokens/s follow from counts, lengths and the window.

    Over LoadGen's window, from the first request to the end of the last, one request counts less.
    """
    run = result.run
    window_ns = run.legacy_loadgen_window_duration_ns
    divisor_ns = window_ns or run.duration_ns
    if not divisor_ns:
        return verdict(False, "no duration", "a duration")
    count = run.n_samples_completed - (1 if window_ns else 0)
    rates = {"qps": count / divisor_ns * 1e9, "tps": tokens_per_s(run)}
    if rates["tps"] is None:
        return verdict(False, "no output_sequence_lengths", "the lengths of the answers")
    says = {"qps": run.qps, "tps": run.tps}
    ok = all(_is_near(says[name], rates[name]) for name in rates)
    words = [", ".join(f"{n} {_figure(v)}" for n, v in values.items()) for values in (says, rates)]
    return verdict(ok, *words)


def _figure(value: float | None) -> str:
    return "missing" if value is None else f"{value:,.2f}"


def _is_near(first: float | None, second: float | None) -> bool:
    return (
        first is not None
        and second is not None
        and math.isclose(first, second, rel_tol=_FIGURE_TOLERANCE)
    )


@_own_rule(
    source="the client's report.py: legacy_loadgen_window_duration_ns; Poisson arrivals",
    fix="Submit result_summary.json exactly as the client wrote it.",
)
def window(result: OfficialClientFacts) -> Verdict:
    """The window of the rates fits the run: within its duration, long enough for its requests, and
    not longer than their rate and the longest of them take.

    At a Poisson rate n requests take n/rate, within 6 standard deviations; a tenth more if the
    client delays some. A latency is within the duration. LoadGen's window is for a Poisson load
    alone.
    """
    run = result.run
    if run.legacy_loadgen_window_duration_ns is not None and not result.issues_at_a_rate:
        return verdict(False, "LoadGen's window", "the whole duration in this scenario")
    duration_ns = run.duration_ns or 0
    window_ns = run.legacy_loadgen_window_duration_ns or duration_ns
    rate = result.settings.settings.load_pattern.target_qps if result.issues_at_a_rate else None
    least_s, most_s, n = 0.0, duration_ns / 1e9, run.n_samples_issued
    longest_ns = run.latency.max or 0.0
    if rate:
        slack = _SIGMAS * math.sqrt(n)
        least_s = max(0.0, (n - 1 - slack) / rate)
        most_s = min(most_s, _DELAYED * (n + slack) / rate + longest_ns / 1e9)
    ok = least_s * 1e9 <= window_ns <= most_s * 1e9 and longest_ns <= duration_ns
    words = f"window {window_ns / 1e9:,.1f} s, longest request {longest_ns / 1e9:,.1f} s"
    return verdict(ok, words, f"{least_s:,.1f} s to {most_s:,.1f} s")


@_own_rule(
    required="figures of one series of values",
    source="the client's report.py and early_stopping.py",
    fix="Submit result_summary.json exactly as the client wrote it.",
)
def distributions(result: OfficialClientFacts) -> Verdict:
    """Each series agrees with itself: mean and total, order of percentiles, estimates, histogram.

    An estimate of early stopping is never below its percentile, and there is one from 662 samples
    on at p99, 64 at p90. Histograms hold percentiles and estimates in their places. Total and
    standard deviation are those of values that lie as percentiles and histogram say; of tokens and
    ns, of whole numbers. The time after first tokens is no more than the longest answers take with
    the greatest times a token. If every answer was ended by its length, all are about as long.
    """
    run, n = result.run, result.run.n_samples_completed
    exact = ("latency", "output_sequence_lengths")
    names = ("ttft", "tpot", *exact) if result.issues_at_a_rate else exact
    if run.input_sequence_lengths.total is not None:
        names = (*names, "input_sequence_lengths")
    faults = [
        f"{name}: {fault}"
        for name in names
        for fault in _faults(
            getattr(run, name), n if name in exact else None, n, whole=name != "tpot"
        )
    ]
    faults += _order_faults(run) if result.issues_at_a_rate else []
    faults += _cut_faults(run)
    return verdict(not faults, "; ".join(faults[:4]) or "figures of one series of values")


def _faults(
    series: Distribution, count: int | None, most: int, *, whole: bool = False
) -> Iterator[str]:
    """What does not fit in a series of `count` values, or of at most `most`. `whole`: numbers."""
    if series.total is None or series.avg is None or series.min is None or series.max is None:
        yield "not measured"
        return
    # As many as the mean says, if nothing else does; a ratio may be infinite.
    of_mean = round(min(series.total / (series.avg or 1.0), 1e18))
    size = sum(series.histogram.counts) or count or of_mean
    if not _is_near(series.avg * size, series.total):
        yield f"mean {series.avg:,g} times {size:,} is not the total {series.total:,g}"
    if size > most or (count is not None and size != count):
        yield f"{size:,} values of {most:,} requests"
        return
    if not series.min <= series.avg <= series.max:
        yield "mean beyond minimum and maximum"
    yield from negative_faults(series, 0.0 if whole else -_STAMPS_APART_NS)
    by_name = series.percentiles.items()
    steps = sorted((p, value) for name, value in by_name if (p := percent_of(name)) is not None)
    values = [series.min, *(value for _, value in steps), series.max]
    if not steps or any(low > high for low, high in pairwise(values)):
        yield "percentiles not in order"
    if series.median != series.percentiles.get("50.0", series.median):
        yield "median and p50 differ"
    yield from _estimate_faults(series, size or most)
    yield from _histogram_faults(series)
    yield from shape_faults(series, size or most)
    if whole:
        yield from whole_faults(series, size)


def _estimate_faults(series: Distribution, n: int) -> Iterator[str]:
    for percent, name, estimate in estimates_of(series):
        plain = series.percentiles.get(name)
        discarded = discarded_of(n, percent)
        if (estimate is None) != (discarded == 0):
            yield f"{'no' if estimate is None else 'an'} estimate of p{name} from {n:,} values"
        elif estimate is not None and (
            plain is None or not plain <= estimate <= (series.max or 0.0)
        ):
            yield f"estimate of p{name} below the percentile or above the maximum"


def _histogram_faults(series: Distribution) -> Iterator[str]:
    buckets, counts = series.histogram.buckets, series.histogram.counts
    if len(buckets) != len(counts):
        yield "buckets without counts"
    if any(low > high for low, high in buckets) or any(
        end != start for (_, end), (start, _) in pairwise(buckets)
    ):
        yield "buckets not one after the other"


_STAMPS_APART_NS = 50e6
"""The client's main process stamps a first chunk, the process that received it an answer's end
(session.py; core/types.py): one event's answer ends before its first chunk, 0.5 ms were seen."""


_CUT, _ALIKE = 0.99, 0.9
"""The share of answers that is all of them, and by how much their lengths, counted again in their
text, may differ."""


def _cut_faults(run: ResultSummary) -> list[str]:
    """Answers that were all ended by the limit on their length, and are of several lengths."""
    lengths = run.output_sequence_lengths.percentiles
    short, long = lengths.get("10.0"), lengths.get(_P90)
    cut = run.finish_reason_counts.get("length", 0)
    if not cut or cut < _CUT * run.n_samples_completed or short is None or long is None:
        return []
    if short >= _ALIKE * long:
        return []
    return [f"{cut:,} answers ended by length, of {short:,g} to {long:,g} tokens"]


def _order_faults(run: ResultSummary) -> list[str]:
    """What cannot be between the series: a first token after the last."""
    faults = []
    for name in ("min", "max", "avg"):
        first, last = getattr(run.ttft, name), getattr(run.latency, name)
        if first is not None and last is not None and first > last + _STAMPS_APART_NS:
            faults.append(f"{name} of TTFT above that of the latency")
    n = run.n_samples_completed
    sizes = {sum(s.histogram.counts) for s in (run.ttft, run.tpot, run.output_sequence_lengths)}
    if n and sizes == {n} and run.latency.total is not None and run.ttft.total is not None:
        after_ns = run.latency.total - run.ttft.total
        most_ns = longest_ns(run.tpot, run.output_sequence_lengths, n)
        if after_ns > most_ns:
            faults.append(
                f"{after_ns / 1e9:,.0f} s after first tokens, by TPOT {most_ns / 1e9:,.0f}"
            )
    return faults


@_own_rule(
    required="the figures of events.jsonl",
    source="the client's metrics_table.py, registry.py and early_stopping.py",
    fix="Submit result_summary.json and events.jsonl of the same run, as the client wrote them.",
)
def events_agree(result: OfficialClientFacts) -> Verdict:
    """Counts, windows, TTFT and latencies match events.jsonl, if it is present.

    Mean, deviation, each percentile, early stopping's estimates and histograms too; lengths in
    tokens and TPOT where the tokenizer that the configuration names is on this machine: in the
    local cache of the Hugging Face hub, or in the folder of --model if that has its name. Prompts
    of token ids need none for the input lengths, prompts of messages its chat template.
    """
    if result.events is None:
        return no_demand("no events.jsonl")
    if isinstance(result.events, str):
        return verdict(False, result.events)
    figures = [*_counted_again(result.run, result.events)]
    uncounted = result.events.uncounted or result.events.uncounted_inputs
    for name, values in _series_of(result.run, result.events).items():
        again = _series_again(getattr(result.run, name), values)
        figures += [(f"{name} {key}", first, second) for key, first, second in again]
    wrong = [
        f"{name} {_figure(first)} and {_figure(second)}"
        for name, first, second in figures
        if not _is_same(first, second)
    ]
    if result.events.sessions > 1:
        wrong.append(f"{result.events.sessions:,} sessions")
    words = "the figures of events.jsonl" + (f"; tokens not counted: {uncounted}" * bool(uncounted))
    return verdict(not wrong, "; ".join(wrong[:4]) or words)


def _series_of(run: ResultSummary, events: RunEvents) -> dict[str, Sequence[float]]:
    """The series that are counted again, by their names in the summary."""
    series: dict[str, Sequence[float]] = {"ttft": events.ttft, "latency": events.latency}
    if not events.uncounted:
        # A run without streaming has no TPOT.
        series |= {"output_sequence_lengths": events.lengths, "tpot": events.tpot}
    # Earlier versions of the client wrote none.
    if not events.uncounted_inputs and run.input_sequence_lengths.total is not None:
        series["input_sequence_lengths"] = events.inputs
    return series


@_own_rule(
    required="prompts as they are in the data set",
    source="Inference rules, appendix FAQ: KV state is not kept across queries; the salt of "
    "Endpoints rules, §2.9.5.1, is the opposite",
    fix="Run the client without a salt, and the server without reuse of its KV cache.",
)
def salt(result: OfficialClientFacts) -> Verdict:
    """No request of the measurement has a salt, which allows reuse of the KV cache in MLPerf
    Endpoints: MLPerf Inference forbids reuse between requests, and sends the data set as it is.

    Whether the server reused its cache stands in none of the client's files. Prompts are in
    events.jsonl alone; there are no more different ones than samples. Token ids are read as text
    where the model's tokenizer is on this machine.
    """
    prompts = sent_prompts(result)
    if prompts is None:
        has_events = isinstance(result.events, RunEvents)
        why = "events.jsonl has none" if has_events else "there is no events.jsonl that can be read"
        return not_judged("no prompts", why=why)
    samples = result.benchmark.samples
    # A replay of conversations has a prompt of its own for each turn.
    if prompts.different > samples and result.benchmark.id != QWEN3_6:
        return verdict(False, f"{prompts.different:,} different prompts of {samples:,} samples")
    if prompts.is_salted is None and prompts.count <= samples:
        words = f"{prompts.streams.count:,} prompts of token ids"
        return not_judged(words, why=SALT_UNDETERMINED)
    if not prompts.salted and prompts.is_salted:
        return verdict(False, "prompts of token ids that differ though their ends are the same")
    words = f"{prompts.salted:,} of {prompts.count:,} prompts with a salt"
    return verdict(not prompts.salted, words)


SALT_UNDETERMINED = "no sample was sent twice, and the model's tokenizer is not on this machine"
"""Why nobody can say whether prompts of token ids have a salt."""


def sent_prompts(result: OfficialClientFacts) -> SentPrompts | None:
    """The prompts of the measurement's requests; None if they are not known."""
    if not isinstance(result.events, RunEvents) or not result.events.prompts.count:
        return None
    return result.events.prompts


@_own_rule(
    source="Inference rules, appendix FAQ: KV state is not kept across queries; the client's "
    "warmup.salt",
    fix="Leave the warm-up's salt on (warmup.salt), or warm up with other data.",
)
def warmup_prompts(result: OfficialClientFacts) -> Verdict:
    """At most a tenth of the measurement's prompts were sent before it, by events.jsonl: a cache
    would know them."""
    required, prompts = f"at most {_SENT_BEFORE:.0%} of the prompts", sent_prompts(result)
    if prompts is None or not isinstance(result.events, RunEvents):
        return no_demand("no prompts in an events.jsonl")
    before = prompts.repeats_of(result.events.earlier_prompts)
    words = f"{before:,} of {prompts.different:,} different prompts"
    return verdict(before <= _SENT_BEFORE * prompts.different, words, required)


_VARIATION = (0.5, 2.0)
"""Of the gaps between requests at a Poisson rate, where the client and its machine may delay some:
1 is expected, within 0.1 of 1,000 requests or more."""
_MIN_GAPS = 1000


@_own_rule(
    source="Inference rules, Scenarios: Server's arrivals are Poisson",
    fix="Let the client issue the requests at its Poisson times, from a machine that keeps up.",
)
def issue_times(result: OfficialClientFacts) -> Verdict:
    """Requests at a rate are issued at Poisson times, by events.jsonl: neither at equal distances
    nor in bursts."""
    low, high = _VARIATION
    required = f"gaps between requests that vary by {low:g} to {high:g} times their mean"
    if not result.issues_at_a_rate or not isinstance(result.events, RunEvents):
        return no_demand("no events.jsonl of a run at a rate")
    count, variation = result.events.gaps[0], result.events.gap_variation
    if count < _MIN_GAPS:
        return no_demand(f"{count:,} gaps between requests are too few")
    if variation is None:
        return verdict(False, "all at once", required)
    return verdict(low <= variation <= high, f"by {variation:.3f} times", required)


def _is_same(first: float | None, second: float | None) -> bool:
    """As JSON's numbers are read: an integer beyond 2**53 is rounded. A sum of TPOTs depends on its
    order."""
    return first == (second if second is None else float(second)) or (
        isinstance(second, float) and _is_near(first, second)
    )


_Pairs = Iterator[tuple[str, float | None, float | None]]


def _counted_again(run: ResultSummary, events: RunEvents) -> _Pairs:
    yield "issued", run.n_samples_issued, events.issued
    yield "completed", run.n_samples_completed, events.completed
    yield "failed", run.n_samples_failed, events.failed
    yield "duration", run.duration_ns, events.duration_ns or None
    if run.legacy_loadgen_window_duration_ns is not None:
        yield "window", run.legacy_loadgen_window_duration_ns, events.window_ns
    rest = events.finish_reasons.total()
    for reason, count in run.finish_reason_counts.items():
        if reason != "other":
            rest -= events.finish_reasons[reason]
            yield f"ended by {reason}", count, events.finish_reasons[reason]
    if "other" in run.finish_reason_counts:
        yield "ended by other", run.finish_reason_counts["other"], rest


def _std_dev(values: Sequence[float], total: float) -> float | None:
    """Of a sample of the values, as the client's report.py has it; None without values."""
    n = len(values)
    if n < 2:
        return 0.0 if n else None
    return math.sqrt(n * sum(v * v for v in values) - total * total) / math.sqrt(n * (n - 1))


def _series_again(series: Distribution, values: Sequence[float]) -> _Pairs:
    """Each figure of a series, and that of the sorted values."""
    n = len(values)
    total = sum(values)
    yield "total", series.total, total if n else None
    yield "mean", series.avg, total / n if n else None
    yield "median", series.median, values[percentile_rank(50, n)] if n else None
    yield "std_dev", series.std_dev, _std_dev(values, total)
    yield "min", series.min, values[0] if n else None
    yield "max", series.max, values[-1] if n else None
    for name, value in series.percentiles.items():
        if n and (percent := percent_of(name)) is not None and percent <= 100:
            yield f"p{name}", value, values[percentile_rank(percent, n)]
    for percent, name, estimate in estimates_of(series):
        discarded = discarded_of(n, percent)
        yield f"estimate of p{name}", estimate, values[n - discarded] if discarded else None
    histogram = series.histogram
    if n and histogram.buckets:
        edges = bucket_edges(values[0], values[-1], len(histogram.buckets))
        yield from (
            (f"bucket {number}", edge, edges[number + end])
            for number, bucket in enumerate(histogram.buckets)
            for end, edge in enumerate(bucket)
        )
    ends = [*(bisect_left(values, high) for _, high in histogram.buckets[:-1]), n]
    for (low, _), count, (start, end) in zip(
        histogram.buckets, histogram.counts, pairwise([0, *ends]), strict=False
    ):
        yield f"from {low:,.0f} on", count, end - start


# Accuracy


@_client_rule(
    source="submission checker, accuracy-sample-count; endpoints_parser.py",
    fix="Score every sample of the accuracy data set.",
    shortens=_is_scored,
)
def accuracy_samples(result: OfficialClientFacts) -> Verdict:
    """The accuracy run has as many samples as the benchmark's accuracy data set."""
    count = sum(s.total_samples or 0 for s in result.scored.counted_scores)
    answers = result.benchmark.answers
    return verdict(count == answers, f"{count:,} samples", f"{answers:,}")


@_own_rule(
    required="complete, every answer there and scored",
    source="the client's scoring.py: complete, response_counts",
    fix="Repeat the accuracy run.",
)
def accuracy_complete(result: OfficialClientFacts) -> Verdict:
    """Every sample of the accuracy run was answered and scored, at most 1,000 times as fast as in
    the performance run."""
    faults = [*_too_fast(result)]
    for score in result.scored.counted_scores:
        counts = score.response_counts
        if score.complete is not True:
            faults.append(f"{score.dataset_name} not complete")
        if counts.missing != 0 or not counts.issued == counts.scored == score.total_samples:
            faults.append(
                f"{score.dataset_name}: {counts.issued} issued, {counts.scored} scored, "
                f"{counts.missing} missing of {score.total_samples}"
            )
        if score.unit_samples is not None and score.num_repeats is not None:
            total = score.unit_samples * score.num_repeats
            if total != score.total_samples:
                faults.append(f"{score.dataset_name}: {total:,} samples with repeats")
        if counts.empty and score.total_samples and counts.empty >= score.total_samples:
            faults.append(f"{score.dataset_name}: every answer is empty")
    words = "; ".join(faults) or "complete, every answer there and scored"
    return verdict(not faults, words)


def _too_fast(result: OfficialClientFacts) -> Iterator[str]:
    """Scores whose answers no system gave: it is far slower in its performance run."""
    run = result.summary
    if run is None or not run.duration_ns:
        return
    rate = run.n_samples_completed / run.duration_ns * 1e9
    for score in result.scored.counted_scores:
        count, seconds = score.total_samples or 0, score.duration_s
        if seconds is not None and count > _MAX_OF_PERFORMANCE * rate * seconds:
            yield f"{score.dataset_name}: {count:,} samples in {seconds:g} s"


@_own_rule(
    source="one model's answers to one data set; as TEST09 has it of LoadGen's runs",
    fix="Find why the performance run's answers differ in length from the accuracy run's.",
)
def accuracy_lengths(result: OfficialClientFacts) -> Verdict:
    """The performance run's mean answer length is within 10% of the accuracy run's, if both use one
    data set, as all benchmarks but gpt-oss-120b do.

    The published results differ by 1.3% at most. If every figure of a summary has too many tokens,
    no other rule detects it.
    """
    scores = result.accuracy.counted_scores if result.accuracy else []
    lengths = [s.output_sequence_lengths for s in scores]
    count = sum(s.total_samples or 0 for s in scores)
    mean = result.summary.output_sequence_lengths.avg if result.summary else None
    if result.benchmark.samples != result.benchmark.answers or None in (s.total for s in lengths):
        return not_judged("lengths of other answers", why="other data, or no lengths")
    if mean is None or not count:
        return not_judged("no mean length", why="no output_sequence_lengths")
    scored = sum(s.total or 0.0 for s in lengths) / count
    slack = _LENGTHS * scored + _SIGMAS * max(s.std_dev or 0.0 for s in lengths) / math.sqrt(count)
    words = f"{mean:,.1f} tokens in the performance run"
    return verdict(abs(mean - scored) <= slack, words, f"{scored:,.1f} within {slack:,.1f}")


def scores_of(result: OfficialClientFacts) -> dict[str, float]:
    """The scores by the reference's names and in its units. Raises VerdictError."""
    scores = result.scored.counted_scores
    if any(isinstance(s.score, dict) for s in scores):
        (first, *others) = scores
        if others or not isinstance(first.score, dict):
            raise failure("several data sets with several scores each", "one")
        numbers = {name: _number(value) for name, value in first.score.items()}
        return {name: number for name, number in numbers.items() if number is not None}
    weighted, total = 0.0, 0
    for score in scores:
        number, samples = _number(score.score), score.total_samples or 0
        if number is None or not 0 <= number * result.benchmark.scale <= 100:
            raise failure(f"score {score.score} of {score.dataset_name}", "a score")
        weighted, total = weighted + number * samples, total + samples
    if not total:
        raise failure("no samples", "samples")
    by_name = {result.benchmark.expected[0].name: weighted / total * result.benchmark.scale}
    lengths = [s.output_sequence_lengths.total for s in scores]
    if None not in lengths:
        by_name["tokens_per_sample"] = sum(length or 0.0 for length in lengths) / total
    return by_name


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@_own_rule(
    source="submission checker, accuracy-target and accuracy-upper-limit, which it applies to "
    "qwen3-vl-235b-a22b alone",
    fix="Fix the accuracy, or submit to the open division.",
)
def accuracy_gate(result: OfficialClientFacts) -> Verdict:
    """Every score reaches the benchmark's gate; its data sets are weighted by their samples.

    The official checker passes any score, 0.0 included, of every benchmark but qwen3-vl-235b-a22b.
    """
    gates = result.benchmark.expected
    if not gates:
        words = f"scores of {len(result.scored.counted_scores)} data sets"
        return not_judged(words, "the benchmark's gate", "its score has no gate in the checker")
    scores = scores_of(result)
    required = ", ".join(f"{e.name} {e.low():,.6g}" for e in gates)
    words = ", ".join(f"{e.name} {_figure(scores.get(e.name))}" for e in gates)
    if result.division == "open":
        return verdict(True, words, "no gate in the open division")
    low = [e for e in gates if not scores.get(e.name, 0.0) >= e.low()]
    high = [e for e in gates if e.high is not None and scores.get(e.name, 0.0) > e.high]
    return verdict(not low and not high, words, f"at least {required}")


# Audits


@_client_rule(
    source="submission checker, compliance_endpoints_check: ENDPOINTS_COMPLIANCE_MAPPING",
    fix="Run the audit with the client, and submit its audit/audit_<test>.json.",
)
def audits(result: OfficialClientFacts) -> Verdict:
    """Every audit in the result passed and matches its file's name.

    wan-2.2-t2v-a14b needs output_caching_test.
    """
    faults = [f"{n}: {a}" for n, a in result.audits.items() if isinstance(a, str)]
    for name, audit in result.audits.items():
        if isinstance(audit, AuditResult) and (audit.test != name or not audit.passed):
            faults.append(f"{name}: {audit.test} {'passed' if audit.passed else 'failed'}")
    if result.benchmark.id == WAN and "output_caching_test" not in result.audits:
        faults.append("no audit_output_caching_test.json")
    return verdict(not faults, "; ".join(faults) or "passed or none", "passed")


def rules_of_a_run() -> list[Rule]:
    """The rules of what the client measured, without those of a submission's files."""
    return [entry for entry in rules_of("client") if entry.check.__module__ == __name__]


def is_of_accuracy(name: str) -> bool:
    """Whether the rule of that name judges an accuracy run."""
    return name.startswith("client_accuracy_")
