"""The search for the highest valid rate of a scenario with limits, for --find-peak-qps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.loadgen.load_plan import ScenarioKey
from mlperf_suite.session.loadgen_kind import needs_offline, offline_run
from mlperf_suite.session.run_kind import Maker, NoCase, OfOnePart, Selection, Step, StepKey
from mlperf_suite.session.timing.estimate import AFTER_RUN_S, Estimator

if TYPE_CHECKING:
    from mlperf_suite.features.peak_search.figures import SearchPart
    from mlperf_suite.results.record import Result
    from mlperf_suite.session.executor import SessionParts
    from mlperf_suite.settings import Settings

_RUNS = 11
"""Short runs that a search usually makes; one at full length follows."""
SEARCH = NoCase(("rate search", "rate searches"), "no --find-peak-qps")


@dataclass(frozen=True, slots=True)
class SearchKey(ScenarioKey):
    """The search for the highest valid rate of one scenario."""

    kind: ClassVar[str] = "peak search"
    mode: ClassVar[Mode] = "performance"

    def __str__(self) -> str:
        return f"{self.benchmark} {self.scenario} peak search"


class PeakSearchKind(OfOnePart[SearchKey]):
    name, rank, long_steps, is_compared = SearchKey.kind, 2, ("search",), False

    def why_not(self, key: SearchKey, settings: Settings) -> NoCase | None:
        is_asked = settings.feature_options["find_peak_qps"]
        return super().why_not(key, settings) or (None if is_asked else SEARCH)

    def needs(self, key: SearchKey, selection: Selection) -> tuple[StepKey, ...]:
        at_a_rate = needs_offline(key.benchmark, self.is_at_a_rate(key), selection)
        return (offline_run(key.benchmark),) if at_a_rate else ()

    def steps(
        self, keys: Sequence[SearchKey], selection: Selection
    ) -> Mapping[SearchKey, Sequence[Step]]:
        return {key: [Step("search", key, f"{key}: at most 16 runs")] for key in keys}

    def seconds(self, step: Step, key: SearchKey, estimator: Estimator) -> float | None:
        return _search_s(key, estimator)

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.features.peak_search.rate_search import PeakSearches

        return PeakSearches(*session.run_parts, session.preparation)

    def part(self) -> SearchPart:
        from mlperf_suite.features.peak_search.figures import SearchPart

        return SearchPart()

    def record(self, step: Step, outcome: Any, result: Result) -> None:
        search: Any = result.parts[self.name]
        search.outcome = outcome


KIND = PeakSearchKind()


def _search_s(key: SearchKey, estimator: Estimator) -> float:
    """Seconds that a search usually takes: short runs, and one at full length."""
    from mlperf_suite.features.peak_search.figures import MAX_TRIAL_SAMPLES, SHORT

    benchmark, smoke = BENCHMARKS[key.benchmark], estimator.settings.smoke
    # Its rate follows from Offline's, whatever rate Server is given.
    times = replace(estimator.times(benchmark, benchmark.scenario(key.scenario)), server_qps=None)
    samples = min(len(times.lengths.prompts), MAX_TRIAL_SAMPLES)
    trial_s = max(SHORT[smoke].min_duration_ms / 1000, times.at_once_s(samples)) + AFTER_RUN_S
    return _RUNS * trial_s + times.run_s("performance", samples)
