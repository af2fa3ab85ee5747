"""Pickles that would run a command or fill the memory, were they opened as Python opens them.

`evidence/datasets/` has more of them.
"""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

import pytest

from mlperf_suite.datasets.parquet_conversion import write_parquet
from mlperf_suite.errors import DatasetError

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
