"""The verdict of a rule on what it judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mlperf_suite.strangers import printable

Status = Literal["passed", "failed", "shortened", "not judged"]
_LONGEST = 300
"""The maximum number of characters of a log's own text that a verdict repeats."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule applied once. `found`, `required` and `why` are words for the reader.

    "shortened": a smoke run that fails the full requirement, which smoke relaxes. "not judged":
    nothing to compare with; `why` says what is missing. Neither is a pass.
    """

    rule: str
    status: Status
    found: str
    required: str
    why: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def line(self) -> str:
        """The verdict in one line."""
        reason = f" ({self.why})" if self.why else ""
        words = f"found {self.found}, required {self.required}{reason}"
        return printable(f"{self.rule}: {self.status}: {words}")

    def as_json(self) -> dict[str, object]:
        return {
            "rule": self.rule,
            "status": self.status,
            "found": self.found,
            "required": self.required,
            "why": self.why,
        }


class VerdictError(Exception):
    """Ends a rule wherever it is: `verdict` says what is absent or wrong."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.line)
        self.verdict = verdict


def in_words(value: object) -> str:
    """A value from a log or a file, as one printable line."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# For a rule: its name is added, and its own demand where none is given.


def verdict(ok: bool, value: object, demand: object = "", why: object = "") -> Verdict:
    """Passed or failed. `value`: what was found. `demand`: what is required."""
    status: Status = "passed" if ok else "failed"
    return Verdict("", status, in_words(value), in_words(demand), in_words(why))


def not_judged(value: object, demand: object = "", why: object = "") -> Verdict:
    """`why`: what is missing for a judgement."""
    return Verdict("", "not judged", in_words(value), in_words(demand), in_words(why))


def failure(value: object, demand: object = "", why: object = "") -> VerdictError:
    """To be raised: the rule fails."""
    return VerdictError(verdict(False, value, demand, why))


def set_aside(verdicts: Sequence[Verdict], why: str) -> list[Verdict]:
    """Set the verdicts on figures that are not a result to "not judged", whatever was found."""
    return [replace(verdict, status="not judged", why=why) for verdict in verdicts]


def set_aside_passed(verdicts: Sequence[Verdict], why: str) -> list[Verdict]:
    """The same of those that passed: what a party says of its own logs excuses no failure."""
    return [v if v.status == "failed" else set_aside([v], why)[0] for v in verdicts]
