"""Rules of a performance run's figures: rates, tokens and latencies must follow from one another.

LoadGen computes each figure from the same latencies (results.cc). Percentiles are values of the
sorted latencies at the index int(count x share), means are truncated to whole ns, doubles are
printed with six digits. Tolerances: docs/evidence/log-consistency.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial

from mlperf_suite.features.log_consistency.agreement import FigureRange, agreement_rule, figure_of
from mlperf_suite.features.log_consistency.log_clock import ROUNDING_S, duration_s
from mlperf_suite.rules.facts import RunFacts, of_run
from mlperf_suite.rules.registry import ONE_BY_ONE, SERVER
from mlperf_suite.rules.verdict import Verdict, failure, not_judged, query_words, verdict

PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_SLACK_S = 1e-6
_WRAP = 2**64
"""LoadGen sums latencies in 64 bits: a long Offline run's sum of ns wraps around."""
_TOKENS_OVER = 1
"""Some SUTs count one token more than the answer has, as in 32 of the public results."""
_figures_rule = partial(
    agreement_rule,
    "performance",
    source="LoadGen's results.cc; tolerances in docs/evidence/log-consistency.md",
)


@dataclass(frozen=True, slots=True)
class LatencyKeys:
    """The keys of one kind of latency: of a percentile, with {} for its number, and of an extreme,
    with {} for min, max or mean."""

    name: str
    percentile: str
    extreme: str

    @property
    def places(self) -> list[str]:
        """The ranges of minimum, percentiles and maximum, in this order."""
        percentiles = [self.percentile.format(number) for number in PERCENTILES]
        return [self.extreme.format("min"), *percentiles, self.extreme.format("max")]

    @property
    def mean(self) -> str:
        return self.extreme.format("mean")


LATENCY = LatencyKeys("latency", "result_{}_percentile_latency_ns", "result_{}_latency_ns")
TTFT = LatencyKeys(
    "TTFT", "result_first_token_{}_percentile_latency_ns", "result_first_token_{}_latency_ns"
)
TPOT = LatencyKeys(
    "TPOT", "result_time_per_output_token_{}_percentile_ns", "result_time_to_output_token_{}"
)


@dataclass(frozen=True, slots=True)
class Latencies:
    """One kind of latency, in ns: minimum, percentiles and maximum in this order, and the mean."""

    name: str
    places: tuple[float, ...]
    mean: float

    @property
    def least(self) -> float:
        return self.places[0]

    @property
    def most(self) -> float:
        return self.places[-1]


def _families(run: RunFacts) -> tuple[LatencyKeys, ...]:
    return (LATENCY, TTFT, TPOT) if run.scenario.streams else (LATENCY,)


@of_run
def latencies(run: RunFacts, family: LatencyKeys) -> Latencies:
    """The figures of one kind of latency. Raises VerdictError."""
    places = tuple(run.amount(key) for key in family.places)
    return Latencies(family.name, places, run.amount(family.mean))


@of_run
def answer_count(run: RunFacts) -> int:
    """The number of answered samples. Raises VerdictError."""
    offline = run.scenario.name == "Offline"
    return run.whole("generated_samples_per_query" if offline else "result_query_count", 1)


def places_at(count: int) -> list[int]:
    """The indices of minimum, percentiles and maximum among `count` sorted values."""
    return [0, *(int(count * (float(p) / 100)) for p in PERCENTILES), count - 1]


@of_run
def issued_s(run: RunFacts) -> FigureRange:
    """When the last of at least two queries was due (Server) or issued (SingleStream), in s."""
    single = run.scenario.name == "SingleStream"
    name = "qps_with_loadgen_overhead" if single else "scheduled_samples_per_sec"
    return figure_of(run, f"result_{name}").under(answer_count(run) - 1)


# Rates


@_figures_rule(required="the queries that were made, within the run's limits")
def queries_issued(run: RunFacts) -> Verdict:
    """Every generated query was issued, and LoadGen had no reason to end the run early.

    SingleStream makes twice the queries that it expects.
    """
    count, limit = run.whole("result_query_count", 1), run.whole("generated_query_count", 1)
    single = run.scenario.name == "SingleStream"
    ok = count <= limit if single else count == limit
    if ok and (early_end := _early_end(run, count)):
        raise failure(query_words(count), early_end, "LoadGen ends such a run early")
    return verdict(ok, query_words(count), f"{'at most ' if single else ''}{query_words(limit)}")


