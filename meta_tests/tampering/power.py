"""Compares the official checks of power measurements with the suite's own rules, rule by rule.

The checks are the submission checker's own (github.com/mlcommons/inference), run in a separate
process; none of their code is here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from meta_tests.tampering.edits import (
    bytes_edited,
    json_edited,
    removed,
    replaced,
    text_edited,
    together,
)
from meta_tests.tampering.verdicts import CHECKER
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.judging.tree import read_power
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.rules import judge
from mlperf_suite.rules.power_measurement import PowerFacts, power_figures

Verdicts = dict[str, Any]
"""By the suite's rule, whether it passes; None if the official check did not get to it. Also the
figures `metric` and `efficiency`, None if there are none."""
_OFFICIAL = """
import json, logging, os, sys, types
sys.path.insert(0, sys.argv[1])
from submission_checker.checks import power_check
from submission_checker.checks.power import power_checker as power
from submission_checker.parsers.loadgen_parser import LoadgenParser
logging.disable(logging.CRITICAL)
sys.stderr = open(os.devnull, "w")

def holds(check):
    return power.check_with_logging("", check)[0]

def passes(check):
    try:
        return bool(check())
    except Exception:
        return False

for folder, scenario, performance in json.load(open(sys.argv[2])):
    verdicts = dict.fromkeys((
        "power_sources", "power_commands", "power_uuids", "power_session_name", "power_phases",
        "power_messages", "power_checksums", "power_ptd_log", "power_ptd_config", "power_debug",
    ))
    try:
        client = power.SessionDescriptor(os.path.join(folder, "power/client.json"))
        server = power.SessionDescriptor(os.path.join(folder, "power/server.json"))
        verdicts["power_descriptors"] = True
    except Exception:
        verdicts["power_descriptors"] = False
    if verdicts["power_descriptors"]:
        verdicts |= {
            "power_sources": holds(lambda: power.sources_check(client))
            and holds(lambda: power.sources_check(server)),
            "power_commands": holds(lambda: power.ptd_messages_check(server)),
            "power_uuids": holds(lambda: power.uuid_check(client, server)),
            "power_session_name": holds(lambda: power.session_name_check(client, server)),
            "power_phases": holds(lambda: power.phases_check(client, server, folder)),
            "power_messages": holds(lambda: power.messages_check(client, server)),
            "power_ptd_log": holds(lambda: power.check_ptd_logs(server, client, folder)),
            "power_ptd_config": holds(lambda: power.check_ptd_config(server)),
            "power_debug": holds(lambda: power.debug_check(server)),
            # Last, since it takes entries out of what was read.
            "power_checksums": holds(lambda: power.results_check(server, client, folder)),
        }
    try:
        log = LoadgenParser(os.path.join(folder, "run_1/mlperf_log_detail.txt"))
    except Exception:
        log = None
    data = {
        "scenario": scenario, "power_dir_path": os.path.join(folder, "power"),
        "perf_path": os.path.join(folder, "run_1/mlperf_log_detail.txt"),
        "performance_metric": performance,
    }
    logs = types.SimpleNamespace(performance_log=log, loader_data=data)
    check = power_check.PowerCheck(
        logging.getLogger(), folder, types.SimpleNamespace(skip_power_check=False), logs
    )
    verdicts["power_files"] = passes(check.required_files_check)
    verdicts["power_samples"] = passes(check.get_power_metric_check)
    verdicts["metric"] = data.get("power_metric") if verdicts["power_samples"] else None
    verdicts["efficiency"] = data.get("avg_power_efficiency") if verdicts["power_samples"] else None
    print(json.dumps(verdicts), flush=True)
"""


def facts_of(performance: Path, scenario: Scenario) -> PowerFacts:
    """What the suite reads from a performance folder with power measurements."""
    facts = read_power(performance, scenario, read_logs(performance / "run_1").detail)
    assert facts is not None
    return facts


def official(checkout: Path, folders: Iterable[tuple[Path, Scenario]]) -> list[Verdicts]:
    """The official checks' verdicts on each `performance` folder of a scenario."""
    rows = [
        (str(folder), scenario.name, facts_of(folder, scenario).detail[scenario.metric])
        for folder, scenario in folders
    ]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "folders.json"
        file.write_text(json.dumps(rows))
        command = [sys.executable, "-c", _OFFICIAL, str(checkout / CHECKER), str(file)]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]


