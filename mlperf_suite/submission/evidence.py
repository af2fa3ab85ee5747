"""The suite's result folders as evidence of a submission, and why one of them is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import BENCHMARKS, Benchmark, Category, Scenario
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.benchmarks.workload import OFFICIAL
from mlperf_suite.engines.replay import REPLAY
from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.load_plan import Mode
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.results.reading import part
from mlperf_suite.results.run_folder import changed_since_run, read_config, read_summary

MODE_FOLDERS: Mapping[Mode, str] = {
    "accuracy": "Accuracy",
    "performance": "Performance",
    "test06": "Compliance/TEST06",
}
_SAME_SETTINGS = (
    "model",
    "precision",
    "tensor_parallel_size",
    "max_new_tokens",
    "max_model_len",
    "engine_args",
    "prompt",
    "chat_template",
    "generation",
)
"""Settings of a system under test: what accuracy was shown with is what must be measured."""
_NOT_OF_ANSWERS = ("load_s", "enable_prefix_caching")
"""What an engine's description says of its settings and no answer depends on. Beside MMLU an engine
keeps a cache for scores, out of the answers' reach; one for answers stands in engine_args."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A result folder of this suite: its summary.json and config.json, and what it is of."""

    folder: Path
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    benchmark: Benchmark
    scenario: Scenario

    @property
    def modes(self) -> tuple[Mode, ...]:
        """What was run in it: each mode that LoadGen left a log of."""
        return tuple(
            m for m, name in MODE_FOLDERS.items() if (self.folder / name / DETAIL).is_file()
        )

    @property
    def category(self) -> Category:
        return self.benchmark.category

    @property
    def system(self) -> Mapping[str, Any]:
        """The machine and the versions that it was made with."""
        return part(self.config, "system")

    @property
    def settings(self) -> Mapping[str, Any]:
        return part(self.config, "settings")

    @property
    def engine_settings(self) -> Mapping[str, Any]:
        """How the engine was set in fact, also where the user left a setting to it."""
        engine = part(self.config, "engine")
        return {"max_model_len": engine.get("max_model_len"), **part(engine, "settings")}

    @property
    def is_replay(self) -> bool:
        return part(self.config, "engine").get("name") == REPLAY

    def logs(self, mode: Mode) -> Path:
        """The folder of LoadGen's logs of a mode."""
        return self.folder / MODE_FOLDERS[mode]

    def __str__(self) -> str:
        return str(self.folder)


def read_run(folder: Path) -> SuiteRun:
    """Read a result folder. Raises UsageError where it is none, or is not of a benchmark."""
    summary, config = read_summary(folder), read_config(folder)
    if summary is None or config is None:
        raise UsageError(f"--results {folder}: no summary.json and config.json of a run in it")
    meta = part(summary, "meta")
    benchmark = BENCHMARKS.get(str(meta.get("benchmark")))
    if benchmark is None:
        raise UsageError(f"--results {folder}: not a run of a benchmark that can be submitted")
    named = [s for s in benchmark.scenarios if s.name == meta.get("scenario")]
    if not named:
        raise UsageError(f"--results {folder}: scenario {meta.get('scenario')} is not known")
    return SuiteRun(folder.resolve(), summary, config, benchmark, named[0])


def refusals_of_run(run: SuiteRun, round_: Round, *, allow_replay: bool) -> list[str]:
    """Why this run cannot be submitted, one line each; none where it can."""
    reasons = []
    profile, of_round = run.settings.get("profile"), run.settings.get("round")
    if profile != "official":
        reasons.append(f"a {profile} run: durations and counts are shortened")
    if of_round != round_.name:
        reasons.append(f"a run of round {of_round}, not of {round_.name}")
    meta = part(run.summary, "meta")
    status = meta.get("status")
    if status not in ("complete", "invalid"):
        reasons.append(f"{status}: {meta.get('reason') or 'it has no result'}")
    if part(run.config, "engine").get("stand_in"):
        if not run.is_replay:
            reasons.append("made with a stand-in engine: not a measurement of any system")
        elif not allow_replay:
            reasons.append("made with a replay of prepared answers (--allow-replay takes it)")
    said = run.settings.get("max_new_tokens", OFFICIAL.generation.max_new_tokens)
    reasons += OFFICIAL.departures(said, part(run.settings, "engine_args"))
    if not run.modes:
        reasons.append("no LoadGen logs in it")
    # Of a run that goes on, or was cut off, files are not yet complete.
    changed = [] if status == "running" else changed_since_run(run.folder)
    return [*reasons, *changed]


def refusals_of_pair(other_mode: SuiteRun, performance: SuiteRun) -> list[str]:
    """What is not the same between the runs that performance and another mode are taken from."""
    if other_mode.folder == performance.folder:
        return []
    differing = [
        _differ(name, other_mode.settings.get(name), performance.settings.get(name))
        for name in _SAME_SETTINGS
        if other_mode.settings.get(name) != performance.settings.get(name)
    ]
    theirs, ours = other_mode.engine_settings, performance.engine_settings
    differing += [
        _differ(f"the engine's {name}", theirs.get(name), ours.get(name))
        for name in sorted({*theirs, *ours} - {*_NOT_OF_ANSWERS})
        if theirs.get(name) != ours.get(name)
    ]
    for name, keys in (("data", ("dataset", "sha256")), ("engine", ("engine", "name"))):
        one, other = _at(other_mode.config, keys), _at(performance.config, keys)
        if one != other:
            differing.append(_differ(name, one, other))
    one, other = other_mode.config.get("prompts_sha256"), performance.config.get("prompts_sha256")
    if one != other:
        differing.append(_differ("prompts", one, other))
    return differing


def refusals_of_systems(runs: Sequence[SuiteRun]) -> list[str]:
    """What tells the machines or the software of the runs apart; a tree describes one system."""
    first, reasons = runs[0], []
    for run in runs[1:]:
        names = sorted({*first.system, *run.system})
        differing = [n for n in names if first.system.get(n) != run.system.get(n)]
        if differing:
            said = "; ".join(_differ(n, first.system.get(n), run.system.get(n)) for n in differing)
            reasons.append(f"{run}: another system than that of {first}: {said}")
    return reasons


def _at(config: Mapping[str, Any], keys: tuple[str, str]) -> Any:
    return part(config, keys[0]).get(keys[1])


def _differ(name: str, one: object, other: object) -> str:
    return f"{name} {one} and {other}"