def _early_end(run: RunFacts, count: int) -> str:
    """The limit at which LoadGen would have ended the run before its last query, or ""."""
    most = run.whole("effective_max_query_count")
    if 0 < most < count:
        return f"at most {query_words(most)}"
    if run.scenario.name == "Offline" or count < 2:
        return ""
    last_s, most_s = issued_s(run), run.amount("effective_max_duration_ms") / 1e3
    if 0 < most_s < last_s.low:
        return f"at most {most_s:,.3f} s, the last query was issued after {last_s.middle:,.3f} s"
    at_once = run.whole("effective_max_async_queries")
    if not (lasted_s := duration_s(run)):
        return ""
    # Little's law: the queries under way, on average until the last answer.
    mean_at_once = latencies(run, LATENCY).mean / 1e9 * count / lasted_s
    if run.scenario.loadgen_scenario == "Server" and 0 < at_once < mean_at_once:
        return f"at most {at_once:,} queries at once, {mean_at_once:,.1f} were on average"
    return ""


@_figures_rule(required="queries / duration")
def query_rate(run: RunFacts) -> Verdict:
    """The reported rate is the number of queries divided by their time."""
    seconds, count, latency = duration_s(run), answer_count(run), latencies(run, LATENCY)
    if run.scenario.name == "Offline":
        return _offline_rate(run, seconds, count, latency)
    if count < 2:
        return not_judged(f"{count} query", why="a single query has no rate")
    if run.scenario.name == "SingleStream":
        return _single_stream_rate(run, seconds, count, latency)
    return _server_rate(run, seconds, count, latency)


def _offline_rate(run: RunFacts, seconds: float, count: int, latency: Latencies) -> Verdict:
    """All samples are issued at once: the last answer's latency is the run's duration."""
    most_s = latency.most / 1e9
    rate = figure_of(run, "result_samples_per_second")
    ok = abs(most_s - seconds) <= ROUNDING_S and most_s > 0 and rate.holds(count / most_s)
    quotient = f"{count / (most_s or math.inf):,.6g} samples/s"
    figure = run.detail["result_samples_per_second"]
    return verdict(
        ok,
        f"{figure:,} samples/s; last answer after {most_s:,.3f} s",
        f"{count:,} samples / {most_s:,.6f} s = {quotient}; {seconds:,.3f} s by power_begin and "
        "power_end",
    )


def _server_rate(run: RunFacts, seconds: float, count: int, latency: Latencies) -> Verdict:
    """The last query was due at (count - 1) / scheduled rate, and answered one latency later.

    The last answer of the run came at that time or later.
    """
    end_s = figure_of(run, "result_completed_samples_per_sec").under(count - 1)
    due_s = issued_s(run)
    late = FigureRange(end_s.low - due_s.high, end_s.high - due_s.low)
    latency_s = FigureRange(latency.least / 1e9 - _SLACK_S, latency.most / 1e9 + _SLACK_S)
    end = FigureRange(end_s.low - ROUNDING_S, due_s.high + latency_s.high + ROUNDING_S)
    due_rate, end_rate = (
        run.detail[f"result_{name}_samples_per_sec"] for name in ("scheduled", "completed")
    )
    figures = (
        f"last query due after {due_s.middle:,.3f} s and answered after {end_s.middle:,.3f} s "
        f"({count - 1:,} queries at {due_rate:,} and {end_rate:,} a second)"
    )
    return verdict(
        late.overlap(latency_s) is not None and end.holds(seconds),
        figures,
        f"a latency of {latency.least / 1e9:,.3f} to {latency.most / 1e9:,.3f} s between, and the "
        f"end at {seconds:,.3f} s by power_begin and power_end",
    )


