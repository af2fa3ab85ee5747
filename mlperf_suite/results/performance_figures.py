"""A performance run's figures, taken from LoadGen's log if it has them.

Early stopping is EarlyStopping in LoadGen's results.cc.

SingleStream: LoadGen estimates a percentile that holds with a confidence of 99% for the number of
queries: it discards the n highest values, and the highest remaining one is the estimate. If LoadGen
counts tokens, it does so only for TTFT and TPOT, and its key early_stopping_latency_ss is that of
TTFT. n depends only on the number of queries, so the estimate of the latency, the figure that
decides in SingleStream, is computed here from the requests themselves.

Server: no estimate, only whether enough queries met the limit, and how many more are needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.request_times import RequestTimes, distribution, percentile
from mlperf_suite.engines.protocol import DECODE, FIRST_TOKEN, LATER_TOKENS, PREFILL, QUEUE
from mlperf_suite.loadgen.logs import DETAIL, DetailLog, parse_detail
from mlperf_suite.loadgen.request_parts import as_reported, reported_s
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.schema import (
    EarlyStopping,
    Goodput,
    MetricFigure,
    PartFigures,
    Percentiles,
    PerformanceFigures,
    RepeatFigures,
    SlowRequest,
    TimeBreakdown,
)
from mlperf_suite.rules.verdict import in_words, time_words, times_in_unit
from mlperf_suite.untrusted_files import read_regular

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_LATENCY = "result_mean_latency_ns", "result_{}_percentile_latency_ns"
_TTFT = "result_first_token_mean_latency_ns", "result_first_token_{}_percentile_latency_ns"
_TPOT = "result_time_to_output_token_mean", "result_time_per_output_token_{}_percentile_ns"
"""The keys of the mean and of the percentiles of each time."""
_RATES = {
    "Offline": ("result_tokens_per_second", "result_samples_per_second"),
    "Server": ("result_completed_tokens_per_second", "result_completed_samples_per_sec"),
    "SingleStream": ("result_completed_tokens_per_second", "result_qps_with_loadgen_overhead"),
}
"""By LoadGen's scenario: the keys of tokens/s and of samples/s."""


def percentile_name(percentile: str) -> str:
    """Turn "99.00" into p99, "99.90" into p99.9."""
    return "p" + percentile.rstrip("0").rstrip(".")


def _percentiles(detail: DetailLog, keys: tuple[str, str]) -> Percentiles | None:
    """Mean and percentiles in ms, or None if LoadGen reports none in this scenario."""
    mean, key = keys
    names = {"mean": mean} | {percentile_name(p): key.format(p) for p in PERCENTILES}
    in_ms = {name: detail.milliseconds(of_log) for name, of_log in names.items()}
    values = {name: value for name, value in in_ms.items() if value is not None}
    return values or None


def samples_per_second(scenario: Scenario, detail: DetailLog) -> float | None:
    """The samples/s that LoadGen reports of a performance run; None if it reports none."""
    _, key = _RATES[scenario.loadgen_scenario]
    return detail.number(key)


def performance_figures(
    scenario: Scenario,
    detail: DetailLog,
    elapsed_s: float,
    tokens: int,
    timeline: Timeline | None = None,
) -> PerformanceFigures:
    """The content of run.performance in summary.json.

    LoadGen reports no TTFT and TPOT in Offline; they are None there, and the engine's own times
    stand in for them in `suite_times_ms`. `elapsed_s` is how long
    LoadGen ran and `tokens` the SUT's count: the log has neither. The reason of an INVALID run is
    empty if only early stopping was not met, which `early_stopping` shows.
    """
    tokens_key, _ = _RATES[scenario.loadgen_scenario]
    samples_per_s = samples_per_second(scenario, detail)
    reason = detail["result_invalid_reason"]
    return PerformanceFigures(
        scenario=scenario.name,
        valid=detail["result_validity"] == "VALID",
        invalid_reason=None if reason is None else in_words(reason),
        duration_s=round(elapsed_s, 3),
        total_new_tokens=tokens,
        tokens_per_sec=detail.number(tokens_key),
        samples_per_sec=samples_per_s,
        qps=samples_per_s,
        latency_ms=_percentiles(detail, _LATENCY),
        ttft_ms=_percentiles(detail, _TTFT),
        tpot_ms=_percentiles(detail, _TPOT),
        metric=MetricFigure(scenario.metric, detail.number(scenario.metric), scenario.metric_unit),
        early_stopping=early_stopping(scenario, detail, timeline),
        target_qps=detail.number("effective_target_qps"),
        blocks={name: tuple(of) for name, of in timeline.blocks().items()} if timeline else {},
        life=time_breakdown(timeline, detail) if timeline else None,
        load=timeline.load if timeline else None,
        goodput=goodput(timeline, scenario.limits, samples_per_s),
        suite_times_ms=_suite_times(timeline) if timeline else {},
    )


