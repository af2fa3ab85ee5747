"""Converts a pickled pandas DataFrame to parquet without pandas.

`pickle_reader.py` returns the content of the pickle; this module knows how pandas 1 to 3 and numpy
1 and 2 lay out a table in it. The arrays are rebuilt from their bytes. Nothing here depends on an
installed pandas.
"""

from __future__ import annotations

import math
import mmap
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.datasets.pickle_reader import Listed, Made, Name, read_pickle, shown
from mlperf_suite.errors import DatasetError, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[Any]

# One object may be referenced many times in a file, so a small file could stand for endless values.
# A list that is there once takes two bytes a token; gpt-oss has each prompt up to eight times. The
# largest official data, that of Llama 3.1 405B, has fewer than 2^27 tokens.
_MOST_VALUES = 2**30
_MOST_VALUES_PER_BYTE = 16
_ROWS_AT_ONCE = 1024
_PLAIN_DTYPE = re.compile(r"(b1|[iu][1248]|f[248]|[US][1-9]\d{0,5})\Z")


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of `convert_pickle`. `notes` has a line for each column whose values were
    changed."""

    rows: int
    columns: dict[str, str]
    sha256: str
    notes: tuple[str, ...]


class _UnknownError(Exception):
    """The pickle is well-formed, but not a table that this module knows; the message says what it
    found."""


class _Objects:
    """An array of objects: its shape, and its values row by row."""

    __slots__ = ("items", "shape")

    def __init__(self, shape: tuple[int, ...], items: Sequence[object]) -> None:
        self.shape = shape
        self.items = items


def convert_pickle(source: Path, out: Path) -> Converted:
    """Write the DataFrame in a pickle file to parquet, with the same columns in the same order.

    Lists of integers become list<int64>, missing values become null. The index is left out: MLPerf
    identifies samples by position. The file is mapped, not read; memory holds the table, with eight
    bytes per token, and `_ROWS_AT_ONCE` rows of parquet.

    Raises DatasetError for a pickle that names anything but a table (nothing in it is executed) and
    for a column that parquet cannot store; UsageError if `out` exists: it is not overwritten.
    """
    import hashlib

    import pyarrow as pa
    import pyarrow.parquet as pq

    where = f"convert {source}"
    if out.exists():
        raise UsageError(f"convert: {out} exists already; give another name, or remove it")
    with source.open("rb") as file:
        if not file.seek(0, 2):
            raise DatasetError(f"{where}: the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            sha256 = hashlib.sha256(data).hexdigest()
            held = read_pickle(data, where)
            size = len(data)
    try:
        named = _columns(held, size)
    except _UnknownError as error:
        raise DatasetError(f"{where}: no DataFrame as pandas 1 to 3 write it: {error}") from None
    del held
    most = min(_MOST_VALUES, size * _MOST_VALUES_PER_BYTE)
    columns = []
    for name, values in named:
        columns.append(_column(where, name, values, most))
        most -= columns[-1].values
    counts = {column.rows for column in columns}
    if len(counts) != 1 or counts == {0}:
        problem = "no rows" if counts == {0} else "columns of different lengths"
        raise DatasetError(f"{where}: the table has {problem}")
    schema = pa.schema([(column.name, column.type) for column in columns])
    rows = counts.pop()
    with out.open("xb") as target:
        try:
            with pq.ParquetWriter(target, schema, compression="zstd") as writer:
                for start in range(0, rows, _ROWS_AT_ONCE):
                    parts = [column.part(start, start + _ROWS_AT_ONCE) for column in columns]
                    writer.write_batch(pa.record_batch(parts, schema=schema))
        # On any exception, even Ctrl-C: half a file must not be mistaken for a whole one.
        except BaseException:
            out.unlink()
            raise
    return Converted(
        rows,
        {column.name: str(column.type) for column in columns},
        sha256,
        tuple(column.note for column in columns if column.note),
    )


# The content of the pickle: pandas' and numpy's own layouts.


def _columns(held: object, size: int) -> list[tuple[str, object]]:
    """The columns by name: each a numpy array, an arrow array, or a list of pickled cells.

    `size` is the file size in bytes; each cell takes at least one byte.
    """
    match held:
        case Made(kind="DataFrame", state={"_mgr": manager} | {"_data": manager}):
            axes, blocks = _manager(manager)
            if len(axes) != 2:
                raise _UnknownError("a DataFrame that has not two axes")
            names = _names(axes[0])
        case Made():
            raise _UnknownError(f"it holds {shown(held.name.full)}")
        case _:
            raise _UnknownError(f"it holds no table but {type(held).__name__.lower()}")
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise _UnknownError(f"two columns are named {shown(double)}")
    found: dict[int, object] = {}
    cells = 0
    for made, placement in blocks:
        places = _places(placement, len(names))
        values = _values(made)
        cells += math.prod(values.shape) if hasattr(values, "shape") else len(values)
        if cells > size:
            raise _UnknownError("it has more cells than bytes")
        parts = list(_rows_of_block(values))
        if len(parts) != len(places) or not found.keys().isdisjoint(places):
            raise _UnknownError("a block of columns that does not fit its places")
        found.update(zip(places, parts, strict=True))
    if len(found) != len(names) or not names:
        raise _UnknownError("a table with columns that have no values")
    return [(name, found[place]) for place, name in enumerate(names)]


def _manager(manager: object) -> tuple[Sequence[object], list[tuple[object, object]]]:
    """The axes, and the blocks as pairs of values and places."""
    match manager:
        case Made(kind="BlockManager", arguments=(tuple(blocks), Listed(items=axes)), state=None):
            pairs = []
            for block in blocks:
                match block:
                    case Made(kind="block", arguments=(values, placement, *_)):
                        pairs.append((values, placement))
                    case _:
                        raise _UnknownError("a block of columns of an unknown form")
            return axes, pairs
        # Written by pandas before 1.3.
        case Made(kind="BlockManager", state=(*_, {"0.14.1": {"axes": a, "blocks": b}})):
            match a, b:
                case Listed(items=axes), Listed(items=listed):
                    pairs = []
                    for block in listed:
                        match block:
                            case {"values": values, "mgr_locs": placement}:
                                pairs.append((values, placement))
                            case _:
                                raise _UnknownError("a block of columns of an unknown form")
                    return axes, pairs
    raise _UnknownError("a table of a form that pandas 1 to 3 do not write")


def _places(placement: object, columns: int) -> list[int]:
    match placement:
        case Made(kind="slice", arguments=(int(start), int(stop), int(step) | (None as step))):
            if not 0 <= start < stop <= columns or not 0 < (step or 1) <= columns:
                raise _UnknownError("a block of columns in no place of the table")
            return list(range(start, stop, step or 1))
    found = _values(placement)
    places = [int(one) for one in found] if _is_integers(found) else []
    if not places or not all(0 <= one < columns for one in places):
        raise _UnknownError("a block of columns in no place of the table")
    return places


def _is_integers(values: object) -> bool:
    import numpy as np

    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu"


def _names(axis: object) -> list[str]:
    match axis:
        case Made(kind="new_index", arguments=(_, {"data": data})):
            names = [_cell(one) for one in _as_cells(_values(data))]
            for name in names:
                if not isinstance(name, str):
                    raise _UnknownError(f"a column is named {shown(name)}, which is not a text")
            return [str(name) for name in names]
        case Made(kind="new_index"):
            raise _UnknownError("the columns have numbers, not names")
    raise _UnknownError("names of columns in an unknown form")


def _rows_of_block(values: object) -> Iterator[object]:
    if isinstance(values, _Objects) and len(values.shape) == 2:
        width = values.shape[1]
        for row in range(values.shape[0]):
            yield values.items[row * width : (row + 1) * width]
    elif isinstance(values, _Objects):
        yield values.items
    elif getattr(values, "ndim", 1) == 2:
        yield from values  # type: ignore[misc]  # a numpy array of two axes
    else:
        yield values


def _values(made: object) -> Any:
    """The array that the pickle describes: a numpy array, `_Objects` or an arrow array."""
    match made:
        case Made(kind="empty_array", state=(_, tuple(shape), dtype, bool(fortran), data)):
            return _array(shape, dtype, data, fortran)
        case Made(kind="array_of_buffer", arguments=(data, dtype, tuple(shape), order)):
            return _array(shape, dtype, data, order == "F")
        case Made(kind="ArrowStringArray", state={"_pa_array": found} | {"_data": found}):
            return _arrow(found)
        case Made(
            kind="array_backed",
            arguments=(Name(kind="StringArray"), *_),
            state=(_, Made(kind="empty_array") as inner, *_),
        ):
            return _values(inner)
        case Made(kind="array_backed", arguments=(Name(kind="Categorical"), *_), state=state):
            match state:
                case (
                    Made(kind="CategoricalDtype", state={"categories": categories}),
                    Made(kind="empty_array" | "array_of_buffer") as codes,
                    *_,
                ):
                    return _categorical(categories, _values(codes))
    return _no_array(made)


def _no_array(made: object) -> Any:
    what = made.name.full if isinstance(made, Made) else type(made).__name__
    raise _UnknownError(f"an array of an unknown form, {shown(what)}")


def _array(shape: tuple[object, ...], dtype: object, data: object, fortran: bool) -> Any:
    import numpy as np

    sizes = tuple(size for size in shape if type(size) is int and size >= 0)
    if len(sizes) != len(shape) or not 1 <= len(sizes) <= 2:
        raise _UnknownError("an array that has not one or two axes")
    code, order = _dtype(dtype)
    if code in ("O", "O8", "O4"):
        if not isinstance(data, Listed) or len(data.items) != math.prod(sizes):
            raise _UnknownError("an array of objects without its objects")
        return _Objects(sizes, data.items)
    raw = _raw(data)
    try:
        # The regular expression allows no type of size zero, whose shape would need no bytes.
        kind = np.dtype(order + code) if _PLAIN_DTYPE.match(code) else None
    except TypeError:
        kind = None
    if kind is None:
        raise _UnknownError(f"an array of the type {shown(code)}, which is not read")
    if len(raw) != math.prod(sizes) * kind.itemsize:
        raise _UnknownError("an array whose bytes do not fit its shape")
    if kind.kind == "b":
        # numpy writes only 0 and 1 for truth values; any other byte counts as true.
        return (np.frombuffer(raw, np.uint8) != 0).reshape(sizes, order="F" if fortran else "C")
    return np.frombuffer(raw, kind).reshape(sizes, order="F" if fortran else "C")


def _dtype(made: object) -> tuple[str, str]:
    """The code of a dtype, and its byte order."""
    match made:
        case Made(kind="dtype", arguments=(str(code), *_), state=None):
            return code, "="
        case Made(kind="dtype", arguments=(str(code), *_), state=(_, str(order), *_)):
            if order in ("<", ">", "|", "="):
                return code, order
    raise _UnknownError("a dtype of an unknown form")


def _raw(made: object) -> bytes:
    match made:
        case bytes():
            return made
        case Made(kind="encode", arguments=(str(text), "latin1" | "latin-1")):
            try:
                return text.encode("latin-1")
            except UnicodeEncodeError:
                pass
        case Made(kind="bytes" | "bytearray", arguments=()):
            return b""
        case Made(kind="bytes" | "bytearray", arguments=(bytes() | Made(kind="encode") as inner,)):
            return _raw(inner)
    raise _UnknownError("bytes of an unknown form")


def _categorical(categories: object, codes: Any) -> _Objects:
    match categories:
        case Made(kind="new_index", arguments=(_, {"data": data})):
            kinds = _as_cells(_values(data))
            if not _is_integers(codes) or not all(-1 <= code < len(kinds) for code in codes):
                raise _UnknownError("categories of an unknown form")
            return _Objects(codes.shape, [None if at < 0 else kinds[at] for at in codes.tolist()])
    raise _UnknownError("categories of an unknown form")


def _arrow(made: object) -> pa.ChunkedArray:
    import pyarrow as pa

    match made:
        case Made(kind="arrow_chunks", arguments=(Listed(items=chunks), *_)):
            found = [chunk for one in chunks for chunk in _arrow(one).chunks]
            return pa.chunked_array(found, pa.large_string())
        case Made(
            kind="arrow_array",
            arguments=(
                (
                    Made(kind="arrow_type", arguments=("string" | "large_string" as name,)),
                    int(length),
                    int(),
                    int(offset),
                    Listed(items=buffers),
                    *_,
                ),
            ),
        ) if len(buffers) == 3 and min(length, offset) >= 0 and max(length, offset) < 2**40:
            held = [None if one is None else pa.py_buffer(_arrow_bytes(one)) for one in buffers]
            type_ = pa.large_string() if name == "large_string" else pa.string()
            try:
                part = pa.Array.from_buffers(type_, length, held, -1, offset)
                # The file sets the lengths and offsets: nothing may be read beyond a buffer.
                part.validate(full=True)
            except pa.ArrowException as error:
                raise _UnknownError(f"an array of texts that arrow refuses: {error}") from error
            return pa.chunked_array([part.cast(pa.large_string())])
    raise _UnknownError("an array of texts of an unknown form")


def _arrow_bytes(made: object) -> bytes:
    match made:
        case Made(kind="arrow_buffer", arguments=(inner,)):
            return _raw(inner)
    raise _UnknownError("an array of texts of an unknown form")


def _as_cells(values: Any) -> Sequence[object]:
    import numpy as np

    if isinstance(values, _Objects):
        return values.items
    found: list[object] = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
    return found


# Cells and columns.


def _cell(value: object) -> object:
    """A cell of a column of objects, or of a list in it, as a Python or numpy type.

    None is a missing value, like `nan` and pandas' NA.
    """
    problem = f"of the type {type(value).__name__}"
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return None if math.isnan(value) else value
        case Name(kind="NA"):
            return None
        case Listed(items=array() as items):
            return items
        case Listed(items=items) | tuple(items):
            return [_cell(one) for one in _flat(items)]
        case Made(kind="scalar" | "empty_array" | "array_of_buffer"):
            return _array_cell(value)
        case Made():
            problem = f"an object, {shown(value.name.full)}"
    raise _UnknownError(problem)


def _array_cell(made: Made) -> object:
    if made.kind == "scalar":
        match made.arguments:
            case (dtype, data):
                scalar = _array((1,), dtype, data, False)
                if not isinstance(scalar, _Objects):
                    return _cell(scalar.tolist()[0])
        raise _UnknownError(f"an object, {shown(made.name.full)}")
    found = _values(made)
    if len(found.shape) != 1:
        raise _UnknownError("an array of more than one axis")
    return [_cell(one) for one in _flat(found.items)] if isinstance(found, _Objects) else found


def _flat(items: Sequence[object]) -> Sequence[object]:
    """`items`, none of which may be a list: no column needs that, and a list could contain
    itself."""
    for one in items:
        if isinstance(one, (Listed, tuple)) or (
            isinstance(one, Made) and one.kind in ("empty_array", "array_of_buffer")
        ):
            raise _UnknownError("a list of lists")
    return items


_TEXTS = {"text", "int", "float"}


@dataclass(slots=True)
class _Column:
    """A column on its way to parquet; `values` counts the values in its cells."""

    name: str
    cells: Any
    type: pa.DataType
    rows: int
    values: int
    note: str = ""

    def part(self, start: int, stop: int) -> pa.Array:
        """The rows from `start` to `stop` as an array of the column's type."""
        import numpy as np
        import pyarrow as pa

        cells = self.cells[start:stop]
        if isinstance(self.cells, pa.ChunkedArray):
            return cells.combine_chunks().cast(self.type)
        if isinstance(self.cells, np.ndarray):
            return pa.array(cells, self.type, from_pandas=True)
        if pa.types.is_string(self.type):
            return pa.array([None if one is None else str(one) for one in cells], self.type)
        if pa.types.is_list(self.type) and pa.types.is_integer(self.type.value_type):
            cells = [None if one is None else np.asarray(one, np.int64) for one in cells]
        elif pa.types.is_list(self.type):
            cells = [one if one is None or isinstance(one, list) else one.tolist() for one in cells]
        return pa.array(cells, self.type)


