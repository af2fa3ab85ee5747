"""`tune` and its trials: what a failed one says, and what a folder keeps."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from mlperf_suite.tuning import space, tune
from mlperf_suite.tuning.answer import commands_of
from mlperf_suite.tuning.probing import Work
from mlperf_suite.tuning.space import (
    Settings,
    Space,
    Trial,
    run_arguments,
    run_variables,
    serve_command,
    space_of,
    space_text,
)
from mlperf_suite.tuning.target import TARGETS, TuneTarget
from mlperf_suite.tuning.trial_run import Command, Measured, Watch, run_trial
from mlperf_suite.tuning.tuning_options import TARGET_NAMES, add_options
from mlperf_suite.tuning.tuning_request import Request, request_of

from meta_tests.suite_runs import ROOT
from mlperf_suite.__main__ import main
from mlperf_suite.errors import UsageError

OFFLINE = TARGETS["offline"]
RunTrial = Callable[[Command, TuneTarget, Watch], Measured]
STAND_IN = ("-p", "meta_tests.stand_in_plugin", "--total-sample-count=24")
SPACE = {"max_num_seqs": (None, 16, 32)}
FILES = ("output.txt", "server.txt", "engine.log")
"""To which a run, its server and its engine write."""


def measured(folder: Path, settings: Settings, limit_s: float = 600) -> Measured:
    folder.mkdir()
    command = Command(folder, settings, OFFLINE.trial, STAND_IN, limit_s)
    return run_trial(command, OFFLINE)


def test_a_trial_is_a_kept_run_with_its_rate(tmp_path: Path) -> None:
    run = measured(tmp_path / "001", {"STAND_IN": '{"delays_s": [0.5]}'})
    assert run.trial.rate and run.trial.rate > 0, run.trial.reason
    assert run.samples == 24
    assert run.costs["latency p50, ms"] == pytest.approx(500, rel=0.5)
    assert list(tmp_path.glob("001/*/summary.json"))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"load_error": "no such weights"}, "no such weights"),
        ({"crash": "boom"}, "RuntimeError"),
        ({"answers": ["another sample's"]}, "failed accuracy_rouge1"),
    ],
)
def test_an_engine_that_fails_is_one_failed_trial(
    tmp_path: Path, fault: dict[str, object], reason: str
) -> None:
    trial = measured(tmp_path / "001", {"STAND_IN": json.dumps(fault)}).trial
    assert trial.rate is None
    assert reason in trial.reason


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import time; time.sleep(600)", "no end after 1 s"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL, as the system does where"),
        ("raise SystemExit('No space left on device')", "no result: No space left on device"),
        (
            "print('INTERNALERROR> OSError: no plugin'); print('=== 375 deselected in 1 s ===')",
            "no result: OSError: no plugin",
        ),
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
    run = measured(tmp_path / "001", {}, 1 if "sleep" in script else 600)
    assert run.trial.reason.startswith(reason)


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


def program_in_place_of_python(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def id_in(file: Path) -> int:
    while not (file.exists() and file.read_text().endswith("\n")):
        time.sleep(0.05)
    return int(file.read_text())


def interrupted_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a run ignore Ctrl-C, and send it twice. Returns the file with the run's process id."""
    mark = folder / "ran"
    script = f"trap 'touch {folder}/asked' INT\necho $$ >{mark}\nwhile :; do sleep 0.1; done"
    program_in_place_of_python(folder, monkeypatch, script)

    def cancel() -> None:
        id_in(mark)
        os.kill(os.getpid(), signal.SIGINT)
        while not (folder / "asked").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=cancel, daemon=True).start()
    return mark


def test_a_second_ctrl_c_leaves_no_run_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = interrupted_twice(tmp_path, monkeypatch)
    command = Command(tmp_path / "001", {}, OFFLINE.trial, (), 600)
    command.folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        run_trial(command, OFFLINE)
    psutil.wait_procs([psutil.Process(id_in(mark))] if psutil.pid_exists(id_in(mark)) else [], 5)
    assert is_gone(id_in(mark))


