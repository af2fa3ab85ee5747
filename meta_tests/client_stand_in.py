"""A stand-in for the official client: prints and writes as it does, or ends badly."""

from __future__ import annotations

import sys
from pathlib import Path

from meta_tests.conftest import ROOT
from mlperf_suite.official_client.installation import (
    CLIENT,
    KNOWN_COMMIT,
    KNOWN_VERSION,
    ClientInstallation,
)

_PROGRAM = """\
#!{python}
import json, os, signal, subprocess, sys, time
sys.path.insert(0, {root!r})
if sys.argv[1:] == ["--version"]:
    print({version!r})
    sys.exit({status})
config = json.load(open(sys.argv[sys.argv.index("--config") + 1]))
behaviour, here = {behaviour!r}, os.path.dirname(config["report_dir"])

def note(name, text):
    with open(os.path.join(here, name), "w") as file:
        file.write(text)

def bar(count):
    line = "made up (Streaming: True):  10%%|#  | %d/20 [00:05<00:09,  9.9it/s, errors=1]" % count
    print("\\r" + line, end="", file=sys.stderr, flush=True)

def wait(seconds=60.0):
    while seconds > 0:
        time.sleep(0.05)
        seconds -= 0.05

note("arguments", " ".join(sys.argv[1:]))
note("environment", os.environ.get("PYTHONPATH", "none"))
os.makedirs(config["report_dir"])
bar(7)
if behaviour == "dies":
    print("\\n2026-11-23 10:00:00,000 - made.up - ERROR - Failed to connect", file=sys.stderr)
    sys.exit(3)
if behaviour == "raises":
    raise RuntimeError("nobody caught it")
if behaviour == "is killed":
    os.kill(os.getpid(), signal.SIGKILL)
if behaviour == "interrupts":
    signal.signal(signal.SIGINT, lambda *_: (note("report/saved", "partial"), sys.exit(130)))
    wait()
if behaviour == "ignores":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    note("pids", str(os.getpid()))
    wait()
if behaviour == "has children":
    wait_long = [sys.executable, "-c", "import time; time.sleep(60)"]
    leave = "import subprocess as s; print(s.Popen(%r, start_new_session=True).pid)" % wait_long
    child = subprocess.Popen(wait_long, start_new_session=True, stdout=subprocess.DEVNULL)
    leave = leave.replace("=True)", "=True, stdout=-3)")
    left = subprocess.check_output([sys.executable, "-c", leave])
    note("pids", "%d %s %d" % (child.pid, left.decode().strip(), os.getpid()))
    wait()
if behaviour == "hangs":
    wait()
if behaviour == "prints":
    for count in range(200):
        bar(count)
        time.sleep(0.05)
from meta_tests.client_stand_in import write_report
write_report(config)
bar(20)
"""


def write_client(
    folder: Path,
    behaviour: str = "answers",
    *,
    version: str = KNOWN_VERSION,
    commit: str = KNOWN_COMMIT,
    status: int = 0,
) -> ClientInstallation:
    """Write a client into a folder; `status`: of its exit when asked for its version."""
    program = folder / "bin" / CLIENT
    program.parent.mkdir(parents=True, exist_ok=True)
    fields = {"version": version, "behaviour": behaviour, "root": str(ROOT), "status": status}
    program.write_text(_PROGRAM.format(python=sys.executable, **fields))
    program.chmod(0o755)
    (folder / "source" / ".git").mkdir(parents=True, exist_ok=True)
    (folder / "source" / ".git" / "HEAD").write_text(f"{commit}\n")
    return ClientInstallation(program, version, commit)


def write_report(config: dict[str, object]) -> None:
    """The files of a run, which say nothing."""
    folder = Path(str(config["report_dir"]))
    (folder / "performance").mkdir(parents=True)
    (folder / "performance" / "result_summary.json").write_text("{}")
