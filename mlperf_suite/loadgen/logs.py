"""Reads LoadGen's logs, from any source.

The content of a log never raises: a damaged line is recorded as damage, and an absent key is None.
"""

from __future__ import annotations

import contextlib
import os
import sys
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import accumulate, chain, count, islice
from pathlib import Path
from typing import Annotated, Any, overload

import msgspec

from mlperf_suite import strict_json
from mlperf_suite.loadgen.clock_watch import ClockFigures, clock_faults
from mlperf_suite.untrusted_files import MAX_TEXT_BYTES, open_regular

DETAIL, SUMMARY, ACCURACY = (
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_accuracy.json",
)
POWER_FORMAT = "%m-%d-%Y %H:%M:%S.%f"
"""Of power_begin and power_end."""
_PREFIX = b":::MLLOG "
_MAX_NUMBER = 2**64
_JSON_SPACE = b" \t\r\n"
_MAX_LOG_BYTES = 2**32
_MAX_LINE_BYTES = 2**26
"""Longer lines are read in parts, none of which is an entry."""
_MAX_ENTRIES = 2_000_000
"""Of a detail log, in memory. LoadGen writes some hundreds, and one for each error."""
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


class Entry(msgspec.Struct, frozen=True, gc=False):
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


class _Metadata(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    is_error: bool
    is_warning: bool
    file: str
    line_no: int
    pid: int
    tid: int


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A line's members, as LoadGen writes them."""

    key: str
    value: Any
    time_ms: Annotated[float, msgspec.Meta(ge=-_MAX_NUMBER, le=_MAX_NUMBER)]
    namespace: str
    event_type: str
    metadata: _Metadata


_LINES = msgspec.json.Decoder(list[_Line])
_STRINGS = 16
"""The names and texts in a line, without its value."""
_NOT_AS_WRITTEN = (msgspec.MsgspecError, ValueError, RecursionError)


def _as_written(text: bytes | bytearray, size: int) -> list[_Line] | None:
    """The entries of the first bytes of a text, if all of its lines are in LoadGen's own form; None
    for any other, which takes ten times as long to read."""
    if text.find(b"\\", 0, size) >= 0:
        return None
    values, parts = dict[int, Any](), list[bytes | bytearray]()
    lines = copied = start = 0
    try:
        while start < size:
            end = text.find(b"\n", start, size)
            end = size if end < 0 else end
            if end - start in _SHARED_BYTES:
                at, after, values[lines] = _long_value(text, start, end)
                parts += [text[copied:at], b"0"]
                copied = after
            lines, start = lines + 1, end + 1
        short = b"".join((b"\n", *parts, text[copied:size]))
        # Without lists in it, a line that begins like an entry begins one.
        first, *entries = short.split(b"\n" + _PREFIX + b"{")
        if first or len(entries) != lines or b"[" in short or not short.isascii():
            return None
        written = _LINES.decode(b"[{%b]" % b",{".join(entries))
    except _NOT_AS_WRITTEN:
        return None
    # A member that stands twice, or members in a value, would have more quotes.
    strings = _STRINGS * lines + sum(isinstance(each.value, str) for each in written)
    if len(written) != lines or short.count(b'"') != 2 * strings:
        return None
    for place, value in values.items():
        written[place].value = value
    return written


_SHARED_BYTES = range(2**10, 2**22)
"""Of a line whose value the logs of many runs have alike: LoadGen's files, the samples loaded."""
_known_values: deque[tuple[bytes, Any]] = deque(maxlen=8)
"""The long values that were read last."""


def _long_value(text: bytes | bytearray, start: int, end: int) -> tuple[int, int, Any]:
    """Where the value of a line of a text begins and ends, and the value. Raises ValueError for a
    foreign line."""
    start = text.index(b'"value": ', start, end) + 9
    end = text.rindex(b', "time_ms"', start, end)
    for known, value in _known_values:
        if len(known) == end - start and text.startswith(known, start):
            return start, end, value
    new = bytes(text[start:end])
    value = strict_json.loads(new.decode("ascii"))
    _known_values.appendleft((new, value))
    return start, end, value


@dataclass(slots=True)
class _DetailReader:
    """What the lines of a detail log say so far; see `DetailLog`."""

    values: dict[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    lines: int = 0
    is_utf8: bool = True
    is_short: bool = True

    def read(self, text: bytes | bytearray, size: int) -> None:
        """Read whole lines: the first bytes of a text."""
        if self._read_as_written(text, size):
            return
        for line in bytes(text[:size]).removesuffix(b"\n").split(b"\n"):
            if not self._read_as_written(line, len(line)):
                self._read_line(line)

    def _read_as_written(self, text: bytes | bytearray, size: int) -> bool:
        written = _as_written(text, size)
        if written is None:
            return False
        new = {sys.intern(each.key): each.value for each in written}
        numbers = range(self.lines + 1, self.lines + len(written) + 1)
        self.lines += len(written)
        is_short = len(new) == len(written) and self.lines <= _MAX_ENTRIES
        is_noted = any(e.metadata.is_error or e.metadata.is_warning for e in written)
        if is_short and not is_noted and self.values.keys().isdisjoint(new):
            self.values |= new
            self.entries += [
                Entry(number, key, e.value, e.time_ms, e.metadata.pid, e.metadata.tid)
                for number, key, e in zip(numbers, new, written, strict=True)
            ]
            return True
        for number, entry in zip(numbers, written, strict=True):
            by = entry.metadata
            self._add(number, entry.key, entry.value, entry.time_ms, by.pid, by.tid)
            self._note(entry.value, by.is_error, by.is_warning)
        return True

    def _read_line(self, line: bytes) -> None:
        self.lines, text = self.lines + 1, line.decode("utf-8", errors="replace")
        self.is_utf8 &= "\N{REPLACEMENT CHARACTER}" not in text
        if not text.strip():
            return
        prefix, entry = _PREFIX.decode(), None
        try:
            entry = strict_json.loads(text[len(prefix) :]) if text.startswith(prefix) else None
        except strict_json.RepeatedMemberError as error:
            self.damage.append(f"line {self.lines} has {error}")
            return
        except ValueError:
            pass
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            self.damage.append(f"line {self.lines} is not an MLLOG entry")
            return
        value, metadata = entry.get("value"), entry.get("metadata")
        writer = metadata if isinstance(metadata, dict) else {}
        stamp, is_error = entry.get("time_ms"), writer.get("is_error")
        self._add(self.lines, entry["key"], value, stamp, writer.get("pid"), writer.get("tid"))
        if isinstance(is_error, bool):
            self._note(value, is_error, bool(writer.get("is_warning")))
        else:
            self.damage.append(f"line {self.lines} does not say whether it is an error")

    def _add(
        self, number: int, key: str, value: Any, stamp: object, process: object, thread: object
    ) -> None:
        if key in self.values and key.startswith(_SAID_ONCE):
            self.damage.append(f"line {number} says {key} a second time")
        key = sys.intern(key)
        self.values[key] = value
        self.is_short = len(self.entries) < _MAX_ENTRIES
        if self.is_short:
            self.entries.append(Entry(number, key, value, _number(stamp), process, thread))

    def _note(self, value: object, is_error: bool, is_warning: bool) -> None:
        if (is_error or is_warning) and self.is_short:
            (self.errors if is_error else self.warnings).append(str(value))

    def whole(self) -> DetailLog:
        if not self.values:
            self.damage.append("no MLLOG entry")
        if not self.is_utf8:
            self.damage.append("not UTF-8 throughout")
        if not self.is_short:
            self.damage.append(f"more than {_MAX_ENTRIES:,} entries")
        return DetailLog(
            self.values,
            tuple(self.errors),
            tuple(self.warnings),
            tuple(self.damage),
            tuple(self.entries),
        )


def parse_detail(text: str) -> DetailLog:
    reader, raw = _DetailReader(), text.encode("utf-8", "surrogatepass")
    reader.read(raw, len(raw))
    return reader.whole()


_buffer = bytearray(2**20)
"""For the parts of a log: to allocate one for each takes as long as to read it."""


def _read_detail(file: BufferedReader) -> DetailLog:
    """Read a detail log part by part. Raises OSError."""
    reader = _DetailReader()
    while size := file.readinto(_buffer):
        rest = b"" if size < len(_buffer) else file.readline(_MAX_LINE_BYTES)
        reader.read(_buffer + rest if rest else _buffer, size + len(rest))
    return reader.whole()


class TokenIds(Sequence[int]):
    """Token ids of four bytes each, equal to any tuple or list of the same ids.

    A tuple takes up to 40 bytes per id, which is gigabytes for a run's long answers.
    `little_endian`: int32 values. Raises ValueError if its length is not a multiple of four bytes.
    """

    __slots__ = ("_ids",)

    def __init__(self, little_endian: bytes | array[int]) -> None:
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


# Not frozen: a log has thousands, and a frozen one takes four times as long to make.
@dataclass(slots=True, unsafe_hash=True)
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


# Of an answer: index, token ids and first token ids as int32, token count, place.
_Parts = tuple[int, bytes, bytes | None, int | None, int | None]


class LoggedAnswers(Sequence[LoggedSample]):
    """The answers of a log, each made when asked for: a log of millions is kept in columns.

    Equal to any sequence of the same answers. Numbers are int64, -1 for none; `_ids` and `_first`
    have the tokens of all answers, `_ends` and `_first_ends` where those of each end. `_made`: the
    answers of a small log that is complete, since several rules ask for them.
    """

    def __init__(self) -> None:
        self._index, self._count, self._place = array("q"), array("q"), array("q")
        self._ids, self._ends = array("i"), array("q")
        self._first, self._first_ends, self._streams = array("i"), array("q"), bytearray()
        self._made: tuple[LoggedSample, ...] | None = None

    def extend(self, answers: Sequence[_Parts]) -> None:
        index, ids, first, *numbers = zip(*answers, strict=True) if answers else ((),) * 5
        count, place = (array("q", [-1 if n is None else n for n in each]) for each in numbers)
        self._made = None
        self._index.extend(index)
        self._count += count
        self._place += place
        self._streams.extend(raw is not None for raw in first)
        for raws, tokens, ends in (
            (ids, self._ids, self._ends),
            ([raw or b"" for raw in first], self._first, self._first_ends),
        ):
            lengths = [len(raw) // tokens.itemsize for raw in raws]
            ends.extend(islice(accumulate(lengths, initial=len(tokens)), 1, None))
            tokens.frombytes(b"".join(raws))

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, number: int) -> LoggedSample: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[LoggedSample, ...]: ...
    def __getitem__(self, number: int | slice) -> LoggedSample | tuple[LoggedSample, ...]:
        if isinstance(number, slice):
            return tuple(self[n] for n in range(*number.indices(len(self))))
        return self._answer(range(len(self))[number])

    def __iter__(self) -> Iterator[LoggedSample]:
        if self.size > _SMALL:
            return map(self._answer, range(len(self)))
        if self._made is None:
            self._made = tuple(map(self._answer, range(len(self))))
        return iter(self._made)

    def _answer(self, n: int) -> LoggedSample:
        ids = TokenIds(_part(self._ids, self._ends, n))
        first = tuple(_part(self._first, self._first_ends, n)) if self._streams[n] else None
        count, place = self._count[n], self._place[n]
        return LoggedSample(
            self._index[n], ids, first, None if count < 0 else count, None if place < 0 else place
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it grows

    @property
    def size(self) -> int:
        """The number of answers and of their tokens."""
        return len(self) + len(self._ids)

    @property
    def places(self) -> list[tuple[int, int]]:
        return [pair for pair in zip(self._place, self._index, strict=True) if pair[0] >= 0]

    @property
    def indices(self) -> frozenset[int]:
        return frozenset(self._index)

    @property
    def token_counts(self) -> list[int]:
        starts = chain((0,), self._ends)
        parts = zip(self._count, starts, self._ends, strict=False)
        return [count if count > 0 else end - start for count, start, end in parts]

    def beginnings(self, tokens: int) -> Iterator[bytes]:
        """The first tokens of each answer, as int32."""
        starts = chain((0,), self._ends)
        for start, end in zip(starts, self._ends, strict=False):
            yield self._ids[start : min(end, start + tokens)].tobytes()

    def are_within(self, vocabulary: int) -> bool:
        """Whether each answer has tokens, all of them of a vocabulary of this size."""
        import numpy as np

        ends, ids = np.frombuffer(self._ends, np.int64), np.frombuffer(self._ids, np.int32)
        has_tokens = bool(ends[0] and (ends[1:] > ends[:-1]).all())
        return has_tokens and bool(ids.min() >= 0 and ids.max() < vocabulary)

    @property
    def are_wide(self) -> bool:
        """Whether the answers' tokens are int64, which the official scripts also read (--dtype).

        Read as int32, every second token is then 0. A model's own answers can have that too if they
        are short, or 0 throughout, but then have as many tokens as LoadGen was told.
        """
        if any(end % 2 for end in self._ends) or any(memoryview(self._ids)[1::2]):
            return False
        as_told = (s.token_count == len(s.token_ids) for s in self)
        short = (len(s.token_ids) <= _SHORT or not any(s.token_ids) for s in self)
        return bool(self._ids) and not (all(as_told) and all(short))


_SHORT = 8
"""An answer of at most so many tokens may have 0 as every second one by itself."""


def _part(ids: array[int], ends: array[int], number: int) -> array[int]:
    return ids[ends[number - 1] if number else 0 : ends[number]]


@dataclass(frozen=True, slots=True)
class AccuracyLog:
    """A parsed mlperf_log_accuracy.json, in the log's order. `damage` as in DetailLog."""

    samples: Sequence[LoggedSample]
    damage: tuple[str, ...] = ()

    @property
    def places(self) -> Sequence[tuple[int, int]]:
        """The place in the order of issue and the sample index of each entry that has a place."""
        if isinstance(self.samples, LoggedAnswers):
            return self.samples.places
        return [(s.place, s.index) for s in self.samples if s.place is not None]

    @property
    def indices(self) -> frozenset[int]:
        """The samples that have an answer."""
        if isinstance(self.samples, LoggedAnswers):
            return self.samples.indices
        return frozenset(sample.index for sample in self.samples)

    @property
    def token_counts(self) -> list[int]:
        """Of each answer, as reported to LoadGen or else as logged."""
        if isinstance(self.samples, LoggedAnswers):
            return self.samples.token_counts
        return [sample.token_count or len(sample.token_ids) for sample in self.samples]

    def first_of_each(self) -> dict[int, LoggedSample]:
        """The first entry of each sample index, which is the one the official script uses."""
        first: dict[int, LoggedSample] = {}
        for sample in self.samples:
            first.setdefault(sample.index, sample)
        return first


def _whole(value: object) -> int:
    """The value as a count or an index. Raises ValueError or OverflowError if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("not a whole number")
    if value > _MAX_WHOLE:
        raise OverflowError("int too big to convert")
    return value


def _tokens(value: object) -> bytes:
    """Token ids as int32, from LoadGen's hex dump of them. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("no hex string")
    raw = bytes.fromhex(value)
    if len(raw) % 4:
        raise ValueError("not a whole number of int32")
    return raw


def parse_accuracy(text: str) -> AccuracyLog:
    try:
        entries = strict_json.loads(text)
    except ValueError as error:
        return AccuracyLog((), (f"not JSON: {str(error)[:100]}",))
    if not isinstance(entries, list):
        return AccuracyLog((), ("not a list",))
    return logged_answers(entries)


_MAX_WHOLE = 2**63 - 1
_Whole = Annotated[int, msgspec.Meta(ge=0, le=_MAX_WHOLE)]


class _Answer(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An entry's members, as LoadGen writes them."""

    seq_id: _Whole
    qsl_idx: _Whole
    data: str
    token_data: str | msgspec.UnsetType = msgspec.UNSET
    token_count: _Whole | msgspec.UnsetType = msgspec.UNSET

    @property
    def quotes(self) -> int:
        """Of its members, if each stands once."""
        with_first = 4 * (self.token_data is not msgspec.UNSET)
        return 8 + with_first + 2 * (self.token_count is not msgspec.UNSET)


_ANSWERS = msgspec.json.Decoder(list[_Answer])


def _read_accuracy(file: BufferedReader) -> AccuracyLog:
    """Read an accuracy log, some entries at a time if each has its own line, as LoadGen writes
    them: a log of long answers takes hundreds of megabytes. Raises OSError."""
    with contextlib.suppress(ValueError):
        return _logged_answers(map(_answers, _entries_by_line(file)))
    # In another format or damaged: parsing the whole text shows what is wrong.
    file.seek(0)
    return parse_accuracy(file.read().decode("utf-8", errors="replace"))


def _answers(text: bytes) -> Sequence[Any]:
    """A JSON list of entries, in LoadGen's own form or any other. Raises ValueError."""
    try:
        answers = _ANSWERS.decode(text)
        if text.count(b'"') == sum(each.quotes for each in answers) and b"\\" not in text:
            return answers
    except msgspec.ValidationError:
        pass
    except _NOT_AS_WRITTEN:
        raise ValueError("no JSON") from None
    return list(strict_json.loads(text.decode("utf-8", errors="replace")))


def _entries_by_line(file: BufferedReader) -> Iterator[bytes]:
    """The JSON lists that follow one another in a list whose entries begin lines, each of some
    64 KiB. Raises ValueError for another text."""
    text, beginning = file.read(_SOME_BYTES) + file.readline(), b"["
    while text or beginning:
        rest = file.read(_SOME_BYTES) + file.readline()
        if rest.strip(_JSON_SPACE) in (b"", b"]"):
            text, rest = text + rest, file.read(1)
        entries, end = text.strip(_JSON_SPACE), b"," if rest else b"]"
        # A comma without entries before it stands there twice.
        if not entries.startswith(beginning) or not entries.endswith(end) or entries == end:
            raise ValueError("no list with a line for each entry")
        yield b"[%b]" % entries[len(beginning) : -1]
        text, beginning = rest, b""


_SOME_BYTES = 2**16


def logged_answers(entries: Sequence[Any]) -> AccuracyLog:
    """The answers of an accuracy log's entries; other content becomes damage."""
    return _logged_answers(entries[n : n + 1000] for n in range(0, len(entries), 1000))


def _logged_answers(batches: Iterable[Sequence[Any]]) -> AccuracyLog:
    samples, damage, numbers = LoggedAnswers(), list[str](), count(1)
    for entries in batches:
        answers = list[_Parts]()
        for entry, number in zip(entries, numbers, strict=False):
            try:
                answers.append(_parts(entry))
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
                damage.append(f"entry {number}: {type(error).__name__}: {str(error)[:80]}")
        samples.extend(answers)
    if samples.are_wide:
        samples = _narrowed(samples)
    return AccuracyLog(samples, tuple(damage))


_SMALL = 2**16
"""The most answers and tokens of a log whose answers are kept once they are made."""


def _parts(entry: Any) -> _Parts:
    """An entry's answer. Raises ValueError, LookupError, TypeError, AttributeError or OverflowError
    if it is none."""
    if isinstance(entry, _Answer):
        first, count = entry.token_data, entry.token_count
        return (
            entry.qsl_idx,
            _tokens(entry.data),
            None if first is msgspec.UNSET else _tokens(first),
            None if count is msgspec.UNSET else count,
            entry.seq_id,
        )
    count, place = entry.get("token_count"), entry.get("seq_id")
    return (
        _whole(entry["qsl_idx"]),
        _tokens(entry["data"]),
        _tokens(entry["token_data"]) if "token_data" in entry else None,
        None if count is None else _whole(count),
        None if place is None else _whole(place),
    )


def _narrowed(wide: LoggedAnswers) -> LoggedAnswers:
    """The answers with their tokens read as int64."""
    narrow = LoggedAnswers()
    for s in wide:
        ids, first = array("i", s.token_ids[::2]).tobytes(), s.first_token_ids
        first_ids = None if first is None else array("i", first[::2]).tobytes()
        narrow.extend([(s.index, ids, first_ids, s.token_count, s.place)])
    return narrow


@dataclass(frozen=True, slots=True)
class RunLogs:
    """The logs of one LoadGen run. A missing or unreadable file is reported as damage.

    `files`: the size in bytes of each one that was read, by name. `clock`: what the clocks showed
    during the run; None for logs alone.
    """

    folder: Path
    detail: DetailLog
    summary: str
    accuracy: AccuracyLog
    files: Mapping[str, int] = field(default_factory=dict)
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
    files: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name, read, most in (
        (DETAIL, _read_detail, _MAX_LOG_BYTES),
        (SUMMARY, _read_text, MAX_TEXT_BYTES),
        (ACCURACY, _read_accuracy, _MAX_LOG_BYTES),
    ):
        try:
            with open_regular(f"{folder}/{name}", most) as file:
                contents[name], files[name] = read(file), os.fstat(file.fileno()).st_size
        except OSError as error:
            problems[name] = f"{name} cannot be read: {error.strerror}"
    return RunLogs(
        folder,
        contents.get(DETAIL) or DetailLog({}, damage=(problems[DETAIL],)),
        contents.get(SUMMARY, ""),
        contents.get(ACCURACY) or AccuracyLog((), (problems[ACCURACY],)),
        files,
    )


def _read_text(file: BufferedReader) -> str:
    return file.read().decode("utf-8", errors="replace")
