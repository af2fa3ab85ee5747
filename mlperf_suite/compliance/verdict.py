"""What a rule says of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "shortened", "not judged"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule applied to one run. `found`, `required` and `why` are words for a person.

    "shortened": a smoke run that meets its own, smaller demand. "not judged": nothing to compare
    with, `why` says what is missing. Neither is a pass.
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
