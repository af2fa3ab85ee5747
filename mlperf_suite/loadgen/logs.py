"""Reads LoadGen's logs, from any source.

The content of a log never raises: a damaged line is recorded as damage, and an absent key is None.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

from mlperf_suite import strict_json
from mlperf_suite.loadgen.clock_watch import ClockFigures, clock_faults
from mlperf_suite.untrusted_files import open_regular, read_regular

DETAIL, SUMMARY, ACCURACY = (
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_accuracy.json",
)
POWER_FORMAT = "%m-%d-%Y %H:%M:%S.%f"
"""Of power_begin and power_end."""
_PREFIX = ":::MLLOG "
_MAX_NUMBER = 2**64
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
"""LoadGen writes each key with one of these beginnings once per run."""


class Entry(NamedTuple):
    """One entry of a detail log. `line`: its number in the file, from 1. `ms`: its timestamp, in
    ms since the log began, None if it has none. `process`, `thread`: the ids of its writer."""

    line: int
    key: str
    value: Any
    ms: float | None
    process: object
    thread: object


@dataclass(frozen=True, slots=True)
class DetailLog:
    """A parsed mlperf_log_detail.txt.

    `values`: the last value of each key. `errors`: the text of each entry that LoadGen marked as an
    error. `damage`: one line for each defect of the file itself. `entries`: all readable entries,
    in the file's order.
    """

    values: Mapping[str, Any]
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)

    def number(self, key: str) -> float | int | None:
        """The value as a number of at most 64 bits, or None if it is absent or not one."""
        return _number(self.values.get(key))

    @property
    def accuracy_count_key(self) -> str:
        """The key for how many samples an accuracy run issues: the first of the QSL.

        LoadGen 5.1 does not log it, and issues all samples of the QSL.
        """
        newer = "effective_accuracy_sample_count"
        return "qsl_reported_total_count" if self[newer] is None else newer

    def values_of(self, key: str) -> list[Any]:
        """Each value of the key, in the log's order."""
        return [entry.value for entry in self.entries if entry.key == key]

    def stamp(self, key: str) -> float | None:
        """The timestamp of the key's last entry, in ms since the log began."""
        return next((e.ms for e in reversed(self.entries) if e.key == key), None)

    def milliseconds(self, key: str) -> float | None:
        """The value of a key that is in ns, converted to ms."""
        value = self.number(key)
        return None if value is None else value / 1e6


