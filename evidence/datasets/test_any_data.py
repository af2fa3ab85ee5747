"""Data of any content is read as it was written, or refused in one line; the embedded data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.datasets.data_files import write_json, write_jsonl, write_parquet
from meta_tests.suite_runs import ROOT
from mlperf_suite.datasets.mlperf_frames import LLAMA2_70B, LLAMA3_1_405B
from mlperf_suite.datasets.news import load_news
from mlperf_suite.errors import DatasetError

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
    for item in LLAMA3_1_405B.load("embedded").items:
        if item.kind == "niah_em":
            assert re.fullmatch(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}", item.reference)
            assert item.input.count(item.reference) == 1
        if item.kind == "qa_em":
            assert any(answer in item.input for answer in item.reference.split("|"))


def test_embedded_news_are_many_short_and_different() -> None:
    items = load_news("embedded").items
    assert len(items) >= 48
    assert len({item.input for item in items}) == len({i.reference for i in items}) == len(items)
    for item in items:
        assert 100 <= len(item.input.split()) <= 350, item.input[:60]
        assert 2 <= len(item.reference.splitlines()) <= 4, item.reference
        assert all(line.strip() for line in item.reference.splitlines())


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
