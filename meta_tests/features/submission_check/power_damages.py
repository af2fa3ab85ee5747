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


def broken(rules: str, changes: dict[str, Change]) -> Damages:
    """Changes that break the same rules, by what is done."""
    return {name: PowerDamage(tuple(rules.split()), change) for name, change in changes.items()}


def server(edit: Edit) -> Change:
    return json_edited(at("power/server.json"), edit)


def client(edit: Edit) -> Change:
    return json_edited(at("power/client.json"), edit)


def both(edit: Edit) -> Change:
    return together(client(edit), server(edit))


def text(path: str, pattern: str, new: str, count: int = 0) -> Change:
    return replaced(pattern, new, at(path), count)


def without(path: str) -> Change:
    return removed(at(path))


def _put(path: str) -> Change:
    return lambda folder: (folder / path).write_text("put there\n")


def _appended(path: str, line: str) -> Change:
    return text_edited(at(path), lambda text: f"{text}{line}\n")


def logged(words: str, after_s: float = 100, mode: str = "run_1") -> Change:
    """A line of PTDaemon's log, so many seconds after a load began."""

    def change(folder: Path) -> None:
        text = (folder / mode / "mlperf_log_detail.txt").read_text()
        begin = re.search(r'power_begin", "value": "([^"]+)"', text)
        if begin is None:
            raise LookupError("no power_begin")
        at = datetime.strptime(begin[1], "%m-%d-%Y %H:%M:%S.%f") + timedelta(seconds=after_s)
        time = f"{at:%m-%d-%Y %H:%M:%S}.{at.microsecond // 1000:03}"
        _appended(LOG, f"{time}: {words}")(folder)

    return change


def said(old: str, new: str, field: str = "reply") -> Change:
    """Other words of PTDaemon, or to it."""

    def edit(content: Any) -> None:
        for message in content["ptd_messages"]:
            message[field] = message[field].replace(old, new)

    return server(edit)


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


