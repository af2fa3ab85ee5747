"""The errors that users see. Each message is one line: what is wrong, where, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from mlperf_suite.secrets import redact
from mlperf_suite.untrusted_files import printable


def _as_line(message: str) -> str:
    return printable(redact(" ".join(message.splitlines())))


class SuiteError(Exception):
    """Base class of all errors that the suite raises on purpose; its message is one line."""

    def __init__(self, message: str) -> None:
        # A value or another library's message in it may have several lines.
        super().__init__(_as_line(message))


class UsageError(SuiteError):
    """A setting that cannot be used: names the option, the value and what is allowed."""

    @classmethod
    def for_option(cls, option: str, value: object, limits: str) -> UsageError:
        return cls(f"{option} {value}: {limits}")


class RefusedError(SuiteError):
    """Results that cannot be aggregated or submitted; `reasons` has one line each."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(map(_as_line, reasons))
        count = f", for {len(self.reasons)} reasons" if len(self.reasons) > 1 else ""
        super().__init__(f"refused{count}: {'; '.join(self.reasons)}")


class DatasetError(UsageError):
    """Data that cannot be used: names the file, the row and the field."""


class EngineError(SuiteError):
    """The engine could not be created, refused a prompt, or died."""


class EngineDiedError(EngineError):
    """The engine is gone: it can answer no more requests."""


class RunError(SuiteError):
    """A LoadGen run that ended without a result."""


def os_error_line(error: OSError, otherwise: object) -> str:
    """The file and what is wrong with it, in one line. `otherwise`: used if it names no file.

    A library may raise an OSError with its own message and no number: that message is then used.
    """
    return " ".join(f"{error.filename or otherwise}: {error.strerror or error}".splitlines())


def first_line(error: BaseException) -> str:
    """The first line of another library's message, or the name of its error if it has none."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def one_line(error: BaseException) -> str:
    """Another library's message in one line of at most 300 characters, or the name of its error."""
    # Redact before cutting: part of a key would no longer be recognized.
    return " ".join(redact(str(error)).split())[:300] or type(error).__name__
