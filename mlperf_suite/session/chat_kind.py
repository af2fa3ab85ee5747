"""Runs of benchmarks of messages, which LoadGen does not make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.session.loadgen_kind import ScenarioRun
from mlperf_suite.session.run_kind import Maker, Selection, Step, StepKey

if TYPE_CHECKING:
    from mlperf_suite.session.session_parts import SessionParts
    from mlperf_suite.session.timing.estimate import Estimator


@dataclass(frozen=True, slots=True)
class ChatKey(RunKey):
    """A run of a benchmark of messages."""

    kind: ClassVar[str] = "chats"


_WHAT = {"performance": "recorded conversations", "accuracy": "function calls"}


class Chats(ScenarioRun):
    name, rank = ChatKey.kind, 0

    def key_of(self, benchmark: Benchmark, scenario: str, mode: Mode) -> RunKey | None:
        return ChatKey(benchmark.id, scenario, mode) if benchmark.chats else None

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
        return estimator.chats_s(key)

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.session.chat_runs import ChatRuns

        return ChatRuns(*session.of_runs)


KIND = Chats()