def own(performance: Path, scenario: Scenario) -> Verdicts:
    """The verdicts of the suite's rules."""
    facts = facts_of(performance, scenario)
    verdicts: Verdicts = {verdict.rule: verdict.passed for verdict in judge(facts)}
    figures = power_figures(facts) if verdicts["power_samples"] else None
    verdicts["metric"] = figures.metric if figures else None
    verdicts["efficiency"] = figures.efficiency if figures else None
    return verdicts


def differences(checker: Verdicts, suite: Verdicts) -> list[str]:
    """Where both have a verdict and they differ, a few words each."""
    words = []
    for name, official_value in checker.items():
        value = suite[name]
        alike = value == official_value
        if isinstance(official_value, float) and isinstance(value, float):
            alike = abs(value - official_value) <= 1e-9 * abs(official_value)
        # The checker skips checks only if the measurement fails as a whole.
        if not alike and not (official_value is None and name.startswith("power_")):
            words.append(f"{name}: {official_value} there, {value} here")
    return words


# Damages to a `performance` folder

Change = Callable[[Path], None]


def at(path: str) -> Callable[[Path], Path]:
    """Where a file is in a performance folder."""
    return lambda folder: folder / path


def in_json(name: str, change: Callable[[Any], object]) -> Change:
    """Change the content of client.json or server.json."""
    return json_edited(at(f"power/{name}.json"), change)


def in_text(path: str, pattern: str, new: str, count: int = 1) -> Change:
    """Replace text in a file; `count` 0 is every time."""
    return replaced(pattern, new, at(path), count)


def in_bytes(path: str, change: Callable[[bytes], bytes]) -> Change:
    return bytes_edited(at(path), change)


def without(path: str) -> Change:
    return removed(at(path))


def appended(path: str, line: Callable[[Path], str]) -> Change:
    """Append a line to a text file."""
    return lambda folder: text_edited(at(path), lambda text: f"{text}{line(folder)}\n")(folder)


def in_both_json(change: Callable[[Any], object]) -> Change:
    """Change client.json and server.json in the same way."""
    return together(*(in_json(name, change) for name in ("client", "server")))


def put(path: str) -> Change:
    def damage(folder: Path) -> None:
        (folder / path).write_text("put there\n")

    return damage


def _load(folder: Path, after_s: float, mode: str = "run_1") -> str:
    """A time `after_s` seconds after a load began, in PTDaemon's format."""
    text = (folder / mode / "mlperf_log_detail.txt").read_text()
    begin = re.search(r'power_begin", "value": "([^"]+)"', text)
    if begin is None:
        raise LookupError("no power_begin")
    time = datetime.strptime(begin[1], "%m-%d-%Y %H:%M:%S.%f") + timedelta(seconds=after_s)
    return f"{time:%m-%d-%Y %H:%M:%S}.{time.microsecond // 1000:03}"


def _message(place: int, field: str, value: object) -> Callable[[Any], object]:
    return lambda content: content["ptd_messages"][place].__setitem__(field, value)


def _identity(old: str, new: str) -> Callable[[Any], object]:
    def change(content: Any) -> None:
        for message in content["ptd_messages"]:
            message["reply"] = message["reply"].replace(old, new)

    return change


def _last_amps(content: Any) -> None:
    for message in content["ptd_messages"]:
        if message["cmd"] == "SR,A,Auto":
            message["cmd"] = "SR,A,20"


def _slower(content: Any) -> None:
    content["phases"]["testing"][0][0] += 0.9


def _watts(factor: float, mode: str) -> Change:
    def edit(text: str) -> str:
        samples = [line.split(",") for line in text.splitlines()]
        for cells in samples:
            if cells[0] == "Time":
                cells[3] = f"{float(cells[3]) * factor:.6f}"
        return "\n".join(",".join(cells) for cells in samples) + "\n"

    return text_edited(at(f"{mode}/spl.txt"), edit)


