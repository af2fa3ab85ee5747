"""`tune` on trials whose rates are known: what is searched, compared, kept, continued and said."""

import fcntl
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import CaptureFixture, MonkeyPatch

from meta_tests.suite_runs import ROOT
from mlperf_suite.__main__ import main
from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning import tune
from mlperf_suite.features.tuning.command import TARGET_NAMES
from mlperf_suite.features.tuning.space import Settings, Space, Trial, space_of
from mlperf_suite.features.tuning.target import TARGETS, TuneTarget
from mlperf_suite.features.tuning.trial_run import Command, EarlyEndCheck, MeasuredTrial, Work
from mlperf_suite.features.tuning.tuning_report import commands_of
from mlperf_suite.features.tuning.tuning_request import TuningRequest
from mlperf_suite.features.tuning.tuning_result import TuningResult

OFFLINE = TARGETS["offline"]
SPACE: Space = {"max_num_seqs": (None, 16, 32)}


class ScriptedTrials:
    """In the place of `run_trial`: each trial's rate by its `max_num_seqs`, and what was run.

    A trial takes a second of a clock that only trials move. `fail`: the numbers with which a trial
    fails, and `fail_in_pairs`, with which a whole run does. `before`: called with each command.
    """

    def __init__(self, rates: dict[object, float]) -> None:
        self.rates = rates
        self.fail: Sequence[object] = ()
        self.fail_in_pairs: Sequence[object] = ()
        self.commands: list[Command] = []
        self.work: Work | None = None
        self.before: Callable[[Command], object] = lambda command: None

    def __call__(self, command: Command, target: TuneTarget, watch: EarlyEndCheck) -> MeasuredTrial:
        self.before(command)
        self.commands.append(command)
        value, folder = command.settings["max_num_seqs"], command.folder.name
        if value in self.fail:
            return MeasuredTrial(Trial(command.settings, reason="out of memory"), folder)
        if value in self.fail_in_pairs and command.sessions == OFFLINE.whole:
            return MeasuredTrial(Trial(command.settings, reason="failed score"), folder)
        rate = self.rates[value] * (1 + len(self.commands) % 3 / 1000)
        costs = {"latency p50, ms": 1e5 / self.rates[value]}
        return MeasuredTrial(
            Trial(command.settings, rate, 0.001), folder, 1.0, 12, costs, self.work
        )

    @property
    def whole(self) -> list[Command]:
        """The runs of the pairs."""
        return [command for command in self.commands if command.sessions == OFFLINE.whole]


Script = Callable[[dict[object, float]], ScriptedTrials]


@pytest.fixture
def script(monkeypatch: MonkeyPatch, undrawn: None) -> Script:
    def install(rates: dict[object, float]) -> ScriptedTrials:
        trials = ScriptedTrials(rates)
        clock = SimpleNamespace(monotonic=lambda: float(len(trials.commands)))
        monkeypatch.setattr(tune, "time", clock)
        monkeypatch.setattr(tune, "run_trial", trials)
        return trials

    return install


@pytest.fixture
def trials(script: Script) -> ScriptedTrials:
    """With a winner."""
    return script({None: 100, 16: 160, 32: 50})


def request_in(folder: Path, minutes: float = 0.2) -> TuningRequest:
    return TuningRequest(folder, minutes, SPACE)


