"""Judging runs that somebody else made: from a folder to verdicts, for the round they belong to.

A folder is a submission tree (either layout, closed and open), LoadGen logs by themselves, or
results of this suite. What is missing or damaged is a verdict; nothing here raises for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.audits import TEST06_TOOK
from mlperf_suite.benchmarks.definition import (
    BENCHMARKS,
    RUNNABLE,
    Benchmark,
    Category,
    Scenario,
    find_benchmark,
)
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS, Round, round_of_seeds
from mlperf_suite.benchmarks.workload import BASELINES, EMBEDDED, OFFICIAL, Baseline
from mlperf_suite.compliance.accuracy_txt import parse_accuracy_txt
from mlperf_suite.compliance.rules import (
    Division,
    RunFacts,
    SubmittedTexts,
    accuracy_verdict,
    judge,
)
from mlperf_suite.compliance.submission_rules import (
    BenchmarkFacts,
    JsonFile,
    ResultFacts,
    judge_benchmark,
    judge_result,
)
from mlperf_suite.compliance.verdict import Verdict, in_words, verdict
from mlperf_suite.judging.tree import BenchmarkPlace, Place, Tree, find_runs
from mlperf_suite.loadgen.load_plan import TEST_MODES, Mode
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY, DetailLog, RunLogs, read_logs
from mlperf_suite.results.run_folder import SUMMARY_JSON

ACCURACY_TXT = "accuracy.txt"
VERIFY_TXT = "verify_accuracy.txt"
_UNSCORED = "no accuracy.txt beside the log"


@dataclass(frozen=True, slots=True)
class Judged:
    """What was judged together. `modes` names the run that each verdict is about, "" for none."""

    name: str
    round: Round
    category: Category | None
    scenario: str | None
    verdicts: tuple[Verdict, ...]
    modes: tuple[str, ...]

    def count(self, status: str) -> int:
        return sum(v.status == status for v in self.verdicts)

    @property
    def failed_rules(self) -> list[str]:
        return [v.rule for v in self.verdicts if v.status == "failed"]


def judge_folder(
    root: Path, round_: Round | None = None, *, high_accuracy: bool = False
) -> list[Judged]:
    """Judge every run under a folder, for `round_` or else for the round that its seeds are of.

    A submission belongs to one round: the one that most of its results have the seeds of.
    `high_accuracy`: gate accuracy at the baseline's high gate (99.9%); a benchmark that is gated
    there anyway needs no asking.
    """
    tree = find_runs(root)
    judged: list[Judged] = []
    for submission in tree.submissions:
        benchmarks = [b for b in tree.benchmarks if b.submission == submission]
        judged += _judge_submission(submission, benchmarks, round_, high_accuracy)
    judged += [_judge_idle(path, round_ or ROUNDS[DEFAULT_ROUND]) for path in tree.idle_systems]
    return judged + _judge_loose(tree, round_, high_accuracy)


# Submissions


@dataclass(frozen=True, slots=True)
class _Result:
    """A scenario's folder, known for what it is, and the logs of its runs."""

    place: Place
    benchmark: Benchmark
    scenario: Scenario
    accuracy: RunLogs
    performance: tuple[RunLogs, ...]

    @property
    def round(self) -> Round | None:
        logs = (self.performance[0].detail, self.accuracy.detail)
        return next((found for log in logs if (found := _round_of(log))), None)


def _judge_submission(
    submission: Path,
    benchmarks: Sequence[BenchmarkPlace],
    round_: Round | None,
    high_accuracy: bool,
) -> list[Judged]:
    names = _model_mapping(submission)
    results = {b.folder: _results(b, names) for b in benchmarks}
    every = [result for of_benchmark in results.values() for result in of_benchmark]
    of_tree = round_ or _most_common(result.round for result in every)
    judged = []
    for place in benchmarks:
        benchmark = _named(place.benchmark, names)
        judged.append(_judge_benchmark(place, benchmark, of_tree))
        of_place = results[place.folder]
        judged += [_judge_result(result, of_tree, high_accuracy) for result in of_place]
    return judged


