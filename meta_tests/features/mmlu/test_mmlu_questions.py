"""MMLU's questions, how engines share them, and the rules of a run over them."""

import csv
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.datasets.data_files import write_parquet
from meta_tests.suite_runs import run_suite
from meta_tests.tampering.rule_breaks import verdict_on
from mlperf_suite.datasets import samples
from mlperf_suite.errors import DatasetError, RunError, UsageError
from mlperf_suite.features.mmlu.mmlu_questions import (
    PUBLISHED_SCORES,
    SUBJECTS,
    Mmlu,
    Question,
    load_mmlu,
)
from mlperf_suite.features.mmlu.mmlu_rules import MmluFacts
from mlperf_suite.features.mmlu.plugin import pytest_mlperf_engine_count
from mlperf_suite.features.mmlu.shares import Shares, gpus_per_engine, split_subjects
from mlperf_suite.settings import resolve_settings

EMBEDDED = load_mmlu("embedded")
GOOD_ROW = ["What is 1 + 1?", "1", "2", "3", "4", "1"]


ONE_QUESTION = {"anatomy": (Question("What is 1 + 1?", ("1", "2", "3", "4"), 1),)}
ROW = {"question": "What is 1 + 1?", "choices": ["1", "2", "3", "4"], "answer": 1}


def write_csv(path: Path, *rows: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


HEADER = ["question", "choice0", "choice1", "choice2", "choice3", "answer"]


@pytest.mark.parametrize("rows", [[GOOD_ROW], [[*GOOD_ROW[:5], "B"]], [HEADER, GOOD_ROW]])
def test_the_published_csv_shapes(tmp_path: Path, rows: list[list[str]]) -> None:
    write_csv(tmp_path / "test" / "anatomy_test.csv", *rows)
    write_csv(tmp_path / "dev" / "anatomy_dev.csv", GOOD_ROW)
    write_csv(tmp_path / "val" / "anatomy_val.csv", GOOD_ROW, GOOD_ROW)
    mmlu = load_mmlu(str(tmp_path))
    assert (mmlu.dev, mmlu.test) == (ONE_QUESTION, ONE_QUESTION)


@pytest.mark.parametrize("shape", ["by subject", "subject column", "both"])
def test_the_published_parquet_shapes(tmp_path: Path, shape: str) -> None:
    for split in ("dev", "test", "validation"):
        name = f"{split}-00000-of-00001.parquet"
        if shape != "subject column":
            write_parquet(tmp_path / "anatomy" / name, [ROW])
        if shape != "by subject":
            write_parquet(tmp_path / "all" / name, [{**ROW, "subject": "anatomy"}])
    mmlu = load_mmlu(str(tmp_path))
    assert (mmlu.dev, mmlu.test) == (ONE_QUESTION, ONE_QUESTION)


def test_the_hubs_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []

    def load_dataset(*names: str, split: str, token: str | None) -> list[dict[str, object]]:
        if token is None:
            raise ConnectionError("no route\nto the hub")
        requests.append((*names, split, token))
        return [{**ROW, "subject": "anatomy"}]

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    mmlu = load_mmlu("cais/mmlu", "a token")
    assert (mmlu.dev, mmlu.test) == (ONE_QUESTION, ONE_QUESTION)
    assert requests == [("cais/mmlu", "all", split, "a token") for split in ("dev", "test")]
    with pytest.raises(DatasetError, match=r"\(no route\); give a local copy with --mmlu-data"):
        load_mmlu("cais/mmlu")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([*GOOD_ROW[:5], "4"], "the answer is '4'; must be 0 to 3, or A to D"),
        ([*GOOD_ROW[:5], ""], "the answer is ''"),
        (GOOD_ROW[:5], "expected 6 fields (question, four choices, answer), found 5"),
        (["  ", *GOOD_ROW[1:]], "the question is empty"),
    ],
)
def test_a_bad_row_is_named_with_its_file_and_line(
    tmp_path: Path, row: list[str], problem: str
) -> None:
    two_lines = ["Which is it,\nthis or that?", *GOOD_ROW[1:]]
    path = write_csv(tmp_path / "anatomy_test.csv", two_lines, GOOD_ROW, row, GOOD_ROW)
    with pytest.raises(DatasetError) as caught:
        load_mmlu(str(tmp_path))
    assert str(caught.value).startswith(f"--mmlu-data {path}: line 4: ")
    assert problem in str(caught.value)


