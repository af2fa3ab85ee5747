"""Builds a submission tree from result folders, judges it, and refuses invalid results.

Nothing appears under the requested folder unless the tree is complete and judged.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlperf_suite import strict_json
from mlperf_suite.benchmarks.audits import Audit, Mode
from mlperf_suite.benchmarks.definition import GEN_NUM
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.errors import RefusedError, UsageError
from mlperf_suite.features.submission.evidence import (
    SuiteRun,
    find_sessions,
    match_sessions,
    read_run,
    refusals_of_pair,
    refusals_of_run,
    refusals_of_systems,
)
from mlperf_suite.features.submission.official_client_points import linked
from mlperf_suite.features.submission.official_client_tree import (
    OfficialClientScenario,
    is_of_official_client,
    official_client_source_readme,
    read_official_client_scenarios,
    write_official_client_scenario,
)
from mlperf_suite.features.submission.system_description import describe_machine, different_machine
from mlperf_suite.features.submission.texts import (
    REPLAY_NOTICE,
    accuracy_txt,
    audit_accuracy_txt,
    comparison_texts,
    cut_accuracy_log,
    folder_name,
    measurements,
    readme,
    source_readme,
    verified_text,
)
from mlperf_suite.features.submission_check.power_measurement import (
    POWER,
    POWER_FILES,
    RANGING,
    RUN_FILES,
    SPL,
    TESTING,
)
from mlperf_suite.features.submission_check.submission_rules import (
    MEASUREMENT_FIELDS,
    STATUSES,
    missing_system_fields,
)
from mlperf_suite.features.submission_check.submissions import judge_upload
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.judging.reading import read_scores
from mlperf_suite.judging.verdict_group import failures_of
from mlperf_suite.loadgen.load_plan import AUDIT_MODES, COMPARED
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY, read_logs
from mlperf_suite.results.run_folder import FINAL_STATUSES, check_new, file_sha256, write_json
from mlperf_suite.rules.accuracy_files import ACCURACY_TXT
from mlperf_suite.rules.audit_rules import PART_III
from mlperf_suite.rules.facts import Division

AUTO = "auto"
_FOR_A_PERSON = frozenset(
    f"{subject}{name}" for subject in ("", "client_") for name in ("system_fields", "measurements")
)
"""Rules about fields that only a person can fill in: a tree is built without them, and the report
lists the missing fields."""
_SUBMITTER = re.compile(r"[A-Za-z0-9][\w.+-]*")


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """What to submit. `system`: a JSON file, or "auto" to describe this machine. `power`: folders
    of PTDaemon's client, each with one session or several."""

    results: tuple[Path, ...]
    submitter: str
    system: str
    division: Division
    round: Round
    out: Path
    measurements: Path | None = None
    allow_replay: bool = False
    power: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Submission:
    """A tree that was built. `unfilled`: the fields that a person must still fill in, by file.

    `notice`: the statement in a tree that is not a measurement, repeated wherever text is possible;
    else empty.
    """

    root: Path
    system: str
    notice: str
    rules_passed: int
    unfilled: Mapping[Path, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Result:
    """One scenario: the run for each mode. `session`: the session of PTDaemon's client that
    measured the performance run."""

    runs: Mapping[Mode, SuiteRun]
    session: Path | None = None

    @property
    def main(self) -> SuiteRun:
        return self.runs["performance"]


def build_submission(request: SubmissionRequest, here: Mapping[str, Any]) -> Submission:
    """Build the tree of the request's round under `out`.

    `here`: this machine, as returned by describe_system. Raises UsageError for an invalid request,
    RefusedError with every reason for results that cannot be submitted.
    """
    if not _SUBMITTER.fullmatch(request.submitter):
        raise UsageError(
            f"--submitter {request.submitter}: must contain only letters, digits and . _ + - "
            "(it names a folder)"
        )
    out = request.out.absolute()
    check_new(request.out, "--out")
    of_client = [path for path in request.results if is_of_official_client(path)]
    # results/latest is a second name for a folder beside it.
    folders = dict.fromkeys(p.resolve() for p in request.results if p not in of_client)
    runs = [read_run(folder) for folder in folders]
    reasons = [
        f"{run}: {reason}"
        for run in runs
        for reason in refusals_of_run(
            run, request.round, allow_replay=request.allow_replay, division=request.division
        )
    ]
    # The settings of a running or failed run are incomplete; it is refused with its own reason.
    finished_runs = [run for run in runs if run.meta.status in FINAL_STATUSES]
    if len({run.is_replay for run in finished_runs}) > 1:
        reasons.append("replays and measurements cannot be in one tree")
    reasons += refusals_of_systems(finished_runs)
    results, of_results = _results(runs)
    scenarios, of_scenarios = read_official_client_scenarios(of_client, request.round)
    reasons += [*of_results, *of_scenarios, *_twice(scenarios, runs)]
    if not reasons:
        results, reasons = _with_sessions(results, request.power)
    if reasons:
        raise RefusedError(reasons)
    system = _system(request, runs, scenarios, here)
    notice = REPLAY_NOTICE if any(run.is_replay for run in runs) else ""
    if notice:
        system["sw_notes"] = " ".join(filter(None, (str(system.get("sw_notes") or ""), notice)))
    measurements_of_user = (
        _read_option("--measurements", request.measurements) if request.measurements else {}
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        folder.chmod(0o755)
        tree = _Tree(folder, request, folder_name(str(system["system_name"])), notice)
        for result in results:
            tree.write_result(result, measurements_of_user)
        for scenario in scenarios:
            tree.write_client(scenario, measurements_of_user)
        # Judged as if it had the status that a person may still have to fill in.
        tree.write_system({**system, "status": system.get("status") or STATUSES[0]})
        with linked(tree.client_events):
            groups = judge_folder(folder, request.round)
        # The links are not uploaded.
        submitters = folder / request.division
        uploads = [judge_upload(path, request.round) for path in submitters.iterdir()]
        others = [g for g in groups if all(v.rule != "submission_upload" for v in g.verdicts)]
        groups = [*others, *uploads]
        # But for what a person has to add.
        if failures := failures_of(groups, _FOR_A_PERSON):
            raise RefusedError(failures)
        tree.write_system(system)
        if out.exists():
            out.rmdir()
        folder.replace(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    unfilled = {request.out / name: fields for name, fields in tree.unfilled.items() if fields}
    passed = sum(group.count("passed") for group in groups)
    return Submission(request.out, tree.system, notice, passed, unfilled)


def _results(runs: Sequence[SuiteRun]) -> tuple[list[_Result], list[str]]:
    """The runs by scenario, and the reasons why they are not results."""
    by_scenario: dict[tuple[str, str], dict[Mode, SuiteRun]] = {}
    reasons = []
    for run in runs:
        modes = by_scenario.setdefault((run.benchmark.id, run.scenario.name), {})
        for mode in run.modes:
            if mode in modes:
                of = f"{run.benchmark.id} {run.scenario.name} {mode}"
                reasons.append(f"{run}: {of} is in {modes[mode]} too; choose one of them")
            modes.setdefault(mode, run)
    for (benchmark, scenario), modes in by_scenario.items():
        if not all(run.meta.status in FINAL_STATUSES for run in modes.values()):
            continue
        for mode in ("accuracy", "performance"):
            if modes and mode not in modes:
                reasons.append(f"{benchmark} {scenario}: no {mode} run among the results")
        if "performance" in modes:
            other_modes: tuple[Mode, ...] = ("accuracy", *AUDIT_MODES)
            for mode in other_modes:
                partner = modes.get(mode, modes["performance"])
                reasons += [
                    f"{benchmark} {scenario}: not the same in {mode} and performance: {reason}"
                    for reason in refusals_of_pair(partner, modes["performance"])
                ]
    return [_Result(modes) for modes in by_scenario.values()], reasons


def _twice(scenarios: Sequence[OfficialClientScenario], runs: Sequence[SuiteRun]) -> Iterator[str]:
    """A line for each result of the client whose scenario has another result."""
    places = {(run.benchmark.id, run.scenario.name): str(run) for run in runs}
    for scenario in scenarios:
        if scenario.name in places:
            yield f"{scenario}: {' '.join(scenario.name)} is in {places[scenario.name]} too"
        places.setdefault(scenario.name, str(scenario))


def _with_sessions(
    results: Sequence[_Result], folders: Sequence[Path]
) -> tuple[list[_Result], list[str]]:
    """The results with the sessions that measured them, and the faults of those."""
    sessions = [s for folder in dict.fromkeys(folders) for s in find_sessions(folder)]
    by_name = {
        f"{result.main.benchmark.id} {result.main.scenario.name}": result for result in results
    }
    logs = {name: result.main.logs("performance") for name, result in by_name.items()}
    session_of, reasons = match_sessions(sessions, logs)
    return [
        replace(result, session=session_of.get(name)) for name, result in by_name.items()
    ], reasons


def _system(
    request: SubmissionRequest,
    runs: Sequence[SuiteRun],
    scenarios: Sequence[OfficialClientScenario],
    here: Mapping[str, Any],
) -> dict[str, Any]:
    """The system's description; fields that the submission determines are added if absent."""
    of_client = {scenario.benchmark.category for scenario in scenarios}
    categories = sorted(of_client | {run.benchmark.category for run in runs})
    determined = {
        "submitter": request.submitter,
        "division": request.division,
        "system_type": ",".join(categories),
    }
    if request.system == AUTO:
        if scenarios or any(run.summary.run.remote for run in runs):
            raise UsageError(
                "--system auto: the runs measured servers, whose hardware is unknown; "
                "pass its description as a file"
            )
        differences = different_machine(runs[0].system, here)
        if differences:
            raise UsageError(
                f"--system auto: the runs were made on another machine ({'; '.join(differences)}); "
                f"pass its description as a file"
            )
        machines, used = runs[0].machines, runs[0].engine.settings.get("gpus_used")
        gpus_used = used if isinstance(used, int) else None
        described = describe_machine(runs[0].system, machines=machines, gpus_used=gpus_used)
        return described | determined
    described = {**determined, **_read_option("--system", Path(request.system))}
    if not described.get("system_name"):
        raise UsageError(f"--system {request.system}: system_name is missing, it names the folder")
    return described


def _read_option(option: str, path: Path) -> dict[str, Any]:
    """The JSON object in the file that an option names. Raises UsageError if there is none."""
    try:
        content = strict_json.loads(path.read_text(encoding="utf-8"))
        # JSON can contain half of a surrogate pair, a file cannot.
        json.dumps(content, ensure_ascii=False).encode()
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{option} {path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{option} {path}: expected a JSON object")
    return content


class _Tree:
    """Writes the files of one system's results in the layout of the round."""

    def __init__(self, root: Path, request: SubmissionRequest, system: str, notice: str) -> None:
        self.system = system
        self._notice = notice
        self.unfilled: dict[Path, tuple[str, ...]] = {}
        self._root = root
        self._home = root / request.division / request.submitter
        self._layout = request.round.layout
        self.client_events: dict[Path, Path] = {}
        """The client's events, by their places beside their scenarios while the tree is judged;
        they are too large to be submitted."""

    def _place(self, branch: str, run: SuiteRun) -> Path:
        """The scenario's folder; layout v5 has its branches side by side."""
        parts = (self.system, run.benchmark.id, run.scenario.name)
        return self._home.joinpath("results" if self._layout == "v6" else branch, *parts)

    def _write_json(self, path: Path, content: Mapping[str, Any], unfilled: list[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, content)
        self.unfilled[path.relative_to(self._root)] = tuple(unfilled)

    def write_system(self, system: Mapping[str, Any]) -> None:
        path = self._home / "systems" / f"{self.system}.json"
        self._write_json(path, system, missing_system_fields(system))

    def write_client(
        self, scenario: OfficialClientScenario, measurements_of_user: Mapping[str, Any]
    ) -> None:
        """Write a scenario that the official client measured."""
        folder = self._home.joinpath("results", self.system, *scenario.name)
        content = write_official_client_scenario(folder, scenario, measurements_of_user)
        unfilled = [field for field in MEASUREMENT_FIELDS if not content.get(field)]
        self._write_json(folder / "measurements.json", content, unfilled)
        source = self._home / "src" / scenario.benchmark.id / "README.md"
        if not source.exists():
            _write_text(source, official_client_source_readme(scenario))
        if scenario.point.events_file is not None:
            self.client_events[folder / "events.jsonl"] = scenario.point.events_file

    def write_result(self, result: _Result, measurements_of_user: Mapping[str, Any]) -> None:
        run = result.main
        results = self._place("results", run)
        self._write_accuracy(result.runs["accuracy"], results / "accuracy")
        _copy_logs(run.logs("performance"), results / "performance" / "run_1")
        if result.session is not None:
            _copy_session(result.session, results / "performance")
        for audit in run.benchmark.audits:
            if audit.mode in result.runs:
                self._write_audit(result, audit)
        self._write_measurements(run, measurements_of_user)
        code = "src" if self._layout == "v6" else "code"
        readme_of_code = source_readme(run, self._notice)
        _write_text(self._home / code / run.benchmark.id / "README.md", readme_of_code)

    def _write_accuracy(self, run: SuiteRun, folder: Path) -> None:
        logs = run.logs("accuracy")
        _copy_logs(logs, folder)
        log = logs / ACCURACY
        (folder / ACCURACY).write_bytes(cut_accuracy_log(log.read_bytes()))
        _write_text(folder / ACCURACY_TXT, self._accuracy_txt(run, logs))

    def _accuracy_txt(self, run: SuiteRun, logs: Path) -> str:
        """accuracy.txt of a scored run. Raises RefusedError if a score is missing."""
        all_scores = read_scores(logs, run.workload.scorer)
        names = dict.fromkeys((*run.benchmark.metrics, GEN_NUM))
        absent = [name for name in names if name not in all_scores]
        if absent:
            raise RefusedError([f"{logs}: {', '.join(absent)} not among the scores"])
        scores = {name: all_scores[name] for name in names}
        sha256 = file_sha256(logs / ACCURACY)
        return accuracy_txt(scores, run.benchmark.counted_as, sha256, self._notice)

    def _write_audit(self, result: _Result, audit: Audit) -> None:
        run = result.runs[audit.mode]
        logs, folder = run.logs(audit.mode), self._place("compliance", run) / audit.name
        _copy_logs(logs, folder / "performance" / "run_1")
        accuracy = folder / "accuracy"
        accuracy.mkdir(parents=True, exist_ok=True)
        if audit.unique:
            # It has every answer, up to 80 kB each: too much for an upload. As the official
            # truncate_accuracy_log.py does; TEST06's log stays whole there too, and TEST01's is
            # small and compared.
            (accuracy / ACCURACY).write_bytes(cut_accuracy_log((logs / ACCURACY).read_bytes()))
            text = audit_accuracy_txt(file_sha256(logs / ACCURACY), self._notice)
            _write_text(accuracy / ACCURACY_TXT, text)
        else:
            shutil.copyfile(logs / ACCURACY, accuracy / ACCURACY)
        verdicts = _read_json(logs.parent / "verdicts.json")
        if audit.compares:
            self._write_comparison(result, audit, verdicts, folder)
            return
        scores = read_scores(logs, run.workload.scorer) if audit.least_score else {}
        text = verified_text(audit, verdicts, scores, self._notice)
        _write_text(folder / audit.verified_in, text)

    def _write_comparison(
        self, result: _Result, audit: Audit, verdicts: Sequence[Mapping[str, Any]], folder: Path
    ) -> None:
        """The files of an audit's two scripts, and the accuracies that count if answers differ."""
        modes: tuple[Mode, Mode, Mode] = (*COMPARED, audit.mode)
        logs = [read_logs(result.runs[mode].logs(mode)) for mode in modes]
        for name, text in comparison_texts(audit, verdicts, logs, self._notice).items():
            _write_text(folder / name, text)
        baseline, compliance = PART_III
        of_audit: dict[str, Mode] = {compliance: audit.mode, ACCURACY_TXT: audit.mode}
        for name, mode in {baseline: modes[0], **of_audit}.items():
            run = result.runs[mode]
            _write_text(folder / "accuracy" / name, self._accuracy_txt(run, run.logs(mode)))

    def _write_measurements(self, run: SuiteRun, measurements_of_user: Mapping[str, Any]) -> None:
        folder = self._place("measurements", run)
        content = measurements(run, measurements_of_user, self._notice)
        name = "measurements.json"
        if self._layout == "v5":
            name = f"{self.system}_{run.implementation}_{run.scenario.name}.json"
        unfilled = [field for field in MEASUREMENT_FIELDS if not content.get(field)]
        self._write_json(folder / name, content, unfilled)
        conf = (run.logs("performance") / "user.conf").read_text(encoding="utf-8")
        # LoadGen treats a line that begins with # as a comment.
        notice = f"# {self._notice}\n" if self._notice else ""
        _write_text(folder / "user.conf", f"{notice}{conf}")
        _write_text(folder / "README.md", readme(run, self._notice))


def _copy_logs(logs: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in (DETAIL, SUMMARY):
        shutil.copyfile(logs / name, folder / name)


def _copy_session(session: Path, performance: Path) -> None:
    """Copy a session's files to their places, the same in every round (POWER_DIR_PATH of the
    official checker). Files that no rule requires are left out; the rules report missing ones."""
    paths = [f"{POWER}/{name}" for name in sorted(POWER_FILES)]
    paths += [f"{RANGING}/{name}" for name in sorted(RUN_FILES)]
    for path in (*paths, f"{TESTING}/{SPL}"):
        (performance / path).parent.mkdir(parents=True, exist_ok=True)
        if (session / path).is_file():
            shutil.copyfile(session / path, performance / path)


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _read_json(path: Path) -> Any:
    """A file that the run wrote and that its checksum covers. Raises RefusedError."""
    try:
        return strict_json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RefusedError([f"{path}: {error}"]) from error