def _judge_idle(system: Path, round_: Round) -> Judged:
    """A system that is described and has no result."""
    submission = system.parents[1]
    name = _name(submission.parent.name, submission.name, system.stem)
    found = verdict(False, f"no results/{system.stem}", "results of every system described")
    return Judged(name, round_, None, None, (replace(found, rule="system_has_results"),), ("",))


def _model_mapping(submission: Path) -> dict[str, str]:
    """What an open submission calls the benchmarks, by its own names (model_mapping.json)."""
    if submission.parent.name != "open":
        return {}
    content = _read_json(submission / "model_mapping.json").content
    return {name: known for name, known in content.items() if isinstance(known, str)}


def _named(name: str, names: dict[str, str]) -> Benchmark | None:
    return find_benchmark(name) or find_benchmark(names.get(name, ""))


def _results(place: BenchmarkPlace, names: dict[str, str]) -> list[_Result]:
    benchmark = _named(place.benchmark, names)
    results = []
    for scenario_place in place.scenarios:
        scenario = _scenario(benchmark, scenario_place.scenario)
        if benchmark is not None and scenario is not None:
            runs = tuple(read_logs(path) for path in scenario_place.performance_runs)
            accuracy = read_logs(scenario_place.folder / "accuracy")
            results.append(_Result(scenario_place, benchmark, scenario, accuracy, runs))
    return results


def _scenario(benchmark: Benchmark | None, name: str) -> Scenario | None:
    """The benchmark's scenario of that name in any case, as the official checker takes it."""
    scenarios = benchmark.scenarios if benchmark else ()
    return next((s for s in scenarios if s.name.lower() == name.lower()), None)


def _judge_benchmark(place: BenchmarkPlace, benchmark: Benchmark | None, round_: Round) -> Judged:
    scenarios = tuple(p.scenario for p in place.scenarios)
    facts = BenchmarkFacts(
        place.benchmark, benchmark, place.division, round_, scenarios, place.whole
    )
    verdicts = judge_benchmark(facts)
    category = benchmark.category if benchmark else None
    name = _name(place.division, place.submitter, place.system, place.benchmark)
    return Judged(name, round_, category, None, tuple(verdicts), ("",) * len(verdicts))


def _judge_result(result: _Result, round_: Round, high_accuracy: bool) -> Judged:
    place, benchmark = result.place, result.benchmark
    accuracy_txt = _read_text(place.folder / "accuracy" / ACCURACY_TXT)
    accuracy = RunFacts(
        benchmark,
        result.scenario,
        "accuracy",
        round_,
        result.accuracy,
        scores=None if accuracy_txt is None else parse_accuracy_txt(accuracy_txt).scores,
        baseline=BASELINES[benchmark.id],
        high_accuracy=high_accuracy,
        division=_division(place.division),
        submitted=SubmittedTexts(accuracy_txt=accuracy_txt),
        eos_token_ids=benchmark.eos_token_ids,
    )
    groups: list[tuple[str, list[Verdict]]] = [("", judge_result(_result_facts(result, round_)))]
    of_accuracy = judge(accuracy)
    groups.append(("accuracy", of_accuracy))
    passed = accuracy_verdict(of_accuracy)
    for logs in result.performance:
        facts = replace(accuracy, mode="performance", logs=logs, accuracy_passed=passed)
        groups.append(("performance", _of_run(logs.folder.name, judge(facts))))
    if "TEST06" in benchmark.compliance_tests:
        groups.append(("test06", judge(_test06_facts(accuracy, place))))
    name = _name(place.division, place.submitter, place.system, place.benchmark, place.scenario)
    return _judged(name, round_, benchmark.category, result.scenario.name, groups)


def _of_run(run: str, verdicts: list[Verdict]) -> list[Verdict]:
    """Verdicts of a run after the first carry its name; a submission needs the first only."""
    return verdicts if run == "run_1" else [replace(v, rule=f"{run}-{v.rule}") for v in verdicts]


