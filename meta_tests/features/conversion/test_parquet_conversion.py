"""The converter of pickles: hostile ones run nothing, real ones come out as they went in."""

import hashlib
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meta_tests.features.conversion.pickled_tables import (
    EXPECTED,
    FOUR,
    FULL,
    HOSTILE,
    PICKLES,
    assert_written_table,
    converted,
    placed,
    refused,
)
from mlperf_suite.__main__ import main
from mlperf_suite.datasets import samples
from mlperf_suite.datasets.mlperf_frames import LLAMA2_70B
from mlperf_suite.datasets.news import load_news
from mlperf_suite.datasets.samples import address_space, memory_limit
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.conversion import parquet_conversion
from mlperf_suite.features.conversion.parquet_conversion import convert_pickle


@pytest.fixture(autouse=True, scope="module")
def _memory_is_limited() -> Iterator[None]:
    """A damaged file may ask for any amount of memory."""
    with memory_limit(address_space() + 4 * 2**30):
        yield


def test_a_pickle_that_is_named_as_data_comes_with_the_command() -> None:
    with pytest.raises(DatasetError, match=r"python -m mlperf_suite convert a\.pkl a\.parquet"):
        LLAMA2_70B.load("a.pkl")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_runs_nothing_and_is_named(name: str, tmp_path: Path) -> None:
    refused(*HOSTILE[name], tmp_path)


def test_a_pickle_that_takes_endless_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash of a tuple of two that are the same tuple, and so on, as the key of a dictionary."""
    monkeypatch.setattr(parquet_conversion, "_CPU_BASE_S", 1)
    source, out = tmp_path / "data.pkl", tmp_path / "data.parquet"
    source.write_bytes(FOUR + b"})" + b"2\x86" * 100 + b"Ns.")
    with pytest.raises(DatasetError, match="ended by SIG"):
        convert_pickle(source, out)
    assert not out.exists()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_pandas_writes_comes_out_as_it_is(protocol: int, tmp_path: Path) -> None:
    table = converted(FULL, tmp_path, protocol)
    assert table.to_pydict() == EXPECTED
    assert table.schema.field("tok_input").type == pa.list_(pa.int64())
    assert table.schema.field("np_cell").type == pa.list_(pa.int64())
    assert table.column_names == list(FULL.columns)
    empty = converted(pd.DataFrame({"ids": [[], []]}), tmp_path, protocol)
    assert (empty.schema.types, len(empty)) == ([pa.list_(pa.int64())], 2)
    # Rows that were chosen and put together.
    columns = ["number", "input", "score", "tok_input"]
    frame = pd.concat([FULL.iloc[[2, 0]], FULL.iloc[[1]]])[columns]
    assert converted(frame, tmp_path, protocol).to_pydict() == {
        column: [EXPECTED[column][row] for row in (2, 0, 1)] for column in columns
    }


@pytest.mark.parametrize("source", sorted(PICKLES.glob("*.pkl")), ids=str)
def test_what_other_versions_of_pandas_wrote_comes_out_the_same(
    source: Path, tmp_path: Path
) -> None:
    assert_written_table(source, tmp_path)


@pytest.mark.parametrize("value", [None, {"a": 1}, "text", np.arange(3), pd.Index([1])])
def test_what_is_no_table_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="it holds"):
        converted(value, tmp_path)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (slice(9, 10), "a block of columns that does not fit its places"),
        (slice(0, 1), "a block of columns that does not fit its places"),
        (np.array([5, 6]), "a block of columns in no place of the table"),
        (None, "an array of an unknown form, NoneType"),
    ],
)
def test_a_block_outside_its_table_is_refused(place: object, message: str, tmp_path: Path) -> None:
    refused(placed(pd.DataFrame({"a": [1], "b": [0.5]}), place), message, tmp_path)
    nothing = pickle.dumps(FULL[[]])
    refused(nothing, "a table with columns that have no values", tmp_path)


@pytest.mark.parametrize("wrong", [(0, 2, 2**40), (0, 3, 2)])
def test_texts_beyond_their_buffer_are_refused(wrong: tuple[int, int, int], tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.array(["xx", "yy"], dtype="string[pyarrow]")})
    whole = pickle.dumps(frame)
    offsets = np.array([0, 2, 4], np.int64).tobytes()
    assert whole.count(offsets) == 1
    beyond = np.array(wrong, np.int64).tobytes()
    refused(whole.replace(offsets, beyond), "an array of texts that arrow refuses", tmp_path)


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[1], {"a": 1}], "column 'bad': row 2: cannot be converted: of the type dict"),
        ([[1], ENDLESS], "column 'bad': row 2: cannot be converted: a list of lists"),
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


def test_one_list_in_many_rows_cannot_fill_the_memory(tmp_path: Path) -> None:
    tokens = list(range(20_000))
    with pytest.raises(DatasetError, match="more values than the file can hold"):
        converted(pd.DataFrame({"tokens": [tokens] * 20_000}), tmp_path)
    repeated = converted(pd.DataFrame({"tokens": [tokens] * 8}), tmp_path)
    assert repeated.to_pydict()["tokens"] == [tokens] * 8


def test_the_command_prints_what_it_wrote_and_overwrites_nothing(
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
    out.write_text("kept")
    hostile, refusal = HOSTILE["a line break in a name"]
    (tmp_path / "hostile.pkl").write_bytes(hostile)
    FULL.to_pickle(tmp_path / "zip.pkl", compression="gzip")
    (tmp_path / "empty.pkl").touch()
    for name, target, said in (
        ("data.pkl", "data.parquet", "exists already"),
        ("data.pkl", "data.csv", ".parquet"),
        ("none.pkl", "new.parquet", "No such file"),
        ("hostile.pkl", "new.parquet", refusal),
        ("zip.pkl", "new.parquet", "gzip: unpack it first"),
        ("empty.pkl", "new.parquet", "the file is empty"),
    ):
        assert main(["convert", str(tmp_path / name), str(tmp_path / target)]) == 2
        printed, message = capsys.readouterr()
        assert said in message and message.count("\n") == 1
        assert not (tmp_path / "new.parquet").exists() and not printed
    assert out.read_text() == "kept"


def test_nothing_that_a_table_names_is_imported(tmp_path: Path) -> None:
    FULL.to_pickle(tmp_path / "data.pkl")
    code = (
        "import mmap, sys; from mlperf_suite.features.conversion.pickled_frames import read_frame; "
        "file = open('data.pkl', 'rb'); data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); "
        "sys.exit(len(read_frame(data, len(data))) != 10 or 'pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


# Parquet files made to exhaust memory and time, and tables whose columns are ambiguous


def repeated(text: str, rows: int) -> pa.Array:
    """One text for every row, which takes a few bytes in a file."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [text])


