"""LoadGen's own verdict on a performance run, recomputed from the figures beside it.

Sources: results.cc and early_stopping.cc of LoadGen. Of the sorted latencies a log has the minimum,
six percentiles and the maximum, so a count of those over a limit is known within bounds.
"""

from __future__ import annotations

import re

from mlperf_suite.features.log_consistency.agreement import FigureRange, agreement_rule
from mlperf_suite.features.log_consistency.log_figures import (
    LATENCY,
    PERCENTILES,
    TPOT,
    TTFT,
    Latencies,
    LatencyKeys,
    answer_count,
    issued_s,
    latencies,
    places_at,
)
from mlperf_suite.loadgen.load_plan import LIMIT_KEYS
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.stopping_criterion import discarded_queries, queries_needed
from mlperf_suite.rules.verdict import Verdict, failure, verdict

_MULTI_STREAM_PERCENTILE = 0.99
"""LoadGen adds an estimate at this percentile to a SingleStream run's words."""
_MAX_PERCENTILE, _MAX_QUERIES = 0.999, 10**8
"""A larger number is no run's: the binomial distribution would take minutes, or exceed a float."""
_UNSUCCESSFUL = re.compile(
    r" \* Run unsuccessful\.  \* Processed (\d{1,19}) queries\.  \* Would need to run at least "
    r"(\d{1,19}) more queries,  with the run being successful if every additional  query were "
    r"under latency\."
)


@agreement_rule(
    "performance",
    required="VALID where each constraint is met, INVALID where one is not",
    source="LoadGen's results.cc and early_stopping.cc; "
    "tolerances in docs/evidence/log-consistency.md",
)
def validity_agrees(run: RunFacts) -> Verdict:
    """LoadGen's VALID follows from its constraints, and those follow from the figures."""
    keys = ["result_min_duration_met", "result_min_queries_met", "early_stopping_met"]
    at_a_rate = run.scenario.loadgen_scenario == "Server"
    if at_a_rate:
        keys.append("result_perf_constraints_met")
    met = {key: run.flag(key) for key in keys}
    validity = "VALID" if all(met.values()) else "INVALID"
    constraints = ", ".join(f"{key} {str(value).lower()}" for key, value in met.items())
    problem = _length(run, met)
    if not problem:
        problem = (_limits(run, met) if at_a_rate else "") or _early_stopping(run)
    if problem:
        raise failure(f"{problem}; {constraints}")
    logged_validity = run.detail["result_validity"]
    return verdict(logged_validity == validity, f"{logged_validity}; {constraints}", validity)


def _length(run: RunFacts, met: dict[str, bool]) -> str:
    """How the run's length contradicts what LoadGen says of it, in words; "" if it does not."""
    figures = (
        ("queries", run.whole("result_query_count", 1), run.whole("effective_min_query_count")),
        ("samples", answer_count(run), run.whole("effective_min_sample_count")),
    )
    few = [f"{n:,} of {least:,} {name}" for name, n, least in figures if n < least]
    if bool(few) is met["result_min_queries_met"]:
        return "; ".join(few) or "every requested query and sample"
    least_s = run.amount("effective_min_duration_ms") / 1e3
    if run.scenario.name == "Offline":
        lasted_s = FigureRange(*(run.amount("result_max_latency_ns") / 1e9,) * 2)
    elif answer_count(run) > 1:
        lasted_s = issued_s(run)
    else:
        return ""
    if lasted_s.high < least_s if met["result_min_duration_met"] else lasted_s.low >= least_s:
        return f"{lasted_s.middle:,.3f} s of {least_s:,.3f} s"
    return ""


def _limits(run: RunFacts, met: dict[str, bool]) -> str:
    """How latencies contradict what LoadGen says of their limits, in words; "" if they do not."""
    over = _over_their_limits(run)
    if over is not None and bool(over) is met["result_perf_constraints_met"]:
        return "; ".join(over) or "each percentile within its limit"
    limit, count = run.amount("effective_target_latency_ns"), answer_count(run)
    logged_count = run.whole("result_overlatency_query_count")
    bounds = _count_over(latencies(run, LATENCY), count, limit)
    if not bounds.holds(logged_count):
        interval = f"{bounds.low:,.0f} to {bounds.high:,.0f}"
        return f"{logged_count:,} queries over {limit:,} ns, {interval} by their percentiles"
    return ""


def _over_their_limits(run: RunFacts) -> list[str] | None:
    """The limited latencies that are over their limit, in words; None if the log lacks the
    percentile."""
    percentile = f"{100 * run.amount('effective_target_latency_percentile'):.2f}"
    if percentile not in PERCENTILES:
        return None
    over = []
    for family in reversed(_judged(run)):
        limit = run.amount(_limit_key(family))
        latency = run.amount(family.percentile.format(percentile))
        if latency > limit:
            over.append(f"{family.name} p{float(percentile):g} {latency:,} ns, limit {limit:,} ns")
    return over


