"""A power measurement, damaged in one way at a time, and the rules that each damage breaks."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from meta_tests.features.submission_check.made_power import LENGTH, give_times
from meta_tests.tampering.edits import (
    at,
    bytes_edited,
    json_edited,
    removed,
    replaced,
    text_edited,
    together,
)
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.features.submission_check.power_measurement import PowerFacts
from mlperf_suite.features.submission_check.tree import read_power
from mlperf_suite.loadgen.logs import read_logs

Change = Callable[[Path], object]
Edit = Callable[[Any], object]
Damages = Mapping[str, "PowerDamage"]


def facts_of(performance: Path, scenario: Scenario) -> PowerFacts:
    """What the suite reads from a performance folder with power measurements."""
    facts = read_power(performance, scenario, read_logs(performance / "run_1").detail)
    assert facts is not None
    return facts


@dataclass(frozen=True, slots=True)
class PowerDamage:
    """A change to a `performance` folder, and the rules that it breaks, without their "power_"."""

    rules: tuple[str, ...]
    change: Change


def _broken(rules: str, changes: dict[str, Change]) -> Damages:
    """Changes that break the same rules, by what is done."""
    return {name: PowerDamage(tuple(rules.split()), change) for name, change in changes.items()}


def _server(edit: Edit) -> Change:
    return json_edited(at("power/server.json"), edit)


def _client(edit: Edit) -> Change:
    return json_edited(at("power/client.json"), edit)


def _both(edit: Edit) -> Change:
    return together(_client(edit), _server(edit))


def _text(path: str, pattern: str, new: str, count: int = 0) -> Change:
    return replaced(pattern, new, at(path), count)


def _without(path: str) -> Change:
    return removed(at(path))


def _put(path: str) -> Change:
    return lambda folder: (folder / path).write_text("put there\n")


def _appended(path: str, line: str) -> Change:
    return text_edited(at(path), lambda text: f"{text}{line}\n")


def _logged(words: str, after_s: float = 100, mode: str = "run_1") -> Change:
    """A line of PTDaemon's log, so many seconds after a load began."""

    def change(folder: Path) -> None:
        text = (folder / mode / "mlperf_log_detail.txt").read_text()
        begin = re.search(r'power_begin", "value": "([^"]+)"', text)
        if begin is None:
            raise LookupError("no power_begin")
        at = datetime.strptime(begin[1], "%m-%d-%Y %H:%M:%S.%f") + timedelta(seconds=after_s)
        time = f"{at:%m-%d-%Y %H:%M:%S}.{at.microsecond // 1000:03}"
        _appended(_LOG, f"{time}: {words}")(folder)

    return change


def _said(old: str, new: str, field: str = "reply") -> Change:
    """Other words of PTDaemon, or to it."""

    def edit(content: Any) -> None:
        for message in content["ptd_messages"]:
            message[field] = message[field].replace(old, new)

    return _server(edit)


def _slower(content: Any) -> None:
    content["phases"]["testing"][0][0] += 0.9


def _after_its_phase(content: Any) -> None:
    testing = content["phases"]["testing"]
    testing[2][0] = testing[1][0] + 5


def _two_channels(content: Any) -> None:
    command = {"command": ["ptd", "-c", "1,2"], "channel": [1, 2]}
    content["ptd_config"][0].update(device_type=77, **command)


def _watts(factor: float, mode: str = "run_1") -> Change:
    def edit(text: str) -> str:
        samples = [line.split(",") for line in text.splitlines()]
        for cells in samples:
            if cells[0] == "Time":
                cells[3] = f"{float(cells[3]) * factor:.6f}"
        return "\n".join(",".join(cells) for cells in samples) + "\n"

    return text_edited(at(f"{mode}/spl.txt"), edit)


def _fewer_samples(count: int) -> Change:
    """The analyzer's samples, one in ten seconds, without some in the middle of the run."""

    def edit(text: str) -> str:
        lines = text.splitlines(keepends=True)
        middle = len(lines) // 2
        return "".join([*lines[:middle], *lines[middle + count :]])

    return text_edited(at("run_1/spl.txt"), edit)


