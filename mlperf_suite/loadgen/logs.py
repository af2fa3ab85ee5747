"""Reading LoadGen's logs, whoever made them.

Nothing here raises for what is in a log: a damaged line is kept as a fact about the log, and a
key that is absent is None.
"""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

DETAIL, SUMMARY, ACCURACY = (
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_accuracy.json",
)
_PREFIX = ":::MLLOG "
_LARGEST = 2**64
_JSON_SPACE = " \t\r\n"
_SAID_ONCE = (
    "requested_",
    "effective_",
    "qsl_",
    "result_",
    "early_stopping_",
    "num_",
    "loadgen_",
    "sut_name",
    "test_datetime",
)
"""LoadGen writes a key that begins like this once in a run."""


class Entry(NamedTuple):
    """One entry of a detail log. `line`: its number in the file, from 1. `ms`: its time stamp, in
    ms since the log began, None where it has none. `process`, `thread`: the ids of who wrote it."""

    line: int
    key: str
    value: Any
    ms: float | None
    process: object
    thread: object


@dataclass(frozen=True, slots=True)
class DetailLog:
    """A parsed mlperf_log_detail.txt.

    `values`: the last value of each key. `errors`: the text of each entry that LoadGen marked as
    an error. `damage`: one line for each thing that is wrong with the file itself. `entries`: all
    that could be read, in the file's order.
    """

    values: Mapping[str, Any]
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)

    def number(self, key: str) -> float | int | None:
        """The value as a number of at most 64 bits, or None where it is absent or is none."""
        return _number(self.values.get(key))

    @property
    def accuracy_count_key(self) -> str:
        """The key of how many samples an accuracy run issues: the first so many of the QSL's.

        LoadGen 5.1 does not say it, and issues all that the QSL has.
        """
        newer = "effective_accuracy_sample_count"
        return "qsl_reported_total_count" if self[newer] is None else newer

    def every(self, key: str) -> list[Any]:
        """Each value of the key, in the log's order."""
        return [entry.value for entry in self.entries if entry.key == key]

    def stamp(self, key: str) -> float | None:
        """When the last entry of the key was made, in ms since the log began."""
        return next((e.ms for e in reversed(self.entries) if e.key == key), None)

    def milliseconds(self, key: str) -> float | None:
        """The value of a key in ns, in ms."""
        value = self.number(key)
        return None if value is None else value / 1e6


def _number(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # No figure of LoadGen is beyond 64 bits, and larger integers cannot become a float.
    return value if -_LARGEST <= value <= _LARGEST else None


def parse_detail(text: str) -> DetailLog:
    """Parse the text of a detail log."""
    values: dict[str, Any] = {}
    entries: list[Entry] = []
    errors: list[str] = []
    warnings: list[str] = []
    damage: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line[len(_PREFIX) :]) if line.startswith(_PREFIX) else None
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            damage.append(f"line {number} is not an MLLOG entry")
            continue
        key, value, metadata = entry["key"], entry.get("value"), entry.get("metadata")
        if key in values and key.startswith(_SAID_ONCE):
            damage.append(f"line {number} says {key} a second time")
        values[key] = value
        said = metadata if isinstance(metadata, dict) else {}
        stamp = _number(entry.get("time_ms"))
        entries.append(Entry(number, key, value, stamp, said.get("pid"), said.get("tid")))
        if not isinstance(metadata, dict) or not isinstance(metadata.get("is_error"), bool):
            damage.append(f"line {number} does not say whether it is an error")
        elif metadata["is_error"]:
            errors.append(str(value))
        elif metadata.get("is_warning"):
            warnings.append(str(value))
    if not values:
        damage.append("no MLLOG entry")
    if "\N{REPLACEMENT CHARACTER}" in text:
        damage.append("not UTF-8 throughout")
    return DetailLog(values, tuple(errors), tuple(warnings), tuple(damage), tuple(entries))


class TokenIds(Sequence[int]):
    """Token ids of four bytes each, equal to any tuple or list of the same.

    A tuple takes up to 40 bytes for each, which for a run's long answers is gigabytes.
    `little_endian`: int32, a multiple of four bytes. Raises ValueError for another length.
    """

    __slots__ = ("_ids",)

    def __init__(self, little_endian: bytes) -> None:
        # As in the logs' own maker, the machine's byte order is taken to be the log's.
        self._ids = array("i", little_endian)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[int, ...]: ...
    def __getitem__(self, place: int | slice) -> int | tuple[int, ...]:
        return tuple(self._ids[place]) if isinstance(place, slice) else self._ids[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TokenIds):
            return self._ids == other._ids
        return isinstance(other, tuple | list) and tuple(self._ids) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self._ids))

    def __repr__(self) -> str:
        return f"TokenIds{tuple(self._ids)}"


@dataclass(frozen=True, slots=True)
class LoggedSample:
    """One entry of mlperf_log_accuracy.json: the sample's index and its int32 output tokens.

    `first_token_ids` and `token_count` are there in runs that stream, as LoadGen was told them.
    `place`: the sample's number in the order in which LoadGen issued them (seq_id).
    """

    index: int
    token_ids: Sequence[int]
    first_token_ids: tuple[int, ...] | None = None
    token_count: int | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True)
