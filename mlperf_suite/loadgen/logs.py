"""Reading LoadGen's logs, whoever made them.

Nothing here raises for what is in a log: a damaged line is kept as a fact about the log, and a
key that is absent is None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DETAIL, SUMMARY, ACCURACY = (
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_accuracy.json",
)
_PREFIX = ":::MLLOG "
_LARGEST = 2**64
_SAID_ONCE = ("requested_", "effective_", "qsl_reported_", "result_", "early_stopping_", "num_")
"""LoadGen writes a key that begins like this once in a run."""


@dataclass(frozen=True, slots=True)
class DetailLog:
    """A parsed mlperf_log_detail.txt.

    `values`: the last value of each key. `errors`: the text of each entry that LoadGen marked as
    an error. `damage`: one line for each thing that is wrong with the file itself.
    """

    values: Mapping[str, Any]
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)

    def number(self, key: str) -> float | int | None:
        """The value as a number of at most 64 bits, or None where it is absent or is none."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        # No figure of LoadGen is beyond 64 bits, and larger integers cannot become a float.
        return value if -_LARGEST <= value <= _LARGEST else None

    def milliseconds(self, key: str) -> float | None:
        """The value of a key in ns, in ms."""
        value = self.number(key)
        return None if value is None else value / 1e6


def parse_detail(text: str) -> DetailLog:
    """Parse the text of a detail log."""
    values: dict[str, Any] = {}
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
    return DetailLog(values, tuple(errors), tuple(warnings), tuple(damage))


@dataclass(frozen=True, slots=True)
class LoggedSample:
    """One entry of mlperf_log_accuracy.json: the sample's index and its int32 output tokens.

    `first_token_ids` and `token_count` are there in runs that stream, as LoadGen was told them.
    """

    index: int
    token_ids: tuple[int, ...]
    first_token_ids: tuple[int, ...] | None = None
    token_count: int | None = None


@dataclass(frozen=True, slots=True)
class AccuracyLog:
    """A parsed mlperf_log_accuracy.json, in the log's order. `damage` as in DetailLog."""

    samples: tuple[LoggedSample, ...]
    damage: tuple[str, ...] = ()

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


def _tokens(value: object) -> tuple[int, ...]:
    """Token ids from LoadGen's hex dump of little-endian int32. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("no hex string")
    raw = bytes.fromhex(value)
    if len(raw) % 4:
        raise ValueError("not a whole number of int32")
    return tuple(memoryview(raw).cast("i"))


def parse_accuracy(text: str) -> AccuracyLog:
    """Parse the text of an accuracy log."""
    samples: list[LoggedSample] = []
    damage: list[str] = []
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        return AccuracyLog((), (f"not JSON: {str(error)[:100]}",))
    if not isinstance(entries, list):
        return AccuracyLog((), ("not a list",))
    for number, entry in enumerate(entries, 1):
        try:
            count = entry.get("token_count")
            samples.append(
                LoggedSample(
                    _whole(entry["qsl_idx"]),
                    _tokens(entry["data"]),
                    _tokens(entry["token_data"]) if "token_data" in entry else None,
                    None if count is None else _whole(count),
                )
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            damage.append(f"entry {number}: {type(error).__name__}: {str(error)[:80]}")
    return AccuracyLog(tuple(samples), tuple(damage))


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
    texts: dict[str, str | None] = {}
    files: dict[str, Path] = {}
    sizes: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name in (DETAIL, SUMMARY, ACCURACY):
        path = folder / name
        try:
            content = path.read_bytes()
        except OSError as error:
            texts[name] = None
            problems[name] = f"{name} cannot be read: {error.strerror}"
            continue
        texts[name] = content.decode("utf-8", errors="replace")
        files[name], sizes[name] = path, len(content)
    detail_text, accuracy_text = texts[DETAIL], texts[ACCURACY]
    return RunLogs(
        folder,
        DetailLog({}, damage=(problems[DETAIL],))
        if detail_text is None
        else parse_detail(detail_text),
        texts[SUMMARY] or "",
        AccuracyLog((), (problems[ACCURACY],))
        if accuracy_text is None
        else parse_accuracy(accuracy_text),
        files,
        sizes,
    )