def _single_stream_rate(run: RunFacts, seconds: float, count: int, latency: Latencies) -> Verdict:
    """One query at a time: the rate is the inverse of the mean latency, and all fit the
    duration."""
    names = ("result_qps_without_loadgen_overhead", "result_qps_with_loadgen_overhead")
    alone, with_loadgen = (figure_of(run, name) for name in names)
    last_s = with_loadgen.under(count - 1)
    busy_s = latency.mean * count / 1e9
    ok = (
        latency.mean > 0
        and alone.overlap(FigureRange(latency.mean, latency.mean + 1).under(1e9)) is not None
        and busy_s <= seconds + ROUNDING_S
        and last_s.low + latency.least / 1e9 - ROUNDING_S
        <= seconds
        <= last_s.high + latency.most / 1e9 + ROUNDING_S
    )
    figures = (
        f"{run.detail[names[0]]:,} queries/s of {latency.mean / 1e6:,.6f} ms each, "
        f"{run.detail[names[1]]:,} with LoadGen's own time: {count:,} take {busy_s:,.3f} s, the "
        f"last begins after {last_s.middle:,.3f} s"
    )
    return verdict(ok, figures, f"{seconds:,.3f} s by power_begin and power_end")


# Tokens


@of_run
def tokens_reported(run: RunFacts) -> FigureRange:
    """The range of the total number of answer tokens that the log's token figures allow.

    A token rate times its duration is their number; LoadGen prints two such rates if it gets
    first tokens. Raises VerdictError, also if the two ranges do not overlap.
    """
    count, latency = answer_count(run), latencies(run, LATENCY)
    if run.scenario.name == "Offline":
        return figure_of(run, "result_tokens_per_second").times(latency.most / 1e9)
    # In tokens per ns of latency, summed over all samples.
    by_latency = figure_of(run, "result_token_throughput").times(latency.mean * count)
    if count < 2:
        return by_latency
    if run.scenario.name == "SingleStream":
        tokens, queries = "token_throughput_with_loadgen_overhead", "qps_with_loadgen_overhead"
    else:
        tokens, queries = "completed_tokens_per_second", "completed_samples_per_sec"
    seconds = figure_of(run, f"result_{queries}").under(count - 1)
    rate = figure_of(run, f"result_{tokens}")
    by_rate = FigureRange(rate.low * seconds.low, rate.high * seconds.high)
    count_range = by_latency.overlap(by_rate)
    if count_range is None:
        words = f"{by_latency.middle:,.0f} tokens by result_token_throughput"
        raise failure(f"{words}, {by_rate.middle:,.0f} by result_{tokens}")
    return count_range


def most_tokens(run: RunFacts) -> int | None:
    """The maximum tokens of an answer that LoadGen may get; None if unknown."""
    if run.smoke or run.division == "open" or run.benchmark.workload is None:
        return None
    return run.benchmark.workload.part(run.mode).generation.max_new_tokens + _TOKENS_OVER


@_figures_rule(required="tokens / duration", of_tokens=True)
def token_rate(run: RunFacts) -> Verdict:
    """Tokens per second times duration give one number of tokens, within the answers' limits."""
    tokens, count, most = tokens_reported(run), answer_count(run), most_tokens(run)
    mean_tokens = tokens.times(1 / count)
    ok = mean_tokens.high >= 1 and (most is None or mean_tokens.low <= most)
    total = f"{tokens.middle:,.0f} tokens / {count:,} answers"
    words = f"{total} = {mean_tokens.middle:,.3f} tokens an answer"
    return verdict(ok, words, f"1 to {most:,} tokens" if most else "at least 1 token an answer")


@_figures_rule(
    required="the last query issued between its due time and its last token",
    scenarios=SERVER,
    of_tokens=True,
)
def issued_token_rate(run: RunFacts) -> Verdict:
    """The tokens/s until the last query was issued imply a possible time of that issue.

    LoadGen divides all tokens by the time at which it issued the last query, which is no sooner
    than that was due and no later than it was answered (result_token_throughput_with_loadgen_
    overhead in results.cc; SingleStream's is part of `tokens_reported`).
    """
    count = answer_count(run)
    if count < 2:
        return not_judged(f"{count} query", why="a single query has no rate")
    key = "result_token_throughput_with_loadgen_overhead"
    tokens, rate = tokens_reported(run), figure_of(run, key)
    issue_s = FigureRange(tokens.low / rate.high, tokens.high / rate.low)
    due_s = issued_s(run)
    end_s = figure_of(run, "result_completed_samples_per_sec").under(count - 1)
    return verdict(
        due_s.low <= issue_s.high and issue_s.low <= end_s.high,
        f"{tokens.middle:,.0f} tokens / {run.detail[key]:,} tokens/s = {issue_s.middle:,.3f} s",
        f"{due_s.middle:,.3f} to {end_s.middle:,.3f} s, when the last query was due and answered",
    )


