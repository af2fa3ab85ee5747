"""The rules of a power measurement.

Sources: the Power submission rules of MLPerf Inference; `checks/power_check.py` and
`checks/power/power_checker.py` of the official submission checker, the latter of which is
`compliance/check.py` of github.com/mlcommons/power-dev. Each rule passes and fails like the
corresponding check there, even where that contradicts the check's messages (docs/energy.md lists
the cases).
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from datetime import datetime
from functools import partial
from typing import Any

from mlperf_suite.features.submission_check.power_measurement import (
    CLIENT_JSON,
    FREE_IN_POWER,
    HASHED,
    MAY_BE_THERE,
    POWER,
    POWER_FILES,
    PTD_LOG,
    RANGING,
    RUN_FILES,
    SERVER_JSON,
    TESTING,
    PowerFacts,
    load_span,
    power_figures,
    sampling_fault,
    time_in,
    watts_within,
)
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, failure, figure_words, verdict

_power_rule = partial(rule, "power")
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
MAX_CLOCK_DIFFERENCE_S = 0.8
"""Maximum difference between a phase's time on the client and on the server."""
MIN_DELTA = -5.0
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
    r"Uncertainty \d{1,9}.\d{1,9}%, which is above 1.00% limit for the last sample!"
)
_UNCERTAINTY_ON = re.compile(r"Uncertainty checking for Yokogawa\S+ is activated")
_PTD_TIME = re.compile(r"\d\d-\d\d-\d\d\d\d \d\d:\d\d:\d\d.\d\d\d")
_SUMMER_S = 3600
"""The checker also accepts a log that is an hour ahead of the session, for daylight saving time."""


@_power_rule(
    required="each file of the measurement, and no other",
    source="submission checker, power_check.py: REQUIRED_POWER_FILES, REQUIRED_PERF_POWER_FILES",
    fix="Copy power/, ranging/ and run_1/ as the client of power-dev wrote them.",
)
def files(facts: PowerFacts) -> Verdict:
    """power/, ranging/ and run_1/ hold the required files and no others."""
    names_of_folder = {
        TESTING: (RUN_FILES, MAY_BE_THERE),
        RANGING: (RUN_FILES, MAY_BE_THERE),
        POWER: (POWER_FILES, FREE_IN_POWER),
    }
    wrong = []
    for folder, (must, may) in names_of_folder.items():
        names = facts.folders.get(folder)
        if names is None:
            wrong.append(f"no {folder}/")
            continue
        wrong += [f"{folder}/{name} missing" for name in sorted(must - names - may)]
        wrong += [f"{folder}/{name} is too much" for name in sorted(names - must - may)]
    if wrong:
        raise failure("; ".join(wrong))
    return verdict(True, "all, and no other")


@_power_rule(
    required="client.json and server.json with every field",
    source="power_checker.py: SessionDescriptor",
    fix="Submit the logs as the measurement wrote them.",
)
def descriptors(facts: PowerFacts) -> Verdict:
    """The records of client and server can be read and have every field."""
    for name, content in ((CLIENT_JSON, facts.client), (SERVER_JSON, facts.server)):
        if content is None:
            raise failure(f"{name} is missing, or is not JSON")
        if absent := set(_FIELDS) - content.keys():
            raise failure(f"{name} lacks {', '.join(sorted(absent))}")
    return verdict(True, "both")


@_power_rule(
    required="a released client and server of PTDaemon, unchanged",
    source="power_checker.py: sources_check",
    fix="Measure with an unchanged release of power-dev.",
)
def sources(facts: PowerFacts) -> Verdict:
    """Client and server are a released version, by the hashes of their files."""
    for name, content in ((CLIENT_JSON, facts.client), (SERVER_JSON, facts.server)):
        text = json.dumps(content["sources"], sort_keys=True, separators=(",", ":"))
        if hashlib.sha256(text.encode()).hexdigest() not in _SOURCES_SHA256:
            raise failure(f"sources of {name} that no release has")
    return verdict(True, "both released")


@_power_rule(
    required=f"PTDaemon {' or '.join(PTD_VERSIONS)}, a known analyzer, its ranges set and set back",
    source="power_checker.py: ptd_messages_check",
    fix="Use a supported PTDaemon and analyzer, and let the session end by itself.",
)
def commands(facts: PowerFacts) -> Verdict:
    """PTDaemon gave the expected reply to each command, and its ranges were reset."""
    messages = facts.server["ptd_messages"]
    identity = next((m["reply"] for m in messages if m["cmd"] == "Identify"), "")
    model = identity.split(",")[0]
    match = re.search(r"version=(.{1,99}?)-", identity)
    version = match[1] if match else ""
    if version not in PTD_VERSIONS or model not in ANALYZERS:
        raise failure(f"PTDaemon {version or 'of no version'}, analyzer {model or 'not named'}")
    _check_replies(messages, "SR,A", "Range A changed")
    _check_replies(messages, "SR,V", "Range V changed")
    start = "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples"
    _check_replies(messages, "Go,1000,", start)
    _check_replies(messages, "Stop", "Stopping untimed measurement")
    # The third message queries the ranges before the first one is set.
    ranges = messages[2]["reply"].split(",")
    amps, volts = (_initial_range(ranges, place) for place in (1, 3))
    set_a = [m["cmd"] for m in messages if m["cmd"].startswith("SR,A")]
    set_v = [m["cmd"] for m in messages if m["cmd"].startswith("SR,V")]
    if len(set_a) < 4 or len(set_v) < 3:
        raise failure(f"ranges set {len(set_a)} times (A) and {len(set_v)} times (V)")
    if f"SR,A,{amps}" not in set_a[2:4] or set_v[2] != f"SR,V,{volts}":
        raise failure(f"ranges not set back to A {amps}, V {volts}")
    return verdict(True, f"PTDaemon {version}, {model}")


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
            raise failure(f"{message['cmd']} was answered {message['reply']}")


