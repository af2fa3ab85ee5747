"""Judges runs made by others: from a folder to verdicts, for the round they belong to.

A folder has loose LoadGen logs, results of this suite, and what judges of features find, such as
a submission's tree. Missing or damaged files become verdicts; nothing here raises for them.

Of loose logs, benchmark and scenario come from the logs; where these fit several or none, from the
suite's own summary beside them, or else from the folder names. The mode comes from the log or a
folder named after an audit. An accuracy run is of the system of a performance run where its folder
and what both logs say of SUT, QSL and LoadGen fit. Files beside the logs can fail a result, and
never excuse it.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import ne
from pathlib import Path

from mlperf_suite.benchmarks.audits import TEST06, Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS, find_benchmark, judged_in_trees
from mlperf_suite.benchmarks.definition import Benchmark, ReferenceAccuracy, Scenario, Workload
from mlperf_suite.benchmarks.model_identity import model_facts
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS, Round
from mlperf_suite.judging.judges import Folders, JudgeRequest, folders_below, judges
from mlperf_suite.judging.reading import read_not_judged, read_scores, read_text
from mlperf_suite.judging.verdict_group import (
    VerdictGroup,
    judged_figures,
    name_of,
    refused,
    round_of,
    scenario_of,
    verdict_group,
)
from mlperf_suite.loadgen.load_plan import ACCURACY_ONLY, AUDIT_MODES, LIMIT_KEYS, MODES
from mlperf_suite.loadgen.logs import (
    ACCURACY,
    DETAIL,
    SUMMARY,
    AccuracyLog,
    DetailLog,
    RunLogs,
    read_logs,
)
from mlperf_suite.results.run_folder import (
    SUMMARY_JSON,
    TRIAL_FOLDERS,
    changed_since_run,
    file_sha256,
    read_checksums,
    read_summary,
)
from mlperf_suite.results.schema import PROFILED, Meta, Summary
from mlperf_suite.rules import accuracy_verdict, judge
from mlperf_suite.rules.accuracy_files import ACCURACY_TXT, parse_accuracy_txt
from mlperf_suite.rules.benchmark_rules import BenchmarkFacts
from mlperf_suite.rules.facts import AnswerTokens, RunFacts, find_reference
from mlperf_suite.rules.kept_logs import KeptRunFacts
from mlperf_suite.rules.verdict import Verdict, in_words, set_aside_passed

__all__ = ["VerdictGroup", "holds_logs", "judge_folder"]

LOG_NAMES = frozenset({DETAIL, SUMMARY, ACCURACY})
_UNSCORED = "no accuracy.txt beside the log"
_OF_SYSTEM = ("sut_name", "qsl_name", "loadgen_version")
_NUMBERED = re.compile(r"(run|repeat)_\d+", re.ASCII)


def judge_folder(
    root: Path,
    round_: Round | None = None,
    *,
    high_accuracy: bool = False,
    smoke: bool = False,
    tokenizer: Path | None = None,
) -> list[VerdictGroup]:
    """Judge every run under a folder, for `round_` or else for the round that its seeds belong to.

    `high_accuracy`: gate accuracy at the reference's high target (99.9%); benchmarks that are
    always gated there do not need it. `smoke`: smoke results of this suite are judged as such: by
    shortened rules, and by the reference of the model and data that their summary names.
    `tokenizer`: a folder whose tokenizer.json counts the tokens in events.jsonl of results that
    name a model or tokenizer like the folder.
    """
    root = Path(os.path.abspath(root))  # noqa: PTH100 - a linked folder keeps the name it was given
    with _no_collections():
        folders = tuple(folders_below(root))
        found = [each.find(root, folders) for each in judges()]
        own = frozenset(path for of_one in found for path in of_one.own)
        review = JudgeRequest(round_, high_accuracy, smoke, tokenizer, own)
        judged = [group for of_one in found for group in of_one.verdicts(review)]
        loose = tuple(_loose(folders, own)) if own.isdisjoint(root.parents) else ()
        return judged + _judge_loose(root, loose, review) + _name_links(root, loose, review)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Without Python's search for cycles, of which logs and verdicts have none: it would look
    through all that was read again and again, and once more at the end if that were new then."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _loose(folders: Folders, own: Collection[Path]) -> Iterator[tuple[Path, list[str]]]:
    """The folders that no judge has found, nor one above them."""
    inside = set(own)
    for folder, names in folders:
        if folder.parent in inside:
            inside.add(folder)
        elif folder not in own:
            yield folder, names


def _name_links(root: Path, folders: Folders, review: JudgeRequest) -> list[VerdictGroup]:
    """Name the linked folders beside what judges have found: a stranger's link may lead anywhere.

    One to a folder below the root is of runs that are judged there.
    """
    links = [
        folder / name
        for folder, names in folders
        for name in names
        if (folder / name).is_dir() and not (folder / name).resolve().is_relative_to(root.resolve())
    ]
    return [
        refused(
            name_of("", *link.relative_to(root).parts),
            "a linked folder",
            review.round,
            f"links are not followed: judge it with --logs {link}",
        )
        for link in links
    ]


def holds_logs(root: Path) -> bool:
    """Whether any file under the folder has the name of a LoadGen log, or of what a judge reads."""
    names = LOG_NAMES.union(*(each.files for each in judges()))
    return any(names & set(files) for _, files in folders_below(root))


@dataclass(frozen=True, slots=True)
class _LooseRun:
    """A folder of logs that no judge has found, with what its logs and names identify.

    `place`: its folders below the requested one. `names`: their names with the requested one's, the
    logs' own first. Folders above that one only show where the logs are kept. `scores`: the folder
    of accuracy.txt. `changed`: see `KeptRunFacts`; None if no session of this suite recorded its
    files.
    """

    folder: Path
    place: tuple[str, ...]
    scores: Path
    names: tuple[str, ...]
    logs: RunLogs
    mode: Mode
    benchmark: Benchmark | None
    scenario: Scenario | None
    meta: Meta
    changed: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return name_of("", *(self.place or self.names))

    @property
    def place_but_its_number(self) -> tuple[str, ...]:
        """Its place without the last folder if that only counts runs of one system (run_1)."""
        return self.place[:-1] if _NUMBERED.fullmatch("".join(self.place[-1:])) else self.place


def _judge_loose(root: Path, folders: Folders, review: JudgeRequest) -> list[VerdictGroup]:
    """Judge LoadGen logs outside what judges have found. Trial runs of a peak search and blocks of
    a caching audit are judged only if their own folder was requested."""
    of_logs = sorted(folder for folder, files in folders if LOG_NAMES & set(files))
    runs = [_loose_run(root, folder, of_logs) for folder in of_logs if not _is_trial(root, folder)]
    of_accuracy = {
        run.folder: judge(facts)
        for run in runs
        if run.mode == "accuracy" and (facts := _loose_facts(run, review))
    }
    passed = [
        (run, accuracy_verdict(verdicts))
        for run in runs
        if (verdicts := of_accuracy.get(run.folder)) is not None
    ]
    return [
        _judge_loose_run(root, run, _accuracy_of(run, passed), of_accuracy.get(run.folder), review)
        for run in runs
    ]


@dataclass(frozen=True, slots=True)
class _AccuracyOfRun:
    """What is known of the accuracy of a performance run's system; see `RunFacts`."""

    passed: bool | None = None
    note: str = ""
    tokens: AnswerTokens | None = None