def keep_trials(folder: Path, *rates: tuple[Settings, float], seconds: float = 9) -> None:
    """Leave the trials of an interrupted search."""
    rows = [{"settings": settings, "rate": r, "seconds": seconds} for settings, r in rates]
    for row, (_, rate) in zip(rows, rates, strict=True):
        row["costs"] = {"TPOT p99, ms": 1e5 / rate, "CPU energy, J/token": 9 / rate}
    (folder / "trials.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def keep_default_and_winner(folder: Path) -> None:
    keep_trials(folder, ({"max_num_seqs": None}, 100), ({"max_num_seqs": 16}, 160))


def tuned(folder: Path, minutes: float = 0.2) -> TuningResult:
    return tune.tune(request_in(folder, minutes), print)


def test_a_gain_has_a_command(tmp_path: Path, script: Script, capsys: CaptureFixture[str]) -> None:
    script({None: 9900, 16: 16000}).fail = (32,)
    claim = tuned(tmp_path)
    assert claim.gain and claim.is_better and claim.gain.low < 0.616 < claim.gain.high
    answer = (tmp_path / "tuning.md").read_text().split("\n\n")
    assert answer[0].startswith("+")
    assert answer[1].startswith("what it costs: latency p50, ms -38.1%")
    assert answer[1].endswith("energy not measured (no counter)")
    assert answer[2].startswith("max_num_seqs = 16 instead of default: +")
    command = "mlperf-suite -m 'offline and datacenter and (accuracy or performance)'"
    assert answer[3] == f"command: {command} --engine-arg=max_num_seqs=16"
    assert answer[4] == "server: vllm serve MODEL --max-num-seqs 16\n"
    assert space_of(tmp_path / "winner.toml")["max_num_seqs"] == (None, 16)
    page = (tmp_path / "report.html").read_text()
    assert "vllm serve MODEL --max-num-seqs 16" in page and "max_num_seqs = [16]" in page
    assert "<h2>Reproduce it</h2>" in page
    # A line of progress starts with the figure.
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"trial 1: 9,9\d\d tokens/s \(\d s\): the default", lines[0])
    assert any(line.endswith("failed: out of memory (0 s): max_num_seqs=32") for line in lines)


def test_a_default_that_is_the_best_gets_no_command(tmp_path: Path, script: Script) -> None:
    """Nor does the winner of an earlier answer stay beside this one."""
    trials = script({None: 160, 16: 100, 32: 100})
    (tmp_path / "winner.toml").write_text("max_num_seqs = [16]\n")
    assert not tuned(tmp_path).is_better
    words = "no setting was shown to be better than the default\n"
    assert (tmp_path / "tuning.md").read_text() == words
    assert not (tmp_path / "winner.toml").exists()
    trials.fail = (16, 32)
    (tmp_path / "trials.jsonl").unlink()
    tuned(tmp_path)
    answer = (tmp_path / "tuning.md").read_text()
    assert "trials of other settings failed; the last: out of memory\n" in answer


