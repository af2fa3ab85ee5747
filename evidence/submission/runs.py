"""Makes the proof's runs: every benchmark and scenario of a round, at full size, on a replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evidence.submission.data import ANSWERS, DATASETS, MODEL
from evidence.submission.made_data import PROBLEMS
from evidence.submission.published import PUBLISHED
from evidence.submission.replay import Pace
from meta_tests.features.submission_check.made_submissions import offered_in
from mlperf_suite import SUITE_FOLDER
from mlperf_suite.assets import assets_dir
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.loadgen.load_plan import MODES, RunKey
from mlperf_suite.results.run_folder import read_summary, run_folders
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings

LOADGEN = {"v5.1": "5.1.2", "v6.0": "6.0.14", "v6.1": "6.0.17"}
"""By round, a version of mlcommons-loadgen that ships the round's seeds."""

_SERVER_QPS = 21.95
"""Server issues whole multiples of 13,368 queries until 600 s of its schedule have passed. At
this rate one multiple takes 602.4 s (v6.0) to 604.3 s (v5.1) in the seeds' schedules."""
_OFFLINE_QPS = {LLAMA3_1_8B.id: 20.0, LLAMA3_1_8B_EDGE.id: 7.5}
"""Offline's query has 660 s of this rate, rounded up to whole multiples of the data set: one."""
_SCHEDULE_S = 625
"""How long a data set takes in Server, in s: no faster than Offline, since one system has both.
With the rounds' seeds, no schedule is so much faster that it ends before 600 s."""
_TICK_S = 1.0
_AT_ONCE = Pace(2000)
_SERVED = Pace(200, first_token_s=0.05, token_s=0.005)


@dataclass(frozen=True, slots=True)
class ProofRun:
    """One pytest session: all modes of a benchmark's scenario in a round."""

    round: str
    benchmark: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.round} {self.benchmark} {self.scenario}"

    @property
    def name(self) -> str:
        return f"{self.round}-{self.benchmark}-{self.scenario.lower()}"

    def results(self, work: Path) -> Path:
        """The session's results folder."""
        return work / "results" / self.name

    def log(self, work: Path) -> Path:
        """The file with the session's output."""
        return self.results(work) / "session.log"

    @property
    def paces(self) -> Mapping[str, Pace]:
        """How fast the replay answers, by mode: a performance run lasts slightly over 600 s."""
        samples = BENCHMARKS[self.benchmark].samples
        if self.scenario == "Offline":
            lasting = dict.fromkeys(("performance", "test01"), Pace(samples / 605))
            return {**dict.fromkeys(MODES, _AT_ONCE), **lasting}
        if self.scenario == "SingleStream":
            # LoadGen asks for 1,200 s of the accuracy run's rate, rounded up to whole multiples of
            # the data set: two here.
            return {
                "accuracy": Pace(samples / 605, first_token_s=0.01),
                "performance": Pace(2 * samples / 605, first_token_s=0.01),
            }
        return dict.fromkeys(MODES, _SERVED)

    @property
    def _rate(self) -> str:
        """The option for the rate that LoadGen expects or sends."""
        samples = BENCHMARKS[self.benchmark].samples
        if self.scenario == "Offline":
            # Slightly less than the data set in 660 s, which LoadGen rounds up to the data set.
            rate = _OFFLINE_QPS.get(self.benchmark, samples / 670)
            return f"--offline-target-qps={rate:.3f}"
        rate = samples / _SCHEDULE_S if self.benchmark in PUBLISHED else _SERVER_QPS
        return f"--server-target-qps={rate:.3f}"

    def _inputs(self, data: Path) -> list[str]:
        """The options for model and data."""
        published = PUBLISHED.get(self.benchmark)
        if published is None:
            dataset = data / DATASETS[self.benchmark]
            return ["--model", str(data / MODEL), "--dataset", str(dataset)]
        own = data / self.benchmark
        problems = ["--code-problems", str(own / PROBLEMS)] if published.problems else []
        return ["--model", str(own / MODEL), "--dataset", str(published.dataset(data)), *problems]

    def options(self, data: Path, results: Path) -> list[str]:
        """The suite's options; no rule is shortened or overridden."""
        return [
            *("-m", f"{BENCHMARKS[self.benchmark].category} and {self.scenario.lower()}"),
            *("--benchmark", self.benchmark),
            *("-p", "evidence.submission.replay_plugin", "-p", "no:cacheprovider"),
            *("--profile", "official", "--round", self.round),
            *self._inputs(data),
            # A replay has nothing to warm up.
            *("--warmup", "0"),
            *("--results-dir", str(results), self._rate),
        ]

    def answers(self, data: Path) -> dict[str, str]:
        """The replay's setting for its answers."""
        if self.benchmark in PUBLISHED:
            return {"answers_by_mode": str(data / self.benchmark / ANSWERS)}
        return {"answers": str(data / ANSWERS)}

    def start(self, work: Path) -> subprocess.Popen[bytes]:
        """Start the session; its output goes to a log beside its results."""
        results = self.results(work)
        results.mkdir(parents=True, exist_ok=True)
        replay = {
            **self.answers(work / "data"),
            "paces": {mode: asdict(sizing) for mode, sizing in self.paces.items()},
        }
        environment = os.environ | {
            "REPLAY": json.dumps(replay),
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(loadgen_folder(work, self.round)), os.environ.get("PYTHONPATH")))
            ),
            "MLPERF_SUITE_ASSETS": str(assets_dir()),
        }
        with self.log(work).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "pytest", *self.options(work / "data", results)],
                cwd=SUITE_FOLDER,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def finished(self, work: Path) -> Path | None:
        """The folder of a run that passed every rule, or None if there is none yet."""
        results = self.results(work)
        if not results.is_dir():
            return None
        for folder in run_folders(results):
            summary = read_summary(folder)
            if summary and summary.meta.status == "complete":
                return folder
        return None