def test_a_second_ctrl_c_leaves_no_run_of_a_tuning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread whose join is interrupted counts as ended to Python, and would not be awaited."""
    mark = interrupted_twice(tmp_path, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        tune.tune(request_in(tmp_path / "out"), print)
    assert is_gone(id_in(mark))


def test_a_closed_terminal_ends_the_tuning_like_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    program_in_place_of_python(tmp_path, monkeypatch, f"echo $$ >{mark}\nexec sleep 600")

    def close() -> None:
        id_in(mark)
        os.kill(os.getpid(), signal.SIGHUP)

    threading.Thread(target=close, daemon=True).start()
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    try:
        with pytest.raises(KeyboardInterrupt):
            tune.tune(request_in(tmp_path / "out"), print)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert is_gone(id_in(mark))


def test_a_process_in_a_session_of_its_own_is_ended_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "left"
    script = f"setsid sh -c 'echo $$ >{mark}; exec sleep 600' &\nwhile [ ! -s {mark} ]; do :; done"
    program_in_place_of_python(tmp_path, monkeypatch, script)
    assert measured(tmp_path / "001", {}).trial.rate is None
    assert is_gone(id_in(mark))


def test_what_a_killed_tuning_left_is_ended_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    folder = tmp_path / "runs" / "001"
    folder.mkdir(parents=True)
    children = []
    for name in FILES:
        with (folder / name).open("ab") as file:
            children.append(subprocess.Popen(["sleep", "600"], stdout=file))
    with (folder / FILES[0]).open("rb") as file:
        reader = subprocess.Popen(["sleep", "600"], stdin=file)
    lines: list[str] = []
    tune.tune(request_in(tmp_path), lines.append)
    assert all(is_gone(child.pid) for child in children)
    assert lines[0].startswith("ended what a killed tuning left: sleep (")
    assert reader.poll() is None, "who only reads is none of the run's"
    reader.kill()


def stand_in_trials(
    monkeypatch: pytest.MonkeyPatch, rates: dict[object, float], failing: object = ()
) -> tuple[list[Settings], RunTrial]:
    """Each trial's rate by its max_num_seqs; the list of what was run, and what runs it.

    A trial takes a second of a clock that only trials move."""
    runs: list[Settings] = []
    monkeypatch.setattr(tune, "time", SimpleNamespace(monotonic=lambda: float(len(runs))))

    def trial_of(command: Command, target: TuneTarget, watch: Watch) -> Measured:
        runs.append(command.settings)
        value, folder = command.settings["max_num_seqs"], command.folder.name
        if value == failing:
            return Measured(Trial(command.settings, reason="out of memory"), folder)
        trial = Trial(command.settings, rates[value] * (1 + len(runs) % 3 / 1000), 0.001)
        return Measured(trial, folder, 1.0, 12, {"latency p50, ms": 1e5 / rates[value]})

    monkeypatch.setattr(tune, "run_trial", trial_of)
    return runs, trial_of


def request_in(folder: Path, minutes: float = 0.2) -> Request:
    return Request(folder, minutes, SPACE)


def test_tune_claims_a_gain_and_prints_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 100, 16: 160}, failing=32)
    lines: list[str] = []
    claim = tune.tune(request_in(tmp_path), lines.append)
    assert claim.gain and claim.is_better and claim.gain.low < 0.6 < claim.gain.high
    answer = (tmp_path / "tuning.md").read_text().split("\n\n")
    assert answer[0].startswith("+")
    assert answer[1].startswith("what it costs: latency p50, ms -37.5%")
    assert answer[1].endswith("energy not measured (no counter)")
    assert answer[2].startswith("max_num_seqs = 16 instead of default: +")
    command = "mlperf-suite -m 'offline and datacenter and (accuracy or performance)'"
    assert answer[3] == f"command: {command} --engine-arg=max_num_seqs=16"
    assert answer[4] == "server: vllm serve MODEL --max-num-seqs 16\n"
    assert space_of(tmp_path / "winner.toml")["max_num_seqs"] == (None, 16)
    page = (tmp_path / "report.html").read_text()
    assert "vllm serve MODEL --max-num-seqs 16" in page
    assert "max_num_seqs = [16]" in page
    assert page.count("<svg") == 3
    assert any("failed: out of memory" in line for line in lines)


def test_both_sides_of_a_pair_have_a_query_of_one_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, trial_of = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    queries: set[str] = set()

    def sized(command: Command, target: TuneTarget, watch: Watch) -> Measured:
        if command.sessions == OFFLINE.whole:
            queries.update(o for o in command.options if o.startswith("--offline-target-qps="))
        run = trial_of(command, target, watch)
        return replace(run, work=Work(12, 300.0, 50.0))

    monkeypatch.setattr(tune, "run_trial", sized)
    assert tune.tune(request_in(tmp_path), print).is_better
    (query,) = queries
    assert float(query.partition("=")[2]) == pytest.approx(1.25 * 160 / 50, rel=0.01)


def test_a_default_that_is_the_best_gets_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 160, 16: 100, 32: 100})
    claim = tune.tune(request_in(tmp_path), print)
    assert not claim.is_better
    words = "no setting was shown to be better than the default\n"
    assert (tmp_path / "tuning.md").read_text() == words


def test_an_answer_says_if_nothing_but_the_default_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 100}, failing=16)
    request = replace(request_in(tmp_path), space={"max_num_seqs": (None, 16)})
    tune.tune(request, print)
    answer = (tmp_path / "tuning.md").read_text()
    assert "trials of other settings failed; the last: out of memory\n" in answer


def failing_in_pairs(monkeypatch: pytest.MonkeyPatch, trial_of: RunTrial, *values: object) -> None:
    """Whole runs with these numbers of sequences fail."""

    def broken(command: Command, target: TuneTarget, watch: Watch) -> Measured:
        run = trial_of(command, target, watch)
        if command.settings["max_num_seqs"] in values and command.sessions == OFFLINE.whole:
            return replace(run, trial=Trial(command.settings, reason="failed score"))
        return run

    monkeypatch.setattr(tune, "run_trial", broken)


def test_a_candidate_that_fails_in_the_pairs_is_no_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, trial_of = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 90})
    failing_in_pairs(monkeypatch, trial_of, 16)
    claim = tune.tune(request_in(tmp_path), print)
    assert not claim.is_better
    assert claim.words.endswith("the candidate failed in the pairs: failed score")
    assert not (tmp_path / "winner.toml").exists()


def test_the_next_best_is_compared_and_a_failure_is_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, trial_of = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 140})
    failing_in_pairs(monkeypatch, trial_of, 16)
    assert tune.tune(request_in(tmp_path), print).best == {"max_num_seqs": 32}
    line = "failed in the pairs: max_num_seqs=16: failed score"
    made = len(runs)
    monkeypatch.setattr(tune, "run_trial", trial_of)  # Now it would pass.
    claim = tune.tune(request_in(tmp_path), print)
    assert claim.is_better
    assert claim.best == {"max_num_seqs": 32}
    assert len(runs) == made
    assert line in (tmp_path / "tuning.md").read_text()
    page = (tmp_path / "report.html").read_text()
    assert line in re.sub(r"<[^>]*>", "", page)


def test_after_three_candidates_that_failed_the_tuning_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, trial_of = stand_in_trials(monkeypatch, {None: 100, **dict.fromkeys(range(1, 7), 150)})
    failing_in_pairs(monkeypatch, trial_of, *range(1, 7))
    request = replace(request_in(tmp_path, 0.5), space={"max_num_seqs": (None, *range(1, 7))})
    claim = tune.tune(request, print)
    assert not claim.is_better
    assert len(set(claim.failed)) == 3
    assert len(runs) == len((tmp_path / "trials.jsonl").read_text().splitlines()) + 2 * 3


def test_a_default_that_fails_in_the_pairs_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, trial_of = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 140})
    failing_in_pairs(monkeypatch, trial_of, None)
    claim = tune.tune(request_in(tmp_path), print)
    assert claim.words.endswith("the default failed in the pairs: failed score")
    assert not claim.failed
    monkeypatch.setattr(tune, "run_trial", trial_of)
    assert tune.tune(request_in(tmp_path), print).is_better


def test_an_earlier_winner_does_not_stay_beside_another_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 160, 16: 100, 32: 100})
    (tmp_path / "winner.toml").write_text("max_num_seqs = [16]\n")
    assert not tune.tune(request_in(tmp_path), print).is_better
    assert not (tmp_path / "winner.toml").exists()


def test_runs_that_were_removed_to_make_room_leave_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    for name in ("002", "007", "notes"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    tune.tune(request_in(tmp_path), print)
    assert (tmp_path / "runs" / "008").is_dir()


def test_the_first_pairs_candidate_is_limited_by_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, trial_of = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    limits: list[float] = []

    def limited(command: Command, target: TuneTarget, watch: Watch) -> Measured:
        if command.sessions == OFFLINE.whole:
            limits.append(command.limit_s)
        return trial_of(command, target, watch)

    monkeypatch.setattr(tune, "run_trial", limited)
    tune.tune(request_in(tmp_path), print)
    assert limits[0] > 3600
    assert set(limits[1:]) == {5.0}, "each lasts a second"


@pytest.mark.filterwarnings("error")
def test_the_page_shows_what_is_no_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = (None, "$HOME/$a_{", "<script>alert(1)</script>", "x" * 300)
    space: Space = {"PLACE": choices}

    def trial_of(command: Command, target: TuneTarget, watch: Watch) -> Measured:
        rate = 150 if command.settings["PLACE"] == choices[1] else 100
        return Measured(Trial(command.settings, rate, 0.01), command.folder.name, 2.0)

    monkeypatch.setattr(tune, "run_trial", trial_of)
    runs = [
        {"settings": {"PLACE": c}, "rate": r, "seconds": 9}
        for c, r in ((None, 100), (choices[1], 150))
    ]
    failed = {"settings": {"PLACE": choices[2]}, "reason": "</td><script>alert(2)</script>\x1b[31m"}
    (tmp_path / "trials.jsonl").write_text("".join(json.dumps(r) + "\n" for r in [*runs, failed]))
    assert tune.tune(Request(tmp_path, 0.1, space), print).is_better
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "PLACE=&#39;$HOME/$a_{&#39; vllm serve MODEL" in page


def test_an_interrupted_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = [
        {"settings": {"max_num_seqs": v}, "rate": r, "seconds": 9}
        for v, r in ((None, 100), (16, 160))
    ]
    lines = [*map(json.dumps, earlier), '{"settings": {"max_nu']
    (tmp_path / "trials.jsonl").write_text("\n".join(lines))
    runs, _ = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    assert tune.tune(request_in(tmp_path, 1e-9), print).is_better
    assert len(runs) == 10, "the pairs alone"


def test_the_time_of_an_interrupted_search_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"settings": {"max_num_seqs": None}, "rate": 100, "seconds": 61}
    (tmp_path / "trials.jsonl").write_text(json.dumps(row) + "\n")
    runs, _ = stand_in_trials(monkeypatch, {None: 100})
    words = "--minutes 1: the default's trial took 61 s, and no other was made"
    with pytest.raises(UsageError, match=words):
        tune.tune(request_in(tmp_path, 1), print)
    assert not runs
    assert not (tmp_path / "tuning.md").exists(), "nothing was compared"


def test_interrupted_pairs_go_on_with_those_that_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: dict[object, float] = {None: 100, 16: 160, 32: 50}
    rows = [
        {"settings": {"max_num_seqs": v}, "rate": r, "seconds": 9}
        for v, r in ((None, 100), (16, 160))
    ]
    (tmp_path / "trials.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    runs, trial_of = stand_in_trials(monkeypatch, rates)

    def interrupted(command: Command, target: TuneTarget, watch: Watch) -> Measured:
        if len(runs) == 5:
            raise KeyboardInterrupt
        return trial_of(command, target, watch)

    monkeypatch.setattr(tune, "run_trial", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune.tune(request_in(tmp_path, 1e-9), print)
    monkeypatch.setattr(tune, "run_trial", trial_of)
    claim = tune.tune(request_in(tmp_path, 1e-9), print)
    assert claim.is_better
    assert len(runs) == 5 + 6, "two pairs were whole; the half of the third is made again"


def test_a_line_of_progress_starts_with_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 9.9e3, 16: 16e3}, failing=32)
    lines: list[str] = []
    tune.tune(request_in(tmp_path), lines.append)
    default = re.compile(r"trial 1: 9,9\d\d tokens/s \(\d s\): the default")
    assert default.fullmatch(lines[0])
    assert any(re.match(r"pair 1: 16,0\d\d tokens/s \(1 s\): max_num_seqs=16$", x) for x in lines)
    assert any(x.endswith("failed: out of memory (0 s): max_num_seqs=32") for x in lines)


def test_the_number_of_pairs_cannot_change_after_a_look_at_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    tune.tune(request_in(tmp_path), print)
    words = f"--pairs 9: {tmp_path} has runs of 5 pairs; repeat with --pairs 5 or name a new folder"
    with pytest.raises(UsageError, match=words):
        tune.tune(replace(request_in(tmp_path), pairs=9), print)
    assert tune.tune(request_in(tmp_path), print).is_better


@pytest.mark.parametrize("target", TARGETS.values())
def test_the_probe_judges_only_a_rate_that_is_proportional_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: TuneTarget
) -> None:
    runs, _ = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    leaders: list[object] = []

    def watched(_settings: Settings, leader: object, *_others: object) -> Watch:
        leaders.append(leader)
        return lambda _: None

    def leader(best: object, *_others: object) -> object:
        return best

    monkeypatch.setattr(tune, "leader_of", leader)
    monkeypatch.setattr(tune, "watch_of", watched)
    tune.tune(replace(request_in(tmp_path), target=target), print)
    assert runs
    assert any(leaders) == (target.name == "offline")


def test_trials_run_side_by_side_with_a_device_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, trial_of = stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    seen, together = Counter[str](), threading.Barrier(2, timeout=20)

    def beside(command: Command, target: TuneTarget, watch: Watch) -> Measured:
        if seen.total() in (1, 2):
            together.wait()
        seen[command.variables["CUDA_VISIBLE_DEVICES"]] += 1
        return trial_of(command, target, watch)

    monkeypatch.setattr(tune, "run_trial", beside)
    tune.tune(replace(request_in(tmp_path), slots=("0,3", "1,2")), print)
    assert seen["0,3"] and seen["1,2"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_tuning_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in_trials(monkeypatch, {None: 100, 16: 160, 32: 50})
    (tmp_path / "trials.jsonl").symlink_to("/dev/full")
    space = tmp_path / "space.toml"
    names = ("max_num_batched_tokens", "enable_chunked_prefill", "VLLM_CPU_OMP_THREADS_BIND")
    space.write_text("max_num_seqs = [16, 32]\n" + "".join(f"{name} = []\n" for name in names))
    words = ["--out", str(tmp_path), "--space", str(space), "--minutes", "0.01"]
    assert main(["tune", *words]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert not (tmp_path / "tuning.md").exists()


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


@pytest.mark.parametrize(
    "other",
    [
        *({"target": "server"}, {"options": ["--model=x"]}, {"serve": "x {flags} {port}"}),
        *({"gpus": 2}, {"variables": {"OMP_BIND": "0"}}),
    ],
)
def test_trials_of_another_measurement_are_refused(
    tmp_path: Path, other: dict[str, object]
) -> None:
    row = {"settings": {"max_num_seqs": None}, "rate": 1.0, "target": "offline", **other}
    (tmp_path / "trials.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(UsageError, match="has trials of another target, server, number of GPUs"):
        tune.tune(request_in(tmp_path), print)


def test_ctrl_c_ends_the_command_with_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def interrupted(*_: object) -> Measured:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "run_trial", interrupted)
    assert main(["tune", "--out", str(tmp_path)]) == 130
    assert "repeat the command to continue" in capsys.readouterr().err


def test_a_file_narrows_and_adds(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("max_num_seqs = [8]\nmax_num_batched_tokens = []\nblock_size = [32]\n")
    space = space_of(file)
    assert space["max_num_seqs"] == (None, 8)
    assert space["block_size"] == (None, 32)
    assert "max_num_batched_tokens" not in space


def test_a_file_that_only_fixes_settings_leaves_nothing_to_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "space.toml"
    file.write_text("max_num_seqs = 8\nblock_size = []\n")
    serve = "vllm serve MODEL {flags} --port {port}"
    words = ["tune", "--out", str(tmp_path / "out"), f"--space={file}", f"--serve={serve}"]
    assert main(words) == 2
    assert "--space: nothing to choose from" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        *("a = {}", "a = [[1]]", '"a b" = [1]', "a = [", "a = [nan]", "a = [1, -inf]"),
        *("a = [" + "9" * 400 + "]", 'A = ["\\u0000"]', "a = [0, 1, true]"),
    ],
)
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
        'enforce_eager = [false]\na_b = [true]\nkv = ["fp8"]\nOMP_X = ["0"]\nc = []\n'
    )


def test_a_server_is_told_the_gpus_that_the_suite_split_the_model_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suite takes all GPUs by itself, `vllm serve` one."""
    stand_in_trials(monkeypatch, {None: 100, 16: 160}, failing=32)
    claim = tune.tune(request_in(tmp_path), print)
    assert dict(commands_of(request_in(tmp_path), claim))["server"].endswith(" 16")
    run = tmp_path / "runs" / claim.pairs[0].best.folder / "20260101-000000-llama3.1-8b-offline"
    run.mkdir(parents=True)
    for name in ("summary.json", "config.json"):
        text = (ROOT / "meta_tests" / "data" / "kept_run" / name).read_text()
        (run / name).write_text(
            text.replace('"tensor_parallel_size": 1', '"tensor_parallel_size": 8')
        )
    line = dict(commands_of(request_in(tmp_path), claim))["server"]
    assert line == "vllm serve MODEL --max-num-seqs 16 --tensor-parallel-size 8"


