"""Converts a pickled pandas DataFrame to parquet.

A process of its own reads the pickle. Its memory and time are limited by the size of the file: a
file made to exhaust them ends that process and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.datasets.samples import address_space, memory_limit
from mlperf_suite.errors import DatasetError, UsageError
from mlperf_suite.features.conversion.pickled_frames import (
    MissingValue,
    PickledPart,
    RefusedPickleError,
    Scalar,
    printable,
    read_frame,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from mlperf_suite.features.conversion.pickled_frames import Array

# One object may be referenced many times in a file, so a small file could stand for endless values.
# A list that is there once takes two bytes a token; gpt-oss has each prompt up to eight times. The
# largest official data, that of Llama 3.1 405B, has fewer than 2^27 tokens.
_MAX_VALUES = 2**30
_MAX_VALUES_PER_BYTE = 16
# A token takes two bytes or more in the file, forty as Python's number, and then eight in an array.
_MEMORY_BASE, _MEMORY_PER_BYTE = 4 * 2**30, 64
# Official files take less than 0.2 µs a byte.
_CPU_BASE_S, _BYTES_PER_CPU_S = 60, 500_000
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of `convert_pickle`. `notes` has a line for each column whose values were
    changed."""

    rows: int
    columns: dict[str, str]
    sha256: str
    notes: tuple[str, ...]


def convert_pickle(source: Path, out: Path) -> Converted:
    """Write the DataFrame in a pickle file to parquet, with the same columns in the same order.

    Lists of integers become list<int64>, missing values become null. The index is left out: MLPerf
    identifies samples by position.

    Raises DatasetError for a pickle that names anything but a table (nothing in it is executed),
    for one that takes more memory or time than a table of its size, and for a column that parquet
    cannot store; UsageError if `out` exists: it is not overwritten; OSError.
    """
    try:
        out.touch(exist_ok=False)
    except FileExistsError:
        raise UsageError(
            f"convert: {out} exists already; give another name, or remove it"
        ) from None
    try:
        return _convert_apart(source, out)
    # On any exception, even Ctrl-C: half a file must not be mistaken for a whole one.
    except BaseException:
        out.unlink()
        raise


