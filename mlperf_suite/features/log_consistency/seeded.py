"""Rules of what LoadGen's seeds determine, which is recomputed and compared."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache, partial

from mlperf_suite.features.log_consistency.agreement import (
    DIGITS,
    FigureRange,
    agreement_rule,
    figure_of,
)
from mlperf_suite.features.log_consistency.schedule import (
    SampleOrderSettings,
    Schedule,
    ScheduleSettings,
    TooLongError,
    first_samples,
    loaded_sets,
    schedule,
)
from mlperf_suite.rules.accuracy_files import parse_cut_log
from mlperf_suite.rules.facts import ByIdentity, RunFacts, of_run
from mlperf_suite.rules.registry import SERVER
from mlperf_suite.rules.verdict import (
    Verdict,
    VerdictError,
    failure,
    not_judged,
    query_words,
    verdict,
)

_MAX_SAMPLES = 10_000_000
LOG_NS = 16
"""By how much a schedule's end may be off: logarithms differ in the last bit between machines."""
_BISECTION_TOLERANCE = 1e-13
"""The relative precision of the search for a rate: less than 1 ns of a run of two hours."""
_SIZES = ("qsl_reported_total_count", "effective_performance_sample_count")
_seeds_rule = partial(
    agreement_rule,
    source="LoadGen's loadgen.cc, recomputed from the seeds; docs/evidence/log-consistency.md",
)


def _alike(logged: object, drawn: object) -> bool:
    """Whether both sets are the same. The logs of many runs share theirs: each pair of thousands of
    samples is compared once."""
    return _compared(ByIdentity(logged), ByIdentity(drawn))


@lru_cache(maxsize=8)
def _compared(one: ByIdentity, other: ByIdentity) -> bool:
    return bool(one.value == other.value)


@_seeds_rule("performance", "accuracy", required="the samples in the seed's order")
def loaded_samples(run: RunFacts) -> Verdict:
    """The run's samples are loaded in the order that its seed gives, by std::shuffle."""
    seed = run.whole("effective_qsl_rng_seed")
    total, size = (run.whole(key, 1) for key in _SIZES)
    count = run.whole(run.detail.accuracy_count_key, 1)
    if max(total, size, count) > _MAX_SAMPLES:
        raise failure(f"{max(total, size, count):,} samples")
    logged_sets = run.detail.values_of("loaded_qsl_set")
    accuracy = run.is_accuracy
    sizes = _shuffle_sizes(total, count if accuracy else size)
    for old, shuffle_size in itertools.product((False, True), sizes):
        drawn_sets = loaded_sets(seed, shuffle_size, size, accuracy=accuracy, old=old)
        if len(logged_sets) == len(drawn_sets) and all(map(_alike, logged_sets, drawn_sets)):
            return verdict(True, f"{sum(map(len, logged_sets)):,} samples, as drawn")
    drawn_sets = loaded_sets(seed, sizes[0], size, accuracy=accuracy)
    return verdict(False, _first_difference(logged_sets, drawn_sets))


@_seeds_rule("performance", "accuracy", required="the queries that the seed gives")
def generated_queries(run: RunFacts) -> Verdict:
    """The number and duration of the generated queries follow from seed, rate and duration."""
    schedules = _schedules(run)
    queries = run.whole("generated_query_count")
    samples = run.whole("generated_samples_per_query")
    duration = run.whole("generated_query_duration")
    # Between rates that give equally many queries, the duration takes each value between theirs.
    alike = [s for s in schedules if (s.queries, s.samples) == (queries, samples)]
    ends = [s.duration_ns for s in alike]
    ok = bool(ends) and min(ends) - LOG_NS <= duration <= max(ends) + LOG_NS
    first = (alike or schedules)[0]
    return verdict(
        ok,
        _in_words(queries, samples, duration),
        _in_words(first.queries, first.samples, first.duration_ns),
    )