def times_by_engine(timeline: Timeline) -> RequestTimes | None:
    """The times of a run in which LoadGen counts no first tokens, with the instants at which the
    engine's answers began; None if the engine does not report that of every answer."""
    import numpy as np

    parts = {name: np.asarray(of) for name, of in timeline.parts_ms.items()}
    pairs = ((PREFILL, DECODE), (FIRST_TOKEN, LATER_TOKENS))
    before, after = next((pair for pair in pairs if parts.keys() >= set(pair)), ("", ""))
    if timeline.first_token_ms is not None or not before:
        return None
    times = timeline.times
    # An answer in one piece does not say when its first token was made.
    is_known = (parts[before] > 0) & ((parts[after] > 0) | (times.tokens < 2))
    return replace(times, first_ms=_ends(timeline, parts, before)) if is_known.all() else None


def _suite_times(timeline: Timeline) -> dict[str, Percentiles]:
    times = times_by_engine(timeline)
    of = {"ttft": times.ttft_ms, "tpot": times.tpot_ms} if times else {}
    return {
        name: {place: round(ms, 6) for place, ms in distribution(values).items()}
        for name, values in of.items()
    }


def goodput(
    timeline: Timeline | None, limits: Mapping[str, float], samples_per_s: float | None = None
) -> Goodput | None:
    """The requests within the limits; None without limits, or if the times of some are unknown.

    `limits`: as in `Scenario`. `samples_per_s`: LoadGen's rate of all samples.
    """
    import numpy as np

    if timeline is None or not timeline.issued_ms:
        return None
    of_requests = timeline.times
    times = {"latency": of_requests.latency_ms, "ttft": of_requests.ttft_ms}
    if timeline.first_token_ms is not None:
        # An answer of one token has no TPOT, and so none beyond the limit.
        times["tpot"] = np.where(of_requests.tokens > 1, of_requests.tpot_ms, 0.0)
    if not limits or any(not np.isfinite(times.get(name, np.nan)).all() for name in limits):
        return None
    beyond = {name: times[name] > limit_ms for name, limit_ms in limits.items()}
    within = int(np.count_nonzero(~np.any(list(beyond.values()), axis=0)))
    rate = None if samples_per_s is None else round(samples_per_s * within / len(of_requests), 6)
    figures: dict[str, Any] = {f"{name}_limit_ms": limit_ms for name, limit_ms in limits.items()}
    figures |= {f"beyond_{name}": int(np.count_nonzero(of)) for name, of in beyond.items()}
    return Goodput(len(of_requests), within, samples_per_sec=rate, **figures)


def repeated_figures(figures: PerformanceFigures) -> RepeatFigures:
    """The figures kept of a repeated run."""
    return RepeatFigures(
        **{entry.name: getattr(figures, entry.name) for entry in fields(RepeatFigures)}
    )


# What LoadGen's log says beyond the figures


def read_detail(folder: Path) -> DetailLog:
    """The detail log of a run's performance run; empty if there is none."""
    try:
        return parse_detail(
            read_regular(folder / "Performance" / DETAIL).decode("utf-8", "replace")
        )
    except OSError:
        return DetailLog({})


def issued_samples(detail: DetailLog, scenario: str | None) -> int | None:
    """How many samples LoadGen issued; None if its log does not say."""
    offline = scenario == "Offline"
    count = detail.number("generated_samples_per_query" if offline else "result_query_count")
    return None if count is None or count < 1 else int(count)


def answered_share(answers: int | None, samples: int | None) -> float | None:
    """The share of queries that were answered; None if unknown."""
    return None if answers is None or not samples else min(answers / samples, 1.0)


