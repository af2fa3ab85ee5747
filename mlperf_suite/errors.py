"""The errors a user can meet. Each message is one line: what is wrong, where, what to do."""

from __future__ import annotations

from mlperf_suite.secrets import scrub


class SuiteError(Exception):
    """Base of every error that the suite raises on purpose; its message is one line."""

    def __init__(self, message: str) -> None:
        # A value or another library's words within it may have several.
        super().__init__(scrub(" ".join(message.splitlines())))


class UsageError(SuiteError):
    """A setting that cannot be used: names the option, the value and what is allowed."""

    @classmethod
    def for_option(cls, option: str, value: object, allowed: str) -> UsageError:
        return cls(f"{option} {value}: {allowed}")


class DatasetError(UsageError):
    """Data that cannot be used: names the file, the row and the field."""


class EngineError(SuiteError):
    """The engine could not be made, refused a prompt, or died."""


class EngineDiedError(EngineError):
    """The engine is gone: no request of any sample can be answered any more."""


class RunError(SuiteError):
    """A LoadGen run that ended without a result."""


def of_the_system(error: OSError, otherwise: object) -> str:
    """The file and what is wrong with it, in a line. `otherwise`: named where the error names none.

    A library may raise an OSError with words of its own and no number: those are the cause then.
    """
    return " ".join(f"{error.filename or otherwise}: {error.strerror or error}".splitlines())