def _initial_range(ranges: list[str], place: int) -> str:
    """The range before the session: a number, or Auto."""
    fixed = ranges[place] == "0" and float(ranges[place + 1]) > 0
    return ranges[place + 1] if fixed else "Auto"


@_power_rule(
    required="the same in client.json and server.json",
    source="power_checker.py: uuid_check",
    fix="Submit client.json and server.json of one session.",
)
def uuids(facts: PowerFacts) -> Verdict:
    """Client and server name the same two UUIDs."""
    client, server = facts.client["uuid"], facts.server["uuid"]
    for name in ("client", "server"):
        if uuid.UUID(client[name]) != uuid.UUID(server[name]):
            raise failure(f"{client[name]} and {server[name]} as the {name}'s")
    return verdict(True, "the same")


@_power_rule(
    required="the same in client.json and server.json",
    source="power_checker.py: session_name_check",
    fix="Submit client.json and server.json of one session.",
)
def session_name(facts: PowerFacts) -> Verdict:
    """Client and server name the same session."""
    client, server = facts.client["session_name"], facts.server["session_name"]
    if client != server:
        raise failure(f"{client} and {server}")
    return verdict(True, str(client))


@_power_rule(
    required="client and server at most 800 ms apart, both runs within their phases, testing at "
    "most 5% below ranging",
    source="power_checker.py: phases_check",
    fix="Synchronize the clocks with NTP, and repeat ranging and testing in one session.",
)
def phases(facts: PowerFacts) -> Verdict:
    """The clocks agree, LoadGen ran within the phases, and testing drew what ranging did.

    If testing took less than half of ranging's time, that is remarked, and the power not compared.
    """
    phases = facts.client["phases"]
    for mode in ("ranging", "testing"):
        client, server = phases[mode], facts.server["phases"][mode]
        if len(client) != len(server):
            raise failure(f"{len(client)} and {len(server)} phases of {mode}")
        for client_phase, server_phase in zip(client, server, strict=True):
            apart = abs(client_phase[0] - server_phase[0])
            if not apart <= MAX_CLOCK_DIFFERENCE_S:
                raise failure(f"clocks {apart * 1000:,.0f} ms apart in {mode}")
    spans = {"ranging": load_span(facts, RANGING), "testing": load_span(facts, TESTING)}
    for mode, span in spans.items():
        start, stop = phases[mode][1][0], phases[mode][2][0]
        for at in span:
            seconds = at.timestamp()
            if not (start < seconds < stop or start < seconds - _SUMMER_S < stop):
                raise failure(f"LoadGen at {at:%H:%M:%S}, outside of the phase {mode}")
    length = {mode: (end - begin).total_seconds() for mode, (begin, end) in spans.items()}
    if (shorter := (length["ranging"] - length["testing"]) / length["ranging"]) > 0.5:
        remark = f"testing {shorter:.0%} shorter than ranging; power not compared"
        return verdict(True, "in order", why=remark)
    watts = {}
    for mode, folder in (("ranging", RANGING), ("testing", TESTING)):
        # The checker also reads the power factor here: a line without one breaks the rule.
        samples = watts_within(facts, folder, spans[mode], factors=True)
        watts[mode] = round(sum(samples) / len(samples) if samples else -1.0, 5)
    delta = round((watts["testing"] / watts["ranging"] - 1) * 100, 2)
    words = f"{watts['ranging']:,.1f} W ranging, {watts['testing']:,.1f} W testing ({delta:+g}%)"
    if not delta > MIN_DELTA:
        raise failure(words)
    return verdict(True, words)