def test_the_line_means_the_same_to_a_shell(tmp_path: Path) -> None:
    settings: Settings = {
        **{"CORES_OF": "0-3|4-7", "PLACE": "$HOME it's", "USES_IT": False},
        **{"quote": 'a "b" $c', "start": "-1", "on": True, "left": None},
    }
    (tmp_path / "vllm").write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([os.environ['CORES_OF'], os.environ['PLACE'], *sys.argv[1:]]))\n"
    )
    (tmp_path / "vllm").chmod(0o755)
    line = serve_command(settings, ["--model=/m y"])
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    words = subprocess.check_output(["sh", "-c", line], env={**os.environ, "PATH": path})
    flags = ["--quote", 'a "b" $c', "--start=-1", "--on"]
    assert json.loads(words) == ["0-3|4-7", "$HOME it's", "serve", "/m y", *flags]
    assert run_variables(settings)["USES_IT"] == "0"


def test_a_winners_file_has_its_very_settings(tmp_path: Path) -> None:
    settings: Settings = {"a": '\U0001f600\x7f\n"', "b": 1e-5, "c": False, "d": -1}
    (tmp_path / "winner.toml").write_text(space_text({**settings, "e": None}), encoding="utf-8")
    space = space_of(tmp_path / "winner.toml", {"e": (None, 1, 2)})
    assert space == {n: (None, v) for n, v in settings.items()}, "the default of e is not searched"


