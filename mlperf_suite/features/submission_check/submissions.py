"""Judges a submission: each scenario's result by its runs, its files and its system."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path

from mlperf_suite.benchmarks.audits import Audit, Mode
from mlperf_suite.benchmarks.catalog import find_benchmark
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS, Round
from mlperf_suite.features.submission_check.power_measurement import POWER
from mlperf_suite.features.submission_check.retrieval_rules import RETRIEVAL, RetrievalFacts
from mlperf_suite.features.submission_check.scenario_folders import (
    CODE,
    DIVISIONS,
    MEASUREMENTS_JSON,
    BenchmarkFolder,
    OtherResult,
    ScenarioFolder,
    TreeJudge,
)
from mlperf_suite.features.submission_check.submission_rules import (
    OTHER_BENCHMARKS,
    PowerSupplyRating,
    ResultFacts,
    SystemFacts,
)
from mlperf_suite.features.submission_check.tree import Tree, find_submissions, read_power
from mlperf_suite.features.submission_check.tree_files import is_utf8, names_in, read_yaml, size_of
from mlperf_suite.features.submission_check.upload_rules import MODEL_MAPPING, read_upload
from mlperf_suite.judging.judges import Folders, FoundResults, Judge, JudgeRequest, judges
from mlperf_suite.judging.reading import read_json, read_text
from mlperf_suite.judging.verdict_group import (
    VerdictGroup,
    judged_figures,
    name_of,
    refused,
    round_of,
    scenario_of,
    verdict_group,
)
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY, DetailLog, RunLogs, read_logs
from mlperf_suite.rules import accuracy_verdict, judge
from mlperf_suite.rules.accuracy_files import (
    ACCURACY_TXT,
    MAX_ACCURACY_LOG_BYTES,
    parse_accuracy_txt,
    parse_cut_log,
)
from mlperf_suite.rules.audit_rules import PART_III
from mlperf_suite.rules.benchmark_rules import BenchmarkFacts
from mlperf_suite.rules.facts import AnswerTokens, ComparedRuns, RunFacts, SubmittedTexts
from mlperf_suite.rules.registry import SERVER
from mlperf_suite.rules.verdict import Verdict, set_aside_passed
from mlperf_suite.strict_json import JsonFile


@dataclass(frozen=True, slots=True)
class _Result:
    """A scenario's folder, identified, and the logs of its runs. `audits`: by name.
    `accuracy_txt`, `cut_log`: their texts, None for a file that cannot be read or is not cut."""

    place: ScenarioFolder
    benchmark: Benchmark
    scenario: Scenario
    accuracy: RunLogs
    performance: tuple[RunLogs, ...]
    audits: dict[str, RunLogs]
    accuracy_txt: str | None
    cut_log: str | None

    @property
    def round(self) -> Round | None:
        logs = (self.performance[0].detail, self.accuracy.detail)
        return next((round_ for log in logs if (round_ := round_of(log))), None)


def _find(root: Path, folders: Folders) -> FoundResults:
    tree = find_submissions(root, folders)
    return FoundResults(
        frozenset({*tree.submissions, *tree.misplaced}), partial(_judge_tree, root, tree)
    )


JUDGE = Judge(rank=1, find=_find)


def _judge_tree(root: Path, tree: Tree, review: JudgeRequest) -> list[VerdictGroup]:
    submissions = {path: _read(path, tree.benchmarks) for path in tree.submissions}
    copies = _copies(
        [result for each in submissions.values() for result in chain(*each.results.values())],
        [other for each in submissions.values() for other in chain(*each.others.values())],
    )
    judged = []
    for path, each in submissions.items():
        of_tree = review.round or _most_common(each.rounds)
        judged += _judge_submission(each, copies, of_tree, review)
        judged += [judge_upload(path, of_tree)] if path.is_relative_to(root) else []
    of_none = review.round or ROUNDS[DEFAULT_ROUND]
    judged += [_judge_idle(path, of_none) for path in tree.idle_systems]
    return judged + [_refuse_misplaced(root, path, review.round) for path in tree.misplaced]


def _refuse_misplaced(root: Path, submission: Path, round_: Round | None) -> VerdictGroup:
    """Say in one line where results and systems of a submission must be to be judged."""
    name = name_of("", *(submission.relative_to(root).parts or (root.name,)))
    places = " or ".join(f"{division}/<submitter>/" for division in DIVISIONS)
    return refused(name, f"results/ and systems/ that are not in {places}", round_)


@dataclass(frozen=True, slots=True)
class _Submission:
    """A submitter's benchmarks in a division, and the results of each by its folder: LoadGen's, and
    `others`. `names`: see `_model_mapping`."""

    benchmarks: tuple[BenchmarkFolder, ...]
    names: dict[str, str]
    results: dict[Path, list[_Result]]
    others: dict[Path, list[OtherResult]]

    @property
    def rounds(self) -> list[Round | None]:
        """By result, the round whose seeds it has."""
        of_loadgen, of_others = (chain(*each.values()) for each in (self.results, self.others))
        return [r.round for r in of_loadgen] + [r.round for r in of_others]


def _read(submission: Path, benchmarks: Iterable[BenchmarkFolder]) -> _Submission:
    of_it = tuple(b for b in benchmarks if b.submission == submission)
    names = _model_mapping(submission)
    others = {b.folder: _foreign_results(b, names) for b in of_it}
    taken = {result.place for result in chain(*others.values())}
    results = {b.folder: _results(b, names, taken) for b in of_it}
    return _Submission(of_it, names, results, others)


def _judge_submission(
    submission: _Submission,
    copies: dict[Path, tuple[str, ...]],
    of_tree: Round,
    review: JudgeRequest,
) -> list[VerdictGroup]:
    """Judge a submission for one round."""
    names = submission.names
    judged = []
    for place in submission.benchmarks:
        benchmark = _benchmark_named(place.benchmark, names)
        name = place.benchmark if benchmark else names.get(place.benchmark, place.benchmark)
        judged.append(_judge_benchmark(place, name, benchmark, of_tree))
        judged += _judge_retrieval(place, name, of_tree)
        of_place = submission.results[place.folder]
        offline = next((r for r in of_place if r.scenario.name == "Offline"), None)
        judged += [
            _judge_result(
                result, of_tree, review.high_accuracy, copies[result.place.folder], offline
            )
            for result in of_place
        ]
        judged += [
            other.judge(of_tree, copies[other.place.folder], review.tokenizer)
            for other in submission.others[place.folder]
        ]
    return judged


def _foreign_results(place: BenchmarkFolder, names: dict[str, str]) -> list[OtherResult]:
    """The results that LoadGen did not measure."""
    others = [each for each in judges() if isinstance(each, TreeJudge)]
    return [result for each in others for result in each.results_in(place, names)]


def judge_upload(submission: Path, round_: Round) -> VerdictGroup:
    """Judge a submitter's folder as what is uploaded."""
    name = name_of(submission.parent.name, submission.name)
    return verdict_group(name, round_, [("", judge(read_upload(submission)))])


