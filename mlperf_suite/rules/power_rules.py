"""The rules of a power measurement: the files of PTDaemon and its client beside a performance run.

Sources: the Power submission rules of MLPerf Inference; `checks/power_check.py` and
`checks/power/power_checker.py` of the official submission checker, the latter of which is
`compliance/check.py` of github.com/mlcommons/power-dev. Each rule passes and fails like the
corresponding check there, even where that contradicts the check's messages (docs/energy.md lists
the cases). To add a rule, write one function here under its decorator.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY, DetailLog
from mlperf_suite.rules.registry import register_elsewhere
from mlperf_suite.rules.verdict import Verdict, verdict

POWER, RANGING, TESTING = "power", "ranging", "run_1"
"""The folders below performance/."""
SPL = "spl.txt"
CLIENT_JSON, SERVER_JSON, PTD_LOG = "client.json", "server.json", "ptd_logs.txt"
POWER_FILES = frozenset({CLIENT_JSON, "client.log", PTD_LOG, SERVER_JSON, "server.log"})
RUN_FILES = frozenset({DETAIL, SUMMARY, SPL})
"""The required files of ranging/ and run_1/."""
MAY_BE_THERE = frozenset({ACCURACY, "mlperf_log_trace.json", "results.json", ".gitkeep"})
_FREE_IN_POWER = MAY_BE_THERE - {ACCURACY}
HASHED = tuple(
    sorted(
        {f"{POWER}/{name}" for name in POWER_FILES - {CLIENT_JSON, SERVER_JSON}}
        | {f"{mode}/{name}" for mode in (RANGING, TESTING) for name in RUN_FILES}
    )
)
"""The files whose SHA-1 client and server recorded."""
_FIELDS = (
    *("version", "timezone", "modules", "sources", "messages", "uuid", "session_name"),
    *("results", "phases"),
)
_SOURCES_SHA256 = frozenset({"a6b42148e7374e6b36be9b2ac930bdd5ba3ffede3ac23b67d3fc3d80c8e17c17"})
"""For each released client and server: the SHA-256 of the JSON of the SHA-1 of its files."""
PTD_VERSIONS = ("1.11.1",)
ANALYZERS = {
    "YokogawaWT210": 8,
    "YokogawaWT500": 35,
    "YokogawaWT500_multichannel": 48,
    "YokogawaWT310": 49,
    "YokogawaWT310E": 49,
    "YokogawaWT330": 52,
    "YokogawaWT330E": 52,
    "YokogawaWT330_multichannel": 77,
    "YokogawaWT210_DC": 508,
    "YokogawaWT310_DC": 549,
    "YokogawaWT330_DC": 586,
}
"""PTDaemon's type number of each analyzer, by name."""
_TWO_CHANNELS = ANALYZERS["YokogawaWT330_multichannel"]
MOST_APART_S = 0.8
"""Maximum difference between a phase's time on the client and on the server."""
LEAST_DELTA = -5.0
"""Testing may draw less power than ranging, but by less than 5 percent."""
_AT_EDGES_S = 800.0
"""A warning counts if it is this far from both ends of the load. The checker treats its tolerance
of 800 ms as seconds here."""
_ALLOWED_IN_TESTING = ("USB.",)
_USUAL_IN_RANGING = (
    "Can't evaluate uncertainty of this sample!",
    "Bad watts reading nan from ",
    "Bad amps reading nan from ",
    "Bad pf reading nan from ",
    "Bad volts reading nan from ",
    "Current appears to be too high for set range",
)
_TOO_UNCERTAIN = re.compile(
    r"Uncertainty \d+.\d+%, which is above 1.00% limit for the last sample!"
)
_UNCERTAINTY_ON = re.compile(r"Uncertainty checking for Yokogawa\S+ is activated")
_LOADGEN_TIME = re.compile(r"\d*-\d*-\d* \d*:\d*:\d*\.\d*")
_PTD_TIME = re.compile(r"\d\d-\d\d-\d\d\d\d \d\d:\d\d:\d\d.\d\d\d")
_TIME_FORMAT = "%m-%d-%Y %H:%M:%S.%f"
_SUMMER_S = 3600
"""The checker also accepts a log that is an hour ahead of the session, for daylight saving time."""
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class _BrokenError(Exception):
    """A rule does not hold; the message says what was found."""


