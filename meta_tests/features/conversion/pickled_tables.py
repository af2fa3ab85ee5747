"""A table as pandas pickles it, and the pickles of other versions of pandas."""

import io
import json
import os
import pickle
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlperf_suite.errors import DatasetError
from mlperf_suite.features.conversion.parquet_conversion import write_parquet

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
WRITTEN = json.loads((PICKLES / "written.json").read_text())
"""What is in the files of each kind."""


def converted(frame: object, folder: Path, protocol: int = 5) -> pa.Table:
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


# Pickles that would run a command or fill the memory, were they opened as Python opens them.
# Each payload would make this file.
TARGET = f"{tempfile.gettempdir()}/mlperf-suite-hostile-pickle-{os.getpid()}"


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def raw(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def stacked(module: str, name: str) -> bytes:
    return text(module) + text(name) + b"\x93"


COMMAND = f"touch {TARGET}"
CALL = b"(" + text(COMMAND) + b"tR."
OPEN = b"(" + text(TARGET) + text("w") + b"tR."
FOUR = b"\x80\x04"
NESTED = b"\x80\x02cos\nsystem\n" + CALL
FRAME = b"cpandas.core.frame\nDataFrame\n"
OBJECT_DTYPE = b"cnumpy\ndtype\n(" + text("O8") + b"\x89\x88tR"

POPEN = stacked("subprocess", "Popen") + b"(" + text(COMMAND) + b"t"
HOSTILE = {
    "NEWOBJ": (FOUR + POPEN + b"\x81.", "'subprocess.Popen'"),
    "STACK_GLOBAL": (FOUR + stacked("os", "system") + CALL, "'os.system'"),
    "INST": (b"\x80\x02(" + text(COMMAND) + b"ios\nsystem\n.", "'os.system'"),
    "OBJ of an admitted name": (b"\x80\x02(" + FRAME + text(COMMAND) + b"o.", "table of a form"),
    "NEWOBJ_EX of an admitted name": (FOUR + FRAME + b")}\x92.", "a table of a form"),
    "BUILD twice": (FOUR + FRAME + b")\x81}b}b.", "the state of a part twice"),
    "EXT1": (b"\x80\x02\x82\x01" + CALL, "unregistered extension code 1"),
    "PERSID": (b"\x80\x02Pthe-id\n.", "persistent id"),
    "an object scalar": (
        FOUR + b"cnumpy.core.multiarray\nscalar\n(" + OBJECT_DTYPE + raw(NESTED) + b"tR.",
        "it holds no table",
    ),
    "a line break in a name": (FOUR + stacked("os\nx", "a\x1b[2J") + b".", "'os\\nx.a\\x1b[2J'"),
    "a huge memo": (FOUR + b"Nr\xff\xff\xff\xff.", "more memory than a table"),
    "a huge text": (FOUR + b"\x8d" + struct.pack("<Q", 2**63) + b".", "damaged"),
    "cut off": (FOUR + FRAME + b")\x81", "damaged"),
    "two pickles": (FOUR + b"N." + NESTED, "damaged"),
    "protocol 0": (b"cos\nsystem\n(S'x'\ntR.", "protocol 2 to 5"),
}
"""By what they use: the pickle, and what its refusal says."""


def refused(payload: bytes, message: str, folder: Path) -> None:
    """Nothing of a pickle runs, and the error names it in one line."""
    source = folder / "data.pkl"
    source.write_bytes(payload)
    with pytest.raises(DatasetError) as error:
        write_parquet(source, folder / "data.parquet")
    assert not Path(TARGET).exists()
    assert message in str(error.value) and str(source) in str(error.value)
    assert str(error.value).isprintable()