def _judge_idle(system: Path, round_: Round) -> VerdictGroup:
    """Judge a system that has a description or a folder and no result."""
    submission, system_name = system.parents[1], system.name.removesuffix(".json")
    name = name_of(submission.parent.name, submission.name, system_name)
    return verdict_group(name, round_, [("", judge(SystemFacts(system_name, has_results=False)))])


def _model_mapping(submission: Path) -> dict[str, str]:
    """An open submission's own names for benchmarks (model_mapping.json)."""
    if submission.parent.name != "open":
        return {}
    content = read_json(submission / MODEL_MAPPING).content
    return {name: benchmark for name, benchmark in content.items() if isinstance(benchmark, str)}


_OF_A_RUN = {
    "accuracy": ("power_begin", "power_end"),
    "performance": tuple(f"result_{place}_latency_ns" for place in ("min", "max", "mean")),
}
"""Detail log values, to the ms and the ns, that identify a run."""
_LATENCY = re.compile(r"result_[\w.]{1,99}latency_ns|result_time_.+")
_LATENCY_TOLERANCE = 1e-6
"""Of 4,383 pairs of public results of one submitter at most 1 of 28 latencies is as near; of two
runs of one log with a changed digit here and there, most are."""


def _copies(
    results: Sequence[_Result], others: Sequence[OtherResult]
) -> dict[Path, tuple[str, ...]]:
    """By a result's folder, the other results that share a run's logs, the answers of another
    system, or the hash of another log, with it.

    A result of the same scenario, system and model at its other accuracy target does not count.
    """
    runs: dict[tuple[object, ...], list[ScenarioFolder]] = defaultdict(list)
    logs_of: dict[str, dict[str, list[ScenarioFolder]]] = defaultdict(lambda: defaultdict(list))
    for other in others:
        for run in other.runs:
            runs["client", *run].append(other.place)
    for result in results:
        place = result.place
        for mode, logs in _logs_by_mode(result):
            values = tuple(str(logs.detail[key]) for key in _OF_A_RUN[mode])
            if "None" not in values:
                runs[mode, *values].append(place)
        log = result.cut_log
        digest = parse_accuracy_txt(result.accuracy_txt or "").hash
        if digest and log is not None:
            logs_of[digest][log].append(place)
        if log and result.scenario.name in SERVER:
            runs["answers", result.scenario.name, log].append(place)
    # Logs of a deterministic system can be the same in all: their hash is then nobody else's.
    runs |= {
        ("hash", digest): [place for places in by_log.values() for place in places]
        for digest, by_log in logs_of.items()
        if len(by_log) > 1
    }
    runs |= {(one.folder, two.folder): [one, two] for one, two in _near_copies(results)}
    every_place = [result.place for result in results] + [other.place for other in others]
    copies: dict[Path, set[str]] = {place.folder: set() for place in every_place}
    for places in runs.values():
        for place, copy in _pairs(places):
            copies[place.folder].add(_words(copy, place))
    return {folder: tuple(sorted(names)) for folder, names in copies.items()}