@dataclass(frozen=True, slots=True)
class PowerFacts:
    """A performance run's power measurement.

    `listed`: the file names by folder (power, ranging, run_1). `texts`: the text of each file below
    performance/, by its path from there; absent if it cannot be read as UTF-8. `sha1`: those of the
    existing HASHED files. `detail`: run_1's. `client`, `server`: the content of their JSON files,
    None if they are not JSON.
    """

    scenario: Scenario
    detail: DetailLog
    listed: Mapping[str, frozenset[str]]
    texts: Mapping[str, str]
    sha1: Mapping[str, str]
    client: Any = None
    server: Any = None

    def lines(self, path: str) -> io.StringIO:
        """A text's lines, with any line ends. Raises _BrokenError if the text is missing."""
        text = self.texts.get(path)
        if text is None:
            raise _BrokenError(f"{path} cannot be read")
        return io.StringIO(text, newline=None)


Check = Callable[[PowerFacts], tuple[str, str]]
POWER_RULES: dict[str, Callable[[PowerFacts], Verdict]] = {}


def power_rule(required: str) -> Callable[[Check], Check]:
    """Register a function as the rule of its name.

    It returns what was found and a remark, which may be empty; if the rule does not hold it raises
    _BrokenError, or whatever error damaged content causes.
    """

    def register(check: Check) -> Check:
        def judge(facts: PowerFacts) -> Verdict:
            try:
                found, why = check(facts)
            except _BrokenError as broken:
                return verdict(False, broken, required)
            except _MALFORMED as error:
                return verdict(False, f"damaged: {type(error).__name__}: {error}", required)
            return verdict(True, found, required, why)

        POWER_RULES[check.__name__] = judge
        register_elsewhere(check.__name__, check)
        return check

    return register


def judge_power(facts: PowerFacts) -> list[Verdict]:
    """Apply every rule of a power measurement."""
    return [replace(judge(facts), rule=name) for name, judge in POWER_RULES.items()]


@power_rule("each file of the measurement, and no other")
def power_files(facts: PowerFacts) -> tuple[str, str]:
    """power/, ranging/ and run_1/ hold the required files and no others."""
    wanted = {
        TESTING: (RUN_FILES, MAY_BE_THERE),
        RANGING: (RUN_FILES, MAY_BE_THERE),
        POWER: (POWER_FILES, _FREE_IN_POWER),
    }
    wrong = []
    for folder, (must, may) in wanted.items():
        there = facts.listed.get(folder)
        if there is None:
            wrong.append(f"no {folder}/")
            continue
        wrong += [f"{folder}/{name} missing" for name in sorted(must - there - may)]
        wrong += [f"{folder}/{name} is too much" for name in sorted(there - must - may)]
    if wrong:
        raise _BrokenError("; ".join(wrong))
    return "all, and no other", ""


@power_rule("client.json and server.json with every field")
def power_descriptors(facts: PowerFacts) -> tuple[str, str]:
    """The records of client and server can be read, with each field."""
    for name, content in ((CLIENT_JSON, facts.client), (SERVER_JSON, facts.server)):
        if content is None:
            raise _BrokenError(f"{name} is not there, or is no JSON")
        if missing := set(_FIELDS) - content.keys():
            raise _BrokenError(f"{name} lacks {', '.join(sorted(missing))}")
    return "both", ""


@power_rule("a released client and server of PTDaemon, unchanged")
def power_sources(facts: PowerFacts) -> tuple[str, str]:
    """Client and server are a released version, by the hashes of their files."""
    for name, content in ((CLIENT_JSON, facts.client), (SERVER_JSON, facts.server)):
        text = json.dumps(content["sources"], sort_keys=True, separators=(",", ":"))
        if hashlib.sha256(text.encode()).hexdigest() not in _SOURCES_SHA256:
            raise _BrokenError(f"sources of {name} that no release has")
    return "both released", ""


