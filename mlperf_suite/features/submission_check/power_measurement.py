"""A power measurement: the files of PTDaemon and its client beside a performance run, its figures.

Sources: the Power submission rules of MLPerf Inference, and `checks/power/power_checker.py` of the
official submission checker.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.judging.reading import MALFORMED
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
    return datetime.strptime(match[0], _TIME_FORMAT).replace(tzinfo=UTC)


def watts_within(
    facts: PowerFacts, folder: str, span: tuple[datetime, datetime], *, factors: bool = False
) -> list[float]:
    """The analyzer's watts above 0 within a span. `factors`: require a power factor in each
    line."""
    watts = []
    for line in facts.lines(f"{folder}/{SPL}"):
        if not line.startswith("Time"):
            continue
        cells = line.split(",")
        at = datetime.strptime(cells[1], _TIME_FORMAT).replace(tzinfo=UTC)
        if span[0] < at < span[1]:
            value = float(cells[3])
            if factors:
                float(cells[9])
            if value > 0:
                watts.append(value)
    return watts


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
    begin, end = (
        datetime.strptime(facts.detail[key], _TIME_FORMAT).replace(tzinfo=UTC)
        for key in ("power_begin", "power_end")
    )
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
