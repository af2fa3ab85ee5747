"""MMLU as a user starts it, on a stand-in engine: files, verdicts, faults, going on."""

from __future__ import annotations

import csv
import json
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.suite_runs import ROOT, SuiteRun, run_suite
from mlperf_suite.__main__ import main
from mlperf_suite.datasets.mmlu_questions import DOMAIN_OF, DOMAINS, LETTERS, SUBJECTS, load_mmlu
from mlperf_suite.mmlu.journal import split
from mlperf_suite.results.run_folder import read_summary, run_folders

ARGUMENTS = ("-m", "mmlu", "-p", "meta_tests.scoring_plugin")
TWO_WORKERS = ("-n", "2", "--dist", "loadgroup")
EMBEDDED = load_mmlu("embedded")
QUESTIONS = sum(map(len, EMBEDDED.test.values()))
COLUMNS = ["subject", "domain", "question_id", "answer", "pred", "correct", "latency_ms", "tokens"]


@dataclass(frozen=True)
class Resumed:
    """A run that died, its folder, the one that went on, and one more when nothing was left.

    `*_asked`: the questions that a session asked; `other_asked` that of an engine that is set up
    otherwise.
    """

    died: SuiteRun
    died_in: Path
    resumed: SuiteRun
    again: SuiteRun
    other_asked: int
    resumed_asked: int
    again_asked: int


