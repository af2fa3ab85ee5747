"""Rules of a log's clocks: time stamps, dates and durations must describe one and the same run.

LoadGen stamps each entry with the ms since its log began (a monotonic clock), records by the system
clock when it issued the first query and got the last answer (power_begin, power_end), and counts
latencies in ns. Tolerances: docs/log-consistency.md.
"""

from __future__ import annotations

import itertools
from datetime import datetime

from mlperf_suite.rules.agreement import Log, agrees
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict

POWER_FORMAT = "%m-%d-%Y %H:%M:%S.%f"
DATE_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
ROUNDING_S = 0.002
"""power_begin and power_end are each truncated to ms; their difference is off by less than this."""
LATEST_S = 5.0
"""Maximum time between a step of LoadGen and its log entry; at most 0.19 s in 862 public logs."""
_ZONE_S = 900
"""Time zones differ by multiples of 15 minutes: test_datetime is local time, power_begin UTC."""
_MOST_ZONE_S = 14 * 3600
_DATES = ("loadgen_git_commit_date", "loadgen_build_date_utc", "test_datetime")
_NO_DATE = "NA"
"""Replaces a commit's date if LoadGen was built outside of its repository."""
_IN_ORDER = "never back, one process"
_SPAN = "the duration between power_begin and power_end"
_BEGIN = "commit, build, run; power_begin by test_datetime and the time stamps"


@rule("performance")
@agrees(_IN_ORDER)
def time_stamps(log: Log) -> Verdict:
    """The time stamps of the performance run's log never go back, and one process wrote it."""
    return _stamps(log)


@rule("accuracy")
@agrees(_IN_ORDER)
def accuracy_time_stamps(log: Log) -> Verdict:
    """The time stamps of the accuracy run's log never go back, and one process wrote it."""
    return _stamps(log)


@rule("performance")
@agrees(_SPAN)
def time_span(log: Log) -> Verdict:
    """The log's time stamps span the run's duration, which is as long as was asked for."""
    return _span(log)


@rule("accuracy")
@agrees(_SPAN)
def accuracy_time_span(log: Log) -> Verdict:
    """The time stamps of the accuracy run's log span its duration."""
    return _span(log)


@rule("performance")
@agrees(_BEGIN)
def clock_dates(log: Log) -> Verdict:
    """The performance run began when its date and its time stamps say, after LoadGen was built."""
    return _dates(log)


@rule("accuracy")
@agrees(_BEGIN)
def accuracy_clock_dates(log: Log) -> Verdict:
    """The accuracy run began when its date and its time stamps say, after LoadGen was built."""
    return _dates(log)


def _stamps(log: Log) -> Verdict:
    """Each thread's entries are in time stamp order; all are from one process."""
    entries = log.detail.entries
    last: dict[str, float] = {}
    for entry in entries:
        # LoadGen collects entries thread by thread, so they are in order only within a thread.
        thread = str(entry.thread)
        before = last.get(thread, 0.0)
        if entry.ms is None:
            raise log.wrong(f"line {entry.line} has no time stamp")
        if not entry.ms >= before:
            raise log.wrong(f"line {entry.line}: {entry.ms:,.6f} ms after {before:,.6f} ms")
        last[thread] = entry.ms
    processes = sorted({str(entry.process) for entry in entries})
    if len(processes) > 1:
        raise log.wrong(f"processes {' and '.join(processes)}")
    return log.verdict(True, f"{len(entries):,} entries from 0 to {max(last.values()):,.3f} ms")


def duration_s(log: Log) -> float:
    """The time from the first query to the last answer by power_begin and power_end, in s.

    Raises UnreadableError if they are not dates, or the end comes first.
    """
    took = (_moment(log, "power_end") - _moment(log, "power_begin")).total_seconds()
    if took < 0:
        raise log.wrong(f"power_end {-took:,.3f} s before power_begin")
    return took


def _moment(log: Log, key: str, form: str = POWER_FORMAT) -> datetime:
    try:
        return datetime.strptime(str(log.detail[key]), form)
    except ValueError:
        raise log.wrong(f"{key} {log.detail[key]}", "no date as LoadGen writes it") from None


def _span(log: Log) -> Verdict:
    """The time stamps from query generation to the end of the run span power_begin to power_end.

    A run that claims to have met its minimum duration must have lasted that long.
    """
    took = duration_s(log)
    made, ended = log.stamp("generated_query_count") / 1e3, log.stamp("power_end") / 1e3
    least = log.number("effective_min_duration_ms") / 1e3
    if log.detail["result_min_duration_met"] is not True:
        least = 0.0
    span = ended - made
    ok = -ROUNDING_S <= span - took <= LATEST_S and took >= least - ROUNDING_S
    found = (
        f"{ended:,.3f} s - {made:,.3f} s = {span:,.3f} s of time stamps, {took:,.3f} s by "
        "power_begin and power_end"
    )
    asked = f", of at least {least:,.0f} s" if least else ""
    return log.verdict(ok, found, f"{took:,.3f} to {took + LATEST_S:,.3f} s of time stamps{asked}")


def _dates(log: Log) -> Verdict:
    """power_begin equals test_datetime plus the elapsed time stamps, except for the time zone.

    LoadGen's commit, its build and the run come in this order, as far as they are known.
    """
    detail = log.detail
    began, dated = _moment(log, "power_begin"), _moment(log, "test_datetime", DATE_FORMAT)
    made = log.stamp("generated_query_count") / 1e3
    # test_datetime is truncated to whole seconds.
    late = ((began - dated).total_seconds() - made + 1) % _ZONE_S - 1
    found = (
        f"{detail['power_begin']} is {late:.3f} s, but for a time zone, after "
        f"{detail['test_datetime']} + {made:,.3f} s"
    )
    apart = abs((began - dated).total_seconds() - made)
    if apart > _MOST_ZONE_S + LATEST_S + 1 or not -ROUNDING_S <= late <= LATEST_S + 1:
        return log.verdict(False, found, f"0 to {LATEST_S + 1:.0f} s")
    known = [(key, date) for key in _DATES if (date := _date(log, key)) is not None]
    for (earlier, first), (later, second) in itertools.pairwise(known):
        if (first - second).total_seconds() > _MOST_ZONE_S:
            raise log.wrong(f"{earlier} {detail[earlier]}, {later} {detail[later]}")
    return log.verdict(True, found)


def _date(log: Log, key: str) -> datetime | None:
    """An ISO date, without its time zone; None if LoadGen says that it has none."""
    text = log.detail[key]
    if text == _NO_DATE:
        return None
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=None)
    except ValueError:
        raise log.wrong(f"{key} {text}", "no date") from None