def _test06_facts(accuracy: RunFacts, place: Place) -> RunFacts:
    folder = place.test06()
    answers = read_logs(folder / "accuracy")
    performance = read_logs(folder / "performance" / "run_1")
    if DETAIL in performance.files:
        answers = replace(answers, detail=performance.detail, files=performance.files)
    texts = SubmittedTexts(verify_accuracy_txt=_read_text(folder / VERIFY_TXT))
    return replace(accuracy, mode="test06", logs=answers, submitted=texts)


def _result_facts(result: _Result, round_: Round) -> ResultFacts:
    place = result.place
    folder = place.measurements()
    file = place.measurements_file(folder)
    missing_json = JsonFile({}, "no JSON file of the measurements")
    return ResultFacts(
        place.division,
        place.submitter,
        result.benchmark.category,
        round_,
        frozenset(place.layouts()),
        tuple(_missing_files(result, folder)),
        _read_json(place.system_file),
        _read_json(file) if file else missing_json,
        result.accuracy,
        result.performance[0],
    )


def _missing_files(result: _Result, measurements: Path) -> list[str]:
    """The files that a result must have and that are absent or empty, as people look for them."""
    place = result.place
    performance, accuracy = place.folder / "performance" / "run_1", place.folder / "accuracy"
    wanted = [performance / name for name in (SUMMARY, DETAIL)]
    wanted += [accuracy / name for name in (SUMMARY, DETAIL, ACCURACY, ACCURACY_TXT)]
    wanted += [place.system_file, measurements / "user.conf", measurements / "README.md"]
    if place.division != "open" and "TEST06" in result.benchmark.compliance_tests:
        test06 = place.test06()
        wanted += [test06 / VERIFY_TXT, test06 / "accuracy" / ACCURACY]
    missing = [_from(place, path) for path in wanted if _size(path) == 0]
    # Layout v5 calls it code/, v6 src/; which of the two is no business of this rule.
    code = any((place.submission / name).is_dir() for name in ("src", "code"))
    return missing if code else [*missing, "src/"]


def _from(place: Place, path: Path) -> str:
    """The path as seen from the scenario's folder, or from the submitter's where it is outside."""
    root = place.folder if place.folder in path.parents else place.submission
    return str(path.relative_to(root))


# Logs by themselves


@dataclass(frozen=True, slots=True)
class _LooseRun:
    """A folder of logs outside any submission, and what it is by its logs and its names.

    `names`: of its folders up to the one that was asked about, the logs' own first. What lies above
    that one says where somebody keeps logs, and nothing about them.
    """

    folder: Path
    names: tuple[str, ...]
    logs: RunLogs
    mode: Mode
    benchmark: Benchmark | None
    scenario: Scenario | None
    meta: dict[str, Any]


def _judge_loose(tree: Tree, round_: Round | None, high_accuracy: bool) -> list[Judged]:
    runs = [_loose_run(tree.root, folder) for folder in tree.loose]
    passed = [
        (run, accuracy_verdict(judge(facts)))
        for run in runs
        if run.mode == "accuracy" and (facts := _loose_facts(run, round_, high_accuracy))
    ]
    return [_judge_loose_run(tree.root, run, passed, round_, high_accuracy) for run in runs]


def _judge_loose_run(
    root: Path,
    run: _LooseRun,
    passed: Iterable[tuple[_LooseRun, bool | None]],
    round_: Round | None,
    high_accuracy: bool,
) -> Judged:
    parts = run.folder.relative_to(root).parts or (root.name,)
    name = _name("", *parts)
    parents = {run.folder.parent, run.folder.parent.parent}
    beside = [
        verdict
        for accuracy, verdict in passed
        if accuracy.folder.parent in parents
        and (accuracy.benchmark, accuracy.scenario) == (run.benchmark, run.scenario)
    ]
    accuracy_passed = beside[0] if len(beside) == 1 else None
    facts = _loose_facts(run, round_, high_accuracy, accuracy_passed)
    if facts is None:
        return _judge_unknown(name, run, round_)
    groups = [(run.mode, judge(facts))]
    return _judged(name, facts.round, facts.benchmark.category, facts.scenario.name, groups)