class Runs:
    """Sessions that go on beside each other; asking for one waits for it."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self._folder = folder
        self._pool = pool
        self.whole = self._start("whole", "--mmlu-details")
        self.resumed = pool.submit(self._died_then_resumed)
        self.interrupted = self._start("interrupted", scoring={"interrupt_after": 7})
        self.shared = self._start("shared", *TWO_WORKERS, scoring={"engines": 2})
        self.limited = self._start("limited", "--mmlu-limit=60", "--mmlu-min-accuracy=99")

    def _start(
        self, name: str, *arguments: str, scoring: dict[str, Any] | None = None
    ) -> Future[SuiteRun]:
        return self._pool.submit(
            run_suite,
            self._folder / name,
            *ARGUMENTS,
            *arguments,
            SCORING=json.dumps(scoring or {}),
        )

    def _died_then_resumed(self) -> Resumed:
        folder, question_log = self._folder / "resumed", self._folder / "asked"
        died = run_suite(folder, *ARGUMENTS, SCORING=json.dumps({"fail_after": 40}))
        died_in = died.folder
        counts = []

        def resume(*arguments: str) -> SuiteRun:
            question_log.write_text("")
            scoring = json.dumps({"asked": str(question_log)})
            run = run_suite(folder, *ARGUMENTS, "--mmlu-resume", *arguments, SCORING=scoring)
            counts.append(len(question_log.read_text().splitlines()))
            return run

        resume("--engine-arg=quantization=fp8", "--mmlu-limit=57")
        resumed = resume()
        again = resume("--mmlu-limit=57")
        return Resumed(died, died_in, resumed, again, *counts)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    pool = ThreadPoolExecutor(2)
    yield Runs(tmp_path_factory.mktemp("mmlu"), pool)
    pool.shutdown(cancel_futures=True)


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def samples(folder: Path) -> list[dict[str, str]]:
    with (folder / "samples.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# What a run leaves behind


def test_the_folder_holds_what_is_promised(runs: Runs) -> None:
    whole = runs.whole.result()
    assert whole.exit_code == 0, whole.output
    assert whole.folder.name.endswith("-mmlu")
    files = {str(p.relative_to(whole.folder)) for p in whole.folder.rglob("*") if p.is_file()}
    promised = {"overall.json", "by_domain.json", "by_subject.json", "samples.csv", "summary.json"}
    assert files >= promised | {"config.json", "report.md", "plots/score_by_subject.png"}
    assert (whole.folder / "plots/score_by_subject.png").read_bytes().startswith(b"\x89PNG")


def test_every_question_has_its_row(runs: Runs) -> None:
    rows = samples(runs.whole.result().folder)
    assert list(rows[0]) == COLUMNS
    assert Counter(row["subject"] for row in rows) == dict.fromkeys(SUBJECTS, 2)
    for row in rows:
        question = EMBEDDED.test[row["subject"]][int(row["question_id"])]
        assert row["answer"] == LETTERS[question.answer]
        assert row["domain"] == DOMAIN_OF[row["subject"]]
        assert row["correct"] == str(int(row["answer"] == row["pred"]))
        assert int(row["tokens"]) > 0
        assert float(row["latency_ms"]) > 0


def test_the_scores_are_the_shares_of_right_answers_in_percent(runs: Runs) -> None:
    folder = runs.whole.result().folder
    rows = samples(folder)
    overall = read(folder, "overall.json")
    right = [int(row["correct"]) for row in rows]
    assert overall["accuracy"] == pytest.approx(100 * statistics.fmean(right))
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


def test_details_hold_the_questions(runs: Runs) -> None:
    lines = (runs.whole.result().folder / "details.jsonl").read_text().splitlines()
    assert len(lines) == QUESTIONS
    first = json.loads(lines[0])
    question = EMBEDDED.test[first["subject"]][first["question_id"]]
    assert (first["question"], tuple(first["choices"])) == (question.question, question.choices)
    assert len(first["logprobs"]) == 4


def test_it_is_among_the_other_runs(runs: Runs) -> None:
    whole = runs.whole.result()
    meta = whole.summary.meta
    label = "made with a stand-in engine: not a measurement of any system"
    assert (meta.status, meta.label, meta.reason) == ("complete", label, None)
    assert whole.statuses() == {"mmlu_all_scored": "passed", "mmlu_score": "not judged"}
    assert run_folders(whole.results_dir) == [whole.folder]
    index = (whole.results_dir / "index.md").read_text()
    assert f"{read(whole.folder, 'overall.json')['accuracy']:.2f}" in index
    for text in (whole.output, (whole.folder / "report.md").read_text()):
        assert label in text


def test_its_reports_can_be_made_again(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original, copy = runs.whole.result().folder, tmp_path / "copy"
    shutil.copytree(original, copy)
    for name in ("report.md", "report.html"):
        (copy / name).unlink()
    assert main(["report", str(copy)]) == 0
    for file in (p for p in original.rglob("*") if p.is_file()):
        assert (copy / file.relative_to(original)).read_bytes() == file.read_bytes(), file
    assert f"of {QUESTIONS} questions" in (copy / "report.md").read_text()
    (copy / "summary.json").write_text(json.dumps({"meta": {"benchmark": "mmlu"}}))
    assert main(["report", str(copy)]) == 2
    assert "not the summary of an MMLU run" in capsys.readouterr().err
    assert (copy / "report.md").read_bytes() == (original / "report.md").read_bytes()


def test_a_limit_and_a_minimum(runs: Runs) -> None:
    limited = runs.limited.result()
    assert limited.exit_code == 1
    assert Counter(row["subject"] for row in samples(limited.folder)).most_common()[0][1] == 2
    assert len(samples(limited.folder)) == 60
    assert limited.statuses() == {"mmlu_all_scored": "passed", "mmlu_score": "failed"}
    assert "required at least 99%" in limited.output
    assert limited.summary.meta.status == "invalid"
    assert not (limited.folder / "details.jsonl").exists()


# When things go wrong


def test_an_engine_that_dies_leaves_what_was_scored(runs: Runs) -> None:
    resumption = runs.resumed.result()
    died, folder = resumption.died, resumption.died_in
    assert died.exit_code == 1, died.output
    assert "MMLU: the stand-in engine died, as it was told to" in died.output
    assert "Traceback" not in died.output
    summary = read_summary(folder)
    assert summary is not None
    assert summary.meta.status == "failed"
    assert len(samples(folder)) == 40
    assert read(folder, "overall.json")["questions"] == 40
    assert read(folder, "overall.json")["planned"] == QUESTIONS


def test_a_resumed_run_asks_only_what_is_missing(runs: Runs) -> None:
    resumption = runs.resumed.result()
    assert resumption.resumed.exit_code == 0, resumption.resumed.output
    assert resumption.resumed_asked == QUESTIONS - 40
    folder = next(f for f in run_folders(resumption.died_in.parent) if resumed_questions(f) == 40)
    assert folder != resumption.died_in
    whole = runs.whole.result()
    for name in ("overall.json", "by_domain.json", "by_subject.json"):
        assert read(folder, name) == read(whole.folder, name)


def resumed_questions(folder: Path) -> int | None:
    """How many of a run's questions an earlier run had scored; None for a run without a score."""
    return (read(folder, "summary.json")["run"].get("mmlu") or {}).get("resumed")


