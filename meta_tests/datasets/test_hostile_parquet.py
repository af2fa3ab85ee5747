"""Parquet files made to exhaust memory and time, and tables whose columns are ambiguous."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meta_tests.suite_runs import ROOT
from mlperf_suite.datasets import samples
from mlperf_suite.datasets.mlperf_frames import LLAMA2_70B
from mlperf_suite.datasets.mmlu_questions import load_mmlu
from mlperf_suite.datasets.news import load_news
from mlperf_suite.errors import DatasetError

_TEXT = "x" * 4_000_000


def repeated(text: str, rows: int) -> pa.Array:
    """One text for every row, which takes a few bytes in a file."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [text])


def frame(column: pa.Array, name: str = "input") -> pa.Table:
    return pa.table({name: column, "output": repeated("a", len(column))})


def news(column: pa.Array) -> pa.Table:
    return pa.table({"article": column, "highlights": repeated("a", len(column))})


def questions(column: pa.Array) -> pa.Table:
    choices = pa.array([["a", "b", "c", "d"]] * len(column))
    return pa.table({"question": column, "choices": choices, "answer": [0] * len(column)})


def load_frame(path: Path) -> object:
    return LLAMA2_70B.load(str(path))


def load_articles(path: Path) -> object:
    return load_news(str(path))


def load_questions(path: Path) -> object:
    return load_mmlu(str(path.parent))


Load = Callable[[Path], object]
LOADERS: dict[str, tuple[Callable[[pa.Array], pa.Table], Load, str]] = {
    "frame": (frame, load_frame, "data.parquet"),
    "news": (news, load_articles, "data.parquet"),
    "MMLU": (questions, load_questions, "anatomy/test.parquet"),
}


OF_EACH_KIND = pytest.mark.parametrize(
    ("table", "load", "name"), LOADERS.values(), ids=list(LOADERS)
)


def written(folder: Path, name: str, table: pa.Table, *, typed: bool = True) -> Path:
    """`typed`: whether the file says that the text was a dictionary."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, store_schema=typed)
    return path


@pytest.mark.parametrize(("kind", "typed"), [*((kind, True) for kind in LOADERS), ("frame", False)])
def test_a_few_bytes_never_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, typed: bool
) -> None:
    table, load, name = LOADERS[kind]
    path = written(tmp_path, name, table(repeated(_TEXT, 300)), typed=typed)
    assert path.stat().st_size < 2_000_000
    monkeypatch.setattr(samples, "_MEMORY_BASE", 2**29)
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(DatasetError, match="takes more memory than a table of its size does"):
        load(path)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_one_row_of_endless_tokens_is_refused(tmp_path: Path) -> None:
    tokens = pa.ListArray.from_arrays([0, 2**26], np.zeros(2**26, np.int8))
    path = written(tmp_path, "data.parquet", frame(tokens, "tok_input"))
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


def test_endless_rows_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "data.parquet", frame(repeated("a", 10_000_001)))
    with pytest.raises(DatasetError, match="10,000,001 rows, and at most 10,000,000 are read"):
        load_frame(path)


@OF_EACH_KIND
@pytest.mark.parametrize("column", ["input", "question", "other"])
def test_two_columns_of_one_name_are_refused(
    tmp_path: Path, table: Any, load: Load, name: str, column: str
) -> None:
    content = table(pa.array(["a", "b"]))
    content = content.append_column(column, pa.array(["a", "b"]))
    content = content.append_column(column, pa.array(["c", "d"]))
    with pytest.raises(DatasetError, match=f"two columns are named '{column}'"):
        load(written(tmp_path, name, content))


def test_a_narrower_limit_stays() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    space = samples.address_space()
    with samples.memory_limit(space + 2**31):
        with samples.memory_limit(space + 2**40):
            assert resource.getrlimit(resource.RLIMIT_AS)[0] == space + 2**31
        assert resource.getrlimit(resource.RLIMIT_AS)[0] == space + 2**31
    assert resource.getrlimit(resource.RLIMIT_AS) == before
