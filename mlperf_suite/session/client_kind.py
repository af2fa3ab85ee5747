"""Runs of MLCommons' own HTTP client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import MIN_DURATION_MS
from mlperf_suite.client_results.client_benchmarks import ClientRunKey
from mlperf_suite.session.loadgen_kind import needs_offline
from mlperf_suite.session.run_kind import (
    TEST,
    Maker,
    NoCase,
    RunKind,
    Selection,
    Step,
    StepKey,
)

if TYPE_CHECKING:
    from mlperf_suite.results.record import Result
    from mlperf_suite.rules.verdict import Verdict
    from mlperf_suite.session.session_parts import SessionParts
    from mlperf_suite.session.timing.estimate import Estimator
    from mlperf_suite.session.timing.run_sizing import RunSizing
    from mlperf_suite.settings import Settings


class OfficialClient(RunKind[ClientRunKey]):
    name, rank, long_steps = ClientRunKey.kind, 1, ("client run",)

    def why_not(self, key: ClientRunKey, settings: Settings) -> NoCase | None:
        return NoCase(TEST, f"--series {settings.series}") if settings.series else None

    def needs(self, key: ClientRunKey, selection: Selection) -> tuple[StepKey, ...]:
        needed = key in selection.keys
        if needed and needs_offline(key.benchmark, self.is_at_a_rate(key), selection):
            return (ClientRunKey(key.benchmark, "Offline"),)
        return ()

    def steps(
        self, keys: Sequence[ClientRunKey], selection: Selection
    ) -> Mapping[ClientRunKey, Sequence[Step]]:
        why = {key: "" if key in selection.keys else " (for Server's rate)" for key in keys}
        return {key: [Step("client run", key, f"{key}{why[key]}")] for key in keys}

    def modes(self, key: ClientRunKey, selection: Selection) -> set[Mode]:
        return {"performance", "accuracy"} if key in selection.scored else {"performance"}

    def seconds(self, step: Step, key: ClientRunKey, estimator: Estimator) -> float | None:
        return estimator.client_run_s(key.place)

    def least_s(self, key: ClientRunKey) -> float:
        return MIN_DURATION_MS / 1e3

    def learn(self, step: Step, outcome: Any, pace: RunSizing) -> None:
        if step.key is not None:
            pace.learn_offline(step.key.place, outcome)

    def check(self, keys: Sequence[ClientRunKey], session: SessionParts) -> None:
        scored = session.pace.plan.selection.scored
        for benchmark in {key.benchmark for key in keys if key in scored}:
            session.inputs.scorer(BENCHMARKS[benchmark]).check()

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.session.client_runs import ClientRuns

        return ClientRuns(*session.of_runs, session.preparation)

    def begin(self, key: ClientRunKey, result: Result) -> None:
        from mlperf_suite.results.record import RunRecord

        result.runs["performance"] = RunRecord()

    def end(self, key: ClientRunKey, result: Result, failure: str | None) -> None:
        result.runs["performance"].failure = failure

    def verdicts(self, key: ClientRunKey, result: Result) -> list[Verdict]:
        return result.verdicts


KIND = OfficialClient()