def asked(*words: str) -> Request:
    parser = ArgumentParser()
    add_options(parser)
    return request_of(parser.parse_args(["--out=x", *words]))


def test_the_defaults_variables_are_part_of_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "space.toml").write_text("OMP_BIND = ['0', '1']\n")
    requests = []
    for value in ("0", "1"):
        monkeypatch.setenv("OMP_BIND", value)
        requests.append(asked(f"--space={tmp_path}/space.toml").measured)
    assert requests[0] != requests[1]


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        (("0,0",), "name each GPU once, in one slot only"),
        (("0", "0"), "name each GPU once, in one slot only"),
        (("0,1", "1,2"), "name each GPU once, in one slot only"),
        (("0", ""), "name each GPU once, in one slot only"),
        (("0", "1,2"), "each must have as many GPUs"),
    ],
)
def test_slots_that_disturb_each_other_are_refused(slots: Sequence[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        asked(*(f"--slot={slot}" for slot in slots))


def test_a_name_that_every_trial_would_fail_with_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("max_num_sqs = [64]\nOMP_BIND = ['0']\nblock_size = [32]\n")
    with pytest.raises(UsageError, match="max_num_sqs: vLLM's engine has no such argument"):
        asked(f"--space={file}")
    # A server's flags are its own.
    assert "max_num_sqs" in asked(f"--space={file}", "--serve=run {flags} --port {port}").space


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--minutes=0", "--minutes 0: must be a number above 0 and below 100,000"),
        ("--minutes=100000", "--minutes 100000: must be a number above 0 and below 100,000"),
        ("--around-minutes=-1", "--around-minutes -1: must be a number from 0 and below 100,000"),
    ],
)
def test_times_out_of_bounds_are_refused_with_both_bounds(option: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asked(option)


def test_options_of_the_runs_without_dashes_before_them_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["tune", "--out", "out", "--model", "mine"])
    assert "follow a --" in capsys.readouterr().err