def test_a_quote_that_never_ends_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "anatomy_test.csv"
    path.write_text('What?,1,2,3,4,1\n"What?,1,2,3,4,1\nWhat?,1,2,3,4,1\n')
    with pytest.raises(DatasetError, match=r"anatomy_test.csv: line 2: not a CSV row"):
        load_mmlu(str(tmp_path))


@pytest.mark.parametrize(
    "fault", ["takes more memory than a table", "two columns are named 'answer'"]
)
def test_a_table_made_to_harm_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(samples, "_MEMORY_BASE", 2**29)
    text = pa.DictionaryArray.from_arrays([0] * 300, ["x" * 4_000_000])
    content = pa.table({"question": text, "choices": [list("abcd")] * 300, "answer": [0] * 300})
    if "columns" in fault:
        content = content.append_column("answer", content["answer"])
    (tmp_path / "anatomy").mkdir()
    pq.write_table(content, tmp_path / "anatomy" / "test.parquet")
    with pytest.raises(DatasetError, match=fault):
        load_mmlu(str(tmp_path))


def test_an_unknown_subject_is_answered_with_the_nearest(tmp_path: Path) -> None:
    write_csv(tmp_path / "colege_phisics_test.csv", GOOD_ROW)
    with pytest.raises(DatasetError, match=r"'colege_phisics'; the nearest is 'college_physics'"):
        load_mmlu(str(tmp_path))


@pytest.mark.parametrize("source", ["no/such/folder", "mmlu", ""])
def test_no_such_data(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match=r"no such folder|holds no"):
        load_mmlu(source)


def test_more_shots_than_worked_examples(tmp_path: Path) -> None:
    assert sorted(EMBEDDED.dev) == sorted(EMBEDDED.test) == list(SUBJECTS)
    assert EMBEDDED.shots(None) == 1
    assert EMBEDDED.shots(0) == 0
    with pytest.raises(UsageError, match=r"--mmlu-shots 5: .* must be 0 to 1"):
        EMBEDDED.shots(5)
    write_csv(tmp_path / "anatomy_test.csv", GOOD_ROW)
    write_csv(tmp_path / "anatomy_dev.csv", *[GOOD_ROW] * 5)
    assert load_mmlu(str(tmp_path)).shots(None) == 5
    write_csv(tmp_path / "virology_test.csv", GOOD_ROW)
    with pytest.raises(UsageError, match="virology has 0 worked examples"):
        load_mmlu(str(tmp_path)).shots(None)


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=57),
    limit=st.none() | st.integers(1, 1000),
)
def test_a_limit_is_a_total_spread_evenly(sizes: list[int], limit: int | None) -> None:
    questions = {
        s: (Question("?", ("a", "b", "c", "d"), 0),) * n
        for s, n in zip(SUBJECTS, sizes, strict=False)
    }
    data = Mmlu("made up", {}, questions)
    counts = {s: len(r) for s, r in data.selection(limit).items()}
    assert sum(counts.values()) == min(limit or sum(sizes), sum(sizes))
    assert 0 not in counts.values()
    for subject, questions_of in questions.items():
        count = counts.get(subject, 0)
        assert count <= len(questions_of)
        # A subject that has questions left has as many as any other, less one at most.
        if count < len(questions_of):
            assert count >= max(counts.values()) - 1
    first = [(s, n) for s, numbers in data.selection(limit, "first").items() for n in numbers]
    everything = [(s, n) for s, of in sorted(questions.items()) for n in range(len(of))]
    assert first == everything[:limit]


