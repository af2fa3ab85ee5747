"""One trial as a process of its own: what a failed one says, and that whatever ends it leaves none
of its processes behind."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.features.tuning.scripted_runs import (
    id_in,
    is_gone,
    measured,
    request_in,
    run_script,
)
from meta_tests.plugin.pytest_output import collected_tests, pytest_output
from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning import tune
from mlperf_suite.results.schema import Meta, Summary
from mlperf_suite.rules.verdict import Verdict

FILES = ("output.txt", "server.txt", "engine.log")
"""To which a run, its server and its engine write."""
Script = Callable[[str], None]


@pytest.fixture
def python(tmp_path: Path, monkeypatch: MonkeyPatch) -> Script:
    """Makes each run this script for a shell, in the place of the suite."""
    return partial(run_script, tmp_path, monkeypatch)


def test_a_trial_is_a_kept_run_with_its_rate(tmp_path: Path) -> None:
    run = measured(tmp_path / "001", {"STAND_IN": '{"delays_s": [0.5]}'})
    assert run.trial.rate and run.trial.rate > 0, run.trial.reason
    assert run.samples == 24
    assert run.costs["latency p50, ms"] >= 500
    assert list(tmp_path.glob("001/*/summary.json"))


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        (Summary(meta=Meta(status="failed", reason="no such weights")), "no such weights"),
        (Summary(meta=Meta(status="failed")), "failed"),
        (Summary(verdicts=(Verdict("accuracy", "failed", "10", "30"),)), "failed accuracy"),
        (Summary(meta=Meta(status="complete")), "the run shows no tokens/s"),
    ],
)
def test_a_run_without_a_figure(tmp_path: Path, python: Script, summary: Any, reason: str) -> None:
    run = tmp_path / "001" / "20260101-000000-llama3.1-8b-offline"
    run.mkdir(parents=True)
    (run / "summary.json").write_text(json.dumps(summary.as_json()))
    python("exit 0")
    trial = measured(tmp_path / "001", {}).trial
    assert (trial.rate, trial.reason) == (None, reason)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec sleep 600", "no end after 1 s"),
        ("kill -9 $$", "killed by SIGKILL, as the system does where"),
        ("echo 'No space left on device'; exit 1", "no result: No space left on device"),
        (
            "echo 'INTERNALERROR> OSError: no'; echo '=== 3 deselected ==='",
            "no result: OSError: no",
        ),
    ],
)
def test_a_run_writing_nothing(tmp_path: Path, python: Script, script: str, reason: str) -> None:
    python(script)
    run = measured(tmp_path / "001", {}, 1 if "sleep" in script else 600)
    assert run.trial.reason.startswith(reason)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_ended_tuning_leaves_no_run(tmp_path: Path, python: Script, number: int) -> None:
    """By whoever cancels it, and by its terminal that is closed."""
    mark = tmp_path / "ran"
    python(f"echo $$ >{mark}\nexec sleep 600")

    def end() -> None:
        id_in(mark)
        os.kill(os.getpid(), number)

    threading.Thread(target=end, daemon=True).start()
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    try:
        with pytest.raises(KeyboardInterrupt):
            tune.tune(request_in(tmp_path / "out"), print)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert is_gone(id_in(mark))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_process_in_its_own_session_is_ended(tmp_path: Path, python: Script) -> None:
    mark = tmp_path / "left"
    own = f"setsid sh -c 'echo $$ >{mark}; exec sleep 600' &"
    python(f"{own}\nwhile [ ! -s {mark} ]; do sleep 0.05; done")
    assert measured(tmp_path / "001", {}).trial.rate is None
    assert is_gone(id_in(mark))


def test_what_a_killed_tuning_left_is_ended_first(tmp_path: Path, python: Script) -> None:
    python("exit 1")
    folder = tmp_path / "runs" / "001"
    folder.mkdir(parents=True)
    children = []
    for name in FILES:
        with (folder / name).open("ab") as file:
            children.append(subprocess.Popen(["sleep", "600"], stdout=file))
    with (folder / FILES[0]).open("rb") as file:
        reader = subprocess.Popen(["sleep", "600"], stdin=file)
    lines: list[str] = []
    with pytest.raises(UsageError, match="the default itself does not run: no result"):
        tune.tune(request_in(tmp_path), lines.append)
    assert all(is_gone(child.pid) for child in children)
    assert lines[0].startswith("ended what a killed tuning left: sleep (")
    assert reader.poll() is None, "who only reads is none of the run's"
    reader.kill()


# `pytest -m tune`: what is searched under the session's options, and what its tests demand


PLUGIN = """
from mlperf_suite.features.tuning import tune as module
from mlperf_suite.features.tuning.tuning_result import Gain, TuningResult

def tune(request, say):
    say(f"asked: {request.minutes:g} {request.target.name} {request.out} {list(request.options)}")
    return TuningResult({}, {}, **CLAIM)

module.tune = tune
"""
WINNER = 'CLAIM = {"gain": Gain(0.6, 0.5, 0.7, 5), "pairs": [None] * 5}\nTuningResult.costs = [1]'
BROKEN = 'CLAIM = {"failure": "the candidate failed in the pairs: accuracy_rouge1"}'


def session(folder: Path, claim: str, *options: str, code: int = 0) -> str:
    (folder / "tuned.py").write_text(f"{PLUGIN}\n{claim}\n")
    (folder / "space.toml").write_text("max_num_seqs = [1]\n")
    own = f"--minutes 7 --target curve --space {folder}/space.toml --serve 'x {{flags}} {{port}}'"
    words = ("-m", "tune", "-p", "tuned", f"--results-dir={folder}", f"--tune={own}", *options)
    return pytest_output(*words, code=code, python_path=str(folder))


def test_a_winner_passes_with_a_warning_and_options_reach_every_run(tmp_path: Path) -> None:
    options = ("--model=org/small", "--allow-other-model")
    output = session(tmp_path, WINNER, *options)
    assert f"asked: 7 curve {tmp_path}/tuning [" in output
    assert "'-p', 'tuned', '--model=org/small', '--allow-other-model']" in output
    assert "4 passed" in output
    assert "UserWarning: +60.0% over the default" in output


def test_a_candidate_that_broke_the_gate_fails_and_no_better_settings_are_an_answer(
    tmp_path: Path,
) -> None:
    output = session(tmp_path, BROKEN, code=1)
    assert "1 failed, 3 passed" in output
    assert "the candidate failed in the pairs: accuracy_rouge1" in output
    assert "4 passed" in session(tmp_path, "CLAIM = {}")


@pytest.mark.parametrize(
    ("option", "reason"),
    [("--hours 1", "unknown: --hours"), ("--minutes '1", "No closing quotation")],
)
def test_options_that_cannot_be_are_one_line(tmp_path: Path, option: str, reason: str) -> None:
    assert f"--tune: {reason}" in session(tmp_path, "CLAIM = {}", f"--tune={option}", code=1)


def test_nothing_is_searched_unless_asked_by_name() -> None:
    assert not [test for test in collected_tests() if "test_tune" in test]
