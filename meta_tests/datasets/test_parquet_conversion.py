"""The converter of pickles: hostile ones run nothing, real ones come out as they went in.

The files in `pickles/` were written by the pandas and numpy that they are named after.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.__main__ import main
from mlperf_suite.datasets import parquet_conversion
from mlperf_suite.datasets.parquet_conversion import convert_pickle, write_parquet
from mlperf_suite.datasets.samples import address_space, memory_limit
from mlperf_suite.errors import DatasetError, SuiteError, UsageError

PICKLES = Path(__file__).parent / "pickles"


@pytest.fixture(autouse=True, scope="module")
def _memory_is_limited() -> Iterator[None]:
    """A damaged file may ask for any amount of memory."""
    with memory_limit(address_space() + 4 * 2**30):
        yield


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
    **{
        f"{module}.{name}": (FOUR + stacked(module, name) + CALL, f"'{module}.{name}'")
        for module, name in (
            *(("posix", "system"), ("pandas", "io.common.os.system"), ("builtins", "getattr")),
            *(("pandas.core.frame", "DataFrame.eval"), ("pandas", "eval"), ("numpy", "load")),
            *(("pandas", "read_pickle"), ("functools", "partial"), ("copyreg", "_reconstructor")),
        )
    },
    "NEWOBJ": (FOUR + POPEN + b"\x81.", "'subprocess.Popen'"),
    "NEWOBJ_EX": (FOUR + POPEN + b"}\x92.", "'subprocess.Popen'"),
    "GLOBAL": (b"\x80\x02cos\nsystem\n" + CALL, "'os.system'"),
    "STACK_GLOBAL": (FOUR + stacked("os", "system") + CALL, "'os.system'"),
    "eval": (
        FOUR + stacked("builtins", "eval") + b"(" + text(f"open({TARGET!r},'w')") + b"tR.",
        "'builtins.eval'",
    ),
    "open": (FOUR + stacked("io", "open") + OPEN, "'io.open'"),
    "a name made by REDUCE": (
        FOUR + text("os") + b"c_codecs\nencode\n(" + text("system") + b"tR\x93" + CALL,
        "STACK_GLOBAL requires str",
    ),
    "a name that is a name": (
        FOUR + text("os") + FRAME + b"\x93" + CALL,
        "STACK_GLOBAL requires str",
    ),
    "INST": (b"\x80\x02(" + text(COMMAND) + b"ios\nsystem\n.", "'os.system'"),
    "OBJ": (b"\x80\x02(cos\nsystem\n" + text(COMMAND) + b"o.", "'os.system'"),
    "OBJ of an admitted name": (b"\x80\x02(" + FRAME + text(COMMAND) + b"o.", "table of a form"),
    "NEWOBJ_EX of an admitted name": (FOUR + FRAME + b")}\x92.", "a table of a form"),
    "BUILD": (
        (FOUR + FRAME + b")\x81}" + text("__setstate__"))
        + (stacked("os", "system") + b"sb" + text(COMMAND) + b"b."),
        "'os.system'",
    ),
    "BUILD twice": (FOUR + FRAME + b")\x81}b}b.", "the state of a part twice"),
    "EXT1": (b"\x80\x02\x82\x01" + CALL, "unregistered extension code 1"),
    "EXT4": (b"\x80\x02\x84\x01\x02\x00\x00" + CALL, "unregistered extension code 513"),
    "PERSID": (b"\x80\x02Pthe-id\n.", "persistent id"),
    "BINPERSID": (b"\x80\x02" + text("the-id") + b"Q.", "persistent id"),
    "a pickle in a pickle": (
        FOUR + stacked("pickle", "loads") + b"(" + raw(NESTED) + b"tR.",
        "'pickle.loads'",
    ),
    "an object scalar": (
        FOUR + b"cnumpy.core.multiarray\nscalar\n(" + OBJECT_DTYPE + raw(NESTED) + b"tR.",
        "it holds no table",
    ),
    "a call of a result": (FOUR + FRAME + b")R" + CALL, "not callable"),
    "a line break in a name": (FOUR + stacked("os\nx", "a\x1b[2J") + b".", "'os\\nx.a\\x1b[2J'"),
    "a class whose attributes are set": (
        FOUR + FRAME + b"N}" + text("values") + stacked("pandas", "NA") + b"s\x86b.",
        "damaged",
    ),
    "an array whose dtype changes": (
        FOUR
        + (b"cnumpy\ndtype\n(" + text("V8") + b"\x89\x88tRq\x000")
        + (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR")
        + (b"(K\x01K\x01\x85h\x00\x89" + raw(b"A" * 8) + b"tbq\x010")
        + (b"h\x00(K\x03" + text("|") + b"N" + text("a") + b"\x85}" + text("a"))
        + (OBJECT_DTYPE + b"K\x00\x86sK\x08K\x01K\x1btb0h\x01."),
        "it holds no table",
    ),
    "values without end": (FOUR + b"N" * 5_000_000 + b".", "it holds no table"),
    "a huge memo": (FOUR + b"Nr\xff\xff\xff\xff.", "more memory than a table"),
    "a huge bytearray": (FOUR + b"\x96" + struct.pack("<Q", 2**60) + b".", "more memory than"),
    "a huge text": (FOUR + b"\x8d" + struct.pack("<Q", 2**63) + b".", "damaged"),
    "very deep": (FOUR + b")" + b"\x85" * 200_000 + b".", "it holds no table"),
    "cut off": (FOUR + FRAME + b")\x81", "damaged"),
    "two pickles": (FOUR + b"N." + NESTED, "damaged"),
    "protocol 0": (b"cos\nsystem\n(S'x'\ntR.", "protocol 2 to 5"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_runs_nothing_and_is_named(name: str, tmp_path: Path) -> None:
    payload, message = HOSTILE[name]
    source = tmp_path / "data.pkl"
    source.write_bytes(payload)
    with pytest.raises(DatasetError) as error:
        write_parquet(source, tmp_path / "data.parquet")
    assert not Path(TARGET).exists()
    assert message in str(error.value) and str(source) in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "name", ["GLOBAL", "a name made by REDUCE", "an array whose dtype changes"]
)
def test_the_command_names_a_hostile_pickle_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    payload, message = HOSTILE[name]
    source, out = tmp_path / "data.pkl", tmp_path / "data.parquet"
    source.write_bytes(payload)
    assert main(["convert", str(source), str(out)]) == 2
    output = capsys.readouterr()
    assert not Path(TARGET).exists() and not out.exists() and not output.out
    assert message in output.err and output.err.count("\n") == 1


def test_a_pickle_that_takes_endless_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash of a tuple of two that are the same tuple, and so on, as the key of a dictionary."""
    monkeypatch.setattr(parquet_conversion, "_CPU_BASE_S", 2)
    source, out = tmp_path / "data.pkl", tmp_path / "data.parquet"
    source.write_bytes(FOUR + b"})" + b"2\x86" * 100 + b"Ns.")
    with pytest.raises(DatasetError, match="ended by SIG"):
        convert_pickle(source, out)
    assert not out.exists()