def table(path: Path, column: pa.Array, name: str, *, typed: bool = True) -> Path:
    """A table of a column; `typed`: whether the file says that the text was a dictionary."""
    others = {"output": repeated("a", len(column)), "highlights": repeated("a", len(column))}
    pq.write_table(pa.table({name: column} | others), path, store_schema=typed)
    return path


LOADERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "frame": ("input", lambda path: LLAMA2_70B.load(str(path))),
    "news": ("article", lambda path: load_news(str(path))),
}


@pytest.mark.parametrize(("kind", "typed"), [*((kind, True) for kind in LOADERS), ("frame", False)])
def test_a_few_bytes_never_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, typed: bool
) -> None:
    column, load = LOADERS[kind]
    path = table(tmp_path / "data.parquet", repeated("x" * 4_000_000, 300), column, typed=typed)
    assert path.stat().st_size < 2_000_000
    monkeypatch.setattr(samples, "_MEMORY_BASE", 2**29)
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(DatasetError, match="takes more memory than a table of its size does"):
        load(path)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(("column", "load"), LOADERS.values(), ids=LOADERS)
def test_endless_rows_and_two_columns_of_one_name_are_refused(
    tmp_path: Path, column: str, load: Callable[[Path], object]
) -> None:
    path = table(tmp_path / "data.parquet", pa.array(["a", "b"]), column)
    content = pq.read_table(path)
    for double in (column, "other"):
        twice = content.append_column(double, pa.array(["a", "b"]))
        twice = twice.append_column(double, pa.array(["c", "d"]))
        pq.write_table(twice, path)
        with pytest.raises(DatasetError, match=f"two columns are named '{double}'"):
            load(path)
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
