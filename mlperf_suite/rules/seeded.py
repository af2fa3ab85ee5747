"""Rules of what LoadGen's seeds determine, which is recomputed and compared."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mlperf_suite.loadgen.sample_order import Issue, first_samples
from mlperf_suite.loadgen.schedule import Asked, Schedule, TooLongError, loaded_sets, schedule
from mlperf_suite.rules.agreement import Log, agrees
from mlperf_suite.rules.cut_log_reading import parse_cut_log
from mlperf_suite.rules.printed import DIGITS, Range
from mlperf_suite.rules.registry import SERVER, rule
from mlperf_suite.rules.verdict import Verdict

_MOST_SAMPLES = 10_000_000
LOG_NS = 16
"""By how much a schedule's end may be off: logarithms differ in the last bit between machines."""
_NEAR = 1e-13
"""The relative precision of the search for a rate: less than 1 ns of a run of two hours."""
_SIZES = ("qsl_reported_total_count", "effective_performance_sample_count")
_SAMPLES = "the samples in the seed's order"
_ORDER = "the samples of the seed's draws"
_QUERIES = "the queries that the seed gives"


@rule("performance")
@agrees(_SAMPLES)
def loaded_samples(log: Log) -> Verdict:
    """The performance run's samples are loaded in the order that its seed gives."""
    return _loaded(log)


@rule("accuracy")
@agrees(_SAMPLES)
def accuracy_loaded_samples(log: Log) -> Verdict:
    """The accuracy run's samples are loaded in the order that its seed gives."""
    return _loaded(log)


@rule("performance")
@agrees(_QUERIES)
def generated_queries(log: Log) -> Verdict:
    """As many queries are made, to last as long, as the seed, the rate and the duration give."""
    return _generated(log)


@rule("accuracy")
@agrees(_QUERIES)
def accuracy_generated_queries(log: Log) -> Verdict:
    """The accuracy run's queries are as many and last as long as the seed and the rate give."""
    return _generated(log)


@rule("performance", SERVER)
@agrees("queries due at the seed's times")
def scheduled_rate(log: Log) -> Verdict:
    """The rate at which queries were due is the one that seed, rate and durations give."""
    made = _schedules(log)
    queries = log.whole("generated_query_count")
    # A different number of queries fails generated_queries.
    made = [one for one in made if one.queries == queries] or made
    first = made[0]
    reported = log.figure("result_scheduled_samples_per_sec")
    if first.queries < 2 or first.last_ns <= 0:
        return log.not_judged(f"{first.queries} queries", "a single query has no rate")
    rates = sorted((one.queries - 1) / one.last_ns * 1e9 for one in made)
    ok = reported.both(Range(rates[0], rates[-1])) is not None
    wanted = f"{first.queries - 1:,} / {first.last_ns / 1e9:,.6f} s = {rates[0]:,.6g} queries/s"
    return log.verdict(ok, f"{log.detail['result_scheduled_samples_per_sec']:,} queries/s", wanted)


@rule("accuracy")
@agrees(_ORDER)
def accuracy_issue_order(log: Log) -> Verdict:
    """Each logged answer is of the sample that the seed gives its place in the order of issue.

    Of a submission's cut log, of the entries at its two ends.
    """
    run = log.run
    if run.submitted is not None:
        entries = parse_cut_log(run.submitted.accuracy_log or "").places
    else:
        entries = run.logs.accuracy.places
    if not entries:
        return log.not_judged("no entry", "no entry of the accuracy log has its place")
    return issue_order(log, entries)


def issue_order(log: Log, entries: Sequence[tuple[int, int]]) -> Verdict:
    """Whether each entry has the sample that the log's seeds give its position.

    `entries`: position in the order of issue, and sample. Raises UnreadableError.
    """
    total, size = (log.whole(key, 1) for key in _SIZES)
    counted = log.whole(log.detail.accuracy_count_key, 1)
    accuracy = log.of_accuracy
    wrong = []
    for shuffled in _shuffled(total, counted if accuracy else size):
        issue = Issue(
            log.run.scenario.loadgen_scenario,
            accuracy,
            log.whole("effective_qsl_rng_seed"),
            log.whole("effective_sample_index_rng_seed"),
            shuffled,
            size,
            log.whole("effective_min_query_count"),
            log.flag("effective_sample_concatenate_permutation"),
            log.flag("effective_performance_issue_unique"),
        )
        if not (departs := departure(entries, issue)):
            return log.verdict(True, f"{len(entries):,} entries, as drawn")
        wrong.append(departs)
    return log.verdict(False, wrong[0])


def departure(entries: Sequence[tuple[int, int]], issue: Issue) -> str:
    """The first entry with a wrong sample for its position, in words; "" if there is none.

    If several sets of samples are loaded one after another, the order cannot be determined.
    """
    count = max(place for place, _ in entries) + 1
    if max(count, issue.total, issue.least) > _MOST_SAMPLES:
        return f"{max(count, issue.total, issue.least):,} samples"
    if issue.accuracy:
        # The whole order, so that it is computed once for all logs with these settings.
        count = max(issue.total, 1)
    said = ""
    for old in (False, True):
        order = first_samples(issue, count, old=old)
        if order is None:
            return ""
        wrong = next(
            ((p, i) for p, i in entries if p >= len(order) or order[p] != i),
            None,
        )
        if wrong is None:
            return ""
        place, index = wrong
        drawn = f"not {order[place]}" if place < len(order) else f"of {len(order):,}"
        said = said or f"sample {index} in place {place:,}, {drawn}"
    return said