_UNCERTAIN = "Uncertainty 1.52%, which is above 1.00% limit for the last sample!"
_LOG, _DETAIL = "power/ptd_logs.txt", "run_1/mlperf_log_detail.txt"
DAMAGES: Mapping[str, Change] = {
    "nothing: the folder as it is": lambda folder: None,
    "no spl.txt": without("run_1/spl.txt"),
    "no spl.txt of ranging": without("ranging/spl.txt"),
    "no client.log": without("power/client.log"),
    "no ptd_logs.txt": without(_LOG),
    "no server.json": without("power/server.json"),
    "no detail log of ranging": without("ranging/mlperf_log_detail.txt"),
    "a file too much in power/": put("power/notes.txt"),
    "a file too much in run_1/": put("run_1/notes.txt"),
    "a trace, which may be there": put("run_1/mlperf_log_trace.json"),
    "client.json is no JSON": in_text("power/client.json", r"\A\{", "{,"),
    "client.json is a list": in_bytes("power/client.json", lambda content: b"[]"),
    "client.json without phases": in_json("client", lambda c: c.pop("phases")),
    "server.json without uuid": in_json("server", lambda c: c.pop("uuid")),
    "server.json without ptd_messages": in_json("server", lambda c: c.pop("ptd_messages")),
    "another client.py": in_json("client", lambda c: c["sources"].update({"client.py": "0" * 40})),
    "a source file more": in_json("server", lambda c: c["sources"].update({"x.py": "0" * 40})),
    "PTDaemon 1.10.0": in_json("server", _identity("version=1.11.1-", "version=1.10.0-")),
    "another analyzer": in_json("server", _identity("Yokogawa", "Somebody")),
    "no answer to Identify": in_json("server", _message(1, "cmd", "Who")),
    "a range that was refused": in_json("server", _identity("Range A changed", "Error")),
    "a Go that was refused": in_json("server", _identity("Starting untimed", "Error")),
    "amperes not set back": in_json("server", _last_amps),
    "ranges that were fixed before": in_json("server", _identity("Ranges,1,", "Ranges,0,")),
    "ranges that cannot be read": in_json("server", _identity("Ranges,1,", "Ranges")),
    "another client UUID": in_json("server", lambda c: c["uuid"].update(client="0" * 32)),
    "a UUID that is none": in_json("client", lambda c: c["uuid"].update(server="x")),
    "a UUID in capitals": in_json(
        "client", lambda c: c["uuid"].update(server=c["uuid"]["server"].upper())
    ),
    "another session": in_json("client", lambda c: c.update(session_name="another")),
    "both of another session": in_both_json(lambda c: c.update(session_name="it's another")),
    "clocks 900 ms apart": in_json("client", _slower),
    "a phase less": in_json("server", lambda c: c["phases"]["ranging"].pop()),
    "a phase that is text": in_json("server", lambda c: c["phases"]["ranging"].append("x")),
    "LoadGen after its phase": in_json(
        "client",
        lambda c: c["phases"]["testing"][2].__setitem__(0, c["phases"]["testing"][1][0] + 5),
    ),
    "testing at 94% of ranging": _watts(0.94, "run_1"),
    "testing at 96% of ranging": _watts(0.96, "run_1"),
    "testing at 110% of ranging": _watts(1.1, "run_1"),
    "no watts at all": _watts(0, "run_1"),
    "no watts in ranging": _watts(0, "ranging"),
    "no power factor": in_text("run_1/spl.txt", r",PF,.*$", "", 0),
    "a sample that is no number": in_text("run_1/spl.txt", r"Watts,\d", "Watts,x", 0),
    "a sample without a time": appended("run_1/spl.txt", lambda folder: "Time"),
    "no power_begin": in_text(_DETAIL, r"power_begin", "power_start", 0),
    "power_end on another day": in_text(
        _DETAIL, r'(power_end", "value": ")\d\d-\d\d', r"\g<1>12-31"
    ),
    "power_begin that is no time": in_text(
        _DETAIL, r'(power_begin", "value": ")[^"]*', r"\g<1>soon"
    ),
    "a message less": in_json("client", lambda c: c["messages"].pop()),
    "another command": in_json("client", lambda c: c["messages"][-1].update(cmd="rm")),
    "another answer": in_json("client", lambda c: c["messages"][-1].update(reply="no")),
    "another version of the server": in_json(
        "server", lambda c: c["messages"][0].update(reply="mlcommons/power server v2")
    ),
    "client and server of another version": in_both_json(
        lambda c: c["messages"][0].update(reply="mlcommons/power server v2")
    ),
    "the detail log was changed": appended(_DETAIL, lambda folder: ""),
    "the summary of ranging was changed": put("ranging/mlperf_log_summary.txt"),
    "server.log was changed": put("power/server.log"),
    "a hash that was not written down": in_json(
        "server", lambda c: c["results"].pop("run_1/spl.txt")
    ),
    "a hash that differs between the two": in_json(
        "server", lambda c: c["results"].update({"power/client.log": "0" * 40})
    ),
    "results that are a list": in_json("server", lambda c: c.update(results=[])),
    "no uncertainty check": in_text(_LOG, r"is activated", "is not activated", 0),
    "the uncertainty check without a time": in_text(_LOG, r"^.*(Uncertainty checking)", r"\1"),
    "no ranging in PTDaemon's log": in_text(_LOG, r"Go with mark '(.*)_ranging'", r"Go with \1"),
    "ranging that did not end": in_text(_LOG, r"Completed test", "Stopped", 0),
    "an error in testing": appended(
        _LOG, lambda f: f"{_load(f, 100)}: ERROR: Bad watts reading nan from x"
    ),
    "an error of the USB line in testing": appended(
        _LOG, lambda f: f"{_load(f, 100)}: ERROR: USB."
    ),
    "a usual error in ranging": appended(
        _LOG, lambda f: f"{_load(f, 5, 'ranging')}: ERROR: Bad watts reading nan from x"
    ),
    "an odd error in ranging": appended(
        _LOG, lambda f: f"{_load(f, 5, 'ranging')}: ERROR: Something odd"
    ),
    "an odd error in ranging, then one in testing": together(
        appended(_LOG, lambda f: f"{_load(f, 5, 'ranging')}: ERROR: Something odd"),
        appended(_LOG, lambda f: f"{_load(f, 100)}: ERROR: Something odd"),
    ),
    "an error without a time": appended(_LOG, lambda f: "ERROR: Something odd"),
    "a warning in testing": appended(_LOG, lambda f: f"{_load(f, 100)}: WARNING: low"),
    "a warning in the middle of testing": appended(
        _LOG, lambda f: f"{_load(f, 850)}: WARNING: low"
    ),
    "a sample too uncertain in the middle of testing": appended(
        _LOG, lambda f: f"{_load(f, 850)}: WARNING: {_UNCERTAIN}"
    ),
    "a sample too uncertain": appended(_LOG, lambda f: f"{_load(f, 100)}: WARNING: {_UNCERTAIN}"),
    "a time that is none": in_text(_LOG, r"^\d\d-", "99-"),
    "PTDaemon's log is not UTF-8": in_bytes(_LOG, lambda content: b"\xff" + content),
    "PTDaemon's log ends its lines as Windows does": in_bytes(
        _LOG, lambda content: content.replace(b"\n", b"\r\n")
    ),
    "a timezone that is none": in_json("server", lambda c: c.update(timezone="here")),
    "an analyzer that is not supported": in_json(
        "server", lambda c: c["ptd_config"][0].update(device_type=0)
    ),
    "a two-channel analyzer with one": in_json(
        "server", lambda c: c["ptd_config"][0].update(device_type=77)
    ),
    "a two-channel analyzer with two": in_json(
        "server",
        lambda c: c["ptd_config"][0].update(
            device_type=77, command=["ptd", "-c", "1,2"], channel=[1, 2]
        ),
    ),
    "debug mode": in_json("server", lambda c: c.update(debug=True)),
    "debug mode, said off": in_json("server", lambda c: c.update(debug=False)),
    "debug mode, said 0": in_json("server", lambda c: c.update(debug=0)),
}
"""By what was done; most also break the hashes, which detect every change."""
