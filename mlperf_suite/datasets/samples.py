"""A data set as runs use it, samples in their order; and the rows that it is read from."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mlperf_suite.datasets.media import Media
from mlperf_suite.errors import DatasetError, first_line

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_ROWS_AT_ONCE = 1024
_MAX_ROWS = 10_000_000
"""Hundreds of times those of the largest published data."""
_MEMORY_BASE, _MEMORY_PER_BYTE = 4 * 2**30, 64
"""The memory that a table may take, in bytes: a token takes two bytes or more in a file, and forty
as Python's number."""
_MAX_NAME_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: `input` goes into the prompt, `reference` is what the scorer compares with.

    `token_ids` is the whole prompt of data that is published tokenized; the tokenizer is then not
    used. `kind` names the part of a mixed data set that the sample is from, `id` is the sample's
    own id, if its data set has one. `media`: what the model hears beside the prompt.
    """

    input: str
    reference: str
    token_ids: tuple[int, ...] | None = None
    kind: str = ""
    id: str = ""
    media: Media | None = None


@dataclass(frozen=True)
class Samples:
    """A data set in its order: a sample's index in `items` is its index in LoadGen's QSL."""

    name: str
    items: tuple[Sample, ...]

    @cached_property
    def sha256(self) -> str:
        """A fingerprint of the content that shows whether two runs used the same data."""
        digest = hashlib.sha256()
        for item in self.items:
            content: list[object] = [item.input, item.reference]
            if item.token_ids is not None or item.kind or item.id:
                content += [item.token_ids, item.kind]
            if item.id:
                content.append(item.id)
            if item.media is not None:
                content.append(item.media.sha256)
            digest.update(json.dumps(content).encode())
        return digest.hexdigest()

    def first(self, count: int | None) -> Samples:
        """The first `count` samples; None means all. Raises DatasetError if there are fewer."""
        if count is None:
            return self
        if not 1 <= count <= len(self.items):
            raise DatasetError(
                f"--total-sample-count {count}: {self.name} has {len(self.items)} samples, "
                f"must be 1 to {len(self.items)}, or auto"
            )
        return Samples(self.name, self.items[:count])


# The rows of data files and of the hub's data sets. `option` is the option that named the data;
# each error begins with it, and gives the place of the fault.


def jsonl_rows(option: str, path: Path) -> Iterator[tuple[str, object]]:
    """Each non-empty line of a JSONL file, with a description of its place.

    Raises DatasetError that names file and line; OSError if the file cannot be read.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                place = f"line {number}"
                yield place, _json(f"{option} {path}", place, line)


def json_rows(option: str, path: Path) -> Iterator[tuple[str, object]]:
    """Each item of the list in a JSON file, with a description of its place.

    Raises DatasetError that names file and line; OSError if the file cannot be read.
    """
    content = path.read_bytes()
    if not content.strip():
        raise DatasetError(f"{option} {path}: the file is empty")
    rows = _json(f"{option} {path}", "", content)
    if not isinstance(rows, list):
        raise DatasetError(f"{option} {path}: expected a list of rows, found {type(rows).__name__}")
    for number, row in enumerate(rows, 1):
        yield f"row {number}", row


def _json(source: str, place: str, raw: bytes) -> object:
    """The JSON at a place of a file; an error names the line if `place` is empty."""
    where = f"{source}: {place}: " if place else f"{source}: "
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DatasetError(f"{where}not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        line = place or f"line {error.lineno}"
        raise DatasetError(f"{source}: {line}: not JSON: {error.msg}") from error
    except ValueError as error:
        # A number with more digits than Python accepts.
        raise DatasetError(f"{where}not JSON to be used: {error}") from error
    except RecursionError as error:
        raise DatasetError(f"{where}JSON nested too deeply") from error


def parquet_rows(option: str, path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each row of a parquet file, with a description of its place.

    Raises DatasetError that names the file.
    """
    where = f"{option} {path}"
    parts = parquet_parts(where, path, lambda schema: schema.names, lambda rows: rows.to_pylist())
    for number, row in enumerate(itertools.chain.from_iterable(parts), 1):
        yield f"row {number}", row


def parquet_parts(
    where: str,
    path: Path,
    choose: Callable[[pa.Schema], Sequence[str]],
    convert: Callable[[pa.RecordBatch], T],
) -> Iterator[T]:
    """Read a parquet file, `_ROWS_AT_ONCE` rows at once, and convert each part.

    `choose`: the columns to read, of those that the file has. A few bytes can stand for endless
    rows, or for values of gigabytes: what this process has taken when a part is read may be no more
    than a table of the file's size takes. Raises DatasetError, whose message begins with `where`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        most = address_space() + _MEMORY_BASE + _MEMORY_PER_BYTE * path.stat().st_size
        with pq.ParquetFile(path) as file:
            _check_table(where, file.schema_arrow.names, file.metadata.num_rows)
            columns = choose(file.schema_arrow)
            # Each thread would take more of the memory.
            batches = file.iter_batches(_ROWS_AT_ONCE, columns=columns, use_threads=False)
            while True:
                with memory_limit(most):
                    batch = next(batches, None)
                    part = None if batch is None else convert(batch)
                if part is None:
                    return
                yield part
    except MemoryError:
        raise DatasetError(f"{where}: takes more memory than a table of its size does") from None
    except OSError as error:
        raise DatasetError(
            f"{where}: cannot be read: {error.strerror or first_line(error)}"
        ) from error
    except pa.ArrowException as error:
        raise DatasetError(f"{where}: not a readable parquet file: {first_line(error)}") from error


def _check_table(where: str, names: Sequence[str], rows: int) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DatasetError(f"{where}: two columns are named '{repeated[:_MAX_NAME_LENGTH]}'")
    if rows > _MAX_ROWS:
        raise DatasetError(f"{where}: {rows:,} rows, and at most {_MAX_ROWS:,} are read")


def address_space() -> int:
    """What this process has of it, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


@contextlib.contextmanager
def memory_limit(most: int) -> Iterator[None]:
    """Limit the address space of this process, in bytes; a narrower limit stays."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limits = [most, *(limit for limit in before if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def hub_table(
    option: str, repository: str, config: str, split: str, token: str | None, copy: str
) -> Iterable[Mapping[str, object]]:
    """The rows of a data set on the Hugging Face hub.

    Raises DatasetError, which says to give a local `copy` (FILE or FOLDER), if the hub cannot
    provide it.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        raise DatasetError(
            f"{option} {repository}: reading from the hub needs the package `datasets`: install "
            f"it, or give a local copy with {option} {copy}"
        ) from None
    try:
        table: Iterable[Mapping[str, object]] = load_dataset(
            repository, config, split=split, token=token
        )
    # The hub client raises its own errors, those of requests and httpx, and OS errors; all mean the
    # same here.
    except Exception as error:
        raise DatasetError(
            f"{option} {repository}: the hub could not provide it ({first_line(error)}); "
            f"give a local copy with {option} {copy}"
        ) from error
    return table
