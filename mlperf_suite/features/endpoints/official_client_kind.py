"""Runs of MLCommons' own HTTP client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, Benchmark
from mlperf_suite.features.endpoints.official_client.installation import find_official_client
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OFFICIAL_CLIENT_SCENARIOS,
    OfficialClientRunKey,
    official_client_benchmark,
)
from mlperf_suite.features.endpoints.options import by_official_client, series_of
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.session.loadgen_kind import needs_offline
from mlperf_suite.session.run_kind import TEST, Maker, NoCase, RunKind, Selection, Step, StepKey

if TYPE_CHECKING:
    from mlperf_suite.results.record import Result
    from mlperf_suite.rules.verdict import Verdict
    from mlperf_suite.session.executor import SessionParts
    from mlperf_suite.session.timing.estimate import Estimator
    from mlperf_suite.session.timing.run_sizing import RunSizing
    from mlperf_suite.settings import Settings


_CLIENT_S = 25.0
"""What the official client takes to start and to score, in s."""


def name_official_client(session: SessionParts) -> None:
    """Let the results name the client that is installed. Raises UsageError if there is none."""
    client = find_official_client()
    session.recorder.load_generator = client.words
    if client.note:
        session.display.say(client.note)


class OfficialClient(RunKind[OfficialClientRunKey]):
    name, rank, long_steps = OfficialClientRunKey.kind, 1, ("client run",)

    def why_not(self, key: OfficialClientRunKey, settings: Settings) -> NoCase | None:
        if not by_official_client(settings):
            return NoCase(TEST, "no --client")
        series = series_of(settings)
        return NoCase(TEST, f"--series {series}") if series else None

    def key_of(
        self, benchmark: Benchmark, scenario: str, mode: Mode
    ) -> OfficialClientRunKey | None:
        known = scenario in OFFICIAL_CLIENT_SCENARIOS and official_client_benchmark(
            benchmark.id, scenario
        )
        is_made = known and mode in ("performance", "accuracy")
        return OfficialClientRunKey(benchmark.id, scenario) if is_made else None

    def needs(self, key: OfficialClientRunKey, selection: Selection) -> tuple[StepKey, ...]:
        needed = key in selection.keys
        if needed and needs_offline(key.benchmark, self.is_at_a_rate(key), selection):
            return (OfficialClientRunKey(key.benchmark, "Offline"),)
        return ()

    def steps(
        self, keys: Sequence[OfficialClientRunKey], selection: Selection
    ) -> Mapping[OfficialClientRunKey, Sequence[Step]]:
        why = {key: "" if key in selection.keys else " (for Server's rate)" for key in keys}
        return {key: [Step("client run", key, f"{key}{why[key]}")] for key in keys}

    def modes(self, key: OfficialClientRunKey, selection: Selection) -> set[Mode]:
        return {"performance", "accuracy"} if key in selection.scored else {"performance"}

    def seconds(self, step: Step, key: OfficialClientRunKey, estimator: Estimator) -> float | None:
        runs = (
            RunKey(*key.benchmark_and_scenario, "performance"),
            RunKey(*key.benchmark_and_scenario, "accuracy"),
        )
        return _CLIENT_S + sum(estimator.run_s("run", run) for run in runs)

    def least_s(self, key: OfficialClientRunKey) -> float:
        return MIN_DURATION_MS / 1e3

    def learn(self, step: Step, outcome: Any, sizing: RunSizing) -> None:
        if step.key is not None:
            sizing.learn_offline(step.key.benchmark_and_scenario, outcome)

    def check(self, keys: Sequence[OfficialClientRunKey], session: SessionParts) -> None:
        name_official_client(session)
        scored = session.sizing.plan.selection.scored
        for benchmark in {key.benchmark for key in keys if key in scored}:
            session.inputs.scorer(BENCHMARKS[benchmark]).check()

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.features.endpoints.official_client_runs import OfficialClientRuns

        return OfficialClientRuns(*session.run_parts, session.preparation)

    def result(self, key: OfficialClientRunKey, recorder: Any, started: datetime) -> Any:
        return recorder.new_result(key.benchmark_and_scenario, started, by_client=True)

    def begin(self, key: OfficialClientRunKey, result: Result) -> None:
        from mlperf_suite.results.record import RunRecord

        result.runs["performance"] = RunRecord()

    def end(self, key: OfficialClientRunKey, result: Result, failure: str | None) -> None:
        result.runs["performance"].failure = failure

    def verdicts(self, key: OfficialClientRunKey, result: Result) -> list[Verdict]:
        return result.verdicts


KIND = OfficialClient()