_MAX_NAMED = 8
"""Of the results that share one run, so that many copies do not take their square."""


def _pairs(places: Sequence[ScenarioFolder]) -> Iterator[tuple[ScenarioFolder, ScenarioFolder]]:
    """Each place that shares its run with another one's, with some of those."""
    firsts = {_run_of(place): place for place in places}
    for place in places if len(firsts) > 1 else ():
        others = (copy for run, copy in firsts.items() if run != _run_of(place))
        yield from ((place, copy) for copy in islice(others, _MAX_NAMED))


def _logs_by_mode(result: _Result) -> Iterator[tuple[str, RunLogs]]:
    yield "accuracy", result.accuracy
    yield "performance", result.performance[0]
    yield from (("performance", logs) for logs in result.audits.values())


def _words(copy: ScenarioFolder, place: ScenarioFolder) -> str:
    """A result as another one of the tree names it."""
    words = f"{copy.system} {copy.benchmark} {copy.scenario}"
    same = copy.submission == place.submission
    return words if same else f"{copy.division}/{copy.submitter} {words}"


def _near_copies(results: Sequence[_Result]) -> Iterator[tuple[ScenarioFolder, ScenarioFolder]]:
    """Results whose latencies are mostly the same but for a last digit.

    Of results in the order of each latency, only neighbours can have it in common.
    """
    of_key: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for number, result in enumerate(results):
        detail = result.performance[0].detail
        for key in filter(_LATENCY.fullmatch, detail.values):
            if latency := detail.number(key):
                of_key[key].append((latency, number))
    near = {
        (min(one, two), max(one, two))
        for values in of_key.values()
        for (first, one), (second, two) in pairwise(sorted(values))
        if math.isclose(first, second, rel_tol=_LATENCY_TOLERANCE)
    }
    for one, two in near:
        first, second = results[one], results[two]
        if _is_same_run(first.performance[0].detail, second.performance[0].detail):
            yield first.place, second.place


def _is_same_run(one: DetailLog, two: DetailLog) -> bool:
    """Whether most latencies of two logs are the same but for a last digit."""
    pairs = [
        (first, second)
        for key in one.values.keys() & two.values.keys()
        if _LATENCY.fullmatch(key) and (first := one.number(key)) and (second := two.number(key))
    ]
    return 2 * sum(math.isclose(*pair, rel_tol=_LATENCY_TOLERANCE) for pair in pairs) > len(pairs)


_AT_ACCURACY = re.compile(r"-99(?:\.9)?$")
"""The end of the name of a benchmark whose model has two accuracy targets."""