@power_rule(f"PTDaemon {' or '.join(PTD_VERSIONS)}, a known analyzer, its ranges set and set back")
def power_commands(facts: PowerFacts) -> tuple[str, str]:
    """PTDaemon gave the expected reply to each command, and its ranges were set back."""
    messages = facts.server["ptd_messages"]
    identity = next((m["reply"] for m in messages if m["cmd"] == "Identify"), "")
    model = identity.split(",")[0]
    named = re.search(r"version=(.+?)-", identity)
    version = named[1] if named else ""
    if version not in PTD_VERSIONS or model not in ANALYZERS:
        raise _BrokenError(
            f"PTDaemon {version or 'of no version'}, analyzer {model or 'not named'}"
        )
    _check_replies(messages, "SR,A", "Range A changed")
    _check_replies(messages, "SR,V", "Range V changed")
    started = "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples"
    _check_replies(messages, "Go,1000,", started)
    _check_replies(messages, "Stop", "Stopping untimed measurement")
    # The third message queries the ranges before the first one is set.
    ranges = messages[2]["reply"].split(",")
    amps, volts = (_initial_range(ranges, place) for place in (1, 3))
    set_a = [m["cmd"] for m in messages if m["cmd"].startswith("SR,A")]
    set_v = [m["cmd"] for m in messages if m["cmd"].startswith("SR,V")]
    if len(set_a) < 4 or len(set_v) < 3:
        raise _BrokenError(f"ranges set {len(set_a)} times (A) and {len(set_v)} times (V)")
    if f"SR,A,{amps}" not in set_a[2:4] or set_v[2] != f"SR,V,{volts}":
        raise _BrokenError(f"ranges not set back to A {amps}, V {volts}")
    return f"PTDaemon {version}, {model}", ""


def _check_replies(messages: Any, command: str, reply: str) -> None:
    stops = 0
    for message in messages:
        if not message["cmd"].startswith(command):
            continue
        if message["cmd"] == "Stop":
            stops += 1
            # The end of the session sends one more stop, when nothing is running.
            reply = "Error: no measurement to stop" if stops == 3 else reply
        if message["reply"] != reply:
            raise _BrokenError(f"{message['cmd']} was answered {message['reply']}")


def _initial_range(ranges: list[str], place: int) -> str:
    """The range before the session: a number, or Auto."""
    fixed = ranges[place] == "0" and float(ranges[place + 1]) > 0
    return ranges[place + 1] if fixed else "Auto"


@power_rule("the same in client.json and server.json")
def power_uuids(facts: PowerFacts) -> tuple[str, str]:
    """Client and server name the same two UUIDs."""
    ours, theirs = facts.client["uuid"], facts.server["uuid"]
    for name in ("client", "server"):
        if uuid.UUID(ours[name]) != uuid.UUID(theirs[name]):
            raise _BrokenError(f"{ours[name]} and {theirs[name]} as the {name}'s")
    return "the same", ""


@power_rule("the same in client.json and server.json")
def power_session_name(facts: PowerFacts) -> tuple[str, str]:
    """Client and server name the same session."""
    ours, theirs = facts.client["session_name"], facts.server["session_name"]
    if ours != theirs:
        raise _BrokenError(f"{ours} and {theirs}")
    return str(ours), ""


@power_rule(
    "client and server at most 800 ms apart, both runs within their phases, testing at most 5% "
    "below ranging"
)
def power_phases(facts: PowerFacts) -> tuple[str, str]:
    """The clocks agree, LoadGen ran within the phases, and testing drew what ranging did.

    If testing took less than half of ranging's time, that is remarked, and the power not compared.
    """
    phases = facts.client["phases"]
    for mode in ("ranging", "testing"):
        ours, theirs = phases[mode], facts.server["phases"][mode]
        if len(ours) != len(theirs):
            raise _BrokenError(f"{len(ours)} and {len(theirs)} phases of {mode}")
        for one, other in zip(ours, theirs, strict=True):
            apart = abs(one[0] - other[0])
            if not apart <= MOST_APART_S:
                raise _BrokenError(f"clocks {apart * 1000:,.0f} ms apart in {mode}")
    spans = {"ranging": load_span(facts, RANGING), "testing": load_span(facts, TESTING)}
    for mode, span in spans.items():
        start, stop = phases[mode][1][0], phases[mode][2][0]
        for at in span:
            seconds = at.timestamp()
            if not (start < seconds < stop or start < seconds - _SUMMER_S < stop):
                raise _BrokenError(f"LoadGen at {at:%H:%M:%S}, outside of the phase {mode}")
    length = {mode: (end - begin).total_seconds() for mode, (begin, end) in spans.items()}
    if (shorter := (length["ranging"] - length["testing"]) / length["ranging"]) > 0.5:
        return "in order", f"testing {shorter:.0%} shorter than ranging; power not compared"
    watts = {}
    for mode, folder in (("ranging", RANGING), ("testing", TESTING)):
        # The checker also reads the power factor here: a line without one breaks the rule.
        found = _watts(facts, folder, spans[mode], factors=True)
        watts[mode] = round(sum(found) / len(found) if found else -1.0, 5)
    delta = round((watts["testing"] / watts["ranging"] - 1) * 100, 2)
    said = f"{watts['ranging']:,.1f} W ranging, {watts['testing']:,.1f} W testing ({delta:+g}%)"
    if not delta > LEAST_DELTA:
        raise _BrokenError(said)
    return said, ""