ODD, _BAD_WATTS = "ERROR: Something odd", "ERROR: Bad watts reading nan from x"
UNCERTAIN = "WARNING: Uncertainty 1.52%, which is above 1.00% limit for the last sample!"
_OLD_SERVER = "mlcommons/power server v2"
LOG, _DETAIL, SPL = "power/ptd_logs.txt", "run_1/mlperf_log_detail.txt", "run_1/spl.txt"
_NO_CLIENT = "descriptors sources uuids session_name phases messages checksums"
_NO_SERVER = (
    "files descriptors sources commands uuids session_name phases messages checksums ptd_log "
    "ptd_config debug"
)
DAMAGES: Damages = {
    **broken(
        "",
        {
            "nothing: the folder as it is": lambda folder: None,
            "a trace, which may be there": _put("run_1/mlperf_log_trace.json"),
            "a UUID in capitals": client(
                lambda c: c["uuid"].update(server=c["uuid"]["server"].upper())
            ),
            "a two-channel analyzer with two": server(_two_channels),
        },
    ),
    **broken("files phases checksums samples", {"no spl.txt": without(SPL)}),
    **broken("files checksums ptd_log", {"no ptd_logs.txt": without(LOG)}),
    **broken(_NO_SERVER, {"no server.json": without("power/server.json")}),
    **broken(f"files {_NO_CLIENT}", {"no client.json": without("power/client.json")}),
    **broken("files phases checksums", {"no ranging/": without("ranging")}),
    **broken("files", {"a file too much in power/": _put("power/notes.txt")}),
    **broken(
        _NO_CLIENT,
        {
            "client.json is no JSON": text("power/client.json", r"\A\{", "{,"),
            "client.json is a list": bytes_edited(at("power/client.json"), lambda _: b"[]"),
        },
    ),
    **broken("descriptors uuids", {"no uuid": server(lambda c: c.pop("uuid"))}),
    **broken("sources", {"another client.py": client(lambda c: c["sources"].popitem())}),
    **broken(
        "commands",
        {
            "no answer to Identify": said("Identify", "Who", "cmd"),
            "a range that was refused": said("Range A changed", "Error"),
            "a Go that was refused": said("Starting untimed", "Error"),
            "amperes not set back": said("SR,A,Auto", "SR,A,20", "cmd"),
            "volts never set": said("SR,V", "SR,W", "cmd"),
            "ranges that cannot be read": said("Ranges,1,", "Ranges"),
        },
    ),
    **broken("uuids", {"another UUID": server(lambda c: c["uuid"].update(client="0" * 32))}),
    **broken("session_name", {"another": client(lambda c: c.update(session_name="another"))}),
    **broken(
        "phases",
        {
            "clocks 900 ms apart": client(_slower),
            "a phase less": server(lambda c: c["phases"]["ranging"].pop()),
            "LoadGen after its phase": client(_after_its_phase),
        },
    ),
    **broken(
        "phases checksums",
        {"testing at 94% of ranging": _watts(0.94), "no watts in ranging": _watts(0, "ranging")},
    ),
    **broken("checksums", {"no sample for half a minute": _fewer_samples(2)}),
    **broken(
        "checksums samples",
        {
            "no sample for more": _fewer_samples(3),
            "no sample in the middle": _fewer_samples(20),
        },
    ),
    **broken(
        "phases checksums samples",
        {
            "no power factor": text(SPL, r",PF,.*$", ""),
            "power_end on another day": text(
                _DETAIL, r'(power_end", "value": ")\d\d-\d\d', r"\g<1>12-31"
            ),
            "no watts at all": _watts(0),
            "a sample that is not a number": text(SPL, r"Watts,\d", "Watts,x"),
            "a sample without a time": _appended(SPL, "Time"),
        },
    ),
    **broken(
        "phases checksums ptd_log samples",
        {
            "no power_begin": text(_DETAIL, r"power_begin", "power_start"),
            "power_begin that is no time": text(
                _DETAIL, r'(power_begin", "value": ")[^"]*', r"\g<1>soon"
            ),
        },
    ),
    **broken(
        "messages",
        {
            "a message less": client(lambda c: c["messages"].pop()),
            "another command": client(lambda c: c["messages"][-1].update(cmd="rm")),
            "another answer": client(lambda c: c["messages"][-1].update(reply="no")),
            "an older pair": both(lambda c: c["messages"][0].update(reply=_OLD_SERVER)),
        },
    ),
    **broken(
        "checksums",
        {
            "testing at 96% of ranging": _watts(0.96),
            "a line of the analyzer that is no sample": _appended(SPL, "Ended"),
            "testing far shorter than ranging, at half its watts": together(
                _watts(0.5), lambda folder: give_times(folder / "run_1", length=0.4 * LENGTH)
            ),
            "the detail log was changed": _appended(_DETAIL, ""),
            "an error of the USB line in testing": logged("ERROR: USB."),
        },
    ),
    **broken(
        "checksums ptd_log",
        {
            "no uncertainty check": text(LOG, r"is activated", "is not activated"),
            "an uncertainty check too late": text(LOG, r"2026(.*Uncertainty)", r"2027\1"),
            "the uncertainty check without a time": text(LOG, r"^.*(Uncertainty chec)", r"\1"),
            "ranging that did not end": text(LOG, r"Completed test", "Stopped"),
            "an error in testing": logged(_BAD_WATTS),
            "an error without a time": _appended(LOG, ODD),
            "too uncertain in the middle of testing": logged(UNCERTAIN, 850),
            "a time that is none": text(LOG, r"^\d\d-", "99-", 1),
            "PTDaemon's log is not UTF-8": bytes_edited(at(LOG), lambda c: b"\xff" + c),
        },
    ),
    **broken(
        "ptd_config",
        {
            "an unsupported analyzer": server(lambda c: c["ptd_config"][0].update(device_type=0)),
            "two channels, one used": server(lambda c: c["ptd_config"][0].update(device_type=77)),
        },
    ),
    **broken("debug", {"debug mode": server(lambda c: c.update(debug=True))}),
}
"""By what was done; most also break the hashes, which detect every change."""
