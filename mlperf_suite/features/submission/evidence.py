"""Reads the suite's result folders as evidence for a submission, and says why one is refused."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark, Scenario, Workload
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.engines.protocol import REPLAY
from mlperf_suite.errors import UsageError
from mlperf_suite.features.submission_check.power_measurement import POWER, RANGING, TESTING
from mlperf_suite.judging.verdict_group import VerdictGroup
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.loadgen.logs import DETAIL, SUMMARY
from mlperf_suite.results.comparability import Identity, differences, identity_of, machine_of
from mlperf_suite.results.run_folder import (
    FINAL_STATUSES,
    SUMMARY_JSON,
    changed_since_run,
    mode_folder,
    read_config,
    read_summary,
    summary_fault,
)
from mlperf_suite.results.schema import Config, EngineFacts, Meta, Summary
from mlperf_suite.rules.accuracy_rules import gate_name
from mlperf_suite.rules.facts import (
    TEXT_ALONE,
    Division,
    find_deviations,
    find_speculation,
    gives_text_alone,
)

_MODES: tuple[Mode, ...] = ("accuracy", "performance", *AUDIT_MODES)
_NO_END = {"running": "wait until it has finished, or rerun it if it was killed"}
"""By status, what to do about a run that did not end, if it gives no reason itself."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A result folder of this suite: its summary.json and config.json, and its modes.

    `workload`: the official workload of the benchmark.
    """

    folder: Path
    summary: Summary
    config: Config
    benchmark: Benchmark
    workload: Workload
    scenario: Scenario

    @property
    def meta(self) -> Meta:
        return self.summary.meta

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes with a LoadGen log."""
        return tuple(mode for mode in _MODES if (self.logs(mode) / DETAIL).is_file())

    @property
    def system(self) -> Mapping[str, Any]:
        """The machine and the versions that the run was made with."""
        return self.config.system

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.config.settings

    @property
    def identity(self) -> Identity:
        return identity_of(self.config, self.summary)

    @property
    def engine_args(self) -> Mapping[str, Any]:
        """The engine arguments that the user gave."""
        arguments = self.settings.get("engine_args")
        return arguments if isinstance(arguments, dict) else {}

    @property
    def engine(self) -> EngineFacts:
        """The engine's description of itself."""
        return self.config.engine or EngineFacts()

    @property
    def is_replay(self) -> bool:
        return self.engine.name == REPLAY

    @property
    def is_remote(self) -> bool:
        """Whether its engine was one or more remote servers."""
        return bool(self.endpoints)

    @property
    def endpoints(self) -> list[str]:
        """The URLs of the servers."""
        urls = self.engine.settings.get("endpoints")
        return [str(url) for url in urls] if isinstance(urls, list) else []

    @property
    def machines(self) -> list[dict[str, Any]]:
        """The machines that its engines ran on; empty for one engine in the suite's own process."""
        return self.engine.machines

    @property
    def implementation(self) -> str:
        """The kind of engine in one word, used in the file names of layout v5."""
        if self.is_replay:
            return "replay"
        return str(self.engine.settings.get("server") or "vllm")

    def logs(self, mode: Mode) -> Path:
        """The folder of LoadGen's logs of a mode."""
        return self.folder / mode_folder(mode)

    def __str__(self) -> str:
        return str(self.folder)


def read_run(folder: Path) -> SuiteRun:
    """Read a result folder. Raises UsageError if it is not one, or has no benchmark."""
    summary, config = read_summary(folder), read_config(folder)
    if summary is None or config is None:
        fault = summary_fault(folder) if (folder / SUMMARY_JSON).is_file() else ""
        reason = fault or "no summary.json and config.json of a run in it"
        raise UsageError(f"--results {folder}: {reason}")
    meta = summary.meta
    benchmark = BENCHMARKS.get(meta.benchmark or "")
    if benchmark is None or benchmark.workload is None:
        raise UsageError(f"--results {folder}: not a run of a benchmark that can be submitted")
    scenarios = [s for s in benchmark.scenarios if s.name == meta.scenario]
    if not scenarios:
        raise UsageError(f"--results {folder}: scenario {meta.scenario} is not known")
    facts = Config.read(config)
    of_round = benchmark.by_round.get(str(facts.settings.get("round")))
    workload = of_round(benchmark.workload) if of_round else benchmark.workload
    return SuiteRun(folder.resolve(), summary, facts, benchmark, workload, scenarios[0])


def refusals_of_run(
    run: SuiteRun, round_: Round, *, allow_replay: bool, division: Division = "closed"
) -> list[str]:
    """Why this run cannot be submitted, one line each; empty if it can."""
    reasons = []
    profile, of_round = run.settings.get("profile"), run.settings.get("round")
    if profile != "official":
        reasons.append(f"a {profile} run: durations and counts are shortened")
    if of_round != round_.name:
        reasons.append(f"a run of round {of_round}, not of {round_.name}")
    status = run.meta.status
    if status not in FINAL_STATUSES:
        reasons.append(f"{status}: {run.meta.reason or _NO_END.get(status, 'it has no result')}")
    if run.engine.stand_in:
        if not run.is_replay:
            reasons.append("made with a stand-in engine: not a measurement of any system")
        elif not allow_replay:
            reasons.append("made with a replay of prepared answers (--allow-replay accepts it)")
    reasons += _deviations(run)
    speculation = find_speculation(run.benchmark, run.scenario, round_, run.engine.settings)
    reasons += speculation.deviations
    reasons += _not_judged(run) if division == "closed" else []
    for mode, remote in run.summary.run.remote.items():
        reasons += [f"{mode}: {departure}" for departure in remote.departures]
        if remote.cached_tokens:
            reasons.append(f"{mode}: {remote.cached_tokens:,} prompt tokens from a cache")
    if run.summary.no_result:
        reasons.append(run.summary.no_result)
    if gives_text_alone(run.engine.settings):
        audit = "TEST09" if run.benchmark.audit("test09") else "TEST06"
        reasons.append(f"{TEXT_ALONE}, and {audit} cannot be judged")
    if not run.modes and status in FINAL_STATUSES:
        reasons.append("no LoadGen logs in it")
    # A running or interrupted run has incomplete files.
    changed = [] if status == "running" else changed_since_run(run.folder)
    return [*reasons, *changed]