def load_span(facts: PowerFacts, folder: str) -> tuple[datetime, datetime]:
    """The start and end of LoadGen's load (power_begin, power_end), in UTC. Raises ValueError if
    its log has none."""
    found: dict[str, datetime] = {}
    for line in facts.lines(f"{folder}/{DETAIL}"):
        lower = line.lower()
        for name in ("power_begin", "power_end"):
            if name in lower:
                found[name] = _time(_LOADGEN_TIME.search(line), line)
                break
        if len(found) == 2:
            return found["power_begin"], found["power_end"]
    raise ValueError(f"no {'power_end' if found else 'power_begin'} in {folder}/{DETAIL}")


def _time(found: re.Match[str] | None, line: str) -> datetime:
    if found is None:
        raise ValueError(f"no time in {line.strip()}")
    return datetime.strptime(found[0], _TIME_FORMAT).replace(tzinfo=UTC)


def _watts(
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


@power_rule("the same commands and answers in client.json and server.json, of one version")
def power_messages(facts: PowerFacts) -> tuple[str, str]:
    """Client and server recorded the same conversation, and have the same version."""
    ours, theirs = facts.client["messages"], facts.server["messages"]
    if len(ours) != len(theirs):
        raise _BrokenError(f"{len(ours)} and {len(theirs)} messages")
    for one, other in zip(ours, theirs, strict=True):
        if one["cmd"] != other["cmd"]:
            raise _BrokenError(f"commands {one['cmd']} and {other['cmd']}")
        if one["cmd"] != "time" and one["reply"] != other["reply"]:
            raise _BrokenError(f"{one['cmd']} answered {one['reply']} and {other['reply']}")
    client = re.search(r"mlcommons/power client v(\d+)$", theirs[0]["cmd"])
    server = re.search(r"mlcommons/power server v(\d+)$", theirs[0]["reply"])
    if client is None or server is None or client[1] != server[1]:
        raise _BrokenError(f"{theirs[0]['cmd']} and {theirs[0]['reply']}")
    return f"{len(ours)} messages, version {client[1]}", ""


@power_rule("each file as client and server wrote it down")
def power_checksums(facts: PowerFacts) -> tuple[str, str]:
    """The files are the measured ones, by the SHA-1 that client and server recorded."""
    ours, theirs = facts.client["results"], facts.server["results"]
    if not {CLIENT_JSON, SERVER_JSON} <= facts.listed.get(POWER, frozenset()):
        raise _BrokenError("no client.json and server.json")
    for path in HASHED:
        said = [results[path] for results in (ours, theirs) if path in results]
        found = facts.sha1.get(path)
        if found is None:
            raise _BrokenError(f"no {path}")
        if not said or any(one != found for one in said):
            raise _BrokenError(f"{path} is not as it was written down")
    return f"{len(HASHED)} files", ""


@power_rule("PTDaemon's uncertainty check on, no error outside of ranging")
def power_ptd_log(facts: PowerFacts) -> tuple[str, str]:
    """PTDaemon's log has no error while the run was measured.

    The first warning within the load, or unusual error within ranging, is remarked; later lines are
    not examined.
    """
    path = f"{POWER}/{PTD_LOG}"
    load = load_span(facts, TESTING)
    int(facts.server["timezone"])
    lines = list(facts.lines(path))
    session = f"{facts.server['session_name']}_ranging"
    ranging = _ranging(lines, f": Go with mark {session!r}")
    first = next((line for line in lines if _UNCERTAINTY_ON.search(line)), None)
    if first is None:
        raise _BrokenError("no uncertainty check")
    if not _time(_PTD_TIME.match(first), first) < ranging[0]:
        raise _BrokenError("the uncertainty check was switched on after ranging began")
    for line in lines:
        for kind in ("WARNING:", "ERROR:"):
            _, mark, text = line.rstrip("\n").partition(kind)
            if mark and text:
                at = _time(_PTD_TIME.match(line), line)
                remark = _remark(kind, text.strip(), at, load, ranging)
                if remark == "error":
                    raise _BrokenError(line.strip())
                if remark:
                    return "no error", f"{line.strip()}, in {remark}"
    return "no error", ""


def _ranging(lines: list[str], mark: str) -> tuple[datetime, datetime]:
    """The start and end of ranging, by PTDaemon's log. Raises _BrokenError if it has none."""
    begun: datetime | None = None
    for line in lines:
        found = _PTD_TIME.match(line)
        if found is None:
            continue
        at, said = _time(found, line), line[found.end() :].strip()
        if begun is None:
            begun = at if said == mark else None
        elif said == ": Completed test":
            return begun, at
    raise _BrokenError("no ranging")


def _remark(
    kind: str,
    text: str,
    at: datetime,
    load: tuple[datetime, datetime],
    ranging: tuple[datetime, datetime],
) -> str:
    """How a warning or an error counts: "" to ignore it, "error", or where it is remarked."""
    if kind == "WARNING:":
        after, before = ((at - load[0]).total_seconds(), (load[1] - at).total_seconds())
        if not (after > _AT_EDGES_S and before > _AT_EDGES_S):
            return ""
        return "error" if _TOO_UNCERTAIN.search(text) else "the load"
    if text in _ALLOWED_IN_TESTING:
        return "testing, where it is allowed"
    if not ranging[0] < at < ranging[1]:
        return "error"
    return "" if text.startswith(_USUAL_IN_RANGING) else "ranging"


@power_rule("analyzers that are supported, a two-channel one with two channels")
def power_ptd_config(facts: PowerFacts) -> tuple[str, str]:
    """PTDaemon was configured for supported analyzers."""
    numbers = []
    for analyzer in facts.server["ptd_config"]:
        number = analyzer["device_type"]
        if number not in ANALYZERS.values():
            raise _BrokenError(f"device type {number}")
        if number == _TWO_CHANNELS:
            command = analyzer["command"]
            channels = command[command.index("-c") + 1] if "-c" in command else ""
            if len(channels.split(",")) != 2 or len(analyzer["channel"] or "") != 2:
                raise _BrokenError(f"device type {number} with one channel")
        numbers.append(str(number))
    return f"device type {', '.join(numbers) or 'none'}", ""


@power_rule("off")
def power_debug(facts: PowerFacts) -> tuple[str, str]:
    """The server did not run in debug mode."""
    if facts.server.get("debug", False) is not False:
        raise _BrokenError(f"debug {facts.server['debug']}")
    return "off", ""


@power_rule("samples from power_begin to power_end")
def power_samples(facts: PowerFacts) -> tuple[str, str]:
    """spl.txt has samples from power_begin to power_end; the efficiency is computed from them."""
    found = power_figures(facts)
    return f"{found.metric:,.5g} {found.unit}, {found.efficiency:,.4g} {found.efficiency_unit}", ""


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
    """The figures as the checker computes them. Raises an error of _MALFORMED, or _BrokenError, if
    there are none."""
    begin, end = (
        datetime.strptime(facts.detail[key], _TIME_FORMAT).replace(tzinfo=UTC)
        for key in ("power_begin", "power_end")
    )
    watts = _watts(facts, TESTING, (begin, end))
    if not watts:
        raise _BrokenError(f"no sample from {begin:%H:%M:%S} to {end:%H:%M:%S}")
    mean = sum(watts) / len(watts)
    if facts.scenario.loadgen_scenario == "SingleStream":
        queries = int(facts.detail["result_query_count"])
        metric = mean * (end - begin).total_seconds() * 1000 / queries
        return PowerFigures(mean, metric, "mJ a query", 1000 / metric, "queries a J")
    performance = facts.detail[facts.scenario.metric]
    unit = f"{facts.scenario.metric_unit} a W"
    return PowerFigures(mean, mean, "W", performance / mean, unit)