def _convert_apart(source: Path, out: Path) -> Converted:
    size = source.stat().st_size
    limits = (size * _MEMORY_PER_BYTE + _MEMORY_BASE, size // _BYTES_PER_CPU_S + _CPU_BASE_S)
    process = subprocess.run(
        [sys.executable, "-m", __name__, str(source), str(out), *map(str, limits)],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode == 0:
        result = json.loads(process.stdout)
        return Converted(**result | {"notes": tuple(result["notes"])})
    if process.returncode == _FAULTY:
        raise DatasetError(process.stdout)
    reason = process.stderr.strip().rpartition("\n")[2]
    if process.returncode < 0:
        reason = f"the process that read it ended by {signal.Signals(-process.returncode).name}"
    raise DatasetError(f"convert {source}: {reason}; nothing in the file was run")


_FAULTY = 2
"""Exit status of the process that converts, with the message on stdout."""


def _main(source: str, out: str, memory: str, cpu_s: str) -> int:
    import pyarrow.parquet  # noqa: F401 - what is loaded does not count as the file's memory

    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with memory_limit(address_space() + int(memory)):
            result = write_parquet(Path(source), Path(out))
        print(json.dumps(asdict(result)))
    except DatasetError as error:
        print(error, end="")
        return _FAULTY
    return 0


def write_parquet(source: Path, out: Path) -> Converted:
    """Convert in this process, without limits of memory and time. Raises as `convert_pickle`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = f"convert {source}"
    arrays, sha256, size = _read(source, where)
    most = min(_MAX_VALUES, size * _MAX_VALUES_PER_BYTE)
    columns = {}
    for name, values in arrays.items():
        columns[name] = _column(where, name, values, most)
        most -= columns[name].values
    lengths = {len(column.cells) for column in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        problem = "no rows" if lengths == {0} else "columns of different lengths"
        raise DatasetError(f"{where}: the table has {problem}")
    rows = lengths.pop()
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for start in range(0, rows, _ROWS_AT_ONCE):
            parts = [column.part(start, start + _ROWS_AT_ONCE) for column in columns.values()]
            writer.write_batch(pa.record_batch(parts, schema=schema))
    return Converted(
        rows,
        {name: str(column.type) for name, column in columns.items()},
        sha256,
        tuple(column.note for column in columns.values() if column.note),
    )


def _read(source: Path, where: str) -> tuple[Mapping[str, Array], str, int]:
    """The columns of the table in a file, the SHA-256 of the file, and its size in bytes."""
    with source.open("rb") as file:
        if not file.seek(0, 2):
            raise DatasetError(f"{where}: the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[0] != 0x80:
                packed = ", but of gzip: unpack it first" if data[:2] == b"\x1f\x8b" else ""
                raise DatasetError(f"{where}: not a pickle of protocol 2 to 5{packed}")
            sha256 = hashlib.sha256(data).hexdigest()
            try:
                return read_frame(data, len(data)), sha256, len(data)
            except RefusedPickleError as error:
                raise DatasetError(
                    f"{where}: no DataFrame as pandas 1 to 3 write it: {error}; nothing in the "
                    "file was run"
                ) from None
            except MemoryError:
                raise DatasetError(f"{where}: it takes more memory than a table does") from None
            # A damaged file makes Python's reader raise nearly any error; all mean the same here.
            except Exception as error:
                raise DatasetError(f"{where}: damaged: {printable(str(error))}") from error


@dataclass(frozen=True, slots=True)
class _Column:
    """A column on its way to parquet: an array of numbers or a list of cells; `values` counts the
    values in its cells."""

    cells: Any
    type: pa.DataType
    values: int
    note: str = ""

    def part(self, start: int, stop: int) -> pa.Array:
        """The rows from `start` to `stop` as an array of the column's type."""
        import pyarrow as pa

        return pa.array(self.cells[start:stop], self.type, from_pandas=True)


def _column(where: str, name: str, values: Array, most: int) -> _Column:
    """Find the type that holds every cell.

    Raises DatasetError that names the column and the row, also for more than `most` values.
    """
    import pyarrow as pa

    place = f"{where}: column {printable(name)}"
    if not _is_unicode(name):
        raise DatasetError(f"{place}: the name is not valid Unicode")
    if values.dtype.kind in "biuf":
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        return _Column(native, pa.from_numpy_dtype(native.dtype), len(native))
    cells: list[Any] = []
    kinds: set[str] = set()
    count = 0
    # A list that several rows share is converted once. `objects` keeps it alive, and so its id
    # valid.
    objects = values.tolist()
    by_id: dict[int, tuple[Any, set[str]]] = {}
    for row, value in enumerate(objects, 1):
        try:
            cell, cell_kinds = by_id.get(id(value)) or _cell(value)
        except RefusedPickleError as error:
            raise DatasetError(f"{place}: row {row}: cannot be converted: {error}") from None
        if isinstance(value, (list, tuple, PickledPart)):
            by_id[id(value)] = cell, cell_kinds
        kinds |= cell_kinds
        count += 1 if cell is None or isinstance(cell, _SINGLE) else len(cell)
        if count > most:
            raise DatasetError(f"{place}: row {row}: more values than the file can hold")
        cells.append(cell)
    return _typed(place, name, cells, kinds, count)


_SINGLE = (str, bool, int, float)


def _typed(place: str, name: str, cells: list[Any], kinds: set[str], count: int) -> _Column:
    note = ""
    if "text" in kinds and kinds & {"int", "float"} and kinds <= _TEXTS:
        numbers = sum(isinstance(cell, (int, float)) for cell in cells)
        note = f"column {printable(name)}: {numbers} numbers among texts, written as texts"
        cells = [cell if cell is None else str(cell) for cell in cells]
    return _Column(cells, _type(place, kinds), count, note)


_TEXTS = {"text", "int", "float"}


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
    names = ", ".join(sorted(kinds))
    raise DatasetError(f"{place}: cells of different kinds cannot be converted: {names}")


def _cell(value: object) -> tuple[Any, set[str]]:
    """A cell as arrow takes it, and the kinds of its values: "text", "list of int" and so on.

    A missing value is None and of no kind. Raises RefusedPickleError.
    """
    import numpy as np

    if isinstance(value, PickledPart) and not isinstance(value, Scalar):
        array = value.values()
        if array.ndim != 1:
            raise RefusedPickleError("an array of more than one axis")
        value = array.tolist()
    if not isinstance(value, (list, tuple)):
        return _single(value)
    if set(map(type, value)) == {int}:
        try:
            return np.array(value, np.int64), {"list of int"}
        except OverflowError:
            raise RefusedPickleError(_TOO_LONG) from None
    return _list(value)


def _list(values: Sequence[object]) -> tuple[list[Any], set[str]]:
    # No column needs a list of lists, and a list could contain itself.
    if any(isinstance(v, (list, tuple, PickledPart)) and not isinstance(v, Scalar) for v in values):
        raise RefusedPickleError("a list of lists")
    cells, kinds = [], set()
    for value in values:
        cell, cell_kinds = _single(value)
        cells.append(cell)
        kinds |= {f"list of {kind}" for kind in cell_kinds}
    return cells, kinds or {"empty list"}


_TOO_LONG = "a whole number of more than 64 bits"


def _single(value: object) -> tuple[Any, set[str]]:
    """A text, a number or a truth value, and its kind. None is a missing value, like `nan` and
    pandas' NA."""
    if isinstance(value, Scalar):
        value = value.values().tolist()[0]
    match value:
        case bool():
            return value, {"bool"}
        case int():
            if not -(2**63) <= value < 2**63:
                raise RefusedPickleError(_TOO_LONG)
            return value, {"int"}
        case float():
            return (None, set()) if math.isnan(value) else (value, {"float"})
        case str():
            if not _is_unicode(value):
                raise RefusedPickleError("not valid Unicode")
            return value, {"text"}
    if value is None or value is MissingValue:
        return None, set()
    raise RefusedPickleError(f"of the type {type(value).__name__}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