def _judge_unknown(name: str, run: _LooseRun, round_: Round | None) -> Judged:
    """Logs that nothing tells the benchmark or the scenario of."""
    detail = run.logs.detail
    samples, scenario = detail["qsl_reported_total_count"], detail["effective_scenario"]
    described = f"logs of {in_words(samples)} samples, scenario {in_words(scenario)}"
    of_run = round_ or _round_of(detail) or ROUNDS[DEFAULT_ROUND]
    known = run.benchmark.id if run.benchmark else described
    # LoadGen has no scenario Interactive: its bare name would be taken for the benchmark's.
    scenarios = (f"{in_words(scenario)} in the log",)
    facts = BenchmarkFacts(known, run.benchmark, "closed", of_run, scenarios, False)
    verdicts = tuple(v for v in judge_benchmark(facts) if v.status == "failed")
    return Judged(name, of_run, None, None, verdicts, ("",) * len(verdicts))


def _loose_run(root: Path, folder: Path) -> _LooseRun:
    logs = read_logs(folder)
    names = tuple(reversed((root.name, *folder.relative_to(root).parts)))
    meta = _suites_meta(root, folder)
    benchmark = _loose_benchmark(names, logs.detail, meta)
    scenario = _loose_scenario(names, logs.detail, meta, benchmark)
    mode = _loose_mode(names, logs.detail)
    return _LooseRun(folder, names, logs, mode, benchmark, scenario, meta)


def _suites_meta(root: Path, folder: Path) -> dict[str, Any]:
    """What this suite says of the run in the summary.json above it; empty where it says nothing.

    Logs lie in a result's folder in Performance, and in Performance/repeat_2 or Compliance/TEST06.
    """
    near = [path for path in folder.parents[:2] if path.is_relative_to(root.parent)]
    found = (_read_json(path / SUMMARY_JSON).content.get("meta") for path in near)
    return next((meta for meta in found if isinstance(meta, dict)), {})


def _loose_mode(names: tuple[str, ...], detail: DetailLog) -> Mode:
    """What the log says it is, else what the folder's name says.

    A folder TEST06 holds an audit even where its settings did not take: a rule says so.
    """
    audit = "effective_accuracy_log_rng_seed"
    if detail[audit] == TEST06_TOOK[audit] or "TEST06" in names:
        return "test06"
    if detail["effective_test_mode"] is None:
        return "accuracy" if names[0].lower().startswith("acc") else "performance"
    return "accuracy" if detail["effective_test_mode"] == TEST_MODES["accuracy"] else "performance"


def _loose_benchmark(
    names: tuple[str, ...], detail: DetailLog, meta: dict[str, Any]
) -> Benchmark | None:
    """The benchmark that a summary says, else the one of so many samples as the log has.

    A folder's name decides where several benchmarks have as many, and where none has.
    """
    if ours := find_benchmark(str(meta.get("benchmark"))):
        return ours
    samples = detail.number("qsl_reported_total_count")
    counted = [b for b in BENCHMARKS.values() if b.samples == samples]
    named = [b for name in names if (b := find_benchmark(name))]
    both = [b for b in named if b in counted]
    return next(iter(both or counted or named), None)


def _loose_scenario(
    names: tuple[str, ...], detail: DetailLog, meta: dict[str, Any], benchmark: Benchmark | None
) -> Scenario | None:
    """The scenario that a summary says, else LoadGen's own; a folder's where the log says none.

    LoadGen has one scenario for Server and Interactive: their limits tell them apart, else a
    folder's name.
    """
    if benchmark is None:
        return None
    if ours := _scenario(benchmark, str(meta.get("scenario"))):
        return ours
    named = [s for name in names if (s := _scenario(benchmark, name))]
    said = detail["effective_scenario"]
    if said is None:
        return next(iter(named), None)
    fitting = [s for s in benchmark.scenarios if s.loadgen_scenario == said]
    asked = detail.milliseconds("requested_server_ttft_latency")
    same_limit = [s for s in fitting if s.limits and s.limits.ttft_ms == asked]
    both = [s for s in named if s in fitting]
    return next(iter(same_limit or both or fitting), None)