def _column(where: str, name: str, values: object, most: int) -> _Column:
    """Find the type that holds every cell.

    Raises DatasetError that names the column and the row, also for more than `most` values.
    """
    import numpy as np
    import pyarrow as pa

    place = f"{where}: column {shown(name)}"
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DatasetError(f"{place}: the name is not valid Unicode") from None
    if isinstance(values, pa.ChunkedArray):
        return _Column(name, values, pa.string(), len(values), len(values))
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        return _Column(name, native, pa.from_numpy_dtype(native.dtype), len(native), len(native))
    if isinstance(values, np.ndarray):
        values = values.tolist()
    assert isinstance(values, Sequence)
    cells: list[object] = []
    kinds: set[str] = set()
    size = 0
    # A list that several rows share is converted once. `values` keeps it alive, and so its id
    # valid.
    known: dict[int, object] = {}
    for row, value in enumerate(values, 1):
        try:
            if isinstance(value, (Listed, Made, tuple)):
                if id(value) not in known:
                    known[id(value)] = _cell(value)
                    kinds |= _kinds(known[id(value)])
                cell = known[id(value)]
            else:
                cell = _cell(value)
                kinds |= _kinds(cell)
        except _UnknownError as error:
            raise DatasetError(f"{place}: row {row}: cannot be converted: {error}") from None
        size += len(cell) if isinstance(cell, (list, array, np.ndarray)) else 1
        if size > most:
            raise DatasetError(f"{place}: row {row}: more values than the file can hold")
        cells.append(cell)
    numbers = kinds & {"int", "float"}
    note = ""
    if "text" in kinds and numbers and kinds <= _TEXTS:
        count = sum(isinstance(cell, (int, float)) for cell in cells)
        note = f"column {shown(name)}: {count} numbers among texts, written as texts"
    return _Column(name, cells, _type(place, kinds), len(cells), size, note)


