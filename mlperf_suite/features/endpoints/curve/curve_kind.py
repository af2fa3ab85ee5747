"""The curve of a benchmark over fixed concurrencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import CURVE, LOADGEN
from mlperf_suite.features.endpoints.official_client_kind import name_official_client
from mlperf_suite.features.endpoints.options import by_official_client
from mlperf_suite.loadgen.load_plan import ScenarioKey
from mlperf_suite.session.run_kind import Maker, NoCase, OfOnePart, Selection, Step, StepKey

if TYPE_CHECKING:
    from mlperf_suite.features.endpoints.curve.curve_figures import CurveRecord
    from mlperf_suite.results.record import Result
    from mlperf_suite.session.executor import SessionParts
    from mlperf_suite.session.timing.estimate import Estimator
    from mlperf_suite.settings import Settings


@dataclass(frozen=True, slots=True)
class CurveKey(ScenarioKey):
    """A benchmark's curve over fixed concurrencies."""

    scenario: str = CURVE
    kind: ClassVar[str] = "curve"
    mode: ClassVar[Mode] = "performance"

    def __str__(self) -> str:
        return f"{self.benchmark} curve"


class CurveKind(OfOnePart[CurveKey]):
    name, rank, long_steps = CurveKey.kind, 3, ("points",)

    def why_not(self, key: CurveKey, settings: Settings) -> NoCase | None:
        return None

    def fault(
        self, own: Sequence[CurveKey], every: Sequence[StepKey], given: Callable[[str], Any]
    ) -> str | None:
        if own and len(own) < len(every):
            return "curve: its points need the engine to themselves: select it alone, with -m curve"
        return None

    def is_at_a_rate(self, key: CurveKey) -> bool:
        return False

    def steps(
        self, keys: Sequence[CurveKey], selection: Selection
    ) -> Mapping[CurveKey, Sequence[Step]]:
        return {key: [Step("points", key, f"{key}: points, one by one")] for key in keys}

    def knows_seconds(self, step: Step) -> bool:
        return True

    def seconds(self, step: Step, key: CurveKey, estimator: Estimator) -> float | None:
        from mlperf_suite.features.endpoints.curve.curve_points import curve_s

        settings, agentic = estimator.settings, BENCHMARKS[key.benchmark].run_kind != LOADGEN
        by_client = by_official_client(settings)
        return curve_s(smoke=settings.smoke, agentic=agentic, by_client=by_client)

    def check(self, keys: Sequence[CurveKey], session: SessionParts) -> None:
        if by_official_client(session.inputs.settings):
            name_official_client(session)

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.features.endpoints.curve.curves import Curves

        return Curves(*session.run_parts, session.recorder.config_json)

    def part(self) -> CurveRecord:
        from mlperf_suite.features.endpoints.curve.curve_figures import CurveRecord

        return CurveRecord()

    def record(self, step: Step, outcome: Any, result: Result) -> None:
        curve: Any = result.parts[self.name]
        curve.complete = True


KIND = CurveKind()
