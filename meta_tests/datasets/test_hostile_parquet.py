"""Parquet files made to exhaust memory and time, and tables whose columns are ambiguous."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlperf_suite.datasets import samples
from mlperf_suite.datasets.mlperf_frames import LLAMA2_70B
from mlperf_suite.datasets.news import load_news
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.mmlu.mmlu_questions import load_mmlu


def repeated(text: str, rows: int) -> pa.Array:
    """One text for every row, which takes a few bytes in a file."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [text])


def table(path: Path, column: pa.Array, name: str, *, typed: bool = True) -> Path:
    """A table of a column; `typed`: whether the file says that the text was a dictionary."""
    path.parent.mkdir(exist_ok=True)
    others = {
        "output": repeated("a", len(column)),
        "highlights": repeated("a", len(column)),
        "choices": pa.array([["a", "b", "c", "d"]] * len(column)),
        "answer": [0] * len(column),
    }
    pq.write_table(pa.table({name: column} | others), path, store_schema=typed)
    return path


LOADERS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "frame": ("input", "data.parquet", lambda path: LLAMA2_70B.load(str(path))),
    "news": ("article", "data.parquet", lambda path: load_news(str(path))),
    "MMLU": ("question", "anatomy/test.parquet", lambda path: load_mmlu(str(path.parent))),
}


@pytest.mark.parametrize(("kind", "typed"), [*((kind, True) for kind in LOADERS), ("frame", False)])
def test_a_few_bytes_never_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, typed: bool
) -> None:
    column, name, load = LOADERS[kind]
    path = table(tmp_path / name, repeated("x" * 4_000_000, 300), column, typed=typed)
    assert path.stat().st_size < 2_000_000
    monkeypatch.setattr(samples, "_MEMORY_BASE", 2**29)
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(DatasetError, match="takes more memory than a table of its size does"):
        load(path)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(("column", "name", "load"), LOADERS.values(), ids=LOADERS)
def test_endless_rows_and_two_columns_of_one_name_are_refused(
    tmp_path: Path, column: str, name: str, load: Callable[[Path], object]
) -> None:
    path = table(tmp_path / name, pa.array(["a", "b"]), column)
    content = pq.read_table(path)
    for double in (column, "other"):
        twice = content.append_column(double, pa.array(["a", "b"]))
        twice = twice.append_column(double, pa.array(["c", "d"]))
        pq.write_table(twice, path)
        with pytest.raises(DatasetError, match=f"two columns are named '{double}'"):
            load(path)
    if name == "data.parquet":
        text = repeated("a", 10_000_001)
        pq.write_table(pa.table(dict.fromkeys((column, "output", "highlights"), text)), path)
        with pytest.raises(DatasetError, match="10,000,001 rows, and at most 10,000,000 are read"):
            load(path)


def test_a_narrower_limit_stays() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    space = samples.address_space()
    with samples.memory_limit(space + 2**31):
        with samples.memory_limit(space + 2**40):
            assert resource.getrlimit(resource.RLIMIT_AS)[0] == space + 2**31
        assert resource.getrlimit(resource.RLIMIT_AS)[0] == space + 2**31
    assert resource.getrlimit(resource.RLIMIT_AS) == before
