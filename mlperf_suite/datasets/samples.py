"""A data set as runs use it, samples in their order; and the rows that it is read from."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlperf_suite.errors import DatasetError, first_line

_BATCH_ROWS = 256
"""How many rows of a parquet file are in memory at once; a prompt may have 100,000 characters."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: `input` goes into the prompt, `reference` is what the scorer compares with.

    `token_ids` is the whole prompt of data that is published tokenized; the tokenizer is then not
    used. `kind` names the part of a mixed data set that the sample is from, `id` is the sample's
    own id, if its data set has one.
    """

    input: str
    reference: str
    token_ids: tuple[int, ...] | None = None
    kind: str = ""
    id: str = ""


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
            digest.update(json.dumps(content).encode())
        return digest.hexdigest()

    def first(self, count: int | None) -> Samples:
        """The first `count` samples; None means all. Raises DatasetError if there are fewer."""
        if count is None:
            return self
        if not 1 <= count <= len(self.items):
            raise DatasetError(
                f"--total-sample-count {count}: {self.name} has {len(self.items)} samples, "
                f"allowed is 1 to {len(self.items)}, or auto"
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
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            batches = file.iter_batches(_BATCH_ROWS)
            rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, row in enumerate(rows, 1):
                yield f"row {number}", row
    except ArrowException as error:
        raise DatasetError(
            f"{option} {path}: not a readable parquet file: {first_line(error)}"
        ) from error
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise DatasetError(f"{option} {path}: cannot be read: {reason}") from error


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