def _accuracy_of(run: _LooseRun, passed: Sequence[tuple[_LooseRun, bool | None]]) -> _AccuracyOfRun:
    """`passed`: the accuracy runs that were judged. Where several fit, they count if they agree."""
    subject = (run.benchmark, run.scenario)
    of_subject = [pair for pair in passed if (pair[0].benchmark, pair[0].scenario) == subject]
    above = (run.folder.parent, run.folder.parent.parent)
    near = [pair for pair in of_subject if pair[0].folder.parent in above]
    near = near or [pair for pair in of_subject if _is_in_the_like_folder(pair[0], run)]
    fitting = [pair for pair in near if not _other_system(pair[0], run)]
    if not fitting:
        others = (f"{other.name} has another {_other_system(other, run)}" for other, _ in near)
        return _AccuracyOfRun(note=in_words("; ".join(others)))
    names = in_words(" or ".join(accuracy.name for accuracy, _ in fitting))
    outcomes = {outcome for _, outcome in fitting}
    if len(outcomes) > 1:
        return _AccuracyOfRun(note=f"no log says whether {names} is of this system")
    tokens = _answer_tokens(fitting[0][0].logs.accuracy) if len(fitting) == 1 else None
    if outcomes == {None}:
        return _AccuracyOfRun(note=f"not all of {names} could be judged", tokens=tokens)
    return _AccuracyOfRun(outcomes.pop(), f"in {names}", tokens)


