"""A run of the session, as tests ask for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite.plugin.lifecycle import suite_of
from mlperf_suite.plugin.outcomes import conclude, make, summary_of
from mlperf_suite.rules.registry import rule_name
from mlperf_suite.session.run_kinds import kind_of

if TYPE_CHECKING:
    from mlperf_suite.results.schema import Summary
    from mlperf_suite.rules.verdict import Verdict
    from mlperf_suite.session.recorder import SessionResult
    from mlperf_suite.session.run_kind import StepKey


class SessionRun:
    """A run of the session, made when a test first asks for something of it."""

    def __init__(self, config: pytest.Config, step: StepKey) -> None:
        self._config = config
        self.step = step

    def __repr__(self) -> str:
        return str(self.step)

    def obeys(self, rule: Callable[..., Any] | str) -> None:
        """Judge the run by a rule, given as its function or by its verdict's full name.

        Raises LookupError if the rule does not apply to such a run.
        """
        subject = kind_of(self.step).subject(self.step)
        name = rule if isinstance(rule, str) else rule_name(rule, subject)
        verdict = next((v for v in self._verdicts(name) if v.rule == name), None)
        if verdict is None:
            raise LookupError(f"{self.step}: no rule {name} holds for it")
        conclude(self._config, verdict)

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdict of every rule that applies to the run."""
        return self._verdicts("verdicts")

    @property
    def summary(self) -> Summary:
        """The summary of the run's result so far, with the figures of its other runs too."""
        return summary_of(self._config, self.step, "summary")

    @property
    def folder(self) -> Path:
        """The folder of the run's result: logs, answers, reports."""
        make(self._config, self.step, "folder")
        result: SessionResult = suite_of(self._config).recorder.result_of(self.step)
        return result.folder.path

    def _verdicts(self, purpose: str) -> list[Verdict]:
        make(self._config, self.step, purpose)
        return suite_of(self._config).recorder.verdicts(self.step)