def _judged(run: RunFacts) -> tuple[LatencyKeys, ...]:
    """The latencies that LoadGen judges a run by, in its order."""
    return (TPOT, TTFT) if run.detail["requested_use_token_latencies"] is True else (LATENCY,)


def _limit_key(family: LatencyKeys) -> str:
    return LIMIT_KEYS[family.name.lower()]


def _stopping_key(family: LatencyKeys) -> str:
    of = "" if family is LATENCY else f"_{family.name.lower()}"
    return f"early_stopping{of}_result"


def _count_over(latency: Latencies, count: int, limit: float) -> FigureRange:
    """The bounds of how many of `count` latencies are over a limit, in ns."""
    steps = list(zip(places_at(count), latency.places, strict=True))
    certain = next((count - at for at, value in steps if value > limit), 0)
    within = [at for at, value in steps if value <= limit]
    return FigureRange(certain, count - 1 - within[-1] if within else count)


# Early stopping


def _early_stopping(run: RunFacts) -> str:
    """How early stopping's words or verdict contradict the figures; "" if they do not."""
    texts = [str(run.present(_stopping_key(family))) for family in _judged(run)]
    met, name = run.flag("early_stopping_met"), run.scenario.loadgen_scenario
    if name == "Offline":
        return "" if met and not any(texts) else f"early stopping in Offline: {' '.join(texts)}"
    percentile, passed = run.amount("effective_target_latency_percentile"), True
    if not 0.5 <= percentile <= _MAX_PERCENTILE:
        return f"effective_target_latency_percentile {percentile}"
    if answer_count(run) > _MAX_QUERIES:
        return f"{answer_count(run):,} queries, where no run has {_MAX_QUERIES:,}"
    for family, text in zip(_judged(run), texts, strict=True):
        # LoadGen looks at TTFT only where TPOT passed.
        if not passed:
            if text:
                return f"early stopping of {family.name}: {text!r}, not looked at"
            break
        judge = _estimate if name == "SingleStream" else _stop
        problem, passed = judge(run, family, text, percentile)
        if problem:
            return f"early stopping of {family.name}: {problem}"
    return "" if passed is met else f"early stopping's words: {'; '.join(texts)}"


def _stop(run: RunFacts, family: LatencyKeys, text: str, percentile: float) -> tuple[str, bool]:
    """The fault of Server's words on one kind of latency, and whether they say it passed."""
    count = answer_count(run)
    limit = run.amount(_limit_key(family))
    over = _count_over(latencies(run, family), count, limit)
    least, most = (queries_needed(int(bound), percentile) for bound in (over.low, over.high))
    words = f"{over.low:,.0f} to {over.high:,.0f} of {count:,} over {limit:,} ns, {text!r}"
    if text == " * Run successful.":
        return (words if count < least else ""), True
    numbers = _UNSUCCESSFUL.fullmatch(text)
    ok = numbers is not None and int(numbers[1]) == count < most
    ok = ok and least <= count + int(numbers[2]) <= most if numbers else False
    return ("" if ok else words), False


def _estimate(run: RunFacts, family: LatencyKeys, text: str, percentile: float) -> tuple[str, bool]:
    """The fault of SingleStream's words on one kind of latency, and whether it passed."""
    count, least = answer_count(run), queries_needed(1, percentile)
    if count < least:
        expectation = f" * Only processed {count} queries.  * Need to process at least {least} "
        expectation += "queries for early stopping."
        return ("" if text == expectation else f"{text!r}, not {expectation!r}"), False
    over, over_all = (discarded_queries(count, p) for p in (percentile, _MULTI_STREAM_PERCENTILE))
    pattern = (
        rf" \* Processed at least {least} queries \({count}\)\.  \* Would discard {over - 1} "
        rf"highest latency queries\.  \* Early stopping {percentile * 100:.1f}th percentile "
        r"estimate: (\d{1,19})"
    )
    if over_all:
        pattern += r"  \* Early stopping 99\.0th percentile estimate: (\d{1,19})"
    else:
        pattern += r"  \* Not enough queries processed for 99\.0th percentile  early stopping "
        pattern += r"estimate \(would need to process at  least \d+ total queries\)\."
    estimates = re.fullmatch(pattern, text)
    if estimates is None:
        return f"{text!r}, by {count:,} queries {over - 1:,} discarded", True
    places = list(zip(places_at(count), latencies(run, family).places, strict=True))
    for number, discarded in zip(estimates.groups(), (over, over_all), strict=False):
        low = max(value for at, value in places if at <= count - discarded)
        high = min(value for at, value in places if at >= count - discarded)
        if not low <= int(number) <= high:
            return f"estimate {int(number):,} ns, {low:,} to {high:,} by its percentiles", True
    logged = [run.whole(f"early_stopping_latency_{name}") for name in ("ss", "ms")]
    if family is TTFT and logged != [int(n) for n in (*estimates.groups(), "0")[:2]]:
        return f"{text!r}, early_stopping_latency_ss and _ms {logged}", True
    return "", True