def _kinds(cell: Any) -> set[str]:
    """The kind of a cell: "text", "list of int" and so on; empty for a missing value."""
    problem, kind = "", {bool: "bool", int: "int", float: "float", str: "text"}.get(type(cell), "")
    if kind == "int" and not -(2**63) <= cell < 2**63:
        problem = "a whole number of more than 64 bits"
    if kind == "text":
        try:
            cell.encode()
        except UnicodeEncodeError as error:
            problem = f"not valid Unicode at character {error.start}"
    if problem:
        raise _UnknownError(problem)
    if kind or cell is None:
        return {kind} - {""}
    if isinstance(cell, list):
        inner = {f"list of {kind}" for one in cell for kind in _kinds(one)}
    elif isinstance(cell, array):
        inner = {"list of int"} if cell else set()
    else:
        inner = _kinds_of_array(cell)
    return inner or {"empty list"}


def _kinds_of_array(cell: Numbers) -> set[str]:
    import numpy as np

    if cell.dtype == np.uint64 and len(cell) and int(cell.max()) >= 2**63:
        raise _UnknownError("a whole number of more than 64 bits")
    named = {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "text"}
    if cell.dtype.kind not in named:
        raise _UnknownError(f"an array of {cell.dtype.name}")
    return {f"list of {named[cell.dtype.kind]}"} if len(cell) else set()


def _type(place: str, kinds: set[str]) -> pa.DataType:
    import pyarrow as pa

    single = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    lists = {f"list of {kind}": pa.list_(type_) for kind, type_ in single.items()}
    full = kinds - {"empty list"}
    if ("text" in kinds and kinds <= _TEXTS) or not kinds:
        return single["text"]
    if kinds == {"int", "float"}:
        return single["float"]
    if len(kinds) == 1 and kinds <= single.keys():
        return single[kinds.pop()]
    if not full:
        return lists["list of int"]
    if len(full) == 1 and full <= lists.keys():
        return lists[full.pop()]
    found = ", ".join(sorted(kinds))
    raise DatasetError(f"{place}: cells of different kinds cannot be converted: {found}")
