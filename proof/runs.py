"""The runs of the proof: every benchmark and scenario of a round, at full size, on the replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mlperf_suite.assets import PROJECT_ROOT, assets_dir
from mlperf_suite.benchmarks.llama3_1_8b import BENCHMARKS as LLAMA3_1_8B_FORMS
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.engines.replay import Pace
from mlperf_suite.results.run_folder import read_summary, run_folders
from proof.data import ANSWERS, DATASETS, MODEL

LOADGEN = {"v5.1": "5.1.2", "v6.0": "6.0.14", "v6.1": "6.0.17"}
"""By round, a version of mlcommons-loadgen that ships its seeds."""

_SERVER_QPS = 21.95
"""Server issues whole multiples of 13,368 queries, until 600 s of its schedule have passed. At
this rate one multiple takes 602.4 s (v6.0) to 604.3 s (v5.1), by the seeds' own schedules."""
_OFFLINE_QPS = {LLAMA3_1_8B.id: 20.0, LLAMA3_1_8B_EDGE.id: 7.5}
"""Offline's query is 660 s of this rate, up to whole multiples of the data set: one of them."""
_TICK_S = 1.0
_AT_ONCE = Pace(2000)
_SERVED = Pace(200, first_token_s=0.05, token_s=0.005)


@dataclass(frozen=True, slots=True)
class ProofRun:
    """One session of pytest: all modes of a benchmark's scenario in a round."""

    round: str
    benchmark: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.round} {self.benchmark} {self.scenario}"

    @property
    def name(self) -> str:
        return f"{self.round}-{self.benchmark}-{self.scenario.lower()}"

    def results(self, work: Path) -> Path:
        """The session's own results folder."""
        return work / "results" / self.name

    def log(self, work: Path) -> Path:
        """All that the session says."""
        return self.results(work) / "session.log"

    @property
    def paces(self) -> Mapping[str, Pace]:
        """How fast the replay answers, by mode: a performance run lasts a little over 600 s."""
        samples = BENCHMARKS[self.benchmark].samples
        if self.scenario == "Offline":
            return {
                "accuracy": _AT_ONCE,
                "performance": Pace(samples / 605),
                "test06": _AT_ONCE,
            }
        if self.scenario == "SingleStream":
            # LoadGen asks for 1,200 s of the accuracy run's rate, up to whole multiples of the
            # data set: two of them here.
            return {
                "accuracy": Pace(samples / 605, first_token_s=0.01),
                "performance": Pace(2 * samples / 605, first_token_s=0.01),
            }
        return dict.fromkeys(("accuracy", "performance", "test06"), _SERVED)

    def options(self, data: Path, results: Path) -> list[str]:
        """The suite's options; no rule is shortened and none is overridden."""
        rate = f"--offline-target-qps={_OFFLINE_QPS[self.benchmark]}"
        if self.scenario != "Offline":
            rate = f"--server-target-qps={_SERVER_QPS}"
        return [
            *("-m", f"{BENCHMARKS[self.benchmark].category} and {self.scenario.lower()}"),
            *("-p", "meta_tests.replay_plugin", "-p", "no:cacheprovider"),
            *("--profile", "official", "--round", self.round),
            *("--model", str(data / MODEL), "--dataset", str(data / DATASETS[self.benchmark])),
            # A replay has nothing to warm up.
            *("--warmup", "0"),
            *("--results-dir", str(results), rate),
        ]

    def start(self, work: Path) -> subprocess.Popen[bytes]:
        """Start the session; what it says goes to a log beside its results."""
        results = self.results(work)
        results.mkdir(parents=True, exist_ok=True)
        replay = {
            "answers": str(work / "data" / ANSWERS),
            "paces": {mode: asdict(pace) for mode, pace in self.paces.items()},
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
                cwd=PROJECT_ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def finished(self, work: Path) -> Path | None:
        """The folder of a run whose every rule passed, or None where there is none yet."""
        results = self.results(work)
        if not results.is_dir():
            return None
        for folder in run_folders(results):
            summary = read_summary(folder)
            if summary and summary.meta.status == "complete":
                return folder
        return None


def proof_runs(rounds: Sequence[str]) -> list[ProofRun]:
    """Every run of the rounds."""
    return [
        ProofRun(round_, benchmark.id, scenario.name)
        for round_ in rounds
        for benchmark in LLAMA3_1_8B_FORMS
        for scenario in benchmark.scenarios
    ]


def loadgen_folder(work: Path, round_: str) -> Path:
    """Where the LoadGen of a round is installed, to be put first on Python's path."""
    return work / "loadgen" / LOADGEN[round_]


def install_loadgen(work: Path, round_: str) -> None:
    """Install the LoadGen of a round beside the environment's own; once."""
    folder = loadgen_folder(work, round_)
    if not (folder / "mlcommons_loadgen").is_dir():
        wanted = f"mlcommons-loadgen=={LOADGEN[round_]}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*command, "--target", str(folder), wanted], check=True)


def make_runs(
    runs: Sequence[ProofRun], work: Path, at_once: int, say: Callable[[str], None]
) -> list[ProofRun]:
    """Make the runs, `at_once` beside each other; returns those that did not pass every rule.

    Whatever ends this early also ends the sessions under way, which keep what they wrote.
    """
    waiting, under_way, failed = list(runs), dict[ProofRun, subprocess.Popen[bytes]](), []
    try:
        while waiting or under_way:
            while waiting and len(under_way) < at_once:
                run = waiting.pop(0)
                under_way[run] = run.start(work)
                say(f"{run}: started")
            time.sleep(_TICK_S)
            for run in [run for run, process in under_way.items() if process.poll() is not None]:
                del under_way[run]
                folder = run.finished(work)
                failed += [run] if folder is None else []
                say(f"{run}: {folder or f'FAILED, see {run.log(work)}'}")
    finally:
        for process in under_way.values():
            process.terminate()
        for process in under_way.values():
            process.wait()
    return failed