_ODD, _BAD_WATTS = "ERROR: Something odd", "ERROR: Bad watts reading nan from x"
_UNCERTAIN = "WARNING: Uncertainty 1.52%, which is above 1.00% limit for the last sample!"
_OLD_SERVER = "mlcommons/power server v2"
_LOG, _DETAIL, _SPL = "power/ptd_logs.txt", "run_1/mlperf_log_detail.txt", "run_1/spl.txt"
_NO_CLIENT = "descriptors sources uuids session_name phases messages checksums"
_NO_SERVER = (
    "files descriptors sources commands uuids session_name phases messages checksums ptd_log "
    "ptd_config debug"
)
DAMAGES: Damages = {
    **_broken(
        "",
        {
            "nothing: the folder as it is": lambda folder: None,
            "a trace, which may be there": _put("run_1/mlperf_log_trace.json"),
            "a UUID in capitals": _client(
                lambda c: c["uuid"].update(server=c["uuid"]["server"].upper())
            ),
            "a two-channel analyzer with two": _server(_two_channels),
            "debug mode, said off": _server(lambda c: c.update(debug=False)),
        },
    ),
    **_broken("files phases checksums samples", {"no spl.txt": _without(_SPL)}),
    **_broken("files checksums", {"no client.log": _without("power/client.log")}),
    **_broken("files checksums ptd_log", {"no ptd_logs.txt": _without(_LOG)}),
    **_broken(_NO_SERVER, {"no server.json": _without("power/server.json")}),
    **_broken(f"files {_NO_CLIENT}", {"no client.json": _without("power/client.json")}),
    **_broken("files phases checksums", {"no ranging/": _without("ranging")}),
    **_broken(
        "files phases checksums",
        {
            "no spl.txt of ranging": _without("ranging/spl.txt"),
            "no detail log of ranging": _without("ranging/mlperf_log_detail.txt"),
        },
    ),
    **_broken("files", {"a file too much in power/": _put("power/notes.txt")}),
    **_broken(
        _NO_CLIENT,
        {
            "client.json is no JSON": _text("power/client.json", r"\A\{", "{,"),
            "client.json is a list": bytes_edited(at("power/client.json"), lambda _: b"[]"),
        },
    ),
    **_broken("descriptors phases", {"no phases": _client(lambda c: c.pop("phases"))}),
    **_broken("descriptors uuids", {"no uuid": _server(lambda c: c.pop("uuid"))}),
    **_broken("sources", {"another client.py": _client(lambda c: c["sources"].popitem())}),
    **_broken(
        "commands",
        {
            "server.json without ptd_messages": _server(lambda c: c.pop("ptd_messages")),
            "PTDaemon 1.10.0": _said("version=1.11.1-", "version=1.10.0-"),
            "another analyzer": _said("Yokogawa", "Somebody"),
            "no answer to Identify": _said("Identify", "Who", "cmd"),
            "a range that was refused": _said("Range A changed", "Error"),
            "a Go that was refused": _said("Starting untimed", "Error"),
            "amperes not set back": _said("SR,A,Auto", "SR,A,20", "cmd"),
            "volts never set": _said("SR,V", "SR,W", "cmd"),
            "ranges that cannot be read": _said("Ranges,1,", "Ranges"),
        },
    ),
    **_broken("uuids", {"another UUID": _server(lambda c: c["uuid"].update(client="0" * 32))}),
    **_broken("session_name", {"another": _client(lambda c: c.update(session_name="another"))}),
    **_broken(
        "ptd_log",
        {
            "both of another session": _both(lambda c: c.update(session_name="it's another")),
            "a timezone that is none": _server(lambda c: c.update(timezone="here")),
        },
    ),
    **_broken(
        "phases",
        {
            "clocks 900 ms apart": _client(_slower),
            "a phase less": _server(lambda c: c["phases"]["ranging"].pop()),
            "LoadGen after its phase": _client(_after_its_phase),
        },
    ),
    **_broken(
        "phases checksums",
        {"testing at 94% of ranging": _watts(0.94), "no watts in ranging": _watts(0, "ranging")},
    ),
    **_broken("checksums", {"no sample for half a minute": _fewer_samples(2)}),
    **_broken(
        "checksums samples",
        {
            "no sample for more": _fewer_samples(3),
            "no sample in the middle": _fewer_samples(20),
            "few amps": _text(_SPL, r"Amps,13\.4", "Amps,0.1"),
            "amps of four phases": _text(_SPL, r"Amps,13\.4", "Amps,10"),
        },
    ),
    **_broken(
        "phases checksums samples",
        {
            "no power factor": _text(_SPL, r",PF,.*$", ""),
            "power_end on another day": _text(
                _DETAIL, r'(power_end", "value": ")\d\d-\d\d', r"\g<1>12-31"
            ),
            "no watts at all": _watts(0),
            "a sample that is not a number": _text(_SPL, r"Watts,\d", "Watts,x"),
            "a sample without a time": _appended(_SPL, "Time"),
        },
    ),
    **_broken(
        "phases checksums ptd_log samples",
        {
            "no power_begin": _text(_DETAIL, r"power_begin", "power_start"),
            "power_begin that is no time": _text(
                _DETAIL, r'(power_begin", "value": ")[^"]*', r"\g<1>soon"
            ),
        },
    ),
    **_broken(
        "messages",
        {
            "a message less": _client(lambda c: c["messages"].pop()),
            "another command": _client(lambda c: c["messages"][-1].update(cmd="rm")),
            "another answer": _client(lambda c: c["messages"][-1].update(reply="no")),
            "an older pair": _both(lambda c: c["messages"][0].update(reply=_OLD_SERVER)),
        },
    ),
    **_broken(
        "checksums",
        {
            "testing at 96% of ranging": _watts(0.96),
            "a line of the analyzer that is no sample": _appended(_SPL, "Ended"),
            "testing far shorter than ranging, at half its watts": together(
                _watts(0.5), lambda folder: give_times(folder / "run_1", length=0.4 * LENGTH)
            ),
            "the detail log was changed": _appended(_DETAIL, ""),
            "a hash that was not written down": _server(lambda c: c["results"].pop(_SPL)),
            "a hash that differs between the two": _server(
                lambda c: c["results"].update({"power/client.log": "0" * 40})
            ),
            "an error of the USB line in testing": _logged("ERROR: USB."),
            "an odd error in ranging": _logged(_ODD, 5, "ranging"),
            "a warning in testing": _logged("WARNING: low"),
            "a warning in the middle of testing": _logged("WARNING: low", 850),
            "a sample too uncertain": _logged(_UNCERTAIN),
        },
    ),
    **_broken(
        "checksums ptd_log",
        {
            "no uncertainty check": _text(_LOG, r"is activated", "is not activated"),
            "an uncertainty check too late": _text(_LOG, r"2026(.*Uncertainty)", r"2027\1"),
            "the uncertainty check without a time": _text(_LOG, r"^.*(Uncertainty chec)", r"\1"),
            "no ranging in the log": _text(_LOG, r"Go with mark '(.*)_ranging'", r"Go with \1"),
            "ranging that did not end": _text(_LOG, r"Completed test", "Stopped"),
            "an error in testing": _logged(_BAD_WATTS),
            "an error without a time": _appended(_LOG, _ODD),
            "too uncertain in the middle of testing": _logged(_UNCERTAIN, 850),
            "a time that is none": _text(_LOG, r"^\d\d-", "99-", 1),
            "PTDaemon's log is not UTF-8": bytes_edited(at(_LOG), lambda c: b"\xff" + c),
        },
    ),
    **_broken(
        "ptd_config",
        {
            "an unsupported analyzer": _server(lambda c: c["ptd_config"][0].update(device_type=0)),
            "two channels, one used": _server(lambda c: c["ptd_config"][0].update(device_type=77)),
        },
    ),
    **_broken("debug", {"debug mode": _server(lambda c: c.update(debug=True))}),
}
"""By what was done; most also break the hashes, which detect every change."""
