"""A made-up power measurement, as PTDaemon's client leaves one: sessions that obey every rule."""

import hashlib
import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from meta_tests.made_details import sha1_sums
from meta_tests.made_runs import MadeRun, write_run
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.submission_check.power_measurement import (
    HASHED,
    POWER,
    RANGING,
    SPL,
    TESTING,
)
from mlperf_suite.loadgen.logs import DETAIL, SUMMARY

BEGIN = datetime(2026, 8, 1, 0, 39, 24, 362000, tzinfo=UTC)
LENGTH = timedelta(seconds=1700)
"""A load that is long enough for warnings in its middle to count."""
_BETWEEN = timedelta(seconds=800)
WATTS = 9436.0
SESSION = "2026-08-01_00-23-43"
UUID = "0aba54c8-b8a7-4f89-bced-8221b15ea470"
SOURCES = sha1_sums(Path(__file__).with_name("power-client.sha1"))
"""Of the released client and server, as their descriptors have them."""


def _ptd_time(at: datetime) -> str:
    return f"{at:%m-%d-%Y %H:%M:%S}.{at.microsecond // 1000:03}"


def give_times(logs: Path, begin: datetime = BEGIN, length: timedelta = LENGTH) -> None:
    """Put another power_begin and power_end into a made-up detail log."""
    text = (logs / DETAIL).read_text()
    for key, at in (("power_begin", begin), ("power_end", begin + length)):
        text = re.sub(rf'("key": "{key}", "value": )"[^"]*"', rf'\g<1>"{_ptd_time(at)}"', text)
    (logs / DETAIL).write_text(text)


def _load(logs: Path) -> tuple[datetime, datetime]:
    text = (logs / DETAIL).read_text()
    begin, end = (
        datetime.strptime(messages, "%m-%d-%Y %H:%M:%S.%f").replace(tzinfo=UTC)
        for messages in re.findall(r'"power_(?:begin|end)", "value": "([^"]*)"', text)
    )
    return begin, end


def spl_line(at: datetime, watts: float, mode: str) -> str:
    figures = f"Watts,{watts:.6f},Volts,240.1,Amps,13.4,PF,0.98"
    return f"Time,{_ptd_time(at)},{figures},Mark,{SESSION}_{mode}"


def _exchange(*messages: tuple[str, str]) -> list[dict[str, str]]:
    return [{"cmd": cmd, "reply": reply} for cmd, reply in messages]


def _messages() -> list[dict[str, str]]:
    doing = [f"{do},{mode}" for mode in ("ranging", "testing") for do in ("start", "stop")]
    return _exchange(
        ("mlcommons/power client v3", "mlcommons/power server v3"),
        ("time", "1785544763.5"),
        (f"new,,{UUID}", f"OK {SESSION}"),
        *((f"session,{SESSION},{what}", "OK") for what in doing),
    )


def _ptd_messages() -> list[dict[str, str]]:
    go_reply = (
        "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples"
    )
    auto = [("SR,V,Auto", "Range V changed"), ("SR,A,Auto", "Range A changed")]
    return _exchange(
        ("Hello", "Hello, PTDaemon here!"),
        ("Identify", "YokogawaWT500_multichannel,1,1,version=1.11.1-69286632-20240907,OS=Linux"),
        ("RR", "Ranges,1,10.000000,1,300.000000"),
        *auto,
        ("Go,1000,0,ranging", go_reply),
        ("Stop", "Stopping untimed measurement"),
        ("SR,V,240.21", "Range V changed"),
        ("SR,A,15.12", "Range A changed"),
        ("Go,1000,0,testing", go_reply),
        ("Stop", "Stopping untimed measurement"),
        *auto,
        auto[1],
        ("Stop", "Error: no measurement to stop"),
    )


def _around(at: datetime, length: timedelta) -> list[list[float]]:
    edges = (-90, -60, length.total_seconds() + 60, length.total_seconds() + 90)
    return [[(at + timedelta(seconds=edge)).timestamp(), 1.0] for edge in edges]


def _ptd_log(ranging: datetime, testing: datetime, length: timedelta) -> str:
    on = ranging - timedelta(seconds=120)
    lines = [
        "Version 1.11.1-69286632-20240907",
        f"{_ptd_time(on)}: Uncertainty checking for YokogawaWT500_multichannel is activated",
        f"{_ptd_time(ranging - timedelta(seconds=50))}: Go with mark '{SESSION}_ranging'",
        f"{_ptd_time(ranging)}: ERROR: Can't evaluate uncertainty of this sample!",
        f"{_ptd_time(ranging)}: WARNING: Uncertainty unknown for the last measurement sample!",
        f"{_ptd_time(ranging + length)}: Completed test",
        f"{_ptd_time(testing)}: Go with mark '{SESSION}_testing'",
        f"{_ptd_time(testing + length)}: Completed test",
    ]
    return "\n".join(lines) + "\n"


def write_measurement(folder: Path, benchmark: Benchmark, scenario: Scenario) -> Path:
    """A folder `performance` of round v6.1 with a measurement that obeys every rule."""
    write_run(folder / "run_1", MadeRun(benchmark, scenario, "performance", ROUNDS["v6.1"]))
    give_times(folder / "run_1")
    write_session(folder, folder / "run_1")
    return folder


def write_session(folder: Path, logs: Path) -> None:
    """Write power/, ranging/ and run_1/ of a session whose measured run left these `logs`; the
    ranging run is the same, earlier."""
    begin, end = _load(logs)
    length = end - begin
    ranging = begin - length - _BETWEEN
    was = (logs / DETAIL).read_bytes()
    for mode, name, at in ((RANGING, "ranging", ranging), (TESTING, "testing", begin)):
        (folder / mode).mkdir(parents=True, exist_ok=True)
        (folder / mode / DETAIL).write_bytes(was)
        if at != begin:
            give_times(folder / mode, at, length)
        if logs != folder / mode:
            shutil.copyfile(logs / SUMMARY, folder / mode / SUMMARY)
        times = [
            at + timedelta(seconds=s) for s in range(-30, int(length.total_seconds()) + 40, 10)
        ]
        lines = [spl_line(t, WATTS if at < t < at + length else 2400, name) for t in times]
        (folder / mode / SPL).write_text("\n".join(lines) + "\n")
    (folder / POWER).mkdir(exist_ok=True)
    for name in ("client.log", "server.log"):
        (folder / POWER / name).write_text("made up\n")
    (folder / POWER / "ptd_logs.txt").write_text(_ptd_log(ranging, begin, length))
    common = {
        "version": "1.0",
        "timezone": 0,
        "modules": {},
        "sources": SOURCES,
        "messages": _messages(),
        "uuid": {"client": UUID, "server": UUID.replace("0a", "0e")},
        "session_name": SESSION,
        "phases": {"ranging": _around(ranging, length), "testing": _around(begin, length)},
    }
    server = {
        "ptd_messages": _ptd_messages(),
        "ptd_config": [{"command": ["ptd", "-c", "1", "48"], "device_type": 48, "channel": [1]}],
    }
    seal(folder, common, common | server)


def seal(folder: Path, client: dict[str, Any], server: dict[str, Any]) -> None:
    """Write what client and server say, each with the hashes of the files that it makes."""
    for name, content, its_own in (("client", client, False), ("server", server, True)):
        results = {
            path: hashlib.sha1((folder / path).read_bytes()).hexdigest()
            for path in HASHED
            if path.endswith((SPL, "ptd_logs.txt", "server.log")) is its_own
        }
        text = json.dumps({**content, "results": results}, indent=1)
        (folder / POWER / f"{name}.json").write_text(text)