def _is_in_the_like_folder(accuracy: _LooseRun, run: _LooseRun) -> bool:
    """Whether their places differ in one folder's name, as accuracy/mlperf and performance/mlperf
    do, or exp_1_accuracy/mlperf_logs and exp_1/mlperf_logs."""
    places = accuracy.place_but_its_number, run.place_but_its_number
    return len(places[0]) == len(places[1]) and sum(map(ne, *places)) == 1


def _other_system(accuracy: _LooseRun, run: _LooseRun) -> str:
    """The first key by which the logs are not of one system; "" if there is none."""
    pairs = ((key, accuracy.logs.detail[key], run.logs.detail[key]) for key in _OF_SYSTEM)
    return next((key for key, one, two in pairs if None not in (one, two) and one != two), "")


def _is_trial(root: Path, folder: Path) -> bool:
    """Whether it is below the root in PeakQps/ or Caching/ of one of this suite's results."""
    below = (folder, *folder.parents)[: len(folder.relative_to(root).parts)]
    return any(p.name in TRIAL_FOLDERS and (p.parent / SUMMARY_JSON).is_file() for p in below)


def _judge_loose_run(
    root: Path,
    run: _LooseRun,
    accuracy: _AccuracyOfRun,
    verdicts: list[Verdict] | None,
    review: JudgeRequest,
) -> VerdictGroup:
    """`verdicts`: the run's own, if it is an accuracy run."""
    facts = _loose_facts(run, review)
    if facts is None:
        return _judge_unknown(run, review.round)
    if verdicts is None:
        of_system = replace(
            facts,
            accuracy_passed=accuracy.passed,
            accuracy_note=accuracy.note,
            accuracy_tokens=facts.accuracy_tokens or accuracy.tokens,
        )
        verdicts = judge(of_system)
    if run.meta.profiler is not None:
        verdicts = set_aside_passed(verdicts, PROFILED)
    if run.changed is not None:
        verdicts += judge(KeptRunFacts(run.changed, _contradicted(root, run)))
    if run.meta.profile == "smoke" and not review.smoke:
        verdicts = [_with_hint(v) if v.status == "failed" else v for v in verdicts]
    detail = run.logs.detail if run.mode == "performance" else None
    figures = judged_figures(facts.scenario, detail, facts.scores)
    groups = [(run.mode, verdicts)]
    return verdict_group(run.name, facts.round, groups, facts.benchmark, facts.scenario, figures)


def _with_hint(verdict: Verdict) -> Verdict:
    """A smoke result's failed verdict, with how to judge it by shortened rules."""
    hint = "it is a smoke run: --profile smoke judges it by smoke's rules"
    return replace(verdict, why="; ".join(filter(None, (verdict.why, hint))))


def _answer_tokens(log: AccuracyLog) -> AnswerTokens | None:
    """The answer lengths in an accuracy log; None if it has no answers."""
    return AnswerTokens.of(log.token_counts)


def _judge_unknown(run: _LooseRun, round_: Round | None) -> VerdictGroup:
    """Judge logs whose benchmark or scenario cannot be identified."""
    detail = run.logs.detail
    samples, scenario = detail["qsl_reported_total_count"], detail["effective_scenario"]
    description = f"logs of {in_words(samples)} samples, scenario {in_words(scenario)}"
    of_run = round_ or round_of(detail) or ROUNDS[DEFAULT_ROUND]
    benchmark = run.benchmark.id if run.benchmark else description
    # LoadGen has no Interactive scenario: its bare name would be mistaken for the benchmark's.
    scenarios = (f"{in_words(scenario)} in the log",)
    facts = BenchmarkFacts(benchmark, run.benchmark, of_run, scenarios)
    failures = [v for v in judge(facts) if v.status == "failed"]
    return verdict_group(run.name, of_run, [("", failures)])


def _loose_run(root: Path, folder: Path, of_logs: Sequence[Path]) -> _LooseRun:
    """`of_logs`: the folders of all runs."""
    logs = read_logs(folder)
    place = folder.relative_to(root).parts
    names = tuple(reversed((root.name, *place)))
    meta = _suites_meta(root, folder)
    changed = _changed(root, folder)
    benchmark = _loose_benchmark((meta.benchmark or "", *names), logs.detail)
    scenario = _loose_scenario((meta.scenario or "", *names), logs.detail, benchmark)
    mode = _loose_mode(names, logs.detail)
    scores = _scores_folder(root, folder, of_logs)
    return _LooseRun(folder, place, scores, names, logs, mode, benchmark, scenario, meta, changed)


