"""Data of any content is read as it was written, or refused in one line; the embedded data."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.datasets.data_files import write_json, write_jsonl, write_parquet
from meta_tests.features.replay.made_traces import ROW, exported, span, written
from meta_tests.suite_runs import ROOT
from mlperf_suite.datasets.mlperf_frames import LLAMA2_70B, LLAMA3_1_405B
from mlperf_suite.datasets.news import load_news
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading.frames import (
    DEEPSEEK_R1,
    EMBEDDED_PROBLEMS,
    GPT_OSS_120B,
    MIXTRAL_8X7B,
)
from mlperf_suite.features.mmlu.mmlu_questions import DOMAIN_OF, SUBJECTS, load_mmlu
from mlperf_suite.features.replay.production_traces import read_trace

_TEXTS = st.text(min_size=1).filter(lambda text: text.strip())
_ROWS = st.lists(
    st.fixed_dictionaries(
        {"article": _TEXTS, "highlights": _TEXTS}, optional={"id": st.integers(), "x": st.none()}
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("write", [write_json, write_jsonl], ids=["json", "jsonl"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=_ROWS)
def test_any_rows_are_read_back_as_they_were_written(
    tmp_path: Path,
    write: Callable[[Path, list[dict[str, object]]], Path],
    rows: list[dict[str, object]],
) -> None:
    suffix = write.__name__.removeprefix("write_")
    items = load_news(str(write(tmp_path / f"news.{suffix}", rows))).items
    assert [(i.input, i.reference) for i in items] == [
        (row["article"], row["highlights"]) for row in rows
    ]


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(
        st.binary(),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(),
            lambda inner: (
                st.lists(inner) | st.dictionaries(st.sampled_from(["article", "input"]), inner)
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_junk_gives_nothing_but_a_dataset_error(
    tmp_path: Path, suffix: str, content: bytes
) -> None:
    path = tmp_path / f"junk.{suffix}"
    path.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        load_news(str(path))
    assert len(str(caught.value).splitlines()) == 1


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1), min_size=1))
def test_tokens_come_out_as_they_went_in(tokens: list[list[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows: list[dict[str, object]] = [{"tok_input": ids, "output": "a"} for ids in tokens]
        path = write_parquet(Path(folder) / "data.parquet", rows)
        items = LLAMA2_70B.load(str(path)).items
    assert [item.token_ids for item in items] == [tuple(ids) for ids in tokens]
    assert all(type(token) is int for item in items for token in item.token_ids or ())


def test_the_embedded_references_are_of_their_graders_form() -> None:
    for item in MIXTRAL_8X7B.load("embedded").items:
        if item.kind == "GSM8K":
            assert float(item.reference) >= 0
        if item.kind == "MBXP":
            language, name = item.id.split("_", 1)
            assert language in ("python", "javascript")
            assert name in item.input and name in item.reference
    for item in LLAMA3_1_405B.load("embedded").items:
        if item.kind == "niah_em":
            assert re.fullmatch(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}", item.reference)
            assert item.input.count(item.reference) == 1
        if item.kind == "qa_em":
            assert any(answer in item.input for answer in item.reference.split("|"))


def test_the_embedded_python_tests_tell_right_from_wrong() -> None:
    right = {
        "python_count_vowels": "def count_vowels(t):\n    return sum(c in 'aeiou' for c in t)\n",
        "python_middle": "def middle(n):\n    return sorted(n)[1]\n",
    }
    for item in MIXTRAL_8X7B.load("embedded").items:
        if item.id.startswith("python_"):
            solution = right[item.id]
            wrong = solution.split("return")[0] + "return 3\n"
            for code, passes in ((solution, True), (wrong, False)):
                with contextlib.nullcontext() if passes else pytest.raises(AssertionError):
                    exec(code + item.reference, {})


def test_the_embedded_problems_are_those_that_the_data_names() -> None:
    lines = EMBEDDED_PROBLEMS.read_text(encoding="utf-8").splitlines()
    problems = {row["question_id"]: row for row in map(json.loads, lines)}
    items = [*DEEPSEEK_R1.load("embedded").items, *GPT_OSS_120B.load("embedded").items]
    graded = [item for item in items if item.kind == "livecodebench"]
    assert {item.reference for item in graded} == problems.keys()
    for item in graded:
        assert problems[item.reference]["question_content"] in item.input
    for problem in problems.values():
        for column in ("public_test_cases", "private_test_cases"):
            for case in json.loads(problem[column]):
                assert case["testtype"] == ("functional" if problem["starter_code"] else "stdin")
                assert isinstance(case["input"], str) and isinstance(case["output"], str)
        function = json.loads(problem["metadata"]).get("func_name")
        assert (function is not None) == bool(problem["starter_code"])


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=9,
)


@given(values=st.fixed_dictionaries(dict.fromkeys(ROW, ANY)), spans=ANY)
def test_any_content_is_a_trace_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any], spans: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for content in (values, {"resourceSpans": spans}, exported(span(spans, spans, spans))):
        try:
            trace = read_trace(written(folder, json.dumps(content)))
        except DatasetError as error:
            assert "\n" not in str(error)
        else:
            assert all(r.prompt >= 1 and r.answer >= 1 and r.at_s >= 0 for r in trace.requests)


def test_embedded_news_are_many_short_and_different() -> None:
    items = load_news("embedded").items
    assert len(items) >= 48
    assert len({item.input for item in items}) == len({i.reference for i in items}) == len(items)
    for item in items:
        assert 100 <= len(item.input.split()) <= 350, item.input[:60]
        assert 2 <= len(item.reference.splitlines()) <= 4, item.reference
        assert all(line.strip() for line in item.reference.splitlines())


def test_the_embedded_questions_are_of_every_subject_and_of_all_letters() -> None:
    mmlu = load_mmlu("embedded")
    assert sorted(mmlu.dev) == sorted(mmlu.test) == list(SUBJECTS)
    assert len(SUBJECTS) == 57
    assert {len(questions) for questions in mmlu.dev.values()} == {1}
    assert {len(questions) for questions in mmlu.test.values()} == {2}
    for split in (mmlu.dev, mmlu.test):
        assert all(len(set(q.choices)) == 4 for questions in split.values() for q in questions)
    right = Counter(q.answer for questions in mmlu.test.values() for q in questions)
    assert set(right) == {0, 1, 2, 3}
    assert max(right.values()) - min(right.values()) <= 10


def test_the_domains_are_those_of_lm_eval() -> None:
    spec = find_spec("lm_eval")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "tasks" / "mmlu" / "default"
    tags = {
        "mmlu_stem_tasks": "STEM",
        "mmlu_humanities_tasks": "Humanities",
        "mmlu_social_sciences_tasks": "Social Sciences",
        "mmlu_other_tasks": "Other",
    }
    domains = {}
    for path in folder.glob("mmlu_*.yaml"):
        task = yaml.safe_load(path.read_text())
        domains[task["dataset_name"]] = tags[task["tag"]]
    assert domains == DOMAIN_OF


def test_one_row_of_endless_tokens_is_refused(tmp_path: Path) -> None:
    tokens = pa.ListArray.from_arrays([0, 2**26], np.zeros(2**26, np.int8))
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"tok_input": tokens, "output": ["a"]}), path)
    # In a process of its own, which has no memory yet that it could use again.
    code = f"""
from mlperf_suite.datasets import samples
from mlperf_suite.datasets.mlperf_frames import LLAMA2_70B
samples._MEMORY_BASE = 2**28
LLAMA2_70B.load({str(path)!r})
"""
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False, timeout=120
    )
    # A thread that cannot be started for want of memory is what pyarrow names where it is one.
    reasons = rb"takes more memory|not a readable parquet file: .* launch worker thread"
    assert re.search(rb"DatasetError: --dataset \S+: (%b)" % reasons, process.stderr)