def _run_of(place: ScenarioFolder) -> tuple[Path, str, str, str]:
    """The run behind a result's logs: results for which it is equal may share logs."""
    benchmark = _AT_ACCURACY.sub("", place.benchmark)
    return place.submission, place.system, benchmark, place.scenario


def _benchmark_named(name: str, names: dict[str, str]) -> Benchmark | None:
    return find_benchmark(name) or find_benchmark(names.get(name, ""))


def _results(
    place: BenchmarkFolder, names: dict[str, str], taken: Collection[ScenarioFolder]
) -> list[_Result]:
    """The results that LoadGen measured, and are not `taken` for another program's."""
    benchmark = _benchmark_named(place.benchmark, names)
    results = []
    for scenario_place in place.scenarios:
        scenario = scenario_of(benchmark, scenario_place.scenario)
        if benchmark and scenario and scenario_place not in taken:
            runs = tuple(read_logs(path) for path in scenario_place.performance_runs)
            accuracy = read_logs(scenario_place.folder / "accuracy")
            audits = {
                audit.name: read_logs(scenario_place.audit(audit.name) / "performance" / "run_1")
                for audit in benchmark.audits
            }
            texts = (read_text(_accuracy_txt(scenario_place)), _cut_log(scenario_place.folder))
            results.append(
                _Result(scenario_place, benchmark, scenario, accuracy, runs, audits, *texts)
            )
    return results


_RETRIEVAL = "retrieval with several models: known, not run here; its files are judged"
_NO_LANGUAGE = "no language benchmark of MLPerf"


def _judge_benchmark(
    place: BenchmarkFolder, official_name: str, benchmark: Benchmark | None, round_: Round
) -> VerdictGroup:
    scenarios = tuple(p.scenario for p in place.scenarios)
    rounds = OTHER_BENCHMARKS.get(official_name)
    why_not = _RETRIEVAL if official_name in RETRIEVAL else _NO_LANGUAGE
    facts = BenchmarkFacts(
        official_name,
        benchmark,
        round_,
        scenarios,
        place.division,
        place.whole,
        "" if rounds is None else why_not,
        rounds,
    )
    verdicts = judge(facts)
    if benchmark is None:
        of_none = "no benchmark of this suite"
        verdicts = [v if v.why else set_aside_passed([v], of_none)[0] for v in verdicts]
    name = name_of(place.division, place.submitter, place.system, place.benchmark)
    return verdict_group(name, round_, [("", verdicts)], benchmark)


def _judge_retrieval(place: BenchmarkFolder, name: str, round_: Round) -> Iterator[VerdictGroup]:
    """The files of each result of a benchmark of retrieval; nothing of any other."""
    for at in place.scenarios if name in RETRIEVAL else ():
        facts = RetrievalFacts(
            name,
            place.division,
            read_text(_accuracy_txt(at)),
            read_text(at.audit("TEST09") / "verify_output_len.txt"),
            read_logs(at.performance_runs[0]).detail,
            read_logs(at.folder / "accuracy").detail,
        )
        named = name_of(at.division, at.submitter, at.system, at.benchmark, at.scenario)
        yield verdict_group(named, round_, [("", judge(facts))])