def _scores_folder(root: Path, folder: Path, of_logs: Sequence[Path]) -> Path:
    """The folder of a run's accuracy.txt: its own, or the one above if that has no other run."""
    above = folder.parent
    if folder == root or (folder / ACCURACY_TXT).exists() or not (above / ACCURACY_TXT).exists():
        return folder
    of_another = any(each.is_relative_to(above) for each in of_logs if each != folder)
    return folder if of_another else above


def _suites_meta(root: Path, folder: Path) -> Meta:
    """The run's metadata in this suite's summary.json above it; empty if there is none.

    In a result folder, logs are in Performance, or in Performance/repeat_2 or Compliance/TEST06.
    """
    summaries = (s for path in _folders_above(root, folder) if (s := read_summary(path)))
    return next(summaries, Summary()).meta


def _folders_above(root: Path, folder: Path) -> list[Path]:
    return [path for path in folder.parents[:2] if path.is_relative_to(root.parent)]


def _changed(root: Path, folder: Path) -> tuple[str, ...] | None:
    """The differences, in a run's folder, from the checksums in the result folder above it."""
    for kept in _folders_above(root, folder):
        if read_checksums(kept):
            return tuple(changed_since_run(kept, f"{folder.relative_to(kept).as_posix()}/"))
    return None


def _contradicted(root: Path, run: _LooseRun) -> str:
    """How the metric in summary.json beside the folder Performance differs from the log there."""
    beside = [path for path in _folders_above(root, run.folder) if path == run.folder.parent]
    summary = read_summary(beside[0]) if beside and run.folder.name == "Performance" else None
    figures = summary.run.performance if summary else None
    if figures is None or figures.metric is None or figures.metric.value is None:
        return ""
    key, value = figures.metric.name or "", figures.metric.value
    logged, valid = run.logs.detail.number(key), run.logs.detail["result_validity"] == "VALID"
    if logged is None or not math.isclose(value, logged, rel_tol=_AS_PRINTED):
        return f"{key} {value:,} in {SUMMARY_JSON}, {logged} in the log"
    return f"valid {figures.valid} in {SUMMARY_JSON}" if figures.valid is not valid else ""


_AS_PRINTED = 1e-5
"""LoadGen prints six digits."""


def _loose_mode(names: tuple[str, ...], detail: DetailLog) -> Mode:
    """The mode of a run: an audit by folder name or settings, else the log's, else the folder's.

    A folder named TEST06 or test06 holds an audit even if its settings did not take effect: a rule
    reports that.
    """
    for mode in AUDIT_MODES:
        if mode in map(str.lower, names) or _has_settings_of(mode, detail):
            return mode
    seed = "effective_accuracy_log_rng_seed"
    if detail[seed] == TEST06.effective[seed]:
        return "test06"
    if detail["effective_test_mode"] is None:
        return "accuracy" if names[0].lower().startswith("acc") else "performance"
    return "accuracy" if detail["effective_test_mode"] == ACCURACY_ONLY else "performance"


def _has_settings_of(mode: Mode, detail: DetailLog) -> bool:
    """Whether the log shows the settings of an audit of that name, of any benchmark."""
    audits = (audit for b in BENCHMARKS.values() if (audit := b.audit(mode)))
    of_log = round_of(detail)
    name = of_log.name if of_log else None
    return any(not audit.differences(detail.values, name) for audit in audits)


def _loose_benchmark(names: tuple[str, ...], detail: DetailLog) -> Benchmark | None:
    """The benchmark with the log's number of samples.

    The first fitting name decides if several benchmarks have that number, or none.
    """
    samples = detail.number("qsl_reported_total_count")
    by_count = [b for b in judged_in_trees() if samples in {b.samples_of(m) for m in MODES}]
    by_name = [b for name in names if (b := find_benchmark(name))]
    by_both = [b for b in by_name if b in by_count]
    return next(iter(by_both or by_count or by_name), None)