@pytest.mark.filterwarnings("error")
def test_the_page_shows_what_is_no_formula(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    choices = (None, "$HOME/$a_{", "<script>alert(1)</script>", "x" * 300)
    default, winner, failed, cut = ({"PLACE": choice} for choice in choices)

    def trial_of(command: Command, target: TuneTarget, watch: EarlyEndCheck) -> MeasuredTrial:
        rate = 150 if command.settings == winner else 100
        costs = {"CPU energy, J/token": 9 / rate}
        trial = Trial(command.settings, rate, 0.01)
        return MeasuredTrial(trial, command.folder.name, 2.0, costs=costs)

    monkeypatch.setattr(tune, "run_trial", trial_of)
    keep_trials(tmp_path, (default, 100), (winner, 150))
    row = {"settings": failed, "reason": "</td><script>alert(2)</script>\x1b[31m"}
    ended = {"settings": cut, "rate": 40, "cut": "too slow"}
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n" + json.dumps(ended) + "\n")
    assert tune.tune(TuningRequest(tmp_path, 0.1, {"PLACE": choices}), print).is_better
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page and "\x1b" not in page
    assert "PLACE=&#39;$HOME/$a_{&#39; vllm serve MODEL" in page
    assert "tokens/s over TPOT p99" in page and "cut: too slow" in page
    assert "costs: CPU energy, J/token -33.3%" in (tmp_path / "tuning.md").read_text()


def test_a_server_is_told_the_gpus_of_the_suite(tmp_path: Path, trials: ScriptedTrials) -> None:
    """The suite takes all GPUs by itself, `vllm serve` one."""
    claim = tuned(tmp_path)
    assert dict(commands_of(request_in(tmp_path), claim))["server"].endswith(" 16")
    run = tmp_path / "runs" / claim.pairs[0].best.folder / "20260101-000000-llama3.1-8b-offline"
    run.mkdir(parents=True)
    for name in ("summary.json", "config.json"):
        text = (ROOT / "meta_tests" / "data" / "kept_run" / name).read_text()
        split = text.replace('"tensor_parallel_size": 1', '"tensor_parallel_size": 8')
        (run / name).write_text(split)
    line = dict(commands_of(request_in(tmp_path), claim))["server"]
    assert line == "vllm serve MODEL --max-num-seqs 16 --tensor-parallel-size 8"


def test_each_setting_is_undone_in_turn(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    gains = {"a": 1.3, "b": 1.1, "c": 0.9}
    runs: list[Settings] = []

    def trial_of(command: Command, target: TuneTarget, watch: EarlyEndCheck) -> MeasuredTrial:
        runs.append(command.settings)
        gain = math.prod(gains[name] for name, choice in command.settings.items() if choice)
        rate = 100 * gain * (1 + len(runs) % 3 / 1000)
        return MeasuredTrial(Trial(command.settings, rate, 0.001), command.folder.name, 2.0)

    monkeypatch.setattr(tune, "run_trial", trial_of)
    monkeypatch.setattr(tune, "_MAX_TRIAL_S", 60.0)
    default, best, worse = ({"a": a, "b": a, "c": c} for a, c in ((None, None), (1, None), (1, 1)))
    keep_trials(tmp_path, (default, 100), (best, 143), (worse, 128), seconds=30)
    request = TuningRequest(tmp_path, 1, dict.fromkeys(gains, (None, 1)), around_minutes=0.2)
    claim = tune.tune(request, print)
    assert claim.best == best
    undone = {row.name: row.measured and row.measured.gain for row in claim.contributions}
    assert undone == pytest.approx({"a": 0.3, "b": 0.1, "c": None}, abs=0.01)
    assert len(runs) == 10 + 6, "12 s hold two rounds of three runs"
    tune.tune(request, print)
    assert len(runs) == 10 + 6, "with the time spent, the same command makes no run again"


# How runs are sized, limited and placed


def test_both_sides_of_a_pair_are_sized_alike(tmp_path: Path, trials: ScriptedTrials) -> None:
    trials.work = Work(12, 300.0, 50.0)
    assert tuned(tmp_path).is_better
    options = [option for command in trials.whole for option in command.options]
    (query,) = {option for option in options if option.startswith("--offline-target-qps=")}
    assert float(query.partition("=")[2]) == pytest.approx(1.25 * 160 / 50, rel=0.01)
    limits = [command.limit_s for command in trials.whole]
    assert limits[0] > 3600
    assert set(limits[1:]) == {5.0}, "each lasts a second"


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_the_probe_judges_only_a_rate_that_is_proportional_to_it(
    tmp_path: Path, monkeypatch: MonkeyPatch, trials: ScriptedTrials, name: str
) -> None:
    leaders: list[object] = []
    monkeypatch.setattr(tune, "leader_of", lambda best, *_: best)
    monkeypatch.setattr(tune, "early_end_check", lambda _, leader, *__: leaders.append(leader))
    tune.tune(replace(request_in(tmp_path), target=TARGETS[name]), print)
    assert trials.commands and any(leaders) == (name == "offline")


def test_trials_run_side_by_side_with_a_device_each(tmp_path: Path, trials: ScriptedTrials) -> None:
    seen, begun, together = Counter[str](), itertools.count(), Barrier(2, timeout=60)

    def beside(command: Command) -> None:
        # The default's trial is alone; the next two begin at once.
        if next(begun) in (1, 2):
            together.wait()
        seen[command.variables["CUDA_VISIBLE_DEVICES"]] += 1

    trials.before = beside
    tune.tune(replace(request_in(tmp_path), slots=("0,3", "1,2")), print)
    assert seen["0,3"] and seen["1,2"]


# Candidates that fail in the pairs


def test_the_next_best_is_compared_and_failures_stay(tmp_path: Path, script: Script) -> None:
    trials = script({None: 100, 16: 160, 32: 140})
    trials.fail_in_pairs = (16,)
    assert tuned(tmp_path).best == {"max_num_seqs": 32}
    made = len(trials.commands)
    trials.fail_in_pairs = ()  # Now it would pass.
    claim = tuned(tmp_path)
    assert claim.is_better and claim.best == {"max_num_seqs": 32}
    assert len(trials.commands) == made
    line = "failed in the pairs: max_num_seqs=16: failed score"
    assert line in (tmp_path / "tuning.md").read_text()
    page = (tmp_path / "report.html").read_text()
    assert line in re.sub(r"<[^>]*>", "", page)


def test_after_three_candidates_the_tuning_gives_up(tmp_path: Path, script: Script) -> None:
    trials = script({None: 100, **dict.fromkeys(range(1, 7), 150)})
    trials.fail_in_pairs = range(1, 7)
    request = replace(request_in(tmp_path, 0.5), space={"max_num_seqs": (None, *range(1, 7))})
    claim = tune.tune(request, print)
    assert not claim.is_better
    assert claim.words.endswith("the candidate failed in the pairs: failed score")
    assert len(set(claim.failed)) == 3
    assert len(trials.whole) == 2 * 3


def test_a_default_that_fails_in_the_pairs_ends_them(tmp_path: Path, script: Script) -> None:
    trials = script({None: 100, 16: 160, 32: 140})
    trials.fail_in_pairs = (None,)
    claim = tuned(tmp_path)
    assert claim.words.endswith("the default failed in the pairs: failed score")
    assert not claim.failed and not (tmp_path / "winner.toml").exists()
    trials.fail_in_pairs = ()
    assert tuned(tmp_path).is_better


# What goes on after an interruption


def test_an_interrupted_search_goes_on(tmp_path: Path, trials: ScriptedTrials) -> None:
    keep_default_and_winner(tmp_path)
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write('{"settings": {"max_nu')
    assert tuned(tmp_path, 1e-9).is_better
    assert len(trials.commands) == 10, "the pairs alone"


def test_the_time_of_an_interrupted_search_counts(tmp_path: Path, trials: ScriptedTrials) -> None:
    keep_trials(tmp_path, ({"max_num_seqs": None}, 100), seconds=61)
    words = "--minutes 1: the default's trial took 61 s, and no other was made"
    with pytest.raises(UsageError, match=words):
        tune.tune(request_in(tmp_path, 1), print)
    assert not trials.commands
    assert not (tmp_path / "tuning.md").exists(), "nothing was compared"


def test_interrupted_pairs_go_on_with_whole_ones(tmp_path: Path, trials: ScriptedTrials) -> None:
    keep_default_and_winner(tmp_path)

    def interrupted(command: Command) -> None:
        if len(trials.commands) == 5:
            raise KeyboardInterrupt

    trials.before = interrupted
    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path, 1e-9)
    trials.before = lambda command: None
    assert tuned(tmp_path, 1e-9).is_better
    assert len(trials.commands) == 5 + 6, "two pairs were whole; the half of the third is remade"


def test_the_pairs_cannot_change_after_a_look(tmp_path: Path, trials: ScriptedTrials) -> None:
    tuned(tmp_path)
    words = f"--pairs 9: {tmp_path} has runs of 5 pairs; repeat with --pairs 5 or name a new folder"
    with pytest.raises(UsageError, match=words):
        tune.tune(replace(request_in(tmp_path), pairs=9), print)
    assert tuned(tmp_path).is_better


def test_a_folder_of_another_tuning_is_refused(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # So a tuning that only shares its lock would go on.
        with pytest.raises(UsageError, match="another tuning uses this folder"):
            tuned(tmp_path)
    same = {"settings": {"max_num_seqs": None}, "rate": 1.0, "target": "offline"}
    others: list[dict[str, Any]] = [
        *({"target": "server"}, {"options": ["--model=x"]}, {"serve": "x {flags} {port}"}),
        *({"gpus": 2}, {"variables": {"OMP_BIND": "0"}}),
    ]
    for other, reason in (
        ({"settings": {"block_size": 16}}, "another space"),
        *((other, "another target, server, number of accelerators") for other in others),
    ):
        (tmp_path / "trials.jsonl").write_text(json.dumps(same | other) + "\n")
        with pytest.raises(UsageError, match=f"has trials of {reason}"):
            tuned(tmp_path)


# The command


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(tmp_path: Path, trials: ScriptedTrials, capsys: CaptureFixture[str]) -> None:
    (tmp_path / "trials.jsonl").symlink_to("/dev/full")
    space = tmp_path / "space.toml"
    names = ("max_num_batched_tokens", "enable_chunked_prefill", "VLLM_CPU_OMP_THREADS_BIND")
    space.write_text("max_num_seqs = [16, 32]\n" + "".join(f"{name} = []\n" for name in names))
    words = ["--out", str(tmp_path), "--space", str(space), "--minutes", "0.01"]
    assert main(["tune", *words]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert not (tmp_path / "tuning.md").exists()


def test_ctrl_c(tmp_path: Path, trials: ScriptedTrials, capsys: CaptureFixture[str]) -> None:
    def interrupted(command: Command) -> None:
        raise KeyboardInterrupt

    trials.before = interrupted
    assert main(["tune", "--out", str(tmp_path)]) == 130
    assert "repeat the command to continue" in capsys.readouterr().err