def _judge_result(
    result: _Result,
    round_: Round,
    high_accuracy: bool,
    copies: tuple[str, ...],
    offline: _Result | None,
) -> VerdictGroup:
    place, benchmark = result.place, result.benchmark
    accuracy_txt = result.accuracy_txt
    accuracy = RunFacts(
        benchmark,
        result.scenario,
        "accuracy",
        round_,
        result.accuracy,
        scores=None if accuracy_txt is None else parse_accuracy_txt(accuracy_txt).scores,
        no_score_reason="" if accuracy_txt is not None else f"no accuracy/{ACCURACY_TXT}",
        reference=benchmark.reference,
        high_accuracy=high_accuracy,
        division="open" if place.division == "open" else "closed",
        submitted=SubmittedTexts(accuracy_txt, accuracy_log=result.cut_log),
        eos_token_ids=benchmark.eos_token_ids,
        # An open submission may use a model of its own.
        vocabulary=None if place.division == "open" else benchmark.vocabulary,
    )
    compared = ComparedRuns(
        accuracy.logs.accuracy,
        accuracy.scores,
        result.performance[0].detail.number("result_samples_per_second"),
    )
    audits = {
        mode: _audit_facts(accuracy, result, audit, mode, compared)
        for mode in AUDIT_MODES
        if (audit := benchmark.audit(mode)) is not None
    }
    facts_of_result = _result_facts(result, audits.values(), round_, copies, offline)
    groups: list[tuple[str, list[Verdict]]] = [("", judge(facts_of_result))]
    counted_scores = judge(accuracy)
    groups.append(("accuracy", counted_scores))
    passed = accuracy_verdict(counted_scores)
    for logs in result.performance:
        facts = replace(
            accuracy,
            mode="performance",
            logs=logs,
            accuracy_passed=passed,
            accuracy_tokens=_answer_tokens(accuracy),
        )
        groups.append(("performance", _with_run_name(logs.folder.name, judge(facts))))
    power = read_power(place.folder / "performance", result.scenario, result.performance[0].detail)
    if power is not None:
        groups.append(("performance", judge(power)))
    groups += [(mode, judge(facts)) for mode, facts in audits.items()]
    name = name_of(place.division, place.submitter, place.system, place.benchmark, place.scenario)
    figures = judged_figures(result.scenario, result.performance[0].detail, accuracy.scores)
    return verdict_group(name, round_, groups, benchmark, result.scenario, figures)


def _accuracy_txt(place: ScenarioFolder) -> str:
    return f"{place.folder}/accuracy/{ACCURACY_TXT}"


def _cut_log(folder: Path) -> str | None:
    """The accuracy log of a scenario or an audit, if it is as short as a truncated one."""
    path = f"{folder}/accuracy/{ACCURACY}"
    return read_text(path) if size_of(path) <= MAX_ACCURACY_LOG_BYTES else None


def _answer_tokens(accuracy: RunFacts) -> AnswerTokens | None:
    """The answer lengths of the accuracy run: from accuracy.txt, else from its truncated log.

    The log's ends are the answers that were given first and last, in public results of whisper the
    shortest of all. They tell the mean only where most answers reach the limit.
    """
    scores, benchmark = accuracy.scores or {}, accuracy.benchmark
    if (mean := scores.get("tokens_per_sample")) is not None:
        return AnswerTokens(mean, benchmark.samples_of("accuracy"))
    workload = benchmark.workload
    if workload is None or workload.mean_tokens < workload.generation.max_new_tokens:
        return None
    text = accuracy.submitted.accuracy_log if accuracy.submitted else None
    counts = [entry.tokens for entry in parse_cut_log(text or "").entries]
    return AnswerTokens.of([count for count in counts if count is not None])


def _with_run_name(run: str, verdicts: list[Verdict]) -> list[Verdict]:
    """Verdicts of a run after the first carry its name; a submission needs only the first."""
    return verdicts if run == "run_1" else [replace(v, rule=f"{run}-{v.rule}") for v in verdicts]


def _audit_facts(
    accuracy: RunFacts, result: _Result, audit: Audit, mode: Mode, compared: ComparedRuns
) -> RunFacts:
    performance = result.audits[audit.name]
    folder = performance.folder.parents[1]
    answers = read_logs(folder / "accuracy")
    if DETAIL in performance.files:
        answers = replace(performance, accuracy=answers.accuracy)
    others = [
        name
        for name in names_in(folder)
        if name.startswith("verify") and name.endswith(".txt") and name != audit.verified_in
    ]
    texts = SubmittedTexts(
        verify_txt=read_text(f"{folder}/{audit.verified_in}"),
        accuracy_log=_cut_log(folder),
        verify_others=tuple(text for name in others if (text := read_text(f"{folder}/{name}"))),
        accuracy_txts=tuple(
            text for name in PART_III if (text := read_text(f"{folder}/accuracy/{name}"))
        ),
    )
    return replace(
        accuracy, mode=mode, logs=answers, scores=None, submitted=texts, compared=compared
    )