def _loose_scenario(
    names: tuple[str, ...], detail: DetailLog, benchmark: Benchmark | None
) -> Scenario | None:
    """LoadGen's scenario; the first name of one if the log has none.

    LoadGen has one scenario for Server and Interactive: their limits tell them apart, or else a
    name.
    """
    if benchmark is None:
        return None
    by_name = [s for name in names if (s := scenario_of(benchmark, name))]
    logged = detail["effective_scenario"]
    if logged is None:
        return next(iter(by_name), None)
    fitting = [s for s in benchmark.scenarios if s.loadgen_scenario == logged]
    limit_ms = detail.milliseconds(LIMIT_KEYS["ttft"])
    same_limit = [s for s in fitting if limit_ms is not None and s.limits.get("ttft") == limit_ms]
    by_both = [s for s in by_name if s in fitting]
    return next(iter(same_limit or by_both or fitting), None)


def _loose_facts(run: _LooseRun, review: JudgeRequest) -> RunFacts | None:
    if run.benchmark is None or run.scenario is None:
        return None
    scores, figures_not_judged = _loose_scores(run.scores, run.benchmark)
    reference, no_reference_reason = _loose_reference(run, run.benchmark, scores or {})
    smoke = review.smoke and run.meta.profile == "smoke"
    # In a smoke review alone, a model that the run's own summary names may have other tokens.
    other_model = review.smoke and bool(no_reference_reason)
    own_round = ROUNDS.get(run.meta.round or "")
    says_tokens = run.mode == "accuracy" and "tokens_per_sample" in (scores or {})
    return RunFacts(
        run.benchmark,
        run.scenario,
        run.mode,
        review.round or own_round or round_of(run.logs.detail) or ROUNDS[DEFAULT_ROUND],
        run.logs,
        smoke=smoke,
        scores=scores,
        figures_not_judged=figures_not_judged,
        no_score_reason="" if scores is not None else _UNSCORED,
        reference=reference if review.smoke else run.benchmark.reference,
        no_reference_reason=no_reference_reason,
        high_accuracy=review.high_accuracy,
        division="open" if "open" in run.names else "closed",
        eos_token_ids=None if smoke else run.benchmark.eos_token_ids,
        vocabulary=None if smoke or other_model else run.benchmark.vocabulary,
        accuracy_tokens=_answer_tokens(run.logs.accuracy) if says_tokens else None,
        hashes=_hashes(run),
    )


def _hashes(run: _LooseRun) -> tuple[str, str] | None:
    """The hash of an accuracy log in accuracy.txt beside it, and its own; None if there is none, or
    the log was cut since."""
    scored = parse_accuracy_txt(read_text(run.scores / ACCURACY_TXT) or "").hash
    log = run.folder / ACCURACY
    if run.mode != "accuracy" or scored is None or run.logs.accuracy.damage or not log.is_file():
        return None
    with contextlib.suppress(OSError):
        return scored, file_sha256(log)
    return None


def _loose_scores(
    folder: Path, benchmark: Benchmark
) -> tuple[dict[str, float] | None, dict[str, str]]:
    """The figures in accuracy.txt, or in this suite's own file; None if neither exists.

    With those of this suite's file, why it could not judge others, by figure.
    """
    text = read_text(folder / ACCURACY_TXT)
    if text is not None:
        return dict(parse_accuracy_txt(text).scores), {}
    for workload in _workloads(benchmark):
        scores = read_scores(folder, workload.scorer)
        reasons = read_not_judged(folder, workload.scorer)
        if scores or reasons:
            return scores or None, reasons
    return None, {}


def _workloads(benchmark: Benchmark) -> list[Workload]:
    return [workload for workload in (benchmark.workload, benchmark.smoke) if workload is not None]


def _model_facts(folder: Path) -> dict[str, object] | None:
    """What a model's files say of it; None if they are not on this machine, or are not JSON."""
    with contextlib.suppress(ValueError, RecursionError):
        return model_facts(lambda name: read_text(folder / name))
    return None


def _loose_reference(
    run: _LooseRun, benchmark: Benchmark, scores: Mapping[str, float]
) -> tuple[ReferenceAccuracy | None, str]:
    """The benchmark's reference; for a run of this suite, that of its model, data and answers."""
    if run.meta.model is None:
        return benchmark.reference, ""
    model, dataset = run.meta.model, run.meta.dataset or ""
    answers = scores.get("gen_num") or len(run.logs.accuracy.indices)
    facts = _model_facts(Path(model))
    reference, why = None, f"no reference accuracy is known for the model {model}"
    for workload in _workloads(benchmark):
        if workload.is_model(model, facts):
            reference, why = find_reference(
                workload,
                model,
                dataset,
                int(answers),
                is_model=True,
                whole=benchmark.own_samples_of(run.mode),
            )
    return reference, why
