"""A table as pandas pickles it, and the pickles of other versions of pandas."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mlperf_suite.datasets.parquet_conversion import write_parquet

PICKLES = Path(__file__).parent / "pickles"
"""Files written by the pandas and numpy that they are named after. `interleaved_` files are of a
table after `consolidate`, as by `concat` and `merge`: a block for each type."""
FULL = pd.DataFrame(
    {
        "input": ["Ängström ☃ 日本", "", None],
        "tok_input": [[1, 2, 300_000], [], [2**40]],
        "np_cell": [np.array([1, 2]), np.array([3], np.int32), np.array([], np.uint8)],
        "number": [1, 2, 3],
        "score": [0.5, np.nan, 2.0],
        "flag": [True, False, True],
        "kind": pd.Categorical(["a", None, "a"]),
        "mixed": ["1", 2, 2.5],
        "objects": np.array([1, None, 3], dtype=object),
        "words": [["a", "ä"], [], None],
    }
)
EXPECTED: dict[str, list[Any]] = {
    "input": ["Ängström ☃ 日本", "", None],
    "tok_input": [[1, 2, 300_000], [], [2**40]],
    "np_cell": [[1, 2], [3], []],
    "number": [1, 2, 3],
    "score": [0.5, None, 2.0],
    "flag": [True, False, True],
    "kind": ["a", None, "a"],
    "mixed": ["1", "2", "2.5"],
    "objects": [1, None, 3],
    "words": [["a", "ä"], [], None],
}


WRITTEN = {
    "pandas": {
        "input": ["Ängström ☃ 日本", "plain", None],
        "tok_input": [[1, 2, 3], [4, 5], [6]],
        "np_cell": [[1, 2], [3], [4, 5, 6]],
        "tok_input_len": [3, 2, 1],
        "score": [1.5, None, 2.0],
        "flag": [True, False, True],
        "scalars": ["3", "0.5", "x"],
        "cat": ["a", "b", "a"],
        "st": ["é", None, "b"],
        "num2d": [1, 2, 3],
    },
    "interleaved": {
        "n1": [1, 2, 3],
        "input": ["é", "plain", None],
        "n2": [4, 5, 6],
        "tok_input": [[1, 2], [300_000], []],
        "n3": [7, 8, 9],
        "s1": [0.5, None, 2.0],
        "n4": [10, 11, 12],
        "dataset": ["a", None, "a"],
        "n5": [13, 14, 15],
        "s2": [1.0, 2.0, 3.0],
        "n6": [16, 17, 18],
        "flag": [True, False, True],
    },
}
"""What is in the files of each kind."""


def converted(frame: object, folder: Path, protocol: int = 5) -> pa.Table:
    """The table that a frame becomes."""
    source, out = folder / "data.pkl", folder / "data.parquet"
    source.write_bytes(pickle.dumps(frame, protocol=protocol))
    out.unlink(missing_ok=True)
    write_parquet(source, out)
    return pq.read_table(out)


def assert_written_table(source: Path, folder: Path) -> None:
    """A file of `PICKLES` holds the table of its kind."""
    out = folder / "out.parquet"
    write_parquet(source, out)
    assert pq.read_table(out).to_pydict() == WRITTEN[source.name.partition("_")[0]]


class _PlacedPickler(pickle.Pickler):
    place: object = None

    def reducer_override(self, value: Any) -> Any:
        if type(value).__name__ != "NumpyBlock":
            return NotImplemented
        function, (values, _, *rest) = value.__reduce__()
        return function, (values, self.place, *rest)


def placed(frame: pd.DataFrame, place: object) -> bytes:
    """A pickle of a table in which every block has this place."""
    file = io.BytesIO()
    pickler = _PlacedPickler(file)
    pickler.place = place
    pickler.dump(frame)
    return file.getvalue()
