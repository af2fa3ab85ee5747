"""MMLU as a user starts it, on a stand-in engine: files, verdicts, faults, going on."""

import csv
import json
import os
import shutil
import statistics
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest import CaptureFixture, MonkeyPatch

from meta_tests.plugin.pytest_output import collect, pytest_output, reasons, usage_error
from meta_tests.session.scripted_session import (
    ACCURACY,
    FULL,
    LLAMA,
    PERFORMANCE,
    TEST06,
    Make,
    ScriptedEngine,
    ScriptedSession,
    check_made_as_planned,
    full_disk,
    told,
)
from meta_tests.stand_in import Delays, StandInEngine
from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.__main__ import main
from mlperf_suite.engines.protocol import EngineDescription, Likelihood, Score, ScoreRequest
from mlperf_suite.errors import EngineDiedError, UsageError
from mlperf_suite.features.mmlu.figures import mmlu_of
from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.features.mmlu.mmlu_questions import (
    DOMAIN_OF,
    DOMAINS,
    LETTERS,
    SUBJECTS,
    load_mmlu,
)
from mlperf_suite.features.mmlu.report import mmlu_sections
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.reports.run_report import remote_note
from mlperf_suite.reports.writing import write_reports
from mlperf_suite.results.baseline import answer_scores, load_baselines
from mlperf_suite.results.comparability import differences, identity_of
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_summary, run_folders
from mlperf_suite.results.schema import Config, EngineFacts, Meta, Summary
from mlperf_suite.session.run_kind import kind_of
from mlperf_suite.settings import resolve_settings

ARGUMENTS = ("-m", "mmlu", "-p", "meta_tests.scoring_plugin")
EMBEDDED = load_mmlu("embedded")
QUESTIONS = sum(map(len, EMBEDDED.test.values()))
COLUMNS = ["subject", "domain", "question_id", "answer", "pred", "correct", "latency_ms", "tokens"]


class Scorer(ScriptedEngine):
    """Scores by the prompt's tokens alone, so that any two runs agree; `ends`: after how many
    questions, and with what."""

    ends: tuple[int, BaseException] | None = None
    asked = 0

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        for request in requests:
            if self.ends is not None and self.asked == self.ends[0]:
                self._died = isinstance(self.ends[1], EngineDiedError)
                raise self.ends[1]
            self.asked += 1
            best = zlib.crc32(str(request.prompt_token_ids).encode()) % 4
            likelihoods = tuple(Likelihood(-1.0 if i == best else -2.0, False) for i in range(4))
            yield request.tag, Score(likelihoods, 1.0, len(request.prompt_token_ids), 0)


class NoScorer(StandInEngine):
    """Gives no log-probabilities."""

    def __init__(self, settings: dict[str, object], dies_in: str | None) -> None:
        super().__init__(Delays(), lambda prompt: [1])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_suite(tmp_path_factory.mktemp("whole"), *ARGUMENTS, "--mmlu-details")