# Latencies


_APART = 10
"""Places of a sorted list at least so many samples apart do not have one value to the ns."""
_APART_IN_TPOT = 1024
"""The same of TPOT: equally long answers of one batch have one, if their first tokens are reported
at once, and their last ones."""
_COARSE_NS = 100_000
"""Shorter times may: all tokens of an answer may come at once."""
_FIRST_PASS = 0.05
"""TTFT is at least this share of TPOT, for the least and the median of each: the first token takes
a pass over the prompt, at least 0.72 of the time for a further one in 253 public runs."""


@_figures_rule(required="each at least the one before")
def percentile_order(run: RunFacts) -> Verdict:
    """Percentiles rise from minimum to maximum, an answer takes longer than its first token, and
    that takes some time.
    """
    kinds = [latencies(run, family) for family in _families(run)]
    at = places_at(answer_count(run))
    for kind in kinds:
        _need_rise(kind, at, spread=run.scenario.name != "Offline")
    if len(kinds) > 1:
        latency, ttft, tpot = kinds
        # An answer of two tokens or more ends at least one TPOT after its first token.
        for name, whole, first in zip(_PLACES, latency.places, ttft.places, strict=True):
            if whole < first + tpot.least:
                required = f"at least TTFT {first:,} ns + the least TPOT {tpot.least:,} ns"
                return verdict(False, f"{name}: latency {whole:,} ns", required)
        for name, first, further in zip(_PLACES[:2], ttft.places, tpot.places, strict=False):
            if first < _FIRST_PASS * further:
                required = f"at least {_FIRST_PASS:.0%} of TPOT {further:,} ns"
                return verdict(False, f"{name}: TTFT {first:,} ns", required)
    bounds = "; ".join(f"{kind.name} {kind.least:,} to {kind.most:,} ns" for kind in kinds)
    return verdict(True, bounds)


_PLACES = ("minimum", *(f"p{float(p):g}" for p in PERCENTILES), "maximum")


def _need_rise(kind: Latencies, at: list[int], *, spread: bool) -> None:
    """Raises VerdictError if a place has less than the one before, or no time at all.

    `at`: the places' indices. `spread`: queries are issued one by one, so places that are some
    samples apart do not have the same time. Offline's answers may all come at once.
    """
    if kind.name != TPOT.name and kind.least == 0:
        raise failure(f"{kind.name}: minimum 0 ns")
    apart = _APART_IN_TPOT if kind.name == TPOT.name else _APART
    steps = list(zip(_PLACES, at, kind.places, strict=True))
    for (before, start, low), (after, end, high) in itertools.pairwise(steps):
        if low > high:
            raise failure(f"{kind.name}: {before} {low:,} ns, {after} {high:,} ns")
        if spread and low == high >= _COARSE_NS and end - start >= apart:
            words = f"{end - start:,} places apart"
            raise failure(f"{kind.name}: {before} and {after} {high:,} ns", why=words)


def mean_bounds(places: tuple[float, ...], count: int) -> FigureRange:
    """The bounds of the mean of `count` sorted values of which LoadGen's percentiles are known.

    `places`: minimum, percentiles and maximum. A value is at least the last known one before it,
    and at most the next. In the unit of the values.
    """
    low = high = places[0]
    pairs = zip(places_at(count), places, strict=True)
    for (start, before), (end, after) in itertools.pairwise(pairs):
        steps = end - start
        if steps > 0:
            low += (steps - 1) * before + after
            high += steps * after
    return FigureRange(low / count, high / count)


def _unwrapped(mean: float, bounds: FigureRange, count: int) -> tuple[float, int]:
    """The least mean that the sum's last 64 bits allow within the bounds, and how often it wrapped.

    A sum of less than 2^64 ns, 584 years of latency, has not wrapped.
    """
    wraps = max(math.ceil((bounds.low - 1 - mean) * count / _WRAP), 0)
    return mean + wraps * _WRAP / count, wraps