def _deviations(run: SuiteRun) -> list[str]:
    """How each mode's generation deviates from the benchmark's."""
    longest = run.settings.get("max_new_tokens", run.workload.generation.max_new_tokens)
    deviations = list(find_deviations(run.workload, longest, run.engine.settings))
    of_modes = run.settings.get("generation_by_mode")
    for mode, generation in (of_modes if isinstance(of_modes, dict) else {}).items():
        if mode in run.modes and isinstance(generation, dict):
            most = generation.get("max_new_tokens")
            of_mode = find_deviations(run.workload, most, {}, mode) if most else ()
            deviations += [f"{mode}: {deviation}" for deviation in of_mode]
    return deviations


_JUDGED_BY = ("test07_score", "test09_mean_tokens")
"""The rules by which audits judge the score and length of answers."""


def _not_judged(run: SuiteRun) -> list[str]:
    """The figures that the run itself could not judge (no sandbox for programs, another model,
    other data). The tree's texts alone do not show them."""
    gates = {gate_name(metric) for metric in run.benchmark.metrics} | {*_JUDGED_BY}
    return [
        f"{v.rule} was not judged: {v.why or v.found}"
        for v in run.summary.verdicts
        if v.rule in gates and v.status == "not judged"
    ]


def refusals_of_pair(other_mode: SuiteRun, performance: SuiteRun) -> list[str]:
    """The differences between the runs that provide performance and another mode."""
    if other_mode.folder == performance.folder:
        return []
    pair = (other_mode.identity, performance.identity)
    facts = differences(*pair)
    if other_mode.workload.parts:
        # A run makes prompts only of the data of its own modes.
        read_by_both = {fact.name for fact in differences(*pair, known_to_both=True)}
        facts = [f for f in facts if f.name != "prompts sha256" or f.name in read_by_both]
    return [f"{fact.name} {fact.first} and {fact.second}" for fact in facts]


def refusals_of_systems(runs: Sequence[SuiteRun]) -> list[str]:
    """The differences between the runs' machines or software; a tree describes one system."""
    reasons = []
    for run in runs[1:]:
        if facts := differences(machine_of(runs[0].system), machine_of(run.system)):
            words = "; ".join(f"{fact.name} {fact.first} and {fact.second}" for fact in facts)
            reasons.append(f"{run}: a different system from that of {runs[0]}: {words}")
    return reasons


# PTDaemon's sessions


def find_sessions(folder: Path) -> list[Path]:
    """The sessions of PTDaemon's client in a folder: the folder itself, or those directly below it.

    Raises UsageError if there is none.
    """
    try:
        below = sorted(path for path in folder.iterdir() if (path / POWER).is_dir())
    except OSError as error:
        raise UsageError(f"--power {folder}: {error.strerror}") from error
    sessions = [folder] if (folder / POWER).is_dir() else below
    if not sessions:
        raise UsageError(
            f"--power {folder}: no session of PTDaemon's client in it, which has the folders "
            f"{POWER}/, {RANGING}/ and {TESTING}/"
        )
    return sessions


def match_sessions(
    sessions: Sequence[Path], logs: Mapping[str, Path]
) -> tuple[dict[str, Path], list[str]]:
    """The session of each result, and a line for each session without a result or with a taken one.

    `logs`: by result, the folder of its performance run. A session belongs to the run with the same
    logs, byte for byte.
    """
    session_of: dict[str, Path] = {}
    reasons = []
    for session in sessions:
        own = _log_bytes(session / TESTING)
        of = [name for name, folder in logs.items() if own and own == _log_bytes(folder)]
        if not of:
            reasons.append(
                f"{session}: its {TESTING}/ is the performance run of none of the results "
                f"({DETAIL} or {SUMMARY} differs, or is missing)"
            )
        for name in of:
            if name in session_of:
                reasons.append(
                    f"{session}: {name} has {session_of[name]} already; choose one of them"
                )
            session_of.setdefault(name, session)
    return session_of, reasons


def _log_bytes(folder: Path) -> list[bytes]:
    """The logs that tell one LoadGen run from another; empty if one cannot be read."""
    try:
        return [(folder / name).read_bytes() for name in (DETAIL, SUMMARY)]
    except OSError:
        return []


def failures_of(groups: Iterable[VerdictGroup], but: Collection[str] = ()) -> list[str]:
    """The rules that failed but for these, one per line."""
    return [
        f"{group.name}: {v.rule}: found {v.found}, required {v.required}"
        for group in groups
        for v in group.verdicts
        if v.status == "failed" and v.rule not in but
    ]