def folder_of(session: ScriptedSession) -> Path:
    path: Path = session.recorder.result_of(MMLU).folder.path
    return path


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def samples(folder: Path) -> list[dict[str, str]]:
    with (folder / "samples.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# What a run leaves behind


def test_the_folder_holds_what_is_promised(whole: SuiteRun) -> None:
    assert whole.exit_code == 0, whole.output
    assert whole.folder.name.endswith("-mmlu")
    files = {str(p.relative_to(whole.folder)) for p in whole.folder.rglob("*") if p.is_file()}
    promised = {"overall.json", "by_domain.json", "by_subject.json", "samples.csv", "summary.json"}
    assert files >= promised | {"config.json", "report.md", "plots/score_by_subject.png"}
    lines = (whole.folder / "details.jsonl").read_text().splitlines()
    assert len(lines) == QUESTIONS
    first = json.loads(lines[0])
    question = EMBEDDED.test[first["subject"]][first["question_id"]]
    assert (first["question"], tuple(first["choices"])) == (question.question, question.choices)
    assert len(first["logprobs"]) == 4


def test_every_question_has_its_row(whole: SuiteRun) -> None:
    rows = samples(whole.folder)
    assert list(rows[0]) == COLUMNS
    assert Counter(row["subject"] for row in rows) == dict.fromkeys(SUBJECTS, 2)
    for row in rows:
        question = EMBEDDED.test[row["subject"]][int(row["question_id"])]
        assert row["answer"] == LETTERS[question.answer]
        assert row["domain"] == DOMAIN_OF[row["subject"]]
        assert row["correct"] == str(int(row["answer"] == row["pred"]))
        assert int(row["tokens"]) > 0
        assert float(row["latency_ms"]) > 0


def test_the_scores_are_the_shares_of_right_answers_in_percent(whole: SuiteRun) -> None:
    folder = whole.folder
    rows = samples(folder)
    overall = read(folder, "overall.json")
    right = [int(row["correct"]) for row in rows]
    assert overall["accuracy"] == pytest.approx(100 * overall["overall_accuracy"])
    assert (overall["correct"], overall["questions"]) == (sum(right), QUESTIONS)
    assert overall["overall_accuracy"] == pytest.approx(statistics.fmean(right))
    by_domain, by_subject = read(folder, "by_domain.json"), read(folder, "by_subject.json")
    assert set(by_domain) == set(DOMAINS)
    assert sorted(by_subject) == sorted(SUBJECTS)
    for field, scores in (("domain", by_domain), ("subject", by_subject)):
        for name, accuracy in scores.items():
            of_it = [int(row["correct"]) for row in rows if row[field] == name]
            assert accuracy["accuracy"] == pytest.approx(100 * statistics.fmean(of_it))
            assert accuracy["questions"] == len(of_it)


def test_it_is_among_the_other_runs(whole: SuiteRun) -> None:
    meta = whole.summary.meta
    label = "made with a stand-in engine: not a measurement of any system"
    assert (meta.status, meta.label, meta.reason) == ("complete", label, None)
    assert whole.statuses() == {"mmlu_all_scored": "passed", "mmlu_score": "not judged"}
    assert run_folders(whole.results_dir) == [whole.folder]
    index = (whole.results_dir / "index.md").read_text()
    assert f"{read(whole.folder, 'overall.json')['accuracy']:.2f}" in index
    for text in (whole.output, (whole.folder / "report.md").read_text()):
        assert label in text


def test_two_engines_make_the_result_of_one(whole: SuiteRun, tmp_path: Path) -> None:
    workers = ("-n", "2", "--dist", "loadgroup")
    shared = run_suite(tmp_path, *ARGUMENTS, *workers, SCORING='{"engines": 2}')
    assert shared.exit_code == 0, shared.output
    assert run_folders(shared.results_dir) == [shared.folder]
    assert not list(shared.results_dir.glob(".mmlu-*"))
    for name in ("overall.json", "by_domain.json", "by_subject.json"):
        assert read(shared.folder, name) == read(whole.folder, name)


def test_new_reports(whole: SuiteRun, tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    original, copy = whole.folder, tmp_path / "copy"
    shutil.copytree(original, copy)
    (copy / "report.md").write_text("lost")
    assert main(["report", str(copy)]) == 0
    for file in (p for p in original.rglob("*") if p.is_file()):
        assert (copy / file.relative_to(original)).read_bytes() == file.read_bytes(), file
    change = {"metric": "mmlu", "label": "MMLU", "outcome": "regressed", "words": "-9.0%"}
    content = read(copy, "summary.json") | {"regression": {"metrics": [change]}}
    (copy / "summary.json").write_text(json.dumps(content))
    assert main(["report", str(copy)]) == 0
    text = (copy / "report.md").read_text()
    assert text.startswith("# MMLU: regressed, smoke run\n") and "**regressed:** MMLU -9.0%" in text
    assert "### Compared with" in text
    (copy / "summary.json").write_text(json.dumps({"meta": {"benchmark": "mmlu"}}))
    assert main(["report", str(copy)]) == 2
    assert "not the summary of an MMLU run" in capsys.readouterr().err


def test_a_limit_and_a_minimum(make: Make) -> None:
    session = make(MMLU, kind=Scorer, mmlu_limit="7", mmlu_min_accuracy="99")
    check_made_as_planned(session, MMLU)
    assert [step.kind for step in session.suite.plan.steps] == ["load", "mmlu"]
    session.suite.close()
    folder = folder_of(session)
    assert len(samples(folder)) == len({row["subject"] for row in samples(folder)}) == 7
    verdicts = session.recorder.verdicts(MMLU)
    statuses = {verdict.rule: verdict.status for verdict in verdicts}
    assert statuses == {"mmlu_all_scored": "passed", "mmlu_score": "failed"}
    assert "required at least 99%" in verdicts[-1].line
    summary = read_summary(folder)
    assert summary is not None and summary.meta.status == "invalid"
    assert not (folder / "details.jsonl").exists()


# When things go wrong


def test_a_run_that_died_is_resumed(make: Make, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(Scorer, "ends", (10, EngineDiedError("died as told")))
    died = make(MMLU, kind=Scorer)
    outcome, again = died.suite.make(MMLU), died.suite.make(MMLU)
    assert (outcome.failure, outcome.now) == ("MMLU: died as told", True)
    assert (again.failure, again.now) == ("MMLU: died as told", False)
    died.suite.close()
    summary = read_summary(folder_of(died))
    assert summary is not None and summary.meta.status == "failed"
    assert len(samples(folder_of(died))) == 10
    overall = read(folder_of(died), "overall.json")
    assert (overall["questions"], overall["planned"]) == (10, QUESTIONS)

    monkeypatch.setattr(Scorer, "ends", None)

    def resume(**more: Any) -> tuple[ScriptedSession, int, int]:
        """The session, how many questions it asked and how many it took over."""
        session = make(MMLU, kind=Scorer, mmlu_resume=True, **more)
        assert session.suite.make(MMLU).ok
        session.suite.close()
        figures = read(folder_of(session), "summary.json")["run"]["mmlu"]
        return session, session.engines[0].asked, figures["resumed"]

    _, *of_another_engine = resume(engine_settings={"quantization": "fp8"})
    assert of_another_engine == [QUESTIONS, 0]
    resumed, *counts = resume()
    assert counts == [QUESTIONS - 10, 10]
    uninterrupted, *counts = resume(results_dir=str(tmp_path / "elsewhere"))
    assert counts == [QUESTIONS, 0]
    for name in ("overall.json", "by_domain.json", "by_subject.json"):
        assert read(folder_of(resumed), name) == read(folder_of(uninterrupted), name)
    # Only what was interrupted is resumed.
    _, *counts = resume()
    assert counts == [QUESTIONS, 0]


def test_ctrl_c_leaves_what_was_scored(make: Make, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(Scorer, "ends", (7, KeyboardInterrupt()))
    session = make(MMLU, kind=Scorer)
    with pytest.raises(KeyboardInterrupt):
        session.suite.make(MMLU)
    assert len(samples(folder_of(session))) == 7
    summary = read_summary(folder_of(session))
    assert summary is not None
    assert summary.meta.reason == "interrupted (KeyboardInterrupt)"


def test_a_baseline_of_other_questions_is_a_usage_error(whole: SuiteRun, tmp_path: Path) -> None:
    run = run_suite(tmp_path, *ARGUMENTS, f"--baseline={whole.folder}", "--mmlu-limit=57")
    assert run.exit_code == 4, run.output
    assert f"not comparable: questions: baseline {QUESTIONS}, this run 57" in run.output


def test_a_context_too_small_says_what_fits(make: Make, monkeypatch: MonkeyPatch) -> None:
    description = EngineDescription("stand-in engine", "1", "told", True, 120)
    monkeypatch.setattr(Scorer, "description", description)
    suite = make(MMLU, kind=Scorer, mmlu_shots="1", mmlu_limit="4").suite
    # A server says its context before anything is loaded.
    with pytest.raises(UsageError, match=r"^--mmlu-shots 1: the longest question of") as early:
        kind_of(MMLU).check_context([MMLU], suite.inputs, 120)
    failure = str(suite.make(MMLU).failure)
    assert failure == f"MMLU: {early.value}"
    assert "--mmlu-shots 0 fits; or raise --max-model-len" in failure


def test_bad_data_is_a_usage_error_before_anything_is_loaded(make: Make, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "anatomy_test.csv").write_text("What?,1,2,3,4,7\n")
    with pytest.raises(UsageError, match=r"anatomy_test\.csv: line 1: the answer is '7'"):
        make(MMLU, mmlu_data=str(tmp_path / "data"))


def test_an_engine_that_gives_no_log_probabilities_is_not_judged(make: Make) -> None:
    folders = []
    for _ in range(2):
        session = make(MMLU, kind=NoScorer, keep_all="0")
        assert session.suite.make(MMLU).ok
        session.suite.close()
        folders.append(folder_of(session))
    # What scored nothing replaces nothing.
    assert folders[0].is_dir() and folders[1] != folders[0]
    summary = read_summary(folders[1])
    assert summary is not None and mmlu_of(summary) is None
    why = "stand-in engine gives no log-probabilities to score with"
    assert {(v.status, v.why) for v in summary.verdicts} == {("not judged", why)}
    assert "not judged" in (folders[1] / "report.md").read_text()


def test_whatever_the_order_of_tests_each_step_is_made_once(make: Make, short: None) -> None:
    server = RunKey(LLAMA, "Server", "accuracy")
    session = make(server, MMLU, TEST06, PERFORMANCE, ACCURACY, warmup="1", mmlu_limit="4")
    suite = session.suite
    assert suite.make(server).ok and suite.make(MMLU).ok
    assert all(suite.make(key).ok for key in (TEST06, PERFORMANCE, ACCURACY))
    assert session.loaded == ["runs", "scoring", "runs"]
    assert [engine.alive for engine in session.engines] == [False, False, True]
    own = [step for step in suite.steps_made if step.key is not None]
    assert len(own) == len(set(own))
    assert set(suite.steps_made) == set(suite.plan.steps)


def test_what_cannot_be_written_says_so_as_well(make: Make, monkeypatch: MonkeyPatch) -> None:
    session = make(MMLU)
    # What cannot be written first of all keeps the run from being made.
    monkeypatch.setattr("mlperf_suite.reports.writing.markdown_text", full_disk)
    assert session.suite.make(MMLU).failure == f"MMLU: {FULL}"
    status, reason = told(session.recorder.result_of(MMLU).folder.path)
    assert status == "failed" and FULL in (reason or "")
    assert not session.suite.can_go_on


@pytest.mark.parametrize("kind", ["path", "link", "linked folder", "FIFO"])
def test_the_report_of_little_contains_no_file_of_elsewhere(tmp_path: Path, kind: str) -> None:
    folder, mine = tmp_path / "20261120-065621-mmlu", tmp_path / "mine.png"
    folder.mkdir()
    mine.write_bytes(b"mine")
    name = {"path": "../mine.png", "linked folder": "plots/mine.png"}.get(kind, "plots/a.png")
    if kind != "linked folder":
        (folder / "plots").mkdir()
    if kind == "linked folder":
        (folder / "plots").symlink_to(tmp_path)
    elif kind == "link":
        (folder / name).symlink_to(mine)
    elif kind == "FIFO":
        os.mkfifo(folder / name)
    little: dict[str, Any] = {"by_domain": {"anatomy": {}}, "planned": 9, "resumed": 2}
    content: dict[str, Any] = {"meta": {"benchmark": "mmlu"}, "plots": [name]}
    content |= {"run": {"mmlu": little}} | {"verdicts": [{}], "regression": {"metrics": [{}]}}
    (folder / SUMMARY_JSON).write_text(json.dumps(content))
    write_reports(folder)
    assert "data:image/png" not in (folder / "report.html").read_text()


def test_the_report_says_whose_hardware_is_described(tmp_path: Path) -> None:
    summary = Summary(meta=Meta(benchmark="mmlu", model="m", status="complete"))
    for engine in ({"endpoints": ["http://one:8000"]}, {}):
        config = Config(engine=EngineFacts(settings=engine))
        text = markdown_text(mmlu_sections(summary, tmp_path, config))
        assert (remote_note("summary.json and config.json") in text) is bool(engine)


def test_mmlu_is_of_no_benchmark_category_and_scenario() -> None:
    assert "test_mmlu_score" in collect()
    assert "test_mmlu_score" not in collect("--benchmark", "llama3.1-8b")
    assert "test_mmlu_score" in collect("--mode", "accuracy")
    assert "test_mmlu_score" not in collect("--mode", "performance")
    assert "1 test of MMLU's shares (one engine)" in reasons(collect())
    assert "--scenario Offline: leaves nothing" in usage_error("-m", "mmlu", "--scenario=Offline")


def test_mmlu_pys_command_is_taken_with_m_mmlu() -> None:
    options = ("--total-limit=100", "--precision=bf16", "--details", "1")
    assert "MMLU through lm-eval" in pytest_output("--plan", "-m", "mmlu", *options)


def test_its_options_count_in_its_own_runs_alone() -> None:
    first, second = (
        Config(settings=resolve_settings(options, {}).as_json())
        for options in ({}, {"mmlu_shots": "3", "warmup": "0"})
    )
    for meta, found in (
        (Meta(benchmark=LLAMA), {"setting warmup"}),
        (Meta(benchmark="mmlu"), {"setting mmlu_shots"}),
        (Meta(benchmark="mmlu", shots=3), set()),
    ):
        one, other = (identity_of(config, Summary(meta=meta)) for config in (first, second))
        assert {fact.name for fact in differences(one, other)} == found


def test_an_mmlu_run_is_compared_question_by_question(tmp_path: Path) -> None:
    for name, slower in (("a", 0), ("b", 30)):
        folder = tmp_path / name
        folder.mkdir()
        rows = [f"anatomy,{i},{int(i < 200 - slower)}" for i in range(300)]
        text = "\n".join(["subject,question_id,correct", *rows])
        (folder / "samples.csv").write_text(text)
        (folder / "config.json").write_text('{"dataset": {"sha256": "data"}}')
        meta = {"benchmark": "mmlu", "category": None, "scenario": None, "model": "m"}
        figures = {"accuracy": (200 - slower) / 3, "stderr": 2.7}
        (folder / "summary.json").write_text(json.dumps({"meta": meta, "run": {"mmlu": figures}}))
    (scores,) = answer_scores(tmp_path / "a")[1].values()
    assert (scores["anatomy", "0"], scores["anatomy", "299"]) == (100, 0)
    (baseline,) = load_baselines([tmp_path / "a"]).values()
    assert baseline.kind == ("mmlu", "")
    current = read_summary(tmp_path / "b")
    assert current is not None
    (paired,) = baseline.judge(current, tmp_path / "b", 0.05).metrics
    assert (paired.outcome, paired.noise_from) == ("regressed", "the same samples")
    (tmp_path / "a" / "samples.csv").unlink()
    (alone,) = baseline.judge(current, tmp_path / "b", 0.05).metrics
    assert alone.noise_from == "the spread of the samples"
