"""The folder of one run, and those beside it: the runs that are kept, newest first."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mlperf_suite import strict_json
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import CURVE, SCENARIOS
from mlperf_suite.errors import UsageError
from mlperf_suite.feature import features
from mlperf_suite.results.schema import PerformanceFigures, Summary, version_fault
from mlperf_suite.secrets import redact
from mlperf_suite.untrusted_files import open_regular

_TIME = "%Y%m%d-%H%M%S"
SUMMARY_JSON, CONFIG_JSON = "summary.json", "config.json"
CHECKSUMS_JSON = "checksums.json"
PEAK_FOLDER = "PeakQps"
"""The folder for the trial runs of a peak search: short ones, which are not results."""
PROFILE_FOLDER = "profile"
"""The folder for the trace of a profiled run."""
BLOCKS_FOLDER = "Caching"
"""The folder for the logs of an audit's blocks: not results, never submitted."""
ENGINE_LOG = "engine.log"
TRIAL_FOLDERS = (PEAK_FOLDER, BLOCKS_FOLDER)
_VERDICTS = "Compliance/verdicts.json"
_EVIDENCE = (
    "*/mlperf_log_*",
    "*/user.conf",
    *sorted(
        {
            f"{place}/{workload.scorer.name}.json"
            for benchmark in BENCHMARKS.values()
            for workload in (benchmark.workload, benchmark.smoke)
            if workload is not None
            # A scored audit has its scores beside its logs.
            for place in ("*", "*/*")
        }
    ),
    _VERDICTS,
    "*/*/mlperf_log_*",
    "*/*/user.conf",
    "*/*/audit.config",
    # Of the official client.
    "report/config.yaml",
    "report/*/*.json",
)
"""The evidence that a run is judged by; later reports never rewrite it."""
RESERVED_FILE = ".last-word"
"""In a running run's folder: reserves space for its last summary.json in case the disk fills up."""
_RESERVED_BYTES = 16 * 1024
"""The summary of a failed run without verdicts and figures takes about 1 kB, a file system block 4
kB.
"""
LOCK_S, _LOCK_POLL_S = 10.0, 0.01
"""How long a session waits for another one that changes what they share, and how often it looks, in
s. To write the index of a thousand runs takes about a second."""
FINAL_STATUSES = ("complete", "invalid")
"""The statuses of a run that ended normally: whatever it shows, it is a result."""
_BY_CLIENT = "-client"
"""Ends the kind of a run of the official client, which is not one of LoadGen's."""
_OF_FEATURES = "".join(rf"{n}(?:-[a-z_][\w.+-]*?)?|" for f in features() for n in f.results)
_RUN_NAME = re.compile(
    r"\d{8}-\d{6}-"
    rf"(?P<kind>{_OF_FEATURES}[A-Za-z0-9][\w.-]*-(?:{'|'.join((*SCENARIOS, CURVE)).lower()})"
    rf"(?:{_BY_CLIENT})?)"
    r"(?:-(?P<number>\d+))?"
)


def check_writable(folder: Path, option: str = "--results-dir") -> None:
    """Write to a folder of an option, or to the one in which it is to be created; leave nothing
    there.

    Raises UsageError if that fails.
    """
    try:
        existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
        with tempfile.TemporaryFile(dir=existing):
            return
    except OSError as error:
        raise UsageError.for_option(
            option, folder, f"cannot be written: {error.strerror}"
        ) from error


def check_new(folder: Path, option: str) -> None:
    """Raise UsageError if a folder exists and has anything in it, or cannot be made."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError.for_option(option, folder, "already exists; choose a new folder")
    check_writable(folder, option)


@contextlib.contextmanager
def results_lock(results_dir: Path) -> Iterator[None]:
    """Let no other session change what all sessions of a results folder share.

    Goes on without the lock after LOCK_S, since a session that was stopped may hold it, and on a
    file system without locks.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(results_dir, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            _lock(descriptor)
        yield


def _lock(descriptor: int) -> None:
    """Raises OSError if the file system has no locks."""
    deadline = time.monotonic() + LOCK_S
    while time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_POLL_S)