def _loaded(log: Log) -> Verdict:
    """loaded_qsl_set has the samples in std::shuffle's order."""
    seed = log.whole("effective_qsl_rng_seed")
    total, size = (log.whole(key, 1) for key in _SIZES)
    counted = log.whole(log.detail.accuracy_count_key, 1)
    if max(total, size, counted) > _MOST_SAMPLES:
        raise log.wrong(f"{max(total, size, counted):,} samples")
    found = log.detail.every("loaded_qsl_set")
    accuracy = log.of_accuracy
    shuffled = _shuffled(total, counted if accuracy else size)
    for old, count in itertools.product((False, True), shuffled):
        if found == loaded_sets(seed, count, size, accuracy=accuracy, old=old):
            return log.verdict(True, f"{sum(map(len, found)):,} samples, as drawn")
    wanted = loaded_sets(seed, shuffled[0], size, accuracy=accuracy)
    return log.verdict(False, _first_difference(found, wanted))


def _shuffled(total: int, taken: int) -> list[int]:
    """How many samples may be shuffled: all of the QSL's, or since LoadGen 6.0 only those used."""
    return sorted({total, min(total, taken)}, reverse=True)


def _first_difference(found: Sequence[object], wanted: Sequence[Sequence[int]]) -> str:
    """The first difference between the found and the expected sets, in words."""
    if len(found) != len(wanted):
        return f"{len(found)} sets of samples, not {len(wanted)}"
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(one, list) or len(one) != len(other):
            count = f"{len(one):,}" if isinstance(one, list) else "no list of"
            return f"{count} samples, not {len(other):,}"
        for place, (there, drawn) in enumerate(zip(one, other, strict=True)):
            if there != drawn:
                return f"sample {there} in place {place}, not {drawn}"
    return "other samples"


def _generated(log: Log) -> Verdict:
    """generated_query_count, _samples_per_query and _query_duration match LoadGen's algorithm."""
    made = _schedules(log)
    queries = log.whole("generated_query_count")
    samples = log.whole("generated_samples_per_query")
    duration = log.whole("generated_query_duration")
    # Between rates that give equally many queries, the duration takes each value between theirs.
    alike = [one for one in made if (one.queries, one.samples) == (queries, samples)]
    ends = [one.duration_ns for one in alike]
    ok = bool(ends) and min(ends) - LOG_NS <= duration <= max(ends) + LOG_NS
    first = (alike or made)[0]
    return log.verdict(
        ok,
        _in_words(queries, samples, duration),
        _in_words(first.queries, first.samples, first.duration_ns),
    )


def _in_words(queries: int, samples: int, duration_ns: int) -> str:
    return f"{queries:,} queries of {samples:,} samples in {duration_ns / 1e9:,.9f} s"


def _schedules(log: Log) -> list[Schedule]:
    """The schedules that the log's settings allow: for its rate as printed, and as rounded.

    A rate with fewer digits than the log prints is what user.conf says; one with as many may be
    rounded. If that allows several numbers of queries (of whole data sets, if each sample is issued
    equally often), the result includes those at the lowest and at the highest rate that give the
    log's number. Raises UnreadableError.
    """
    sets = log.detail.every("loaded_qsl_set")
    loaded = len(sets[-1]) if sets and isinstance(sets[-1], list) else 0
    asked = Asked(
        log.run.scenario.loadgen_scenario,
        log.whole("effective_schedule_rng_seed"),
        log.number("effective_target_qps"),
        log.number("effective_min_duration_ms"),
        log.whole("effective_min_query_count"),
        log.whole("effective_samples_per_query"),
        loaded,
        log.flag("effective_sample_concatenate_permutation"),
        log.of_accuracy,
        log.flag("effective_performance_issue_unique"),
    )
    queries = log.whole("generated_query_count")
    try:
        rates = _rates(log, asked)
        made = [schedule(asked.at(rate)) for rate in rates]
        fewest, most = min(one.queries for one in made), max(one.queries for one in made)
        for least in (queries, queries + 1):
            if fewest < least <= most:
                made += _around(asked, min(rates), max(rates), least)
        return made
    except TooLongError as error:
        raise log.cannot(f"{asked.qps:,} queries/s", str(error)) from None
    except ValueError as error:
        raise log.wrong(f"{asked.qps:,} queries/s of {loaded:,} samples", str(error)) from None


def _around(asked: Asked, below: float, above: float, least: int) -> list[Schedule]:
    """The schedules just below and just above the rate at which there are `least` queries.

    A higher rate never gives fewer. `below` and `above`, in queries/s, are on the two sides of it.
    """
    while above - below > _NEAR * above:
        rate = (below + above) / 2
        if schedule(asked.at(rate)).queries < least:
            below = rate
        else:
            above = rate
    return [schedule(asked.at(below)), schedule(asked.at(above))]


def _rates(log: Log, asked: Asked) -> list[float]:
    """The rates that may have been requested, in queries/s, the likeliest first."""
    if asked.scenario == "SingleStream":
        latency_ns = log.figure("requested_single_stream_expected_latency_ns")
        return [1e9 / ns for ns in _as_asked(latency_ns)]
    return _as_asked(log.figure("effective_target_qps"))


def _as_asked(figure: Range) -> list[float]:
    """The possible values of a setting: one with fewer digits than the log prints is not
    rounded."""
    value = f"{figure.middle:.{DIGITS}g}"
    digits = value.partition("e")[0].replace(".", "").lstrip("0")
    exact = float(value)
    return [exact] if len(digits) < DIGITS else [exact, figure.low, figure.high]