def _result_facts(
    result: _Result,
    audits: Collection[RunFacts],
    round_: Round,
    copies: tuple[str, ...],
    offline: _Result | None,
) -> ResultFacts:
    place = result.place
    folder = place.measurements()
    file = place.measurements_file(folder)
    name = MEASUREMENTS_JSON if folder == place.folder else f"{place.system}*.json"
    missing_json = JsonFile({}, f"no {name} in {folder.relative_to(place.submission)}")
    return ResultFacts(
        division=place.division,
        submitter=place.submitter,
        benchmark=result.benchmark,
        scenario=result.scenario,
        round=round_,
        layouts=place.layouts(),
        missing_files=tuple(_missing_files(result, audits, folder, CODE[round_.layout])),
        system=read_json(place.system_file),
        measurements=read_json(file) if file else missing_json,
        accuracy=result.accuracy,
        performance=result.performance[0],
        user_conf=read_text(f"{folder}/user.conf") or "",
        audits=tuple(f.logs for f in audits if DETAIL in f.logs.files),
        offline=offline.performance[0] if offline else None,
        copies=copies,
        nameplate=_power_supply_rating(place, round_),
    )


def _power_supply_rating(place: ScenarioFolder, round_: Round) -> PowerSupplyRating | None:
    """The file of the system's power supplies, which the checker reads from v6.1 on."""
    if round_.name < "v6.1" or not place.power_supply_file.exists():
        return None
    content, problem = read_yaml(place.power_supply_file)
    return PowerSupplyRating(content, problem, (place.folder / "performance" / POWER).exists())


def _missing_files(
    result: _Result, audits: Collection[RunFacts], measurements: Path, code: str
) -> list[str]:
    """The required files that are missing or empty, as paths for the user. `code`: the folder of
    programs; one in the other layout fails the rule on layouts."""
    place = result.place
    paths = [f"{place.folder}/performance/run_1/{name}" for name in (SUMMARY, DETAIL)]
    of_accuracy = (SUMMARY, DETAIL, ACCURACY, ACCURACY_TXT)
    paths += [f"{place.folder}/accuracy/{name}" for name in of_accuracy]
    paths += [str(place.system_file), f"{measurements}/user.conf", f"{measurements}/README.md"]
    for audit in result.benchmark.audits if place.division != "open" else ():
        folder = result.audits[audit.name].folder.parents[1]
        paths += [f"{folder}/{audit.verified_in}", f"{folder}/accuracy/{ACCURACY}"]
        if audit.also_verified_in:
            paths += [f"{folder}/{audit.also_verified_in}"]
            paths += [f"{folder}/performance/run_1/{name}" for name in (SUMMARY, DETAIL)]
    of_audits = (*result.audits.values(), *(facts.logs for facts in audits))
    logs_read = (result.accuracy, *result.performance, *of_audits)
    sizes = {f"{logs.folder}/{name}": n for logs in logs_read for name, n in logs.files.items()}
    absent = [_from(place, path) for path in paths if not (sizes.get(path) or size_of(path))]
    texts = [result.accuracy_txt, *(f.submitted.verify_txt for f in audits if f.submitted)]
    # Read as text, a file that is not UTF-8 has this character.
    if any("\N{REPLACEMENT CHARACTER}" in (text or "") for text in texts):
        names = (ACCURACY_TXT, *(audit.verified_in for audit in result.benchmark.audits))
        of_names = [path for path in paths if path.rpartition("/")[2] in names]
        absent += [f"{_from(place, path)} in UTF-8" for path in of_names if not is_utf8(path)]
    has_code = any((place.submission / name).is_dir() for name in CODE.values())
    return absent if has_code else [*absent, f"{code}/"]


def _from(place: ScenarioFolder, path: str) -> str:
    """The path relative to the scenario's folder, or to the submitter's if it is outside that."""
    inside = path.startswith(f"{place.folder}/")
    return str(Path(path).relative_to(place.folder if inside else place.submission))


def _most_common(rounds: Iterable[Round | None]) -> Round:
    """The round of most results, the newest if several tie; the default if no result has one."""
    counts = Counter(round_.name for round_ in rounds if round_ is not None)
    if not counts:
        return ROUNDS[DEFAULT_ROUND]
    return ROUNDS[max(counts, key=lambda name: (counts[name], list(ROUNDS).index(name)))]
