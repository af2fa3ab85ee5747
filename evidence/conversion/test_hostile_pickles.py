"""The converter of pickles: further hostile ones, any damage, and other versions of pandas."""

from __future__ import annotations

import pickle
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.conversion.pickled_tables import (
    CALL,
    COMMAND,
    FOUR,
    FRAME,
    FULL,
    HOSTILE,
    NESTED,
    OBJECT_DTYPE,
    OPEN,
    POPEN,
    TARGET,
    assert_written_table,
    converted,
    placed,
    raw,
    refused,
    stacked,
    text,
)
from mlperf_suite.datasets.samples import address_space, memory_limit
from mlperf_suite.errors import DatasetError, SuiteError
from mlperf_suite.features.conversion.parquet_conversion import write_parquet


@pytest.fixture(autouse=True, scope="module")
def _memory_is_limited() -> Iterator[None]:
    """A damaged file may ask for any amount of memory."""
    with memory_limit(address_space() + 4 * 2**30):
        yield


FURTHER = {
    **{
        f"{module}.{name}": (FOUR + stacked(module, name) + CALL, f"'{module}.{name}'")
        for module, name in (
            *(("posix", "system"), ("pandas", "io.common.os.system"), ("builtins", "getattr")),
            *(("pandas.core.frame", "DataFrame.eval"), ("pandas", "eval"), ("numpy", "load")),
            *(("pandas", "read_pickle"), ("functools", "partial"), ("copyreg", "_reconstructor")),
        )
    },
    "GLOBAL": (b"\x80\x02cos\nsystem\n" + CALL, "'os.system'"),
    "an array whose dtype changes": (
        FOUR
        + (b"cnumpy\ndtype\n(" + text("V8") + b"\x89\x88tRq\x000")
        + (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR")
        + (b"(K\x01K\x01\x85h\x00\x89" + raw(b"A" * 8) + b"tbq\x010")
        + (b"h\x00(K\x03" + text("|") + b"N" + text("a") + b"\x85}" + text("a"))
        + (OBJECT_DTYPE + b"K\x00\x86sK\x08K\x01K\x1btb0h\x01."),
        "it holds no table",
    ),
    "a name made by REDUCE": (
        FOUR + text("os") + b"c_codecs\nencode\n(" + text("system") + b"tR\x93" + CALL,
        "STACK_GLOBAL requires str",
    ),
    "values without end": (FOUR + b"N" * 5_000_000 + b".", "it holds no table"),
    "a call of a result": (FOUR + FRAME + b")R" + CALL, "not callable"),
    "NEWOBJ_EX": (FOUR + POPEN + b"}\x92.", "'subprocess.Popen'"),
    "eval": (
        FOUR + stacked("builtins", "eval") + b"(" + text(f"open({TARGET!r},'w')") + b"tR.",
        "'builtins.eval'",
    ),
    "open": (FOUR + stacked("io", "open") + OPEN, "'io.open'"),
    "a name that is a name": (
        FOUR + text("os") + FRAME + b"\x93" + CALL,
        "STACK_GLOBAL requires str",
    ),
    "OBJ": (b"\x80\x02(cos\nsystem\n" + text(COMMAND) + b"o.", "'os.system'"),
    "BUILD": (
        (FOUR + FRAME + b")\x81}" + text("__setstate__"))
        + (stacked("os", "system") + b"sb" + text(COMMAND) + b"b."),
        "'os.system'",
    ),
    "EXT4": (b"\x80\x02\x84\x01\x02\x00\x00" + CALL, "unregistered extension code 513"),
    "BINPERSID": (b"\x80\x02" + text("the-id") + b"Q.", "persistent id"),
    "a pickle in a pickle": (
        FOUR + stacked("pickle", "loads") + b"(" + raw(NESTED) + b"tR.",
        "'pickle.loads'",
    ),
    "a class whose attributes are set": (
        FOUR + FRAME + b"N}" + text("values") + stacked("pandas", "NA") + b"s\x86b.",
        "damaged",
    ),
    "a huge bytearray": (FOUR + b"\x96" + struct.pack("<Q", 2**60) + b".", "more memory than"),
    "very deep": (FOUR + b")" + b"\x85" * 200_000 + b".", "it holds no table"),
}


@pytest.mark.parametrize("name", FURTHER)
def test_a_hostile_pickle_runs_nothing_and_is_named(name: str, tmp_path: Path) -> None:
    refused(*FURTHER[name], tmp_path)


@pytest.mark.parametrize("name", ["GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "open"])
def test_the_payloads_are_real(name: str) -> None:
    """Python's own reader does what they ask for, so that the tests above prove something."""
    try:
        pickle.loads((HOSTILE | FURTHER)[name][0])
        assert Path(TARGET).exists()
    finally:
        Path(TARGET).unlink(missing_ok=True)


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
    source.write_bytes(placed(pd.DataFrame({"a": [1], "b": [2]}), place))
    with pytest.raises(DatasetError, match=r"block of columns|no values|damaged|unknown form"):
        write_parquet(source, tmp_path / "data.parquet")


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
    "source", sorted((Path(__file__).parent / "pickles").glob("*.pkl")), ids=str
)
def test_what_other_versions_of_pandas_wrote_comes_out_the_same(
    source: Path, tmp_path: Path
) -> None:
    assert_written_table(source, tmp_path)
