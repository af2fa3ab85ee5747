"""A power measurement, damaged in one way at a time, and the rules that each damage breaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.judging.tree import read_power
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.rules.power_measurement import PowerFacts


def facts_of(performance: Path, scenario: Scenario) -> PowerFacts:
    """What the suite reads from a performance folder with power measurements."""
    facts = read_power(performance, scenario, read_logs(performance / "run_1").detail)
    assert facts is not None
    return facts


# Damages to a `performance` folder

Change = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class PowerDamage:
    """A change to a `performance` folder, and the rules that it breaks, without their "power_"."""

    rules: tuple[str, ...]
    change: Change


def broken(rules: str, change: Change) -> PowerDamage:
    return PowerDamage(tuple(rules.split()), change)


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
DAMAGES: Mapping[str, PowerDamage] = {
    "nothing: the folder as it is": broken("", lambda folder: None),
    "no spl.txt": broken("files phases checksums samples", without("run_1/spl.txt")),
    "no spl.txt of ranging": broken("files phases checksums", without("ranging/spl.txt")),
    "no client.log": broken("files checksums", without("power/client.log")),
    "no ptd_logs.txt": broken("files checksums ptd_log", without(_LOG)),
    "no server.json": broken(
        "files descriptors sources commands uuids session_name phases messages checksums ptd_log "
        "ptd_config debug",
        without("power/server.json"),
    ),
    "no detail log of ranging": broken(
        "files phases checksums", without("ranging/mlperf_log_detail.txt")
    ),
    "a file too much in power/": broken("files", put("power/notes.txt")),
    "a file too much in run_1/": broken("files", put("run_1/notes.txt")),
    "a trace, which may be there": broken("", put("run_1/mlperf_log_trace.json")),
    "client.json is no JSON": broken(
        "descriptors sources uuids session_name phases messages checksums",
        in_text("power/client.json", r"\A\{", "{,"),
    ),
    "client.json is a list": broken(
        "descriptors sources uuids session_name phases messages checksums",
        in_bytes("power/client.json", lambda content: b"[]"),
    ),
    "client.json without phases": broken(
        "descriptors phases", in_json("client", lambda c: c.pop("phases"))
    ),
    "server.json without uuid": broken(
        "descriptors uuids", in_json("server", lambda c: c.pop("uuid"))
    ),
    "server.json without ptd_messages": broken(
        "commands", in_json("server", lambda c: c.pop("ptd_messages"))
    ),
    "another client.py": broken(
        "sources", in_json("client", lambda c: c["sources"].update({"client.py": "0" * 40}))
    ),
    "a source file more": broken(
        "sources", in_json("server", lambda c: c["sources"].update({"x.py": "0" * 40}))
    ),
    "PTDaemon 1.10.0": broken(
        "commands", in_json("server", _identity("version=1.11.1-", "version=1.10.0-"))
    ),
    "another analyzer": broken("commands", in_json("server", _identity("Yokogawa", "Somebody"))),
    "no answer to Identify": broken("commands", in_json("server", _message(1, "cmd", "Who"))),
    "a range that was refused": broken(
        "commands", in_json("server", _identity("Range A changed", "Error"))
    ),
    "a Go that was refused": broken(
        "commands", in_json("server", _identity("Starting untimed", "Error"))
    ),
    "amperes not set back": broken("commands", in_json("server", _last_amps)),
    "ranges that were fixed before": broken(
        "commands", in_json("server", _identity("Ranges,1,", "Ranges,0,"))
    ),
    "ranges that cannot be read": broken(
        "commands", in_json("server", _identity("Ranges,1,", "Ranges"))
    ),
    "another client UUID": broken(
        "uuids", in_json("server", lambda c: c["uuid"].update(client="0" * 32))
    ),
    "a UUID that is none": broken(
        "uuids", in_json("client", lambda c: c["uuid"].update(server="x"))
    ),
    "a UUID in capitals": broken(
        "", in_json("client", lambda c: c["uuid"].update(server=c["uuid"]["server"].upper()))
    ),
    "another session": broken(
        "session_name", in_json("client", lambda c: c.update(session_name="another"))
    ),
    "both of another session": broken(
        "ptd_log", in_both_json(lambda c: c.update(session_name="it's another"))
    ),
    "clocks 900 ms apart": broken("phases", in_json("client", _slower)),
    "a phase less": broken("phases", in_json("server", lambda c: c["phases"]["ranging"].pop())),
    "a phase that is text": broken(
        "phases", in_json("server", lambda c: c["phases"]["ranging"].append("x"))
    ),
    "LoadGen after its phase": broken(
        "phases",
        in_json(
            "client",
            lambda c: c["phases"]["testing"][2].__setitem__(0, c["phases"]["testing"][1][0] + 5),
        ),
    ),
    "testing at 94% of ranging": broken("phases checksums", _watts(0.94, "run_1")),
    "testing at 96% of ranging": broken("checksums", _watts(0.96, "run_1")),
    "testing at 110% of ranging": broken("checksums", _watts(1.1, "run_1")),
    "no watts at all": broken("phases checksums samples", _watts(0, "run_1")),
    "no watts in ranging": broken("phases checksums", _watts(0, "ranging")),
    "no power factor": broken("phases checksums", in_text("run_1/spl.txt", r",PF,.*$", "", 0)),
    "a sample that is no number": broken(
        "phases checksums samples", in_text("run_1/spl.txt", r"Watts,\d", "Watts,x", 0)
    ),
    "a sample without a time": broken(
        "phases checksums samples", appended("run_1/spl.txt", lambda folder: "Time")
    ),
    "no power_begin": broken(
        "phases checksums ptd_log samples", in_text(_DETAIL, r"power_begin", "power_start", 0)
    ),
    "power_end on another day": broken(
        "phases checksums", in_text(_DETAIL, r'(power_end", "value": ")\d\d-\d\d', r"\g<1>12-31")
    ),
    "power_begin that is no time": broken(
        "phases checksums ptd_log samples",
        in_text(_DETAIL, r'(power_begin", "value": ")[^"]*', r"\g<1>soon"),
    ),
    "a message less": broken("messages", in_json("client", lambda c: c["messages"].pop())),
    "another command": broken(
        "messages", in_json("client", lambda c: c["messages"][-1].update(cmd="rm"))
    ),
    "another answer": broken(
        "messages", in_json("client", lambda c: c["messages"][-1].update(reply="no"))
    ),
    "another version of the server": broken(
        "messages",
        in_json("server", lambda c: c["messages"][0].update(reply="mlcommons/power server v2")),
    ),
    "client and server of another version": broken(
        "messages",
        in_both_json(lambda c: c["messages"][0].update(reply="mlcommons/power server v2")),
    ),
    "the detail log was changed": broken("checksums", appended(_DETAIL, lambda folder: "")),
    "the summary of ranging was changed": broken(
        "checksums", put("ranging/mlperf_log_summary.txt")
    ),
    "server.log was changed": broken("checksums", put("power/server.log")),
    "a hash that was not written down": broken(
        "checksums", in_json("server", lambda c: c["results"].pop("run_1/spl.txt"))
    ),
    "a hash that differs between the two": broken(
        "checksums",
        in_json("server", lambda c: c["results"].update({"power/client.log": "0" * 40})),
    ),
    "results that are a list": broken(
        "checksums", in_json("server", lambda c: c.update(results=[]))
    ),
    "no uncertainty check": broken(
        "checksums ptd_log", in_text(_LOG, r"is activated", "is not activated", 0)
    ),
    "the uncertainty check without a time": broken(
        "checksums ptd_log", in_text(_LOG, r"^.*(Uncertainty checking)", r"\1")
    ),
    "no ranging in PTDaemon's log": broken(
        "checksums ptd_log", in_text(_LOG, r"Go with mark '(.*)_ranging'", r"Go with \1")
    ),
    "ranging that did not end": broken(
        "checksums ptd_log", in_text(_LOG, r"Completed test", "Stopped", 0)
    ),
    "an error in testing": broken(
        "checksums ptd_log",
        appended(_LOG, lambda f: f"{_load(f, 100)}: ERROR: Bad watts reading nan from x"),
    ),
    "an error of the USB line in testing": broken(
        "checksums", appended(_LOG, lambda f: f"{_load(f, 100)}: ERROR: USB.")
    ),
    "a usual error in ranging": broken(
        "checksums",
        appended(_LOG, lambda f: f"{_load(f, 5, 'ranging')}: ERROR: Bad watts reading nan from x"),
    ),
    "an odd error in ranging": broken(
        "checksums", appended(_LOG, lambda f: f"{_load(f, 5, 'ranging')}: ERROR: Something odd")
    ),
    "an odd error in ranging, then one in testing": broken(
        "checksums",
        together(
            appended(_LOG, lambda f: f"{_load(f, 5, 'ranging')}: ERROR: Something odd"),
            appended(_LOG, lambda f: f"{_load(f, 100)}: ERROR: Something odd"),
        ),
    ),
    "an error without a time": broken(
        "checksums ptd_log", appended(_LOG, lambda f: "ERROR: Something odd")
    ),
    "a warning in testing": broken(
        "checksums", appended(_LOG, lambda f: f"{_load(f, 100)}: WARNING: low")
    ),
    "a warning in the middle of testing": broken(
        "checksums", appended(_LOG, lambda f: f"{_load(f, 850)}: WARNING: low")
    ),
    "a sample too uncertain in the middle of testing": broken(
        "checksums ptd_log", appended(_LOG, lambda f: f"{_load(f, 850)}: WARNING: {_UNCERTAIN}")
    ),
    "a sample too uncertain": broken(
        "checksums", appended(_LOG, lambda f: f"{_load(f, 100)}: WARNING: {_UNCERTAIN}")
    ),
    "a time that is none": broken("checksums ptd_log", in_text(_LOG, r"^\d\d-", "99-")),
    "PTDaemon's log is not UTF-8": broken(
        "checksums ptd_log", in_bytes(_LOG, lambda content: b"\xff" + content)
    ),
    "PTDaemon's log ends its lines as Windows does": broken(
        "checksums", in_bytes(_LOG, lambda content: content.replace(b"\n", b"\r\n"))
    ),
    "a timezone that is none": broken(
        "ptd_log", in_json("server", lambda c: c.update(timezone="here"))
    ),
    "an analyzer that is not supported": broken(
        "ptd_config", in_json("server", lambda c: c["ptd_config"][0].update(device_type=0))
    ),
    "a two-channel analyzer with one": broken(
        "ptd_config", in_json("server", lambda c: c["ptd_config"][0].update(device_type=77))
    ),
    "a two-channel analyzer with two": broken(
        "",
        in_json(
            "server",
            lambda c: c["ptd_config"][0].update(
                device_type=77, command=["ptd", "-c", "1,2"], channel=[1, 2]
            ),
        ),
    ),
    "debug mode": broken("debug", in_json("server", lambda c: c.update(debug=True))),
    "debug mode, said off": broken("", in_json("server", lambda c: c.update(debug=False))),
    "debug mode, said 0": broken("debug", in_json("server", lambda c: c.update(debug=0))),
}
"""By what was done; most also break the hashes, which detect every change."""