def _loose_facts(
    run: _LooseRun,
    round_: Round | None,
    high_accuracy: bool,
    accuracy_passed: bool | None = None,
) -> RunFacts | None:
    if run.benchmark is None or run.scenario is None:
        return None
    scores = _loose_scores(run.folder)
    smoke = run.meta.get("profile") == "smoke"
    ours = run.meta.get("round")
    said = ROUNDS.get(ours) if isinstance(ours, str) else None
    return RunFacts(
        run.benchmark,
        run.scenario,
        run.mode,
        round_ or said or _round_of(run.logs.detail) or ROUNDS[DEFAULT_ROUND],
        run.logs,
        smoke=smoke,
        scores=scores,
        unscored="" if scores is not None else _UNSCORED,
        baseline=_loose_baseline(run, run.benchmark, scores),
        high_accuracy=high_accuracy,
        accuracy_passed=accuracy_passed,
        division="open" if "open" in run.names else "closed",
        eos_token_ids=None if smoke else run.benchmark.eos_token_ids,
    )


def _loose_scores(folder: Path) -> dict[str, float] | None:
    """The figures of accuracy.txt, or of this suite's rouge.json; None where neither is there."""
    text = _read_text(folder / ACCURACY_TXT)
    if text is not None:
        return dict(parse_accuracy_txt(text).scores)
    rouge = _read_json(folder / "rouge.json").content
    ours = {name.removeprefix("run_"): value for name, value in rouge.items()}
    numbers = {n: float(v) for n, v in ours.items() if type(v) in (int, float) and abs(v) < 1e15}
    return numbers or None


def _loose_baseline(
    run: _LooseRun, benchmark: Benchmark, scores: dict[str, float] | None
) -> Baseline | None:
    """The official one, or the embedded model's for a run of this suite over all of its data."""
    model = run.meta.get("model")
    if model is None or model == OFFICIAL.model:
        return BASELINES[benchmark.id]
    embedded = EMBEDDED.baselines[benchmark.category]
    same = model == EMBEDDED.model and run.meta.get("dataset") == EMBEDDED.dataset
    whole = scores is not None and scores.get("gen_num") == embedded.gen_num
    return embedded if same and whole and benchmark in RUNNABLE.values() else None


# Of both


def _judged(
    name: str,
    round_: Round,
    category: Category,
    scenario: str,
    groups: Iterable[tuple[str, list[Verdict]]],
) -> Judged:
    flat = [(mode, verdict) for mode, verdicts in groups for verdict in verdicts]
    verdicts, modes = tuple(v for _, v in flat), tuple(mode for mode, _ in flat)
    return Judged(name, round_, category, scenario, verdicts, modes)


def _round_of(detail: DetailLog) -> Round | None:
    """The round whose seeds the log has, or None."""
    names = ROUNDS[DEFAULT_ROUND].seeds
    return round_of_seeds({name: detail[f"effective_{name}"] for name in names})


def _most_common(rounds: Iterable[Round | None]) -> Round:
    """The round of most results, the newest of several; the default where no result has any."""
    counted = Counter(found.name for found in rounds if found is not None)
    if not counted:
        return ROUNDS[DEFAULT_ROUND]
    return ROUNDS[max(counted, key=lambda name: (counted[name], list(ROUNDS).index(name)))]


def _division(name: str) -> Division:
    return "open" if name == "open" else "closed"


def _name(division: str, *parts: str) -> str:
    """What a run is called in a test's id; closed is the division that is not named."""
    shown = parts if division in ("", "closed") else (division, *parts)
    return "-".join("".join(c if c.isprintable() else "?" for c in part) for part in shown)


def _read_text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return None


def _read_json(path: Path) -> JsonFile:
    text = _read_text(path)
    if text is None:
        return JsonFile({}, f"no {path.name}")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return JsonFile({}, f"{path.name} is not JSON")
    return (
        JsonFile(content)
        if isinstance(content, dict)
        else JsonFile({}, f"{path.name} is no object")
    )


def _size(path: Path) -> int:
    """The file's size in bytes; 0 where there is none."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0
