"""`tune` and its trials: what a failed one says, and what a folder keeps."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from mlperf_suite.__main__ import main
from mlperf_suite.errors import UsageError
from mlperf_suite.tuning import trial_run, tune
from mlperf_suite.tuning.space import (
    Settings,
    Trial,
    run_arguments,
    run_variables,
    serve_command,
    space_of,
    space_text,
)

STAND_IN = ("-p", "meta_tests.stand_in_plugin", "--warmup=0", "--offline-target-qps=8.4")
MARKS = "offline and datacenter and performance"
SPACE = {"max_num_seqs": (None, 16, 32)}


def test_a_trial_is_a_kept_run_with_its_rate(tmp_path: Path) -> None:
    settings = {"STAND_IN": '{"delays_s": [10.2]}'}
    trial = trial_run.run_trial(tmp_path / "001", MARKS, settings, STAND_IN, 600)
    assert trial.rate and trial.rate > 0, trial.reason
    assert list(tmp_path.glob("001/*/summary.json"))


@pytest.mark.parametrize("fault", ["load_error", "crash"])
def test_an_engine_that_fails_is_one_failed_trial(tmp_path: Path, fault: str) -> None:
    settings = {"STAND_IN": json.dumps({fault: "no such weights"})}
    trial = trial_run.run_trial(tmp_path / "001", MARKS, settings, STAND_IN, 600)
    assert trial.rate is None
    assert trial.reason


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import time; time.sleep(600)", "no end after 1 s"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL, as the system does where"),
        ("raise SystemExit('No space left on device')", "no result: No space left on device"),
    ],
)
def test_a_run_that_hangs_is_killed_or_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    program = tmp_path / "python"
    text = f'#!/bin/sh\nexec {sys.executable} -c "{script}"\n'
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    trial = trial_run.run_trial(tmp_path / "001", MARKS, {}, (), 1 if "sleep" in script else 600)
    assert trial.reason.startswith(reason)


def test_a_cancelled_tuning_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "ran"
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho $$ >{mark}\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))

    def cancel() -> None:
        while not (mark.exists() and mark.read_text().endswith("\n")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=cancel, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        tune.tune(request_in(tmp_path / "out"), print)
    assert not psutil.pid_exists(int(mark.read_text()))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def stand_in_trials(
    monkeypatch: pytest.MonkeyPatch, rates: dict[object, float], failing: object = ()
) -> list[Settings]:
    """Each trial's rate by its max_num_seqs; the list of what was run."""
    runs: list[Settings] = []

    def run_trial(
        folder: Path, marks: str, settings: Settings, options: Sequence[str], limit_s: float
    ) -> Trial:
        folder.mkdir(parents=True)
        runs.append(settings)
        value = settings["max_num_seqs"]
        if value == failing:
            return Trial(settings, reason="out of memory")
        return Trial(settings, rates[value] * (1 + len(runs) % 3 / 1000), 0.001)

    monkeypatch.setattr(tune, "run_trial", run_trial)
    return runs


def request_in(folder: Path) -> tune.Request:
    return tune.Request(folder, 0.02, SPACE, ())


def test_tune_claims_a_gain_and_prints_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 100, 16: 160}, failing=32)
    lines: list[str] = []
    gain = tune.tune(request_in(tmp_path), lines.append)
    assert gain and gain.is_better and gain.low < 0.6 < gain.high
    assert lines[-2] == "command: mlperf-suite -m offline --engine-arg=max_num_seqs=16"
    assert lines[-1] == "server: vllm serve MODEL --max-num-seqs 16"
    assert space_of(tmp_path / "winner.toml")["max_num_seqs"] == (None, 16)
    page = (tmp_path / "report.html").read_text()
    assert 'vllm serve MODEL <span class="option">--max-num-seqs</span> 16' in page
    assert page.count("<svg") == 2
    assert (tmp_path / "tuning.md").read_text().startswith("+")
    assert any("failed: out of memory" in line for line in lines)


def test_a_default_that_is_the_best_gets_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 160, 16: 100, 32: 100})
    lines: list[str] = []
    assert tune.tune(request_in(tmp_path), lines.append) is None
    assert lines[-1] == "no setting was shown to be better than the default"


def test_an_interrupted_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = [{"settings": {"max_num_seqs": v}, "rate": r} for v, r in ((None, 100), (16, 160))]
    lines = [*map(json.dumps, earlier), '{"settings": {"max_nu']
    (tmp_path / "trials.jsonl").write_text("\n".join(lines))
    runs = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    gain = tune.tune(tune.Request(tmp_path, 1e-9, SPACE, ()), print)
    assert gain and gain.is_better
    assert len(runs) == 10, "the pairs alone"


def test_two_tunings_refuse_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_trials(monkeypatch, {None: 100, 16: 100, 32: 100})
    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # So a tuning that only shares its lock would go on.
        with pytest.raises(UsageError, match="another tuning uses this folder"):
            tune.tune(request_in(tmp_path), print)


def test_trials_of_another_space_are_refused(tmp_path: Path) -> None:
    (tmp_path / "trials.jsonl").write_text('{"settings": {"block_size": 16}, "rate": 1.0}\n')
    with pytest.raises(UsageError, match="another space"):
        tune.tune(request_in(tmp_path), print)


def test_ctrl_c_ends_the_command_with_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def run_trial(*_: object) -> Trial:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "run_trial", run_trial)
    assert main(["tune", "--out", str(tmp_path)]) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_a_file_narrows_and_adds(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("max_num_seqs = [8]\nmax_num_batched_tokens = []\nblock_size = [32]\n")
    space = space_of(file)
    assert space["max_num_seqs"] == (None, 8)
    assert space["block_size"] == (None, 32)
    assert "max_num_batched_tokens" not in space


@pytest.mark.parametrize("text", ["a = 1", "a = [[1]]", '"a b" = [1]', "a = ["])
def test_a_file_that_is_no_space_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "space.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match="--space"):
        space_of(file)


def test_settings_as_options_and_variables() -> None:
    settings: Settings = {
        "max_num_seqs": 16,
        "enforce_eager": False,
        "OMP_X": "0,1",
        "block_size": None,
    }
    options = ["--engine-arg=max_num_seqs=16", "--engine-arg=enforce_eager=False"]
    assert run_arguments(settings) == options
    assert run_variables(settings) == {"OMP_X": "0,1"}


@pytest.mark.parametrize("options", [("--model", "/m y"), ("--seed=1", "--model=/m y")])
def test_settings_as_a_server_and_as_a_file(options: Sequence[str]) -> None:
    settings: Settings = {"enforce_eager": False, "a_b": True, "kv": "fp8", "OMP_X": "0", "c": None}
    command = "OMP_X=0 vllm serve '/m y' --no-enforce-eager --a-b --kv fp8"
    assert serve_command(settings, options) == command
    assert space_text(settings) == (
        'enforce_eager = [false]\na_b = [true]\nkv = ["fp8"]\nOMP_X = ["0"]\n'
    )
