"""A power measurement: the files of PTDaemon and its client beside a performance run, its figures.

Sources: the Power submission rules of MLPerf Inference, and `checks/power/power_checker.py` of the
official submission checker.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.features.submission_check.tree_files import MALFORMED
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY, DetailLog
from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.verdict import failure

POWER, RANGING, TESTING = "power", "ranging", "run_1"
"""The folders below performance/."""
SPL = "spl.txt"
CLIENT_JSON, SERVER_JSON, PTD_LOG = "client.json", "server.json", "ptd_logs.txt"
POWER_FILES = frozenset({CLIENT_JSON, "client.log", PTD_LOG, SERVER_JSON, "server.log"})
RUN_FILES = frozenset({DETAIL, SUMMARY, SPL})
"""The required files of ranging/ and run_1/."""
MAY_BE_THERE = frozenset({ACCURACY, "mlperf_log_trace.json", "results.json", ".gitkeep"})
FREE_IN_POWER = MAY_BE_THERE - {ACCURACY}
HASHED = tuple(
    sorted(
        {f"{POWER}/{name}" for name in POWER_FILES - {CLIENT_JSON, SERVER_JSON}}
        | {f"{mode}/{name}" for mode in (RANGING, TESTING) for name in RUN_FILES}
    )
)
"""The files whose SHA-1 client and server recorded."""
_LOADGEN_TIME = re.compile(r"\d{0,9}-\d{0,9}-\d{0,9} \d{0,9}:\d{0,9}:\d{0,9}\.\d{0,9}")
_TIME_FORMAT = "%m-%d-%Y %H:%M:%S.%f"
_IN_MS = re.compile(r"\d\d-\d\d-\d{4} \d\d:\d\d:\d\d\.\d{3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PowerFacts(Facts):
    """A performance run's power measurement.

    `folders`: the file names by folder (power, ranging, run_1). `texts`: the text of each file
    below performance/, by its path from there; absent if it cannot be read as UTF-8. `sha1`: those
    of the existing HASHED files. `detail`: run_1's. `client`, `server`: the content of their JSON
    files, None if they are not JSON.
    """

    malformed: ClassVar[tuple[type[Exception], ...]] = MALFORMED

    scenario: Scenario
    detail: DetailLog
    folders: Mapping[str, frozenset[str]]
    texts: Mapping[str, str]
    sha1: Mapping[str, str]
    client: Any = None
    server: Any = None

    @property
    def subject(self) -> Subject:
        return "power"

    def lines(self, path: str) -> io.StringIO:
        """A text's lines, with any line ends. Raises VerdictError if the text is missing."""
        text = self.texts.get(path)
        if text is None:
            raise failure(f"{path} cannot be read")
        return io.StringIO(text, newline=None)


def load_span(facts: PowerFacts, folder: str) -> tuple[datetime, datetime]:
    """The start and end of LoadGen's load (power_begin, power_end), in UTC. Raises ValueError if
    its log has none."""
    span: dict[str, datetime] = {}
    for line in facts.lines(f"{folder}/{DETAIL}"):
        lower = line.lower()
        for name in ("power_begin", "power_end"):
            if name in lower:
                span[name] = time_in(_LOADGEN_TIME.search(line), line)
                break
        if len(span) == 2:
            return span["power_begin"], span["power_end"]
    raise ValueError(f"no {'power_end' if span else 'power_begin'} in {folder}/{DETAIL}")


def time_in(match: re.Match[str] | None, line: str) -> datetime:
    """The time, in UTC, that was matched in a line. Raises ValueError if there is none."""
    if match is None:
        raise ValueError(f"no time in {line.strip()}")
    return _utc(match[0])


def _utc(text: str) -> datetime:
    """A time in UTC. Raises ValueError. Analyzers' files have hundreds of thousands, of one form
    that `strptime` takes ten times as long to read."""
    if _IN_MS.fullmatch(text):
        return datetime.fromisoformat(f"{text[6:10]}-{text[:5]} {text[11:]}+00:00")
    return datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC)


_Sample = tuple[datetime, list[str]]


def _samples_within(
    facts: PowerFacts, folder: str, span: tuple[datetime, datetime]
) -> Iterator[_Sample]:
    """The times and cells of the analyzer's samples within a span."""
    for line in facts.lines(f"{folder}/{SPL}"):
        if line.startswith("Time"):
            cells = line.split(",")
            at = _utc(cells[1])
            if span[0] < at < span[1]:
                yield at, cells


def watts_within(
    facts: PowerFacts, folder: str, span: tuple[datetime, datetime], *, factors: bool = False
) -> list[float]:
    """The analyzer's watts above 0 within a span. `factors`: require a power factor in each
    line."""
    watts = []
    for _, cells in _samples_within(facts, folder, span):
        value = float(cells[3])
        if factors:
            float(cells[9])
        if value > 0:
            watts.append(value)
    return watts


MAX_GAP_S = 30.0
"""Between samples, which the analyzer takes each second: at most 1.03 s in 22 public results."""
_PHASES = (0.8, 3.6)
"""Watts over volts x amps x power factor, of one phase to the sum of three: 0.999 to 1.001 and
2.86 to 3.001 there, where the phases' means are not alike."""


def sampling_fault(facts: PowerFacts) -> str:
    """Where the samples of the run have a gap, or watts that are not those of their volts and
    amps; "" if nowhere."""
    begin, end = _run_span(facts)
    last = begin
    for at, cells in _samples_within(facts, TESTING, (begin, end)):
        if (at - last).total_seconds() > MAX_GAP_S:
            break
        last = at
        watts, volts, amps, factor = (float(cells[place]) for place in (3, 5, 7, 9))
        low, high = (phases * volts * amps * factor for phases in _PHASES)
        if watts > 0 and not low <= watts <= high:
            return f"{watts:,g} W at {at:%H:%M:%S} of {volts:,g} V, {amps:,g} A, factor {factor:g}"
    gap = (end - last).total_seconds()
    return f"no sample for more than {MAX_GAP_S:g} s after {last:%H:%M:%S}" * (gap > MAX_GAP_S)


def _run_span(facts: PowerFacts) -> tuple[datetime, datetime]:
    return _utc(facts.detail["power_begin"]), _utc(facts.detail["power_end"])


@dataclass(frozen=True, slots=True)
class PowerFigures:
    """The official figures of a power measurement. `metric`: the mean in W, in SingleStream mJ per
    query; `efficiency`: the performance figure per W, in SingleStream queries per J."""

    watts: float
    metric: float
    unit: str
    efficiency: float
    efficiency_unit: str


def power_figures(facts: PowerFacts) -> PowerFigures:
    """The figures as the checker computes them. Raises an error of PowerFacts.malformed, or
    VerdictError, if there are none."""
    begin, end = _run_span(facts)
    watts = watts_within(facts, TESTING, (begin, end))
    if not watts:
        raise failure(f"no sample from {begin:%H:%M:%S} to {end:%H:%M:%S}")
    mean = sum(watts) / len(watts)
    if facts.scenario.loadgen_scenario == "SingleStream":
        queries = int(facts.detail["result_query_count"])
        metric = mean * (end - begin).total_seconds() * 1000 / queries
        return PowerFigures(mean, metric, "mJ a query", 1000 / metric, "queries a J")
    performance = facts.detail[facts.scenario.metric]
    unit = f"{facts.scenario.metric_unit} a W"
    return PowerFigures(mean, mean, "W", performance / mean, unit)