@pytest.mark.parametrize("name", ["GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "open"])
def test_the_payloads_are_real(name: str) -> None:
    """Python's own reader does what they ask for, so that the tests above prove something."""
    try:
        pickle.loads(HOSTILE[name][0])
        assert Path(TARGET).exists()
    finally:
        Path(TARGET).unlink(missing_ok=True)


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
EXPECTED = {
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


def converted(frame: object, folder: Path, protocol: int = 5) -> pa.Table:
    source, out = folder / "data.pkl", folder / "data.parquet"
    source.write_bytes(pickle.dumps(frame, protocol=protocol))
    out.unlink(missing_ok=True)
    write_parquet(source, out)
    return pq.read_table(out)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_pandas_writes_comes_out_as_it_is(protocol: int, tmp_path: Path) -> None:
    table = converted(FULL, tmp_path, protocol)
    assert table.to_pydict() == EXPECTED
    assert table.schema.field("tok_input").type == pa.list_(pa.int64())
    assert table.schema.field("np_cell").type == pa.list_(pa.int64())
    assert table.column_names == list(FULL.columns)


def test_rows_chosen_and_put_together(tmp_path: Path) -> None:
    frame = pd.concat([FULL.iloc[[2, 0]], FULL.iloc[[1]]])[
        ["number", "input", "score", "tok_input"]
    ]
    assert converted(frame, tmp_path).to_pydict() == {
        "number": [3, 1, 2],
        "input": [None, "Ängström ☃ 日本", ""],
        "score": [2.0, 0.5, None],
        "tok_input": [[2**40], [1, 2, 300_000], []],
    }


class PlacedPickler(pickle.Pickler):
    """Writes every block of a table with another place."""

    place: object = None

    def reducer_override(self, value: Any) -> Any:
        if type(value).__name__ != "NumpyBlock":
            return NotImplemented
        function, (values, _, *rest) = value.__reduce__()
        return function, (values, self.place, *rest)


@pytest.mark.parametrize(
    "place",
    [
        *(
            slice(9, 10),
            slice(1, 3),
            slice(2**62, 2**62 + 2),
            slice(0, 2, 0),
            slice(None, None, -2),
        ),
        *(np.array([5, 6]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array([0, 0]), None, 0),
    ],
    ids=str,
)
def test_a_block_outside_its_table_is_refused(place: object, tmp_path: Path) -> None:
    source = tmp_path / "data.pkl"
    with source.open("wb") as file:
        pickler = PlacedPickler(file)
        pickler.place = place
        pickler.dump(pd.DataFrame({"a": [1], "b": [2]}))
    with pytest.raises(DatasetError, match=r"block of columns|no values|damaged|unknown form"):
        write_parquet(source, tmp_path / "data.parquet")


@pytest.mark.parametrize("source", sorted(PICKLES.glob("pandas_*.pkl")), ids=str)
def test_what_older_pandas_wrote_comes_out_the_same(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    convert_pickle(source, out)
    assert pq.read_table(out).to_pydict() == {
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
    }


@pytest.mark.parametrize("source", sorted(PICKLES.glob("interleaved_*.pkl")), ids=str)
def test_columns_of_one_type_at_even_distances(source: Path, tmp_path: Path) -> None:
    """Written after `consolidate`, as by `concat` and `merge`: a block for each type."""
    out = tmp_path / "out.parquet"
    convert_pickle(source, out)
    assert pq.read_table(out).to_pydict() == {
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
    }


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))),
            st.lists(st.integers(-(2**63), 2**63 - 1)),
            st.integers(-(2**63), 2**63 - 1),
        ),
        min_size=1,
    ),
    st.integers(2, 5),
)
def test_any_table_survives(rows: list[tuple[str | None, list[int], int]], protocol: int) -> None:
    texts, tokens, numbers = map(list, zip(*rows, strict=True))
    frame = pd.DataFrame(
        {"texts": pd.Series(texts, dtype=object), "tokens": tokens, "numbers": numbers}
    )
    frame["boxed"] = frame["numbers"].astype(object)
    with tempfile.TemporaryDirectory() as folder:
        content = converted(frame, Path(folder), protocol).to_pydict()
    assert content == {"texts": texts, "tokens": tokens, "numbers": numbers, "boxed": numbers}