class AccuracyLog:
    """A parsed mlperf_log_accuracy.json, in the log's order. `damage` as in DetailLog."""

    samples: tuple[LoggedSample, ...]
    damage: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Of each entry that says it, the place in the order of issue and the sample's index."""
        return tuple((one.place, one.index) for one in self.samples if one.place is not None)

    def first_of_each(self) -> dict[int, LoggedSample]:
        """The first entry of each sample index, as the official script takes it."""
        first: dict[int, LoggedSample] = {}
        for sample in self.samples:
            first.setdefault(sample.index, sample)
        return first


def _whole(value: object) -> int:
    """The value as a count or an index. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("not a whole number")
    return value


def _tokens(value: object) -> TokenIds:
    """Token ids from LoadGen's hex dump of little-endian int32. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("no hex string")
    raw = bytes.fromhex(value)
    if len(raw) % 4:
        raise ValueError("not a whole number of int32")
    return TokenIds(raw)


def parse_accuracy(text: str) -> AccuracyLog:
    """Parse the text of an accuracy log."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        return AccuracyLog((), (f"not JSON: {str(error)[:100]}",))
    if not isinstance(entries, list):
        return AccuracyLog((), ("not a list",))
    return _logged(entries)


def _read_accuracy(path: Path) -> AccuracyLog:
    """Read an accuracy log, entry by entry where each has a line, as LoadGen writes them: a log of
    long answers takes hundreds of megabytes. Raises OSError."""
    with path.open("rb") as file:
        with contextlib.suppress(ValueError, RecursionError):
            return _logged(_by_line(line.decode("utf-8", errors="replace") for line in file))
        # Written otherwise or damaged; what is wrong with it shows as a whole.
        file.seek(0)
        return parse_accuracy(file.read().decode("utf-8", errors="replace"))


def _by_line(lines: Iterable[str]) -> Iterator[object]:
    """The entries of a JSON list that opens, has each entry and closes on a line of its own.

    Raises ValueError or RecursionError for any other text.
    """
    begun = closed = False
    after = "["
    for line in lines:
        text = line.strip(_JSON_SPACE)
        if not text:
            continue
        if closed or (not begun and text != "["):
            raise ValueError("more than a list, a line for each entry")
        if not begun:
            begun = True
        elif text == "]" and after != ",":
            closed = True
        elif after:
            after = "," if text.endswith(",") else ""
            yield json.loads(text.removesuffix(","))
        else:
            raise ValueError("no comma between entries")
    if not closed:
        raise ValueError("does not end")


def _logged(entries: Iterable[Any]) -> AccuracyLog:
    samples: list[LoggedSample] = []
    damage: list[str] = []
    for number, entry in enumerate(entries, 1):
        try:
            count, place = entry.get("token_count"), entry.get("seq_id")
            samples.append(
                LoggedSample(
                    _whole(entry["qsl_idx"]),
                    _tokens(entry["data"]),
                    tuple(_tokens(entry["token_data"])) if "token_data" in entry else None,
                    None if count is None else _whole(count),
                    None if place is None else _whole(place),
                )
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            damage.append(f"entry {number}: {type(error).__name__}: {str(error)[:80]}")
    if samples and all(_is_wide(sample) for sample in samples):
        samples = [_narrowed(sample) for sample in samples]
    return AccuracyLog(tuple(samples), tuple(damage))


def _is_wide(sample: LoggedSample) -> bool:
    """Whether an answer's tokens are int64, which the official scripts read as well (--dtype).

    As int32 every second one is 0 then, which no model's whole answers are.
    """
    ids = sample.token_ids
    return len(ids) > 0 and len(ids) % 2 == 0 and not any(ids[1::2])


def _narrowed(sample: LoggedSample) -> LoggedSample:
    """The answer with tokens of int64 as such."""
    first = sample.first_token_ids
    return replace(
        sample,
        token_ids=sample.token_ids[::2],
        first_token_ids=first[::2] if first is not None else None,
    )


@dataclass(frozen=True, slots=True)
class RunLogs:
    """The logs of one LoadGen run. A file that is missing or cannot be read is a line of damage.

    `sizes`: each file's in bytes, by its name.
    """

    folder: Path
    detail: DetailLog
    summary: str
    accuracy: AccuracyLog
    files: Mapping[str, Path] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


def read_logs(folder: Path) -> RunLogs:
    """Read the logs in a folder; never raises for their content or absence."""
    texts: dict[str, str] = {}
    files: dict[str, Path] = {}
    sizes: dict[str, int] = {}
    problems: dict[str, str] = {}
    accuracy = AccuracyLog(())
    for name in (DETAIL, SUMMARY, ACCURACY):
        path = folder / name
        try:
            if name == ACCURACY:
                accuracy = _read_accuracy(path)
            else:
                texts[name] = path.read_bytes().decode("utf-8", errors="replace")
            files[name], sizes[name] = path, path.stat().st_size
        except OSError as error:
            problems[name] = f"{name} cannot be read: {error.strerror}"
    return RunLogs(
        folder,
        DetailLog({}, damage=(problems[DETAIL],))
        if DETAIL in problems
        else parse_detail(texts[DETAIL]),
        texts.get(SUMMARY, ""),
        AccuracyLog((), (problems[ACCURACY],)) if ACCURACY in problems else accuracy,
        files,
        sizes,
    )
