"""Runs of benchmarks of messages, which LoadGen does not make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.errors import UsageError
from mlperf_suite.features.chats.chat_prompts import CHATS
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.session.loadgen_kind import ScenarioRun
from mlperf_suite.session.run_kind import Maker, Selection, Step, StepKey, kind_of

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.session.engine_source import EngineRequest
    from mlperf_suite.session.executor import SessionParts
    from mlperf_suite.session.inputs import Inputs
    from mlperf_suite.session.timing.estimate import Estimator
    from mlperf_suite.settings import Settings


@dataclass(frozen=True, slots=True)
class ChatKey(RunKey):
    """A run of a benchmark of messages."""

    kind: ClassVar[str] = CHATS


_WHAT = {"performance": "recorded conversations", "accuracy": "function calls"}


class Chats(ScenarioRun):
    name, rank, is_probed = CHATS, 0, False

    def key_of(self, benchmark: Benchmark, scenario: str, mode: Mode) -> RunKey | None:
        return ChatKey(benchmark.id, scenario, mode) if benchmark.run_kind == CHATS else None

    def fault(
        self, own: Sequence[RunKey], every: Sequence[StepKey], given: Callable[[str], Any]
    ) -> str | None:
        ids = {key.benchmark for key in every if kind_of(key).role == "runs"}
        of_chats = sorted(id_ for id_ in ids if BENCHMARKS[id_].run_kind == CHATS)
        if of_chats and len(ids) > 1:
            return f"--benchmark {of_chats[0]}: its engine is asked for messages: select it alone"
        return None

    def is_at_a_rate(self, key: RunKey) -> bool:
        return False

    def steps(
        self, keys: Sequence[RunKey], selection: Selection
    ) -> Mapping[RunKey, Sequence[Step]]:
        # Nothing is sent before the first turn: every request counts.
        return {key: [Step("run", key, f"{key}: {_WHAT[key.mode]}")] for key in keys}

    def needs(self, key: RunKey, selection: Selection) -> tuple[StepKey, ...]:
        accuracy = ChatKey(key.benchmark, key.scenario, "accuracy")
        return (accuracy,) if key.mode == "performance" and accuracy in selection.keys else ()

    def seconds(self, step: Step, key: RunKey, estimator: Estimator) -> float | None:
        assert estimator.speed is not None
        benchmark = BENCHMARKS[key.benchmark]
        workload = estimator.settings.workload(benchmark)
        tokens = workload.part(key.mode).mean_tokens
        one_s = estimator.speed.one_s(round(workload.prompt_tokens), tokens)
        return estimator.available(benchmark, key.mode) * one_s

    def check_engine(self, benchmark: Benchmark, settings: Settings) -> None:
        endpoints = settings.feature_options["endpoints"]
        if not benchmark.scenarios and (not endpoints or settings.own_runs):
            raise UsageError(
                f"{benchmark.id}: the suite's own client holds its conversations at a server: add "
                "--endpoint, and no --client"
            )
        if not source_of(settings).one_by_one or len(endpoints) > 1:
            raise UsageError(f"{benchmark.id}: one request is in flight at a time: name one server")
        if not settings.smoke and not endpoints:
            raise UsageError(
                f"{benchmark.id}: an official run measures a server: start one and add --endpoint"
            )

    def engine(self, inputs: Inputs, request: EngineRequest) -> Engine | None:
        if not inputs.settings.feature_options["endpoints"]:
            return None
        from mlperf_suite.features.chats.chat_client import ChatEndpoint
        from mlperf_suite.features.servers.source import endpoint_config

        return ChatEndpoint.load(endpoint_config(inputs, request.log_file))

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.features.chats.chat_runs import ChatRuns

        return ChatRuns(*session.run_parts)


KIND = Chats()