@given(st.data())
def test_any_damage_is_one_line(data: st.DataObject) -> None:
    """A byte changed, bytes lost: a table still, or a DatasetError; no other error, no crash."""
    whole = bytearray(pickle.dumps(FULL, protocol=data.draw(st.integers(2, 5))))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(2, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "data.pkl"
        source.write_bytes(whole)
        try:
            write_parquet(source, Path(folder) / "data.parquet")
        except SuiteError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[1], {"a": 1}], "column 'bad': row 2: cannot be converted: of the type dict"),
        ([[1], [[2]]], "column 'bad': row 2: cannot be converted: a list of lists"),
        ([1, 2**70], "row 2: cannot be converted: a whole number of more than 64 bits"),
        (["a", [1]], "column 'bad': cells of different kinds cannot be converted: list of int, te"),
        (["a", "\ud800"], "row 2: cannot be converted: not valid Unicode"),
        ([b"a", b"b"], "row 1: cannot be converted: of the type bytes"),
        ([1j, 2j], "an array of the type 'c16', which is not read"),
    ],
)
def test_what_parquet_cannot_hold_is_named(
    cells: list[object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError) as error:
        dtype = None if isinstance(cells[0], complex) else object
        converted(pd.DataFrame({"good": [1, 2], "bad": pd.Series(cells, dtype=dtype)}), tmp_path)
    assert message in str(error.value)
    assert not (tmp_path / "data.parquet").exists()


@pytest.mark.parametrize("value", [None, 1, {"a": 1}, [1, 2], "text", np.arange(3), pd.Index([1])])
def test_what_is_no_table_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="it holds"):
        converted(value, tmp_path)