def test_the_space_is_that_of_the_gpus_of_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def machine_space(gpus: int | None = None) -> Space:
        seen.append(gpus)
        return SPACE

    monkeypatch.setattr(space, "machine_space", machine_space)
    slots = asked("--slot=0,1", "--slot=2,3"), asked("--slot=5"), asked()
    assert seen == [2, 1, None]
    assert [request.measured["gpus"] for request in slots] == seen


def test_each_target_has_an_option() -> None:
    assert tuple(TARGETS) == TARGET_NAMES


def test_each_setting_of_the_winner_is_undone_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space: Space = {"a": (None, 1), "b": (None, 1), "c": (None, 1)}
    runs: list[Settings] = []

    def trial_of(command: Command, target: TuneTarget, watch: Watch) -> Measured:
        runs.append(command.settings)
        gains = (1.3 if command.settings["a"] else 1.0) * (1.1 if command.settings["b"] else 1.0)
        loss = 0.9 if command.settings["c"] else 1.0
        rate = 100 * gains * loss * (1 + len(runs) % 3 / 1000)
        return Measured(Trial(command.settings, rate, 0.001), command.folder.name, 2.0)

    monkeypatch.setattr(tune, "run_trial", trial_of)
    monkeypatch.setattr(tune, "_LONGEST_S", 60.0)
    rows = [
        {"settings": {"a": a, "b": b, "c": c}, "rate": rate, "seconds": 30}
        for a, b, c, rate in ((None, None, None, 100), (1, 1, None, 143), (1, 1, 1, 128))
    ]
    (tmp_path / "trials.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    request = Request(tmp_path, 1, space, around_minutes=0.2)
    claim = tune.tune(request, print)
    assert claim.best == {"a": 1, "b": 1, "c": None}
    by_name = {row.name: row.measured for row in claim.contributions}
    assert by_name["a"] and by_name["a"].gain == pytest.approx(0.3, abs=0.01)
    assert by_name["b"] and by_name["b"].gain == pytest.approx(0.1, abs=0.01)
    assert by_name["c"] is None
    assert len(runs) == 10 + 6, "12 s hold two rounds of three runs"
    tune.tune(request, print)
    assert len(runs) == 10 + 6, "with the time spent, the same command makes no run again"
