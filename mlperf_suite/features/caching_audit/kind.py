"""The caching audit as a kind of run: one of each model, on its benchmark's Offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.features.caching_audit.block_times import LOOKS, MODE, audit_s
from mlperf_suite.loadgen.load_plan import MODES, RunKey
from mlperf_suite.session.loadgen_kind import ScenarioRun
from mlperf_suite.session.run_kind import Maker, RunKind, Selection, Step

if TYPE_CHECKING:
    from mlperf_suite.results.record import Result
    from mlperf_suite.session.executor import SessionParts
    from mlperf_suite.session.timing.estimate import Estimator


@dataclass(frozen=True, slots=True)
class CachingKey(RunKey):
    """A caching audit. Its mode is `caching`."""

    mode: Mode = MODE
    kind: ClassVar[str] = "caching audit"


class CachingAudit(ScenarioRun):
    name, rank, long_steps = CachingKey.kind, 0, ("blocks",)

    def order(self, key: RunKey) -> tuple[Any, ...]:
        """After the other runs of its scenario."""
        return *RunKind.order(self, key), len(MODES)

    def is_at_a_rate(self, key: RunKey) -> bool:
        return False

    def steps(
        self, keys: Sequence[RunKey], selection: Selection
    ) -> Mapping[RunKey, Sequence[Step]]:
        # The audit's first pair of blocks is its warm-up.
        words = f"caching audit: {LOOKS[0]} to {LOOKS[-1]} pairs of blocks"
        return {key: [Step("blocks", key, f"{key.benchmark} {words}")] for key in keys}

    def seconds(self, step: Step, key: RunKey, estimator: Estimator) -> float | None:
        return audit_s(estimator, BENCHMARKS[key.benchmark])

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.features.caching_audit.audit import CachingAudits

        return CachingAudits(*session.run_parts)

    def begin(self, key: RunKey, result: Result) -> None:
        from mlperf_suite.features.caching_audit.figures import CachingPart

        super().begin(key, result)
        result.parts[self.name] = CachingPart()


KIND = CachingAudit()