@_seeds_rule("performance", required="queries due at the seed's times", scenarios=SERVER)
def scheduled_rate(run: RunFacts) -> Verdict:
    """The scheduled rate follows from seed, rate and durations."""
    schedules = _schedules(run)
    queries = run.whole("generated_query_count")
    # A different number of queries fails generated_queries.
    schedules = [s for s in schedules if s.queries == queries] or schedules
    first = schedules[0]
    figure = figure_of(run, "result_scheduled_samples_per_sec")
    if first.queries < 2 or first.last_ns <= 0:
        return not_judged(query_words(first.queries), why="a single query has no rate")
    rates = sorted((s.queries - 1) / s.last_ns * 1e9 for s in schedules)
    ok = figure.overlap(FigureRange(rates[0], rates[-1])) is not None
    required = f"{first.queries - 1:,} / {first.last_ns / 1e9:,.6f} s = {rates[0]:,.6g} queries/s"
    return verdict(ok, f"{run.detail['result_scheduled_samples_per_sec']:,} queries/s", required)


@_seeds_rule("accuracy", required="the samples of the seed's draws")
def issue_order(run: RunFacts) -> Verdict:
    """Each logged answer is for the sample that the seed puts at its place in the issue order.

    Of a submission's cut log, of the entries at its two ends.
    """
    if run.submitted is not None:
        entries: Sequence[tuple[int, int]] = parse_cut_log(run.submitted.accuracy_log or "").places
    else:
        entries = run.logs.accuracy.places
    if not entries:
        return not_judged("no entry", why="no entry of the accuracy log has its place")
    return order_verdict(run, entries)


def order_verdict(run: RunFacts, entries: Sequence[tuple[int, int]]) -> Verdict:
    """Whether each entry has the sample that the log's seeds give its position.

    `entries`: position in the order of issue, and sample. Raises VerdictError.
    """
    total, size = (run.whole(key, 1) for key in _SIZES)
    count = run.whole(run.detail.accuracy_count_key, 1)
    accuracy = run.is_accuracy
    deviations = []
    for shuffle_size in _shuffle_sizes(total, count if accuracy else size):
        issue = SampleOrderSettings(
            run.scenario.loadgen_scenario,
            accuracy,
            run.whole("effective_qsl_rng_seed"),
            run.whole("effective_sample_index_rng_seed"),
            shuffle_size,
            size,
            run.whole("effective_min_query_count"),
            run.flag("effective_sample_concatenate_permutation"),
            run.flag("effective_performance_issue_unique"),
        )
        if not (words := deviation(entries, issue)):
            return verdict(True, f"{len(entries):,} entries, as drawn")
        deviations.append(words)
    return verdict(False, deviations[0])


def deviation(entries: Sequence[tuple[int, int]], issue: SampleOrderSettings) -> str:
    """The first entry with a wrong sample for its position, in words; "" if there is none.

    If several sets of samples are loaded one after another, the order cannot be determined.
    """
    count = max(place for place, _ in entries) + 1
    if max(count, issue.total, issue.least) > _MAX_SAMPLES:
        return f"{max(count, issue.total, issue.least):,} samples"
    if issue.accuracy:
        # The whole order, so that it is computed once for all logs with these settings.
        count = max(issue.total, 1)
    words = ""
    for old in (False, True):
        order = first_samples(issue, count, old=old)
        if order is None:
            return ""
        wrong = next(((p, i) for p, i in entries if p >= len(order) or order[p] != i), None)
        if wrong is None:
            return ""
        place, index = wrong
        draw = f"not {order[place]}" if place < len(order) else f"of {len(order):,}"
        words = words or f"sample {index} in place {place:,}, {draw}"
    return words


def _shuffle_sizes(total: int, issued_count: int) -> list[int]:
    """How many samples may be shuffled: all of the QSL's, or since LoadGen 6.0 only the samples in
    use."""
    return sorted({total, min(total, issued_count)}, reverse=True)


def _first_difference(logged_sets: Sequence[object], drawn_sets: Sequence[Sequence[int]]) -> str:
    """The first difference between the logged and the drawn sets, which differ, in words."""
    if len(logged_sets) != len(drawn_sets):
        return f"{len(logged_sets)} sets of samples, not {len(drawn_sets)}"
    pairs = zip(logged_sets, drawn_sets, strict=True)
    logged_set, drawn_set = next((logged, drawn) for logged, drawn in pairs if logged != drawn)
    if not isinstance(logged_set, list) or len(logged_set) != len(drawn_set):
        count = f"{len(logged_set):,}" if isinstance(logged_set, list) else "no list of"
        return f"{count} samples, not {len(drawn_set):,}"
    places = enumerate(zip(logged_set, drawn_set, strict=True))
    place, (sample, draw) = next((n, pair) for n, pair in places if pair[0] != pair[1])
    return f"sample {sample} in place {place}, not {draw}"


