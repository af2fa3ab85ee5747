"""The converter of pickles: hostile ones run nothing, real ones come out as they went in."""

from __future__ import annotations

import copyreg
import hashlib
import io
import os
import pickle
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.__main__ import main
from mlperf_suite.datasets.pickle_reader import read_pickle
from mlperf_suite.datasets.pickled_frames import convert_pickle
from mlperf_suite.errors import DatasetError, SuiteError, UsageError

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

HOSTILE = {
    "GLOBAL": (b"\x80\x02cos\nsystem\n" + CALL, "'os.system'"),
    "GLOBAL posix": (b"\x80\x02cposix\nsystem\n" + CALL, "'posix.system'"),
    "STACK_GLOBAL": (FOUR + stacked("os", "system") + CALL, "'os.system'"),
    "eval": (
        FOUR + stacked("builtins", "eval") + b"(" + text(f"open({TARGET!r},'w')") + b"tR.",
        "'builtins.eval'",
    ),
    "open": (FOUR + stacked("io", "open") + OPEN, "'io.open'"),
    "a name made by REDUCE": (
        FOUR + text("os") + b"c_codecs\nencode\n(" + text("system") + b"tR\x93" + CALL,
        "'_codecs.encode'",
    ),
    "a name that is a name": (FOUR + text("os") + FRAME + b"\x93" + CALL, "a name that is made"),
    "INST": (b"\x80\x02(" + text(COMMAND) + b"ios\nsystem\n.", "'os.system'"),
    "OBJ": (b"\x80\x02(cos\nsystem\n" + text(COMMAND) + b"o.", "'os.system'"),
    "OBJ of an admitted name": (
        b"\x80\x02(" + FRAME + text(COMMAND) + b"o.",
        "'pandas.core.frame.DataFrame'",
    ),
    "NEWOBJ": (FOUR + stacked("subprocess", "Popen") + b"(" + text(COMMAND) + b"t\x81.", "Popen"),
    "NEWOBJ_EX": (
        FOUR + stacked("subprocess", "Popen") + b"(" + text(COMMAND) + b"t}\x92.",
        "'subprocess.Popen'",
    ),
    "NEWOBJ_EX of an admitted name": (
        FOUR + FRAME + b")}\x92.",
        "NEWOBJ_EX of 'pandas.core.frame.DataFrame'",
    ),
    "BUILD": (
        FOUR
        + FRAME
        + b")\x81}"
        + text("__setstate__")
        + stacked("os", "system")
        + b"sb"
        + text(COMMAND)
        + b"b.",
        "'os.system'",
    ),
    "BUILD twice": (FOUR + FRAME + b")\x81}b}b.", "the state of something that has none"),
    "dotted": (FOUR + stacked("pandas", "io.common.os.system") + CALL, "'pandas.io.common.os.sys"),
    "dotted from an admitted name": (
        FOUR + stacked("pandas.core.frame", "DataFrame.eval") + CALL,
        "'pandas.core.frame.DataFrame.eval'",
    ),
    "getattr": (FOUR + stacked("builtins", "getattr") + CALL, "'builtins.getattr'"),
    "EXT1": (b"\x80\x02\x82\x01" + CALL, "EXT1 of extension code 1"),
    "EXT4": (b"\x80\x02\x84\x01\x02\x00\x00" + CALL, "EXT4 of extension code 513"),
    "PERSID": (b"\x80\x02Pthe-id\n.", "PERSID of 'the-id'"),
    "BINPERSID": (b"\x80\x02" + text("the-id") + b"Q.", "BINPERSID of 'the-id'"),
    "pandas.eval": (FOUR + stacked("pandas", "eval") + CALL, "'pandas.eval'"),
    "read_pickle": (FOUR + stacked("pandas", "read_pickle") + CALL, "'pandas.read_pickle'"),
    "numpy.load": (FOUR + stacked("numpy", "load") + CALL, "'numpy.load'"),
    "partial": (FOUR + stacked("functools", "partial") + CALL, "'functools.partial'"),
    "_reconstructor": (
        FOUR + stacked("copyreg", "_reconstructor") + CALL,
        "'copyreg._reconstructor'",
    ),
    "a pickle in a pickle": (
        FOUR + stacked("pickle", "loads") + b"(" + raw(NESTED) + b"tR.",
        "'pickle.loads'",
    ),
    "an object scalar": (
        FOUR + b"cnumpy.core.multiarray\nscalar\n(" + OBJECT_DTYPE + raw(NESTED) + b"tR.",
        "numpy.core.multiarray.scalar",
    ),
    "a call of a result": (FOUR + FRAME + b")R" + CALL, "other than a name that it loaded"),
    "a line break in a name": (FOUR + stacked("os\nx", "a\x1b[2J") + b".", "'os\\nx.a\\x1b[2J'"),
    "values without end": (FOUR + b"N" * 5_000_000 + b".", "stacks more than"),
    "a huge memo": (FOUR + b"Nr\xff\xff\xff\xff.", "it holds no table"),
    "a huge bytearray": (FOUR + b"\x96" + struct.pack("<Q", 2**60) + b".", "damaged"),
    "a huge text": (FOUR + b"\x8d" + struct.pack("<Q", 2**63) + b".", "damaged"),
    "very deep": (FOUR + b")" + b"\x85" * 200_000 + b".", "it holds no table"),
    "cut off": (FOUR + FRAME + b")\x81", "damaged"),
    "two pickles": (FOUR + b"N." + NESTED, "damaged"),
    "protocol 0": (b"cos\nsystem\n(S'x'\ntR.", "protocol 2 to 5"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_runs_nothing_and_is_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    payload, wanted = HOSTILE[name]
    source, out = tmp_path / "data.pkl", tmp_path / "data.parquet"
    source.write_bytes(payload)
    assert not Path(TARGET).exists()
    assert main(["convert", str(source), str(out)]) == 2
    printed = capsys.readouterr()
    assert not Path(TARGET).exists()
    assert not out.exists()
    assert not printed.out
    assert printed.err.count("\n") == 1
    assert "\x1b" not in printed.err
    assert wanted in printed.err
    assert str(source) in printed.err


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
    convert_pickle(source, out)
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


class _OldPickler(pickle.Pickler):
    """Writes a table's blocks in the way of pandas before 1.3."""

    def reducer_override(self, obj: object) -> object:
        if type(obj).__name__ != "BlockManager":
            return NotImplemented
        blocks = [{"values": b.values, "mgr_locs": b.mgr_locs.indexer} for b in obj.blocks]
        state = (obj.axes, [], [], {"0.14.1": {"axes": obj.axes, "blocks": blocks}})
        return copyreg.__newobj__, (type(obj),), state


def test_the_blocks_of_pandas_before_1_3(tmp_path: Path) -> None:
    with (tmp_path / "data.pkl").open("wb") as file:
        _OldPickler(file, protocol=4).dump(FULL[["number", "tok_input", "score"]])
    convert_pickle(tmp_path / "data.pkl", tmp_path / "data.parquet")
    assert pq.read_table(tmp_path / "data.parquet").to_pydict() == {
        name: EXPECTED[name] for name in ("number", "tok_input", "score")
    }


@pytest.mark.parametrize("made", sorted((Path(__file__).parent / "pickles").glob("*.pkl")), ids=str)
def test_what_older_pandas_wrote_comes_out_the_same(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    convert_pickle(made, out)
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
        found = converted(frame, Path(folder), protocol).to_pydict()
    assert found == {"texts": texts, "tokens": tokens, "numbers": numbers, "boxed": numbers}


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
            convert_pickle(source, Path(folder) / "data.parquet")
        except SuiteError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("cells", "named"),
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
def test_what_parquet_cannot_hold_is_named(cells: list[object], named: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        dtype = None if isinstance(cells[0], complex) else object
        converted(pd.DataFrame({"good": [1, 2], "bad": pd.Series(cells, dtype=dtype)}), tmp_path)
    assert named in str(caught.value)
    assert not (tmp_path / "data.parquet").exists()


@pytest.mark.parametrize("held", [None, 1, {"a": 1}, [1, 2], "text", np.arange(3), pd.Index([1])])
def test_what_is_no_table_is_refused(held: object, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="it holds"):
        converted(held, tmp_path)


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


def test_the_command_tells_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "data.pkl", tmp_path / "data.parquet"
    FULL.to_pickle(source)
    assert main(["convert", str(source), str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"{out}: 3 rows\n" in printed
    assert "  tok_input: list<item: int64>\n" in printed
    assert "column 'mixed': 2 numbers among texts, written as texts\n" in printed
    assert f"sha256 {hashlib.sha256(source.read_bytes()).hexdigest()}" in printed


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


def test_the_reader_imports_nothing() -> None:
    """An admitted name is a name: reading it needs no pandas."""
    code = (
        "import sys; from mlperf_suite.datasets.pickle_reader import read_pickle; "
        "made = read_pickle(sys.stdin.buffer.read(), 'x'); "
        "sys.exit(made.kind != 'DataFrame' or any(m in sys.modules for m in ('pandas', 'numpy')))"
    )
    frame = io.BytesIO()
    FULL.to_pickle(frame)
    subprocess.run([sys.executable, "-c", code], input=frame.getvalue(), check=True)
    assert read_pickle(pickle.dumps((1, "a", b"b"), 5), "x") == (1, "a", b"b")