def proof_runs(rounds: Sequence[str], benchmarks: Sequence[str] = ()) -> list[ProofRun]:
    """Every run of the rounds, for the benchmarks with these ids; by default for all that
    LoadGen measures."""
    return [
        ProofRun(round_, benchmark.id, scenario.name)
        for round_ in rounds
        for benchmark in BENCHMARKS.values()
        if not benchmarks or benchmark.id in benchmarks
        if benchmark.workload is not None and benchmark.run_kind == RunKey.kind
        for scenario in offered_in(benchmark, round_)
    ]


def loadgen_folder(work: Path, round_: str) -> Path:
    """The folder of a round's LoadGen, to put first on Python's path."""
    return work / "loadgen" / LOADGEN[round_]


def install_loadgen(work: Path, round_: str) -> None:
    """Install a round's LoadGen beside the environment's own, once."""
    folder = loadgen_folder(work, round_)
    if not (folder / "mlcommons_loadgen").is_dir():
        requirement = f"mlcommons-loadgen=={LOADGEN[round_]}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*command, "--target", str(folder), requirement], check=True)


def make_runs(
    runs: Sequence[ProofRun], work: Path, at_once: int, say: Callable[[str], None]
) -> list[ProofRun]:
    """Make the runs, `at_once` in parallel; return those that did not pass every rule.

    If this ends early, the running sessions end too and keep what they wrote.
    """
    queue, under_way, failures = list(runs), dict[ProofRun, subprocess.Popen[bytes]](), []
    try:
        while queue or under_way:
            while queue and len(under_way) < at_once:
                run = queue.pop(0)
                under_way[run] = run.start(work)
                say(f"{run}: started")
            time.sleep(_TICK_S)
            for run in [run for run, process in under_way.items() if process.poll() is not None]:
                del under_way[run]
                folder = run.finished(work)
                failures += [run] if folder is None else []
                say(f"{run}: {folder or f'FAILED, see {run.log(work)}'}")
    finally:
        for process in under_way.values():
            process.terminate()
        for process in under_way.values():
            process.wait()
    return failures


def inputs_of(id_: str, folder: Path) -> Inputs:
    """What a session of the proof is made of."""
    run = ProofRun("v6.1", id_, "Offline")
    words = run.options(folder, folder / "results")
    options = {
        words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(len(words) - 1)
    }
    names = ("benchmark", "profile", "model", "dataset", "code_problems")
    settings = resolve_settings({name: options[name] for name in names if name in options}, {})
    return Inputs(settings, [BENCHMARKS[id_]])