# Early stopping

_SAYS = {
    "latency": "early_stopping_result",
    "ttft": "early_stopping_ttft_result",
    "tpot": "early_stopping_tpot_result",
}
"""By figure, the key of LoadGen's text on it: that of the latency, or if tokens are counted, those
of the other two."""
# SingleStream's text has a second estimate, to infer MultiStream; the first one decides.
_ESTIMATE = re.compile(r"percentile estimate: (\d+)")
_DISCARDED = re.compile(r"Would discard (\d+) highest latency queries")
_MORE = re.compile(r"at least (\d+) more queries")
_MAX_DIGITS = 19
"""LoadGen's integers have 64 bits; a longer one is not LoadGen's."""


def early_stopping(
    scenario: Scenario, detail: DetailLog, timeline: Timeline | None
) -> EarlyStopping | None:
    """The log's early stopping report; None if the scenario has none.

    A figure that the log does not mention is None; LoadGen omits TTFT if TPOT already failed.
    """
    if scenario.loadgen_scenario == "Offline":
        return None
    met = detail["early_stopping_met"]
    fraction = detail.number("effective_target_latency_percentile")
    says = {name: _words(detail[key]) for name, key in _SAYS.items()}
    return EarlyStopping(
        met=met if isinstance(met, bool) else None,
        percentile=None if fraction is None else round(fraction * 100, 4),
        estimates_ms=_estimates(says, detail, timeline),
        more_queries={name: _number_in(_MORE, words) for name, words in says.items()},
        says=says,
    )


def _words(value: object) -> str | None:
    """LoadGen's text as sentences on one line; it writes points, each after ` * `."""
    if not isinstance(value, str):
        return None
    sentences = [point.strip(" .") for point in in_words(value).split("* ")]
    return ". ".join(filter(None, sentences)) + "." if any(sentences) else None


def _number_in(pattern: re.Pattern[str], words: str | None) -> int | None:
    match = pattern.search(words or "")
    return int(match[1]) if match and len(match[1]) <= _MAX_DIGITS else None


def _estimates(
    says: Mapping[str, str | None], detail: DetailLog, timeline: Timeline | None
) -> dict[str, float | None]:
    """LoadGen's estimates; if it has none of the latency, one by the same rule."""
    nanoseconds = {name: _number_in(_ESTIMATE, words) for name, words in says.items()}
    estimates = {name: None if ns is None else ns / 1e6 for name, ns in nanoseconds.items()}
    discarded = _number_in(_DISCARDED, says["ttft"])
    if estimates["latency"] is None and discarded is not None and timeline is not None:
        # The highest latency below the discarded ones, as the SUT saw the requests.
        latencies = sorted(timeline.latency_ms, reverse=True)
        if discarded < len(latencies) == detail["result_query_count"]:
            estimates["latency"] = round(latencies[discarded], 3)
    return estimates


# Where the requests' time went, and why the slowest requests were slow

SLOWEST = 10


def time_breakdown(timeline: Timeline, detail: DetailLog) -> TimeBreakdown | None:
    """The figures of a run's lives; None if the timeline has none, like that of an older suite."""
    import numpy as np

    parts = {name: np.asarray(of) for name, of in timeline.parts_ms.items()}
    if not parts or not timeline.samples:
        return None
    latency = timeline.times.latency_ms
    whole = float(latency.sum())
    return TimeBreakdown(
        requests=len(latency),
        from_loadgen=timeline.from_loadgen,
        differs_ms=difference_ms(latency, detail) if timeline.from_loadgen else None,
        drain=_drain(timeline, parts),
        parts=tuple(_part(name, of, whole) for name, of in parts.items()),
        slowest=_slowest(timeline, parts, latency),
    )


def difference_ms(latency_ms: Doubles, detail: DetailLog) -> float | None:
    """The largest difference in ms between a latency that LoadGen reports and the same figure of
    these latencies; None if it reports none."""
    of_lives, reference_s = as_reported(latency_ms), reported_s(detail)
    differences = [abs(of_lives[key] - seconds * 1000) for key, seconds in reference_s.items()]
    return round(max(differences), 4) if differences else None


