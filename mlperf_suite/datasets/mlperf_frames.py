"""The published data of MLPerf's language benchmarks except Llama 3.1 8B: one sample per row.

Names and columns are those that the official scripts read (mlcommons/inference at b66003e,
`language/*/dataset.py` and `evaluate-accuracy.py`). A published pickle must be converted to
parquet first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.datasets.samples import Sample, Samples, jsonl_rows, parquet_parts
from mlperf_suite.errors import DatasetError
from mlperf_suite.feature import features

if TYPE_CHECKING:
    import pyarrow as pa

_EMBEDDED = Path(__file__).parent / "embedded"
_SUFFIXES = (".parquet", ".jsonl")
# A token id goes to LoadGen's log as a 32-bit number.
_TOO_LARGE = 2**31
# More ids than any of the models' vocabularies has. Each is stored as one object however often it
# occurs: 8 bytes a token, not 40.
_SHARED_IDS = 2**18


@dataclass(frozen=True, slots=True)
class FrameFormat:
    """The columns of a benchmark's file that make up a sample.

    Each is a tuple of names, newest first; the first one in the file is used. A file without a
    column of `tokens` must have one of `input`; if it has both, the text is kept if `keeps_input`.
    `kinds` are the values that `kind` may have, compared as the official grader does: exactly, or
    (`loose_kinds`) as a part of the value (case does not matter); empty allows every value.
    `folder`: of the package's own data.
    """

    name: str
    input: tuple[str, ...]
    tokens: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    loose_kinds: bool = False
    keeps_input: bool = False
    needs_reference: bool = True
    folder: Path = _EMBEDDED

    def load(self, source: str, token: str | None = None) -> Samples:
        """Read a parquet or JSONL file with these columns, or (`embedded`) the package's own.

        `token` is unused because the file is local. Raises DatasetError that names the file, the
        row and the column.
        """
        name = "embedded" if source == "embedded" else ""
        path = self.folder / f"{self.name}.jsonl" if name else Path(source).expanduser()
        _check_file(path)
        read = _parquet if path.suffix == ".parquet" else _jsonl
        try:
            samples = tuple(read(path, self))
        except OSError as error:
            raise DatasetError(
                f"--dataset {path}: cannot be read: {error.strerror or error}"
            ) from error
        if not samples:
            raise DatasetError(f"--dataset {path}: the file has no rows")
        return Samples(name or path.name, samples)

    def allows(self, kind: str) -> bool:
        """Whether a sample may be of this kind."""
        if self.loose_kinds:
            return any(name in kind.lower() for name in self.kinds)
        return not self.kinds or kind in self.kinds


LLAMA2_70B = FrameFormat("llama2_70b", ("input",), ("tok_input",), ("output",))
LLAMA3_1_405B = FrameFormat(
    "llama3_1_405b",
    ("input",),
    ("tok_input",),
    ("gt_output",),
    ("metric",),
    kinds=("rouge", "niah_em", "qa_em"),
)


def _check_file(path: Path) -> None:
    where = f"--dataset {path}"
    if path.suffix in (".pkl", ".pickle"):
        how = f": python -m mlperf_suite convert {path} {path.with_suffix('.parquet').name}"
        converts = any("convert" in feature.commands for feature in features())
        raise DatasetError(
            f"{where}: opening a pickle executes its content; convert it to parquet{how * converts}"
        )
    if path.is_dir():
        raise DatasetError(f"{where}: a folder, give a file of it")
    if not path.is_file():
        raise DatasetError(f"{where}: no such file, and not 'embedded'")
    if path.suffix not in _SUFFIXES:
        suffixes = ", ".join(_SUFFIXES)
        raise DatasetError(f"{where}: unknown kind of file, must be one of {suffixes}")


class _FaultyError(Exception):
    """The fault in a cell; the reader adds file, row and column."""


_Columns = Mapping[str, str]
"""The file's column for each part of a sample that it has one for, by the part's name."""


def _columns(form: FrameFormat, has: Callable[[str], bool]) -> _Columns:
    """The columns to read. Raises KeyError with the name of a missing one."""

    def first_of(names: tuple[str, ...], mandatory: bool) -> str:
        name = next((name for name in names if has(name)), "")
        if mandatory and names and not name:
            raise KeyError(names[0])
        return name

    tokens = first_of(form.tokens, False)
    # Published data has tokens, so the error names that column first. A user's own data may have
    # text.
    if form.tokens and not tokens and not first_of(form.input, False):
        raise KeyError(form.tokens[0])
    columns = {
        "token_ids": tokens,
        "input": first_of(form.input, not tokens) if not tokens or form.keeps_input else "",
        "reference": first_of(form.reference, form.needs_reference),
        "kind": first_of(form.kind, bool(form.kinds)),
        "id": first_of(form.id, True),
    }
    return {part: column for part, column in columns.items() if column}


def _sample(form: FrameFormat, columns: _Columns, row: Mapping[str, Any], ids: _TokenIds) -> Sample:
    parts: dict[str, Any] = {"input": "", "reference": ""}
    for part, column in columns.items():
        try:
            parts[part] = _part(form, part, row[column], columns, ids)
        except _FaultyError as error:
            raise _FaultyError(f"column '{column}' {error}") from None
    return Sample(**parts)


def _part(form: FrameFormat, part: str, cell: object, columns: _Columns, ids: _TokenIds) -> object:
    match part:
        case "token_ids":
            return ids.of(cell)
        case "input":
            # A text beside the tokens may be empty or missing.
            return _text(cell, "token_ids" in columns)
        case "reference":
            # If every reference is a number, a file may store it as one.
            if isinstance(cell, (int, float)) and not isinstance(cell, bool):
                return str(cell)
            return _text(cell, not form.needs_reference)
        case "kind":
            kind = _text(cell, not form.kinds)
            if not form.allows(kind):
                raise _FaultyError(f"is {kind!a}, must be one of {', '.join(form.kinds)}")
            return kind
    return _text(cell, False)


def _text(value: object, may_be_empty: bool) -> str:
    if value is None and may_be_empty:
        return ""
    if value is None:
        raise _FaultyError("is missing")
    if not isinstance(value, str):
        raise _FaultyError(f"is not a text, but {type(value).__name__}")
    if not value.strip() and not may_be_empty:
        raise _FaultyError("is empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _FaultyError(f"is not valid Unicode at character {error.start}") from None
    return value


class _TokenIds:
    """Makes tuples of token ids, with one shared object per id of a vocabulary."""

    def __init__(self) -> None:
        self._shared: Sequence[int] = range(0)

    def of(self, values: object) -> tuple[int, ...]:
        """The ids as a tuple. Raises _FaultyError for a value that is not a list of ids, or is
        empty."""
        if values is None:
            raise _FaultyError("is missing")
        if not isinstance(values, list):
            raise _FaultyError(f"is not a list of token ids, but {type(values).__name__}")
        if not values:
            raise _FaultyError("is an empty list")
        types = set(map(type, values)) - {int}
        if types:
            fault = "a missing id" if type(None) in types else types.pop().__name__
            raise _FaultyError(f"has {fault} among the token ids")
        least, most = min(values), max(values)
        if least < 0 or most >= _TOO_LARGE:
            raise _FaultyError(f"has the token id {least if least < 0 else most}")
        if most >= _SHARED_IDS:
            return tuple(values)
        self._shared = self._shared or tuple(range(_SHARED_IDS))
        return tuple(map(self._shared.__getitem__, values))


def _jsonl(path: Path, form: FrameFormat) -> Iterator[Sample]:
    ids = _TokenIds()
    for place, row in jsonl_rows("--dataset", path):
        where = f"--dataset {path}: {place}"
        if not isinstance(row, Mapping):
            raise DatasetError(f"{where}: expected an object, found {type(row).__name__}")
        try:
            yield _sample(form, _columns(form, row.__contains__), row, ids)
        except KeyError as error:
            raise DatasetError(f"{where}: column '{error.args[0]}' is missing") from None
        except _FaultyError as error:
            raise DatasetError(f"{where}: {error}") from None


def _parquet(path: Path, form: FrameFormat) -> Iterator[Sample]:
    where = f"--dataset {path}"
    columns: dict[str, str] = {}

    def choose(schema: pa.Schema) -> list[str]:
        try:
            columns.update(_columns(form, set(schema.names).__contains__))
        except KeyError as error:
            names = ", ".join(schema.names)
            raise DatasetError(
                f"{where}: column '{error.args[0]}' is missing, the file has {names}"
            ) from None
        if tokens := columns.get("token_ids"):
            _check_tokens(where, tokens, schema.field(schema.names.index(tokens)).type)
        return list(columns.values())

    def convert(batch: pa.RecordBatch) -> dict[str, Iterable[object]]:
        return {name: _cells(batch.column(name)) for name in columns.values()}

    ids = _TokenIds()
    number = 0
    for cells in parquet_parts(where, path, choose, convert):
        for values in zip(*cells.values(), strict=True):
            number += 1
            try:
                yield _sample(form, columns, dict(zip(cells, values, strict=True)), ids)
            except _FaultyError as error:
                raise DatasetError(f"{where}: row {number}: {error}") from None


def _check_tokens(where: str, column: str, kind: pa.DataType) -> None:
    import pyarrow as pa

    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not lists or not pa.types.is_integer(kind.value_type):
        raise DatasetError(f"{where}: column '{column}' is not lists of token ids, but {kind}")


def _cells(column: pa.Array) -> Iterable[object]:
    """The cells as Python objects; lists of numbers go through numpy, which is many times
    faster."""
    import pyarrow as pa

    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not lists or column.values.null_count:
        cells: list[object] = column.to_pylist()
        return cells
    values, offsets = column.values.to_numpy(zero_copy_only=False), column.offsets.to_pylist()
    return (
        values[offsets[row] : offsets[row + 1]].tolist() if valid else None
        for row, valid in enumerate(column.is_valid().to_pylist())
    )
