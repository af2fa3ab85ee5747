"""The caching audit, the suite's own: one of each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.loadgen.load_plan import CACHING, RunKey
from mlperf_suite.rules.caching_figures import LOOKS
from mlperf_suite.session.loadgen_kind import ScenarioRun
from mlperf_suite.session.run_kind import Maker, Selection, Step

if TYPE_CHECKING:
    from mlperf_suite.session.session_parts import SessionParts
    from mlperf_suite.session.timing.estimate import Estimator


@dataclass(frozen=True, slots=True)
class CachingKey(RunKey):
    """A caching audit. Its mode is `caching`."""

    kind: ClassVar[str] = "caching audit"


class CachingAudit(ScenarioRun):
    name, rank, long_steps = CachingKey.kind, 0, ("blocks",)

    def key_of(self, benchmark: Benchmark, scenario: str, mode: Mode) -> RunKey | None:
        is_audit = mode == CACHING and not benchmark.chats
        return CachingKey(benchmark.id, scenario, mode) if is_audit else None

    def is_at_a_rate(self, key: RunKey) -> bool:
        return False

    def steps(
        self, keys: Sequence[RunKey], selection: Selection
    ) -> Mapping[RunKey, Sequence[Step]]:
        # The audit's first pair of blocks is its warm-up.
        words = f"caching audit: {LOOKS[0]} to {LOOKS[-1]} pairs of blocks"
        return {key: [Step("blocks", key, f"{key.benchmark} {words}")] for key in keys}

    def seconds(self, step: Step, key: RunKey, estimator: Estimator) -> float | None:
        return estimator.caching_audit_s(BENCHMARKS[key.benchmark])

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.session.caching_audit import CachingAudits

        return CachingAudits(*session.of_runs)


KIND = CachingAudit()