def test_only_what_was_interrupted_is_resumed(runs: Runs) -> None:
    resumption = runs.resumed.result()
    assert resumption.again.exit_code == 0, resumption.again.output
    assert (resumption.again_asked, resumed_questions(resumption.again.folder)) == (57, 0)


def test_scores_of_an_engine_with_other_arguments_are_not_mixed(runs: Runs) -> None:
    assert runs.resumed.result().other_asked == 57


def test_ctrl_c_leaves_what_was_scored(runs: Runs) -> None:
    interrupted = runs.interrupted.result()
    assert interrupted.exit_code == 2
    assert len(samples(interrupted.folder)) == 7
    meta = interrupted.summary.meta
    assert (meta.status, meta.reason) == ("failed", "interrupted (KeyboardInterrupt)")


def test_a_baseline_of_other_questions_is_a_usage_error(runs: Runs, tmp_path: Path) -> None:
    baseline = runs.whole.result().folder
    run = run_suite(tmp_path, *ARGUMENTS, f"--baseline={baseline}", "--mmlu-limit=57")
    assert run.exit_code == 4, run.output
    assert f"not comparable: questions: baseline {QUESTIONS}, this run 57" in run.output


def test_a_context_too_small_says_what_fits(tmp_path: Path) -> None:
    run = run_suite(tmp_path, *ARGUMENTS, "--max-model-len=120")
    assert run.exit_code == 1
    assert "--mmlu-shots 1: the longest question of" in run.output
    assert "--mmlu-shots 0 fits; or raise --max-model-len" in run.output


def test_bad_data_is_a_usage_error_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "anatomy_test.csv").write_text("What?,1,2,3,4,7\n")
    run = run_suite(tmp_path / "results", *ARGUMENTS, f"--mmlu-data={tmp_path / 'data'}")
    assert run.exit_code == 4
    assert "anatomy_test.csv: line 1: the answer is '7'" in run.output


def test_collecting_imports_neither_torch_nor_lm_eval() -> None:
    code = (
        "import sys, pytest; pytest.main(['--co', '-q', '-m', 'mmlu']); "
        "print('heavy:', sorted({'torch', 'lm_eval', 'vllm', 'datasets'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "test_mmlu_score" in process.stdout
    assert "heavy: []" in process.stdout


# Several engines


@pytest.mark.parametrize("name", ["overall.json", "by_domain.json", "by_subject.json"])
def test_two_engines_make_one_result(runs: Runs, name: str) -> None:
    shared = runs.shared.result()
    assert shared.exit_code == 0, shared.output
    assert [p.name for p in run_folders(shared.results_dir)] == [shared.folder.name]
    assert not list(shared.results_dir.glob(".mmlu-*"))
    assert f"of {QUESTIONS} questions" in shared.output
    assert read(shared.folder, name) == read(runs.whole.result().folder, name)


@given(
    st.dictionaries(st.sampled_from(SUBJECTS), st.integers(1, 20), min_size=1), st.integers(1, 9)
)
def test_shares_are_disjoint_whole_and_even(sizes: dict[str, int], count: int) -> None:
    ranges = {subject: range(size) for subject, size in sizes.items()}
    parts = split(ranges, count)
    assert len(parts) == count
    merged: dict[str, range] = {}
    for part in parts:
        assert not merged.keys() & part.keys()
        merged |= part
    assert merged == ranges
    loads = [sum(map(len, part.values())) for part in parts]
    assert max(loads) - min(loads) <= max(sizes.values())


def test_an_engine_that_gives_no_log_probabilities_is_not_judged(tmp_path: Path) -> None:
    plugin = ("-p", "meta_tests.stand_in_plugin")
    arguments = ("-m", "mmlu", "--mmlu-limit=57", "--keep-all=0", *plugin)
    earlier = run_suite(tmp_path, *arguments).folder
    run = run_suite(tmp_path, *arguments)
    assert run.exit_code == 0, run.output
    # What scored nothing replaces nothing.
    assert earlier.is_dir() and run.folder != earlier
    assert {v.status for v in run.summary.verdicts} == {"not judged"}
    assert {v.why for v in run.summary.verdicts} == {
        "stand-in engine gives no log-probabilities to score with"
    }
    assert run.summary.run.mmlu is None
    assert "not judged" in (run.folder / "report.md").read_text()
