"""The verdict of a rule on a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Status = Literal["passed", "failed", "shortened", "not judged"]
_LONGEST = 300
"""The maximum number of characters of a log's own text that a verdict repeats."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule applied to one run. `found`, `required` and `why` are words for the reader.

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
        return f"{self.rule}: {self.status}: found {self.found}, required {self.required}{reason}"

    def as_json(self) -> dict[str, object]:
        return {
            "rule": self.rule,
            "status": self.status,
            "passed": self.passed,
            "found": self.found,
            "required": self.required,
            "why": self.why,
        }


def in_words(value: object) -> str:
    """A value from a log or a file, as one printable line."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = " ".join(str(value).split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def verdict(ok: bool, found: object, required: object, why: object = "") -> Verdict:
    """Passed or failed, for the rule that returns it."""
    status: Status = "passed" if ok else "failed"
    return Verdict("", status, in_words(found), in_words(required), in_words(why))


def set_aside(verdicts: Sequence[Verdict], why: str) -> list[Verdict]:
    """Set the verdicts on figures that are not a result to "not judged", whatever was found."""
    return [replace(one, status="not judged", why=why) for one in verdicts]


def not_judged(found: object, required: object, why: str) -> Verdict:
    """A verdict of "not judged", for the rule that returns it."""
    return Verdict("", "not judged", in_words(found), in_words(required), in_words(why))