_OF_A_PAIR = "backslashreplace"
"""Half of a surrogate pair, which no file in UTF-8 can contain, is escaped as in JSON."""


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file atomically, so that a reader never sees half of it. A link is replaced, never
    written through. Raises OSError."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", _OF_A_PAIR)
    # Several processes may write the same file.
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        # Somebody else may have put a link there.
        partial.unlink(missing_ok=True)
        with partial.open("xb") as file:
            file.write(content)
        partial.replace(path)
    except OSError as error:
        error.filename = str(path)
        # A partial file is useless, and the disk may be full.
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def write_json(path: Path, content: object) -> None:
    """Write a JSON file as `write_whole` does."""
    write_whole(path, _json_text(content))


def _json_text(content: object) -> str:
    return redact(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_json_list(path: Path, name: str, entries: Iterable[object]) -> None:
    """Write the same as write_json does for {name: [entries]}, one entry at a time, since long
    texts would otherwise be held in memory several times."""
    partial = path.with_name(path.name + ".part")
    with partial.open("w", encoding="utf-8", errors=_OF_A_PAIR) as file:
        file.write(f"{{\n  {json.dumps(name)}: [")
        between = ""
        for entry in entries:
            text = redact(json.dumps(entry, indent=2, ensure_ascii=False)).rstrip("\n")
            # Not textwrap.indent, which also splits at line breaks that JSON does not escape.
            file.write(f"{between}\n{text}".replace("\n", "\n    "))
            between = ","
        file.write("\n  ]\n}\n" if between else "]\n}\n")
    partial.replace(path)


def mode_folder(mode: str) -> str:
    """The folder of a mode's LoadGen logs within a run's folder."""
    names = {"accuracy": "Accuracy", "performance": "Performance"}
    return names.get(mode, f"Compliance/{mode.upper()}")


class RunFolder:
    """One run's folder: results/<time>-<benchmark>-<scenario>/, or results/<time>-<name>/.

    `benchmark`: its id, or a feature's name of its result, whose scenario, if any, is what it is
    of. `by_client`: whether the official client sends the requests.
    """

    def __init__(
        self,
        results_dir: Path,
        benchmark: str,
        scenario: str | None,
        start: datetime,
        *,
        by_client: bool = False,
    ) -> None:
        self.kind = f"{benchmark}-{scenario.lower()}" if scenario else benchmark
        self.kind += _BY_CLIENT if by_client else ""
        name = f"{start:{_TIME}}-{self.kind}"
        for number in range(1, 1000):
            self.path = results_dir / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(parents=True)
                break
        # Not zeros, for which a file system may not allocate space. If there is none, writing the
        # first file reports it.
        try:
            (self.path / RESERVED_FILE).write_bytes(os.urandom(_RESERVED_BYTES))
        except OSError:
            self.give_up_room()
        self.accuracy = self.path / "Accuracy"
        self.performance = self.path / "Performance"
        self.compliance = self.path / "Compliance"

    def log_folder(self, mode: str) -> Path:
        """The folder of a mode's LoadGen logs."""
        return self.path / mode_folder(mode)

    def write(self, name: str, content: object) -> None:
        write_json(self.path / name, content)

    def write_text(self, name: str, text: str) -> None:
        write_whole(self.path / name, text)

    def give_up_room(self) -> None:
        """Release the reserved space once the run is written. A second call does nothing."""
        with contextlib.suppress(OSError):
            (self.path / RESERVED_FILE).unlink()

    def last_word(self, summary: Summary) -> None:
        """Write summary.json in the reserved space, after other files could not be written.

        Leaves out figures and verdicts if there is no space for them. Raises OSError if even that
        fails.
        """
        self.give_up_room()
        with contextlib.suppress(OSError):
            self.write(SUMMARY_JSON, summary.as_json())
            return
        brief = Summary(meta=summary.meta)
        with (self.path / SUMMARY_JSON).open("a+b") as file:
            # Over the earlier one, to reuse its space.
            file.truncate(0)
            file.write(_json_text(brief.as_json()).encode("utf-8", _OF_A_PAIR))

    def record_checksums(self) -> None:
        """Record the SHA-256 of the files that the runs wrote: of each log once, when it is
        complete."""
        checksums = read_checksums(self.path)
        new = [path for path in _evidence(self.path) if _relative(self.path, path) not in checksums]
        checksums |= {_relative(self.path, path): file_sha256(path) for path in new}
        # Each write of a result renews its settings, and each of several audits their verdicts.
        for name in (CONFIG_JSON, _VERDICTS):
            if (self.path / name).is_file():
                checksums[name] = file_sha256(self.path / name)
        self.write(CHECKSUMS_JSON, {"algorithm": "sha256", "files": checksums})

    def drop_older(self, keep: Iterable[Path] = ()) -> None:
        """Remove the older runs of this kind that ended, except those to `keep`.

        A run whose summary cannot be read may be another session's that goes on. What cannot be
        removed stays: that is no fault of this run.
        """
        kept_paths, own_age = {Path(os.path.realpath(path)) for path in keep}, _age(self.path)
        for folder in run_folders(self.path.parent):
            if _kind(folder) != self.kind or _age(folder) >= own_age:
                continue
            summary = read_summary(folder)
            goes_on = summary is None or summary.meta.status == "running"
            in_use = goes_on or (folder / RESERVED_FILE).exists() or folder.resolve() in kept_paths
            if not in_use:
                with contextlib.suppress(OSError):
                    shutil.rmtree(folder)

    def publish(self) -> None:
        """Point `latest` to this folder."""
        link = self.path.with_name(f".latest-{self.path.name}")
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(self.path.name)
        link.replace(link.with_name("latest"))


_MAX_HASHED_BYTES = 2**32


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex. Raises OSError (see `open_regular`)."""
    with open_regular(path, _MAX_HASHED_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _evidence(folder: Path) -> list[Path]:
    return sorted({p for pattern in _EVIDENCE for p in folder.glob(pattern) if p.is_file()})


def _relative(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def read_checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 by path within a run's folder, as the run recorded it; empty if it did not."""
    files = (read_object(folder / CHECKSUMS_JSON) or {}).get("files")
    return {str(k): str(v) for k, v in files.items()} if isinstance(files, dict) else {}


def changed_since_run(folder: Path, place: str = "") -> list[str]:
    """One line for each file that differs from the run's record: changed, missing, or new.

    `place`: what the paths of the files to compare begin with.
    """
    checksums = read_checksums(folder)
    names = {_relative(folder, path) for path in _evidence(folder)} | {CONFIG_JSON}
    if not checksums:
        return [f"no {CHECKSUMS_JSON}: nothing proves that the logs belong to the run"]
    changed = []
    for name in sorted(name for name in names | set(checksums) if name.startswith(place)):
        path = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            changed.append(f"{CHECKSUMS_JSON} names {name}, which is elsewhere")
        elif name not in checksums:
            changed.append(f"{name} was added after the run")
        elif not path.is_file():
            changed.append(f"{name} is missing")
        elif _sha256_now(path) != checksums[name]:
            changed.append(f"{name} was changed after the run")
    return changed


def _sha256_now(path: Path) -> str | None:
    """A file's hash; None if the file cannot be read."""
    with contextlib.suppress(OSError):
        return file_sha256(path)
    return None


def run_folders(results_dir: Path) -> list[Path]:
    """The folders of kept runs, newest first; none if there is no such folder."""
    entries = results_dir.iterdir() if results_dir.is_dir() else ()
    folders = (p for p in entries if p.is_dir() and not p.is_symlink())
    return sorted((p for p in folders if _RUN_NAME.fullmatch(p.name)), key=_age, reverse=True)


class _StartedRun(msgspec.Struct):
    """The part of summary.json that dates a run."""

    class _Meta(msgspec.Struct):
        started: datetime

    meta: _Meta


def _age(folder: Path) -> tuple[int, str, int]:
    """A run's place in time: the instant of its start, since names have the local time of whoever
    ran it. Of those of one second, the tenth comes after the second."""
    name = _RUN_NAME.fullmatch(folder.name)
    assert name is not None
    return _instant(folder), folder.name[: name.end("kind")], int(name["number"] or 1)


def _instant(folder: Path) -> int:
    """A run's start in s since 1970; that in its name, taken as local time, without a summary."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        with open_regular(folder / SUMMARY_JSON) as file:
            started = msgspec.json.decode(file.read(), type=_StartedRun).meta.started
        return int(started.timestamp())
    with contextlib.suppress(ValueError, OverflowError):
        return int(datetime.strptime(folder.name[:15], _TIME).timestamp())
    return 0


def _kind(folder: Path) -> str | None:
    """A run folder's name without its time: a benchmark's scenario, or a feature's result."""
    name = _RUN_NAME.fullmatch(folder.name)
    return name["kind"] if name else None


def read_summary(folder: Path) -> Summary | None:
    """A run's summary.json, or None if there is none that can be read (`summary_fault`)."""
    content = read_object(folder / SUMMARY_JSON)
    return None if content is None or version_fault(content) else Summary.read(content)


def summary_fault(folder: Path) -> str:
    """Why a folder has no summary.json that can be read, in words; empty if it has one."""
    content = read_object(folder / SUMMARY_JSON)
    if content is None:
        return f"no {SUMMARY_JSON} that can be read"
    fault = version_fault(content)
    return fault and f"{SUMMARY_JSON} has {fault}"


def read_config(folder: Path) -> dict[str, Any] | None:
    """A run's raw config.json, or None if there is no readable one."""
    return read_object(folder / CONFIG_JSON)


def read_object(path: Path) -> dict[str, Any] | None:
    """The raw object in a JSON file, or None if there is no readable one."""
    try:
        content = strict_json.load(path)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One run. `fault`: as in `summary_fault`."""

    name: str
    fault: str
    summary: Summary

    @property
    def performance(self) -> PerformanceFigures:
        """Its performance figures; each is None if there are none."""
        return self.summary.run.performance or PerformanceFigures()

    @property
    def gate(self) -> str:
        """The worst outcome of the regression gate; empty if nothing was compared."""
        regression = self.summary.regression
        outcomes = [change.outcome for change in regression.metrics] if regression else []
        ranks = ("regressed", "cannot tell", "improved", "unchanged")
        return next((outcome for outcome in ranks if outcome in outcomes), "")

    @property
    def line(self) -> tuple[str, str]:
        """What the runs of a trend have in common: hardware or remote servers, and workload."""
        meta = self.summary.meta
        words = filter(
            None, (meta.title or "?", meta.model or "?", meta.label, meta.load_generator)
        )
        return ", ".join(self.summary.machines), ", ".join(words)


@dataclass(frozen=True, slots=True)
class Trend:
    """One system's scenario over time. `points`: run and value, oldest first."""

    system: str
    runs: str
    unit: str
    points: tuple[tuple[str, float], ...]


def read_entries(results_dir: Path) -> list[KeptRun]:
    """Every kept run, newest first; never raises because of a folder's content."""
    return [_entry(folder) for folder in run_folders(results_dir)]


def _entry(folder: Path) -> KeptRun:
    return KeptRun(folder.name, summary_fault(folder), read_summary(folder) or Summary())


def trends_of(entries: list[KeptRun]) -> list[Trend]:
    """The main metric of each system and scenario with at least two runs that are results."""
    points: dict[tuple[str, str], list[tuple[str, float]]] = {entry.line: [] for entry in entries}
    for entry in reversed(entries):
        latency_ms, rate = entry.performance.latency_ms, entry.performance.mean("tokens_per_sec")
        value = (latency_ms or {}).get("p90") if _is_single(entry.line) else rate
        if value is not None and not entry.summary.no_result:
            points[entry.line].append((entry.name, value))
    return [
        Trend(*line, "latency p90, ms" if _is_single(line) else "tokens/s", tuple(of_line))
        for line, of_line in points.items()
        if len(of_line) > 1
    ]


def _is_single(line: tuple[str, str]) -> bool:
    return " SingleStream," in line[1]
