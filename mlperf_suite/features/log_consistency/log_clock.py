"""Rules of a log's clocks: timestamps, dates and durations must describe one and the same run.

LoadGen stamps each entry with the ms since its log began, records by the system clock when it
issued the first query and got the last answer (power_begin, power_end), and counts latencies in ns.
Tolerances: docs/evidence/log-consistency.md.
"""

from __future__ import annotations

import itertools
import math
import re
from datetime import datetime, timedelta
from functools import lru_cache, partial

from mlperf_suite.features.log_consistency.agreement import agreement_rule
from mlperf_suite.loadgen.logs import POWER_FORMAT
from mlperf_suite.rules.facts import RunFacts, of_run
from mlperf_suite.rules.registry import SERVER
from mlperf_suite.rules.validity import OUTSIDE
from mlperf_suite.rules.verdict import Verdict, failure, verdict

DATE_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
ROUNDING_S = 0.002
"""power_begin and power_end are each truncated to ms; their difference is off by less than this."""
MAX_LOG_DELAY_S = 5.0
"""Maximum time between a step of LoadGen and its log entry; at most 0.19 s in 862 public logs."""
ZONE_S = 900
"""Time zones differ by multiples of 15 minutes: test_datetime is local time, power_begin UTC."""
_MAX_ZONE_S = 14 * 3600
_DATES = ("loadgen_git_commit_date", "loadgen_build_date_utc", "test_datetime")
_MAX_ARRIVAL_GAPS = 20
"""A query comes later than so many mean gaps after the one before in 2 of 10**9 cases."""
_clock_rule = partial(
    agreement_rule,
    "performance",
    "accuracy",
    source="LoadGen's sources; tolerances in docs/evidence/log-consistency.md",
)


@_clock_rule(required="never decreasing, one process")
def time_stamps(run: RunFacts) -> Verdict:
    """The timestamps of each thread never go back, and one process wrote the log."""
    entries = run.detail.entries
    last: dict[str, float] = {}
    for entry in entries:
        # LoadGen collects entries thread by thread, so they are in order only within a thread.
        thread = str(entry.thread)
        before = last.get(thread, 0.0)
        if entry.ms is None:
            raise failure(f"line {entry.line} has no timestamp")
        if not entry.ms >= before:
            raise failure(f"line {entry.line}: {entry.ms:,.6f} ms after {before:,.6f} ms")
        last[thread] = entry.ms
    processes = sorted({str(entry.process) for entry in entries})
    if len(processes) > 1:
        raise failure(f"processes {' and '.join(processes)}")
    return verdict(True, f"{len(entries):,} entries from 0 to {max(last.values()):,.3f} ms")


@of_run
def duration_s(run: RunFacts) -> float:
    """The time from the first query to the last answer by power_begin and power_end, in s.

    Raises VerdictError if they are not dates, or the end comes first.
    """
    seconds = (_moment(run, "power_end") - _moment(run, "power_begin")).total_seconds()
    if seconds < 0:
        raise failure(f"power_end {-seconds:,.3f} s before power_begin")
    return seconds


def _moment(run: RunFacts, key: str, form: str = POWER_FORMAT) -> datetime:
    try:
        return _parsed(str(run.detail[key]), form)
    except ValueError:
        raise failure(f"{key} {run.detail[key]}", why="no date as LoadGen writes it") from None


_POWER_DATE = re.compile(r"(\d\d-\d\d)-(\d{4}) (\d\d:\d\d:\d\d\.\d{3})", re.ASCII)


@lru_cache(maxsize=8)
def _parsed(text: str, form: str) -> datetime:
    """Raises ValueError."""
    # In LoadGen's own form, the date is read in a tenth of the time as an ISO date.
    if form == POWER_FORMAT and (written := _POWER_DATE.fullmatch(text)):
        date, year, time = written.groups()
        return datetime.fromisoformat(f"{year}-{date} {time}")
    return datetime.strptime(text, form)


@_clock_rule(required="the duration between power_begin and power_end")
def time_span(run: RunFacts) -> Verdict:
    """The timestamps span the run's duration by its clock, which meets the requested duration.

    From query generation to the end of the run they span power_begin to power_end. A run that
    claims to have met its minimum duration must have lasted that long, and one at a rate until its
    last query was due.
    """
    seconds = duration_s(run)
    begin, end = run.stamp("generated_query_count") / 1e3, run.stamp("power_end") / 1e3
    least = run.amount("effective_min_duration_ms") / 1e3
    if run.detail["result_min_duration_met"] is not True:
        least = 0.0
    if run.scenario.name in SERVER:
        # It ends with the time between the last query and the next.
        due = run.amount("generated_query_duration") / 1e9
        least = max(
            least, due - _MAX_ARRIVAL_GAPS / (run.amount("effective_target_qps") or math.inf)
        )
    span = end - begin
    ok = -ROUNDING_S <= span - seconds <= MAX_LOG_DELAY_S and seconds >= least - ROUNDING_S
    figures = (
        f"{end:,.3f} s - {begin:,.3f} s = {span:,.3f} s of timestamps, {seconds:,.3f} s by "
        "power_begin and power_end"
    )
    minimum = f", of at least {least:,.0f} s" if least else ""
    required = f"{seconds:,.3f} to {seconds + MAX_LOG_DELAY_S:,.3f} s of timestamps{minimum}"
    return verdict(ok, figures, required)


@_clock_rule(required="commit, build, run; power_begin by test_datetime and the timestamps")
def clock_dates(run: RunFacts) -> Verdict:
    """The run's date and timestamps agree on its start, which is after LoadGen was built.

    power_begin equals test_datetime plus the elapsed timestamps, except for the time zone.
    LoadGen's commit, its build and the run come in this order, as far as they are logged, and no
    run is of a day to come.
    """
    detail = run.detail
    begin, date = _moment(run, "power_begin"), _moment(run, "test_datetime", DATE_FORMAT)
    elapsed = run.stamp("generated_query_count") / 1e3
    if begin > datetime.now() + timedelta(seconds=_MAX_ZONE_S):
        raise failure(f"power_begin {detail['power_begin']}", why="the day has not come yet")
    # test_datetime is truncated to whole seconds.
    late = ((begin - date).total_seconds() - elapsed + 1) % ZONE_S - 1
    figures = (
        f"power_begin {late:.3f} s after {detail['test_datetime']} + {elapsed:,.3f} s, "
        "time zones aside"
    )
    apart = abs((begin - date).total_seconds() - elapsed)
    if apart > _MAX_ZONE_S + MAX_LOG_DELAY_S + 1 or not -ROUNDING_S <= late <= MAX_LOG_DELAY_S + 1:
        return verdict(False, figures, f"0 to {MAX_LOG_DELAY_S + 1:.0f} s")
    dates = [(key, day) for key in _DATES if (day := _date(run, key)) is not None]
    for (earlier, first), (later, second) in itertools.pairwise(dates):
        if (first - second).total_seconds() > _MAX_ZONE_S:
            raise failure(f"{earlier} {detail[earlier]}, {later} {detail[later]}")
    return verdict(True, figures)


def _date(run: RunFacts, key: str) -> datetime | None:
    """An ISO date, without its time zone; None if LoadGen says that it has none."""
    text = run.detail[key]
    if text == OUTSIDE:
        return None
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=None)
    except ValueError:
        raise failure(f"{key} {text}", why="no date") from None