def _number(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # No figure of LoadGen exceeds 64 bits, and larger integers cannot become floats.
    return value if -_MAX_NUMBER <= value <= _MAX_NUMBER else None


def parse_detail(text: str) -> DetailLog:
    values: dict[str, Any] = {}
    entries: list[Entry] = []
    errors: list[str] = []
    warnings: list[str] = []
    damage: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = strict_json.loads(line[len(_PREFIX) :]) if line.startswith(_PREFIX) else None
        except strict_json.RepeatedMemberError as error:
            damage.append(f"line {number} has {error}")
            continue
        except ValueError:
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            damage.append(f"line {number} is not an MLLOG entry")
            continue
        key, value, metadata = entry["key"], entry.get("value"), entry.get("metadata")
        if key in values and key.startswith(_SAID_ONCE):
            damage.append(f"line {number} says {key} a second time")
        values[key] = value
        writer = metadata if isinstance(metadata, dict) else {}
        stamp = _number(entry.get("time_ms"))
        entries.append(Entry(number, key, value, stamp, writer.get("pid"), writer.get("tid")))
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
    """Token ids of four bytes each, equal to any tuple or list of the same ids.

    A tuple takes up to 40 bytes per id, which is gigabytes for a run's long answers.
    `little_endian`: int32 values. Raises ValueError if its length is not a multiple of four bytes.
    """

    __slots__ = ("_ids",)

    def __init__(self, little_endian: bytes) -> None:
        # The machine's byte order is assumed to be the log's, as in LoadGen itself.
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

    `first_token_ids` and `token_count`: as reported to LoadGen, in runs that stream. `place`: the
    sample's number in the order in which LoadGen issued them (seq_id).
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
        """The place in the order of issue and the sample index of each entry that has a place."""
        return tuple((s.place, s.index) for s in self.samples if s.place is not None)

    def first_of_each(self) -> dict[int, LoggedSample]:
        """The first entry of each sample index, which is the one the official script uses."""
        first: dict[int, LoggedSample] = {}
        for sample in self.samples:
            first.setdefault(sample.index, sample)
        return first


def _whole(value: object) -> int:
    """The value as a count or an index. Raises ValueError if it is neither."""
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
    try:
        entries = strict_json.loads(text)
    except ValueError as error:
        return AccuracyLog((), (f"not JSON: {str(error)[:100]}",))
    if not isinstance(entries, list):
        return AccuracyLog((), ("not a list",))
    return logged_answers(entries)


_MAX_ACCURACY_BYTES = 2**32


def _read_accuracy(path: Path) -> AccuracyLog:
    """Read an accuracy log, entry by entry if each has its own line, as LoadGen writes them: a log
    of long answers takes hundreds of megabytes. Raises OSError."""
    with open_regular(path, _MAX_ACCURACY_BYTES) as file:
        with contextlib.suppress(ValueError):
            return logged_answers(_by_line(line.decode("utf-8", errors="replace") for line in file))
        # In another format or damaged: parsing the whole text shows what is wrong.
        file.seek(0)
        return parse_accuracy(file.read().decode("utf-8", errors="replace"))


def _by_line(lines: Iterable[str]) -> Iterator[object]:
    """The entries of a JSON list whose brackets and entries each have their own line.

    Raises ValueError for any other text.
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
            yield strict_json.loads(text.removesuffix(","))
        else:
            raise ValueError("no comma between entries")
    if not closed:
        raise ValueError("does not end")


def logged_answers(entries: Iterable[Any]) -> AccuracyLog:
    """The answers of an accuracy log's entries; other content becomes damage."""
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
    if _are_wide(samples):
        samples = [_narrowed(sample) for sample in samples]
    return AccuracyLog(tuple(samples), tuple(damage))


_SHORT = 8
"""An answer of at most so many tokens may have 0 as every second one by itself."""


def _are_wide(samples: Sequence[LoggedSample]) -> bool:
    """Whether the answers' tokens are int64, which the official scripts also read (--dtype).

    Read as int32, every second token is then 0. A model's own answers can have that too if they are
    short, or 0 throughout, but then have as many tokens as were reported to LoadGen.
    """
    ids = [sample.token_ids for sample in samples]
    if any(len(of) % 2 or any(of[1::2]) for of in ids):
        return False
    counts_agree = all(sample.token_count == len(sample.token_ids) for sample in samples)
    return any(ids) and not (counts_agree and all(len(of) <= _SHORT or not any(of) for of in ids))


def _narrowed(sample: LoggedSample) -> LoggedSample:
    """The answer with its tokens read as int64."""
    first = sample.first_token_ids
    return replace(
        sample,
        token_ids=sample.token_ids[::2],
        first_token_ids=first[::2] if first is not None else None,
    )


@dataclass(frozen=True, slots=True)
class RunLogs:
    """The logs of one LoadGen run. A missing or unreadable file is reported as damage.

    `sizes`: each file's size in bytes, by name. `clock`: what the clocks showed during the run;
    None for logs alone.
    """

    folder: Path
    detail: DetailLog
    summary: str
    accuracy: AccuracyLog
    files: Mapping[str, Path] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    clock: ClockFigures | None = None

    @property
    def clock_faults(self) -> list[str]:
        """How LoadGen's clock departed from the machine's, a few words each; empty if it did not,
        or if the clocks were not read."""
        if self.clock is None:
            return []
        begin, end = self.detail.stamp("generated_query_count"), self.detail.stamp("power_end")
        log_s = None if begin is None or end is None else (end - begin) / 1e3
        return clock_faults(self.clock, log_s)


def read_logs(folder: Path) -> RunLogs:
    """Read the logs in a folder; their content or absence never raises."""
    contents: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name, read in ((DETAIL, _read_text), (SUMMARY, _read_text), (ACCURACY, _read_accuracy)):
        path = folder / name
        try:
            contents[name], sizes[name] = read(path), path.stat().st_size
        except OSError as error:
            problems[name] = f"{name} cannot be read: {error.strerror}"
    return RunLogs(
        folder,
        parse_detail(contents[DETAIL])
        if DETAIL in contents
        else DetailLog({}, damage=(problems[DETAIL],)),
        contents.get(SUMMARY, ""),
        contents.get(ACCURACY) or AccuracyLog((), (problems[ACCURACY],)),
        {name: folder / name for name in sizes},
        sizes,
    )


def _read_text(path: Path) -> str:
    return read_regular(path).decode("utf-8", errors="replace")