@_power_rule(
    required="the same commands and answers in client.json and server.json, of one version",
    source="power_checker.py: messages_check",
    fix="Use one version of power-dev on client and server.",
)
def messages(facts: PowerFacts) -> Verdict:
    """Client and server recorded the same messages, and have the same version."""
    client, server = facts.client["messages"], facts.server["messages"]
    if len(client) != len(server):
        raise failure(f"{len(client)} and {len(server)} messages")
    for message, copy in zip(client, server, strict=True):
        if message["cmd"] != copy["cmd"]:
            raise failure(f"commands {message['cmd']} and {copy['cmd']}")
        if message["cmd"] != "time" and message["reply"] != copy["reply"]:
            raise failure(f"{message['cmd']} answered {message['reply']} and {copy['reply']}")
    greeting = server[0]
    client_version = re.search(r"mlcommons/power client v(\d+)$", greeting["cmd"])
    server_version = re.search(r"mlcommons/power server v(\d+)$", greeting["reply"])
    if not client_version or not server_version or client_version[1] != server_version[1]:
        raise failure(f"{greeting['cmd']} and {greeting['reply']}")
    return verdict(True, f"{len(client)} messages, version {client_version[1]}")


@_power_rule(
    required="each file as client and server wrote it down",
    source="power_checker.py: results_check",
    fix="Submit the logs as the measurement wrote them.",
)
def checksums(facts: PowerFacts) -> Verdict:
    """The files are the measured ones, by the SHA-1 that client and server recorded."""
    records = (facts.client["results"], facts.server["results"])
    if not {CLIENT_JSON, SERVER_JSON} <= facts.folders.get(POWER, frozenset()):
        raise failure("no client.json and server.json")
    for path in HASHED:
        recorded_sums = [results[path] for results in records if path in results]
        checksum = facts.sha1.get(path)
        if checksum is None:
            raise failure(f"no {path}")
        if not recorded_sums or any(record != checksum for record in recorded_sums):
            raise failure(f"{path} is not as it was written down")
    return verdict(True, f"{len(HASHED)} files")


@_power_rule(
    required="PTDaemon's uncertainty check on, no error outside of ranging",
    source="power_checker.py: check_ptd_logs",
    fix="Look up the error in ptd_logs.txt, correct the analyzer's setup and measure again.",
)
def ptd_log(facts: PowerFacts) -> Verdict:
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
        raise failure("no uncertainty check")
    if not time_in(_PTD_TIME.match(first), first) < ranging[0]:
        raise failure("the uncertainty check was switched on after ranging began")
    for line in lines:
        for kind in ("WARNING:", "ERROR:"):
            _, mark, text = line.rstrip("\n").partition(kind)
            if mark and text:
                at = time_in(_PTD_TIME.match(line), line)
                remark = _remark(kind, text.strip(), at, load, ranging)
                if remark == "error":
                    raise failure(line.strip())
                if remark:
                    return verdict(True, "no error", why=f"{line.strip()}, in {remark}")
    return verdict(True, "no error")


def _ranging(lines: list[str], mark: str) -> tuple[datetime, datetime]:
    """The start and end of ranging, by PTDaemon's log. Raises VerdictError if it has none."""
    begin: datetime | None = None
    for line in lines:
        match = _PTD_TIME.match(line)
        if match is None:
            continue
        at, text = time_in(match, line), line[match.end() :].strip()
        if begin is None:
            begin = at if text == mark else None
        elif text == ": Completed test":
            return begin, at
    raise failure("no ranging")


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


@_power_rule(
    required="analyzers that are supported, a two-channel one with two channels",
    source="power_checker.py: check_ptd_config",
    fix="Configure a supported analyzer, and both channels of a two-channel one.",
)
def ptd_config(facts: PowerFacts) -> Verdict:
    """PTDaemon was configured for supported analyzers."""
    numbers = []
    for analyzer in facts.server["ptd_config"]:
        number = analyzer["device_type"]
        if number not in ANALYZERS.values():
            raise failure(f"device type {number}")
        if number == _TWO_CHANNELS:
            command = analyzer["command"]
            channels = command[command.index("-c") + 1] if "-c" in command else ""
            if len(channels.split(",")) != 2 or len(analyzer["channel"] or "") != 2:
                raise failure(f"device type {number} with one channel")
        numbers.append(str(number))
    return verdict(True, f"device type {', '.join(numbers) or 'none'}")


@_power_rule(
    required="off",
    source="power_checker.py: debug_check",
    fix="Start the power server without debug mode, and measure again.",
)
def debug(facts: PowerFacts) -> Verdict:
    """The server did not run in debug mode."""
    if facts.server.get("debug", False) is not False:
        raise failure(f"debug {facts.server['debug']}")
    return verdict(True, "off")


@_power_rule(
    required="samples from power_begin to power_end",
    source="submission checker, power_check.py: get_power_metric_check",
    fix="Keep the analyzer sampling during the whole run, and the clocks synchronized.",
)
def samples(facts: PowerFacts) -> Verdict:
    """spl.txt has samples from power_begin to power_end, without a gap, each with the watts of its
    volts and amps; the efficiency is computed from them.

    The official checker takes what samples there are, so that minutes may be missing.
    """
    figures = power_figures(facts)
    if fault := sampling_fault(facts):
        raise failure(fault)
    efficiency = f"{figure_words(figures.efficiency)} {figures.efficiency_unit}"
    return verdict(True, f"{figure_words(figures.metric, 5)} {figures.unit}, {efficiency}")