def test_the_fingerprint_changes_with_the_content() -> None:
    changed = dict(EMBEDDED.test)
    changed["anatomy"] = changed["anatomy"][::-1]
    assert Mmlu("x", EMBEDDED.dev, EMBEDDED.test).sha256 == EMBEDDED.sha256
    assert Mmlu("x", EMBEDDED.dev, changed).sha256 != EMBEDDED.sha256


@pytest.mark.parametrize(
    ("right", "questions", "status"),
    [
        *((right, asked, "not judged") for right, asked in ((3, 3), (4, 5))),
        *((right, asked, "passed") for right, asked in ((5, 5), (12, 20), (25, 57))),
        *((right, asked, "failed") for right, asked in ((0, 5), (6, 20), (20, 57))),
        (3_800, 14_042, "passed"),
        (3_500, 14_042, "failed"),
    ],
)
def test_few_questions_do_not_show_guessing(right: int, questions: int, status: str) -> None:
    accuracy = 100 * right / questions
    run = MmluFacts(questions, next(iter(PUBLISHED_SCORES)), questions, accuracy, questions)
    assert verdict_on(run, "mmlu_score").status == status


ARGUMENTS = ("--mmlu-limit=57", "-p", "meta_tests.scoring_plugin")


@pytest.mark.parametrize(
    ("marker", "shares"), [("mmlu", 1), ("mmlu or (offline and compliance and datacenter)", 0)]
)
def test_mmlu_is_not_scored_beside_a_loadgen_run(tmp_path: Path, marker: str, shares: int) -> None:
    run = run_suite(
        tmp_path / "results",
        *("-m", marker, *ARGUMENTS, "--collect-only", "-q"),
        SCORING='{"engines": 2}',
        PYTEST_XDIST_WORKER_COUNT="2",
        PYTEST_XDIST_TESTRUNUID="x",
    )
    assert run.output.count("::test_share[") == shares, run.output


@pytest.mark.parametrize(
    ("options", "engines", "gpus"),
    [
        ({}, 1, 4),
        ({"tensor_parallel_size": "1"}, 4, 1),
        ({"engine_arg": ["tensor_parallel_size=2"]}, 2, 2),
        ({"tensor_parallel_size": "1", "engine_arg": ["data-parallel-size=2"]}, 2, 2),
        ({"tensor_parallel_size": "2", "engine_arg": ["pipeline_parallel_size=2"]}, 1, 4),
        ({"tensor_parallel_size": "1", "engine_arg": ["data_parallel_size=8"]}, 1, 8),
    ],
)
def test_an_engine_has_the_gpus_that_its_arguments_need(
    options: dict[str, Any], engines: int, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    settings = resolve_settings(options, {})
    assert (pytest_mlperf_engine_count(settings), gpus_per_engine(settings)) == (engines, gpus)


@given(
    st.dictionaries(st.sampled_from(SUBJECTS), st.integers(1, 20), min_size=1), st.integers(1, 9)
)
def test_shares_are_disjoint_whole_and_even(sizes: dict[str, int], count: int) -> None:
    ranges = {subject: range(size) for subject, size in sizes.items()}
    parts = split_subjects(ranges, count)
    assert (len(parts), sum(map(len, parts))) == (count, len(ranges))
    assert {subject: part[subject] for part in parts for subject in part} == ranges
    loads = [sum(map(len, part.values())) for part in parts]
    assert max(loads) - min(loads) <= max(sizes.values())


def test_shares_are_awaited_and_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = Shares(tmp_path / "shares", 3, 2, patience_s=60)
    shares.journal(1).write_text("{}\n")
    shares.engine_log(2).write_text("its log")
    shares.end(1)
    # The last one ends while it is awaited.
    monkeypatch.setattr("time.sleep", lambda _: shares.end(2, "out of memory"))
    with pytest.raises(RunError, match="share 2: out of memory"):
        shares.wait()
    shares.end(2)
    shares.wait()
    assert shares.journals() == [shares.journal(1)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    shares.use_gpus(1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6,7"
    shares.clear(tmp_path)
    assert (tmp_path / "engine-2.log").is_file() and not shares.folder.exists()
    with pytest.raises(RunError, match="share 1: no progress"):
        replace(shares, patience_s=-1).wait()
