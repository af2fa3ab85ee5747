"""A stand-in for the official client: prints and writes as it does, or ends badly."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from meta_tests.features.endpoints.made_official_client import (
    client_config,
    client_events,
    client_run,
    client_scores,
    client_summary,
)
from meta_tests.suite_runs import ROOT
from mlperf_suite.features.endpoints.official_client.client_job import (
    ACCURACY_DATA,
    PERFORMANCE_DATA,
    OfficialClientData,
    OfficialClientJob,
    OfficialClientLoad,
)
from mlperf_suite.features.endpoints.official_client.installation import (
    KNOWN_COMMIT,
    KNOWN_VERSION,
    OFFICIAL_CLIENT,
    OfficialClientInstallation,
)
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    official_client_benchmark,
)

JOB = OfficialClientJob(
    name="made up",
    urls=("http://127.0.0.1:9",),
    model="made up",
    tokenizer=None,
    load=OfficialClientLoad(concurrency=2, requests=20),
    performance=OfficialClientData(prompts=[[1, 2], [3]]),
    max_new_tokens=4,
)
"""A run of 20 requests."""
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
    # Whoever sees the file sees all of it.
    path = os.path.join(here, name)
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)

def bar(count):
    line = "made up (Streaming: True):  10%%|#  | %d/20 [00:05<00:09,  9.9it/s, errors=1]" % count
    print("\\r" + line, end="", file=sys.stderr, flush=True)

def wait():
    note("waiting", "")
    # Until it is ended; not for ever, should nobody end it.
    end = time.monotonic() + 600
    while time.monotonic() < end:
        time.sleep(0.05)

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
    wait_long = [sys.executable, "-c", "import time; time.sleep(600)"]
    leave = "import subprocess as s; print(s.Popen(%r, start_new_session=True).pid)" % wait_long
    child = subprocess.Popen(wait_long, start_new_session=True, stdout=subprocess.DEVNULL)
    leave = leave.replace("=True)", "=True, stdout=-3)")
    left = subprocess.check_output([sys.executable, "-c", leave])
    note("pids", "%d %s %d" % (child.pid, left.decode().strip(), os.getpid()))
    wait()
from meta_tests.features.endpoints.official_client_stand_in import write_report
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
    scorer: str | None = None,
) -> OfficialClientInstallation:
    """Write a client into a folder; `behaviour`: how it ends; it writes `waiting` beside its report
    once it only waits to be ended. `status`: of its exit when asked for its version. `scorer`:
    what its ROUGE says as it fails to load, "" if it loads; None leaves out its Python."""
    program = folder / "bin" / OFFICIAL_CLIENT
    program.parent.mkdir(parents=True, exist_ok=True)
    fields = {"version": version, "behaviour": behaviour, "root": str(ROOT), "status": status}
    program.write_text(_PROGRAM.format(python=sys.executable, **fields))
    program.chmod(0o755)
    if scorer is not None:
        python = program.parent / "python"
        python.write_text(f"#!/bin/sh\necho {scorer!r} >&2\nexit {1 if scorer else 0}\n")
        python.chmod(0o755)
    (folder / "source" / ".git").mkdir(parents=True, exist_ok=True)
    (folder / "source" / ".git" / "HEAD").write_text(f"{commit}\n")
    return OfficialClientInstallation(program, version, commit)


def write_report(config: dict[str, Any]) -> None:
    """The files of a run as configured: of made requests, and for accuracy an answer to each."""
    report, settings = Path(config["report_dir"]), config["settings"]
    scenario = "Offline" if config["type"] == "offline" else "Server"
    benchmark = official_client_benchmark("llama3.1-8b", scenario)
    assert benchmark is not None
    samples = _count(config, "performance")
    run = client_run(replace(benchmark, samples=samples))
    summary = client_summary(run)
    pattern = settings["load_pattern"]
    summary["run_config"]["load_pattern"]["target_qps"] = pattern.get("target_qps")
    resolved = client_config(benchmark, summary)
    resolved["settings"]["runtime"] |= settings["runtime"] | {
        "n_samples_to_issue": summary["n_samples_issued"]
    }
    (report / "performance").mkdir(parents=True)
    (report / "performance" / "result_summary.json").write_text(json.dumps(summary))
    (report / "config.yaml").write_text(yaml.safe_dump(resolved))
    numbers = {f"answer-{n}": n for n in range(_count(config, "accuracy"))}
    measured = {f"{n:x}": n % samples for n in range(len(run.issued))}
    maps = {PERFORMANCE_DATA: measured, ACCURACY_DATA: numbers}
    (report / "sample_idx_map.json").write_text(json.dumps(maps))
    accuracy_sets = [d for d in config["datasets"] if d["type"] == "accuracy"]
    if accuracy_sets and accuracy_sets[0]["accuracy_config"]["eval_method"] == "rouge":
        scores = client_scores(replace(benchmark, answers=len(numbers)))
        good = dict.fromkeys(("rouge1", "rouge2", "rougeL", "rougeLsum"), "40.0")
        good |= {"gen_len": "41681", "gen_num": f"{len(numbers)}"}
        scores["accuracy_scores"][0] |= {"dataset_name": ACCURACY_DATA, "score": good}
        (report / "accuracy").mkdir()
        (report / "accuracy" / "accuracy_results.json").write_text(json.dumps(scores))
    *lines, end = client_events(run).splitlines()
    lines += [json.dumps(_completion(uuid)) for uuid in numbers]
    (report / "events.jsonl").write_text("".join(f"{line}\n" for line in (*lines, end)))


def _count(config: dict[str, Any], kind: str) -> int:
    """The samples of the data of a kind; 0 without any."""
    paths = [d["path"] for d in config["datasets"] if d["type"] == kind]
    return sum(len(Path(path).read_text().splitlines()) for path in paths)


def _completion(uuid: str) -> dict[str, Any]:
    """An answer as it streamed in, in pieces."""
    return {
        "event_type": "sample.complete",
        "timestamp_ns": 1,
        "sample_uuid": uuid,
        "data": ["TextModelOutput", ["A made", " up summary."], None, None],
        "finish_reason": "stop",
    }