def _in_words(queries: int, samples: int, duration_ns: int) -> str:
    return f"{query_words(queries)} of {samples:,} samples in {duration_ns / 1e9:,.9f} s"


@of_run
def _schedules(run: RunFacts) -> list[Schedule]:
    """The schedules that the log's settings allow: for its rate as printed, and as rounded.

    If these allow several numbers of queries (of whole data sets, if each sample is issued equally
    often), the result includes those at the lowest and at the highest rate that give the log's
    number. Raises VerdictError.
    """
    sets = run.detail.values_of("loaded_qsl_set")
    loaded = len(sets[-1]) if sets and isinstance(sets[-1], list) else 0
    request = ScheduleSettings(
        run.scenario.loadgen_scenario,
        run.whole("effective_schedule_rng_seed"),
        run.amount("effective_target_qps"),
        run.amount("effective_min_duration_ms"),
        run.whole("effective_min_query_count"),
        run.whole("effective_samples_per_query"),
        loaded,
        run.flag("effective_sample_concatenate_permutation"),
        run.is_accuracy,
        run.flag("effective_performance_issue_unique"),
    )
    queries = run.whole("generated_query_count")
    try:
        rates = _rates(run, request)
        schedules = [schedule(request.at(rate)) for rate in rates]
        counts = [s.queries for s in schedules]
        for least in (queries, queries + 1):
            if min(counts) < least <= max(counts):
                schedules += _around(request, min(rates), max(rates), least)
        return schedules
    except TooLongError as error:
        raise VerdictError(_of_too_many(run, request, str(error))) from None
    except ValueError as error:
        raise failure(f"{request.qps:,} queries/s of {loaded:,} samples", why=str(error)) from None


_SIGMAS = 6.0
"""How far the number of Poisson arrivals may be from its mean, in standard deviations."""


def _of_too_many(run: RunFacts, request: ScheduleSettings, why: str) -> Verdict:
    """Failed unless the generated queries take the minimum duration, and are as many as fit theirs
    at the rate, and at the scheduled one if it is logged; then not judged."""
    count, seconds = run.whole("generated_query_count"), run.whole("generated_query_duration") / 1e9
    scheduled = run.detail.number("result_scheduled_samples_per_sec")
    rates = [request.qps, *([] if scheduled is None else [scheduled])]
    slack = _SIGMAS * (count + 1) ** 0.5
    found = f"{query_words(count)} in {seconds:,.3f} s"
    if not request.accuracy and seconds * 1e3 < request.duration_ms:
        return verdict(False, found, f"at least {request.duration_ms / 1e3:,g} s")
    for rate in rates:
        if not abs(rate * seconds - count) <= slack:
            required = f"{rate * seconds:,.0f} within {slack:,.0f}, at {rate:,} queries/s"
            return verdict(False, found, required)
    return not_judged(found, why=why)


def _around(request: ScheduleSettings, below: float, above: float, least: int) -> list[Schedule]:
    """The schedules just below and just above the rate at which there are `least` queries.

    A higher rate never gives fewer. `uniform_below` and `above`, in queries/s, are on the two sides
    of it.
    """
    while above - below > _BISECTION_TOLERANCE * above:
        rate = (below + above) / 2
        if schedule(request.at(rate)).queries < least:
            below = rate
        else:
            above = rate
    return [schedule(request.at(below)), schedule(request.at(above))]


def _rates(run: RunFacts, request: ScheduleSettings) -> list[float]:
    """The rates that may have been requested, in queries/s, the likeliest first."""
    if request.scenario == "SingleStream":
        latency_ns = figure_of(run, "requested_single_stream_expected_latency_ns")
        return [1e9 / ns for ns in _settings(latency_ns)]
    return _settings(figure_of(run, "effective_target_qps"))


def _settings(figure: FigureRange) -> list[float]:
    """The possible values of a setting, the printed one first: one of fewer digits than the log
    prints may be rounded too, since it prints no zeros at the end."""
    return [float(f"{figure.middle:.{DIGITS}g}"), figure.low, figure.high]