def _part(name: str, ms: Doubles, whole_ms: float) -> PartFigures:
    import numpy as np

    ascending = np.sort(ms)
    p50, p90, p99 = (round(percentile(ascending, share), 3) for share in (0.5, 0.9, 0.99))
    share = float(ascending.sum()) / whole_ms if whole_ms > 0 else 0.0
    return PartFigures(
        name,
        round(share, 6),
        round(float(ms.mean()), 3),
        p50,
        p90,
        p99,
        round(float(ascending[-1]), 3),
    )


def _ends(timeline: Timeline, parts: dict[str, Doubles], name: str) -> Doubles:
    """When that part of each request ended, in ms since the first was issued."""
    import numpy as np

    ends = np.asarray(timeline.issued_ms, dtype=float)
    for part, duration_ms in parts.items():
        ends = ends + duration_ms
        if part == name:
            break
    return ends


def _drain(timeline: Timeline, parts: dict[str, Doubles]) -> float | None:
    """The share of the run after the engine started its last request; None if that is unknown."""
    if QUEUE not in parts:
        return None
    end = max(timeline.finished_ms)
    return round(1 - float(_ends(timeline, parts, QUEUE).max()) / end, 6) if end > 0 else None


def _slowest(
    timeline: Timeline, parts: dict[str, Doubles], latency: Doubles
) -> tuple[SlowRequest, ...]:
    import numpy as np

    medians = {name: percentile(np.sort(of), 0.5) for name, of in parts.items()}
    rows = np.argsort(-latency, kind="stable")[:SLOWEST].tolist()
    return tuple(
        SlowRequest(
            timeline.samples[row],
            round(timeline.issued_ms[row] / 1000, 3),
            round(float(latency[row]), 3),
            {name: round(float(of[row]), 3) for name, of in parts.items()},
            timeline.prompt_tokens[row],
            timeline.tokens[row],
            timeline.preempted[row],
            _cause(timeline, parts, medians, row),
        )
        for row in rows
    )


def _cause(
    timeline: Timeline, parts: dict[str, Doubles], medians: dict[str, float], row: int
) -> str:
    """Why a request was slow, in words: the part that exceeds its median by the most, and why."""
    name = max(parts, key=lambda part: float(parts[part][row]) - medians[part])
    duration_ms, tokens = float(parts[name][row]), timeline.tokens[row]
    reasons = []
    if name == QUEUE:
        reasons.append(_behind(timeline, parts, row))
    elif name == PREFILL:
        rank = _rank(timeline.prompt_tokens, row)
        reasons.append(f"its prompt has {timeline.prompt_tokens[row]:,} tokens, {rank}")
    elif name in (DECODE, LATER_TOKENS):
        rank, per_token = _rank(timeline.tokens, row), duration_ms / max(tokens - 1, 1)
        reasons.append(f"its answer has {tokens:,} tokens, {rank}, {time_words(per_token)} each")
    if number := timeline.preempted[row]:
        reasons.append(f"preempted {'once' if number == 1 else f'{number:,} times'}")
    (took, median), unit = times_in_unit((duration_ms, medians[name]))
    words = f"{name} {took} {unit} where the median is {median}"
    return f"{words}: {'; '.join(reasons)}" if reasons else words


def _behind(timeline: Timeline, parts: dict[str, Doubles], row: int) -> str:
    """What was ahead of a request when it was queued."""
    import numpy as np

    names, prompts = list(parts), np.asarray(timeline.prompt_tokens)
    queued = _ends(timeline, parts, names[names.index(QUEUE) - 1])
    begun, at = _ends(timeline, parts, QUEUE), queued[row]
    waiting = (queued < at) & (begun > at) | (queued == at) & (begun < begun[row])
    running = (begun <= at) & (np.asarray(timeline.finished_ms) > at)
    return (
        f"queued behind {int(waiting.sum()):,} that waited, {int(prompts[waiting].sum()):,} prompt "
        f"tokens, and {int(running.sum()):,} that ran"
    )


def _rank(lengths: Sequence[int], row: int) -> str:
    """Its rank by length, longest first."""
    longer = sum(length > lengths[row] for length in lengths)
    return "the longest" if not longer else f"number {longer + 1:,} of {len(lengths):,} by length"
