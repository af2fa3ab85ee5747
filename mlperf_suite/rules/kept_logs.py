"""The rule on the logs of a result that this suite made: they are as its session wrote them."""

from __future__ import annotations

from dataclasses import dataclass

from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, verdict


@dataclass(frozen=True, slots=True)
class KeptRunFacts(Facts):
    """The logs of one LoadGen run in a result folder of this suite. `changed`: a line for each
    file that differs from the checksum that the session recorded. `contradicted`: how summary.json
    differs from the log that its figure is of, or ""."""

    changed: tuple[str, ...]
    contradicted: str = ""

    @property
    def subject(self) -> Subject:
        return "kept_run"


@rule(
    "kept_run",
    required="as the session recorded them",
    official=False,
    source="checksums.json, which the session wrote beside its results",
    fix="Judge the folder as the session left it.",
)
def unchanged(kept: KeptRunFacts) -> Verdict:
    """The logs, settings and scores of a kept run are as its session wrote them."""
    return verdict(not kept.changed, "; ".join(kept.changed) or "unchanged")


@rule(
    "kept_run",
    required="no figure that the log contradicts",
    official=False,
    source="summary.json, which the session wrote from these logs",
    fix="Judge the folder as the session left it.",
)
def figure_agrees(kept: KeptRunFacts) -> Verdict:
    """The metric in summary.json is that of the performance run's log, and valid if that is."""
    return verdict(not kept.contradicted, kept.contradicted or "none")