@_figures_rule(required="what the percentiles allow")
def mean_in_percentiles(run: RunFacts) -> Verdict:
    """Each mean is in the range that its percentiles, minimum and maximum allow."""
    count, means = answer_count(run), []
    for family in _families(run):
        latency = latencies(run, family)
        bounds = mean_bounds(latency.places, count)
        mean, wraps = _unwrapped(latency.mean, bounds, count)
        words = f"{latency.name} mean {latency.mean:,} ns"
        words += f" (its sum wrapped around 2^64 {wraps}x)" if wraps else ""
        interval = f"{bounds.low:,.0f} to {bounds.high:,.0f} ns"
        # The mean is truncated to whole ns.
        if not bounds.low * (1 - 1e-12) - 1 <= mean <= bounds.high * (1 + 1e-12):
            return verdict(False, words, f"{interval} by its percentiles")
        means.append(f"{words} of {interval}")
    return verdict(True, "; ".join(means))


@_figures_rule(required="TTFT + (tokens - 1) x TPOT", scenarios=ONE_BY_ONE, of_tokens=True)
def token_times(run: RunFacts) -> Verdict:
    """The mean latency is TTFT plus TPOT for each further token, as far as distributions allow."""
    latency, ttft, tpot = (latencies(run, family) for family in (LATENCY, TTFT, TPOT))
    tokens, count, most = tokens_reported(run), answer_count(run), most_tokens(run)
    further = FigureRange(max(tokens.low / count - 1, 0), max(tokens.high / count - 1, 0))
    rest = _rest(further, tpot, count, most - 1 if most else None)
    low, high = ttft.mean + rest.low - 2, ttft.mean + rest.high + further.high + 2
    mean, _ = _unwrapped(latency.mean, mean_bounds(latency.places, count), count)
    figures = (
        f"mean latency {mean / 1e6:,.3f} ms; TTFT {ttft.mean / 1e6:,.3f} ms, {further.middle:,.3f} "
        f"further tokens of {tpot.least / 1e6:,.3f} to {tpot.most / 1e6:,.3f} ms, mean "
        f"{tpot.mean / 1e6:,.3f} ms"
    )
    return verdict(low <= mean <= high, figures, f"{low / 1e6:,.3f} to {high / 1e6:,.3f} ms")


def _rest(further: FigureRange, tpot: Latencies, count: int, most: int | None) -> FigureRange:
    """The bounds of the mean of (tokens - 1) x TPOT, in ns.

    An answer has n tokens after its first, 1 to `most`, of t ns each. The sum of t is known, and so
    is that of n - 1. The sum of (n - 1) x t is largest if the slowest answers have the most tokens
    and the others one, and smallest if the fastest have.
    """
    over = FigureRange(max(further.low - 1, 0), max(further.high - 1, 0))
    # The mean is truncated to whole ns, and so is each TPOT.
    low, high = tpot.mean + over.low * tpot.least, tpot.mean + 1 + over.high * (tpot.most + 1)
    if most is not None and most > 1 and further.low <= most:
        fastest, slowest = (min(n / (most - 1), 1) for n in (over.low, over.high))
        # Those times are also what the others leave of the sum of all.
        rest = tpot.mean - _share(tpot, count, 1 - fastest, longest=True)
        low = tpot.mean + (most - 1) * max(_share(tpot, count, fastest, longest=False), rest)
        rest = tpot.mean + 1 - _share(tpot, count, 1 - slowest, longest=False)
        high = (
            tpot.mean + 1 + (most - 1) * min(_share(tpot, count, slowest, longest=True) + 1, rest)
        )
    return FigureRange(low, high)


def _share(kind: Latencies, count: int, share: float, *, longest: bool) -> float:
    """The most that the longest times of a share of `count` answers can add up to, or the least
    that the shortest can, divided by `count`; in ns."""
    steps = list(zip(places_at(count), kind.places, strict=True))
    # The number of answers, shortest first, and a bound of their times.
    parts = [(1, kind.least)]
    for (start, before), (end, after) in itertools.pairwise(steps):
        if end > start:
            parts += [(end - start, after)] if longest else [(end - start - 1, before), (1, after)]
    if longest:
        parts.reverse()
    left, total = share * count, 0.0
    for answers, ns in parts:
        taken = min(answers, left)
        total, left = total + taken * ns, left - taken
    return total / count
