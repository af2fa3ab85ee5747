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
from pathlib import Path
from typing import Any

from meta_tests.tampering.damages import CHECKER
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.judging.power import read_power
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.rules.power_rules import PowerFacts, judge_power, power_figures

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
    found = dict.fromkeys((
        "power_sources", "power_commands", "power_uuids", "power_session_name", "power_phases",
        "power_messages", "power_checksums", "power_ptd_log", "power_ptd_config", "power_debug",
    ))
    try:
        client = power.SessionDescriptor(os.path.join(folder, "power/client.json"))
        server = power.SessionDescriptor(os.path.join(folder, "power/server.json"))
        found["power_descriptors"] = True
    except Exception:
        found["power_descriptors"] = False
    if found["power_descriptors"]:
        found |= {
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
    found["power_files"] = passes(check.required_files_check)
    found["power_samples"] = passes(check.get_power_metric_check)
    found["metric"] = data.get("power_metric") if found["power_samples"] else None
    found["efficiency"] = data.get("avg_power_efficiency") if found["power_samples"] else None
    print(json.dumps(found), flush=True)
"""


def facts_of(performance: Path, scenario: Scenario) -> PowerFacts:
    """What the suite reads from a performance folder with power measurements."""
    facts = read_power(performance, scenario, read_logs(performance / "run_1").detail)
    assert facts is not None
    return facts


def official(checkout: Path, folders: Iterable[tuple[Path, Scenario]]) -> list[Verdicts]:
    """The official checks' verdicts on each `performance` folder of a scenario."""
    asked = [
        (str(folder), one.name, facts_of(folder, one).detail[one.metric]) for folder, one in folders
    ]
    with tempfile.TemporaryDirectory() as made:
        listed = Path(made) / "folders.json"
        listed.write_text(json.dumps(asked))
        command = [sys.executable, "-c", _OFFICIAL, str(checkout / CHECKER), str(listed)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def own(performance: Path, scenario: Scenario) -> Verdicts:
    """The verdicts of the suite's rules."""
    facts = facts_of(performance, scenario)
    found: Verdicts = {one.rule: one.passed for one in judge_power(facts)}
    figures = power_figures(facts) if found["power_samples"] else None
    found["metric"] = figures.metric if figures else None
    found["efficiency"] = figures.efficiency if figures else None
    return found


def differences(theirs: Verdicts, ours: Verdicts) -> list[str]:
    """Where both have a verdict and they differ, a few words each."""
    found = []
    for name, said in theirs.items():
        mine = ours[name]
        alike = mine == said
        if isinstance(said, float) and isinstance(mine, float):
            alike = abs(mine - said) <= 1e-9 * abs(said)
        # The checker skips checks only if the measurement fails as a whole.
        if not alike and not (said is None and name.startswith("power_")):
            found.append(f"{name}: {said} there, {mine} here")
    return found


# Damages to a `performance` folder

Change = Callable[[Path], None]


def in_json(name: str, change: Callable[[Any], object]) -> Change:
    """Change the content of client.json or server.json."""

    def damage(folder: Path) -> None:
        path = folder / "power" / f"{name}.json"
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return damage


def in_text(path: str, pattern: str, new: str, count: int = 1) -> Change:
    """Replace text in a file."""

    def damage(folder: Path) -> None:
        text = (folder / path).read_text()
        found, times = re.subn(pattern, new, text, count=count, flags=re.MULTILINE)
        assert times, f"{pattern} is not in {path}"
        (folder / path).write_text(found)

    return damage


def appended(path: str, said: Callable[[Path], str]) -> Change:
    """Append a line to a text file."""

    def damage(folder: Path) -> None:
        with (folder / path).open("a") as file:
            file.write(said(folder) + "\n")

    return damage


def together(*changes: Change) -> Change:
    """Apply changes one after another."""

    def damage(folder: Path) -> None:
        for change in changes:
            change(folder)

    return damage


def in_bytes(path: str, change: Callable[[bytes], bytes]) -> Change:
    """Change the bytes of a file."""

    def damage(folder: Path) -> None:
        (folder / path).write_bytes(change((folder / path).read_bytes()))

    return damage


def both(change: Callable[[Any], object]) -> Change:
    """Change client.json and server.json in the same way."""
    return together(*(in_json(name, change) for name in ("client", "server")))


def gone(path: str) -> Change:
    return lambda folder: (folder / path).unlink()


def put(path: str) -> Change:
    def damage(folder: Path) -> None:
        (folder / path).write_text("put there\n")

    return damage


def _load(folder: Path, after_s: float, mode: str = "run_1") -> str:
    """A time `after_s` seconds after a load began, in PTDaemon's format."""
    from datetime import datetime, timedelta

    text = (folder / mode / "mlperf_log_detail.txt").read_text()
    found = re.search(r'power_begin", "value": "([^"]+)"', text)
    assert found
    at = datetime.strptime(found[1], "%m-%d-%Y %H:%M:%S.%f") + timedelta(seconds=after_s)
    return f"{at:%m-%d-%Y %H:%M:%S}.{at.microsecond // 1000:03}"


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
    def damage(folder: Path) -> None:
        path = folder / mode / "spl.txt"
        lines = path.read_text().splitlines()
        cells = [line.split(",") for line in lines]
        for one in cells:
            if one[0] == "Time":
                one[3] = f"{float(one[3]) * factor:.6f}"
        path.write_text("\n".join(",".join(one) for one in cells) + "\n")

    return damage


_UNCERTAIN = "Uncertainty 1.52%, which is above 1.00% limit for the last sample!"
_LOG, _DETAIL = "power/ptd_logs.txt", "run_1/mlperf_log_detail.txt"
DAMAGES: Mapping[str, Change] = {
    "nothing: the folder as it is": lambda folder: None,
    "no spl.txt": gone("run_1/spl.txt"),
    "no spl.txt of ranging": gone("ranging/spl.txt"),
    "no client.log": gone("power/client.log"),
    "no ptd_logs.txt": gone(_LOG),
    "no server.json": gone("power/server.json"),
    "no detail log of ranging": gone("ranging/mlperf_log_detail.txt"),
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
    "both of another session": both(lambda c: c.update(session_name="it's another")),
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
    "client and server of another version": both(
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
    "a sample too uncertain": appended(
        _LOG,
        lambda f: f"{_load(f, 100)}: WARNING: {_UNCERTAIN}",
    ),
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