def test_one_list_in_many_rows_cannot_fill_the_memory(tmp_path: Path) -> None:
    tokens = list(range(20_000))
    with pytest.raises(DatasetError, match="more values than the file can hold"):
        converted(pd.DataFrame({"tokens": [tokens] * 20_000}), tmp_path)
    repeated = converted(pd.DataFrame({"tokens": [tokens] * 8}), tmp_path)
    assert repeated.to_pydict()["tokens"] == [tokens] * 8


def test_a_list_that_holds_itself_is_refused(tmp_path: Path) -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(DatasetError, match="a list of lists"):
        converted(pd.DataFrame({"bad": [endless, endless]}), tmp_path)


def test_the_command_prints_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "data.pkl", tmp_path / "data.parquet"
    FULL.to_pickle(source)
    assert main(["convert", str(source), str(out)]) == 0
    output = capsys.readouterr().out
    assert f"{out}: 3 rows\n" in output
    assert "  tok_input: list<item: int64>\n" in output
    assert "column 'mixed': 2 numbers among texts, written as texts\n" in output
    assert f"sha256 {hashlib.sha256(source.read_bytes()).hexdigest()}" in output


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "data.pkl", tmp_path / "data.parquet"
    FULL.to_pickle(source)
    out.write_text("kept")
    assert main(["convert", str(source), str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert out.read_text() == "kept"
    with pytest.raises(UsageError):
        convert_pickle(source, out)
    assert main(["convert", str(source), str(tmp_path / "data.csv")]) == 2
    assert main(["convert", str(tmp_path / "none.pkl"), str(tmp_path / "new.parquet")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_compressed_or_empty_file_is_named(tmp_path: Path) -> None:
    source = tmp_path / "data.pkl"
    FULL.to_pickle(source, compression="gzip")
    with pytest.raises(DatasetError, match="gzip: unpack it first"):
        convert_pickle(source, tmp_path / "out.parquet")
    source.write_bytes(b"")
    with pytest.raises(DatasetError, match="the file is empty"):
        convert_pickle(source, tmp_path / "out.parquet")


def test_nothing_that_a_table_names_is_imported(tmp_path: Path) -> None:
    FULL.to_pickle(tmp_path / "data.pkl")
    code = (
        "import mmap, sys; from mlperf_suite.datasets.pickled_frames import read_frame; "
        "file = open('data.pkl', 'rb'); data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); "
        "sys.exit(len(read_frame(data, len(data))) != 10 or 'pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
