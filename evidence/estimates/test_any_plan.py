"""Properties of the plan of any runs: it is the same beside others, and measures a rate once."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import default_benchmarks
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.run_kind import Selection

LLAMA = "llama3.1-8b"
MODES: tuple[Mode, ...] = ("accuracy", "performance", "test06")
EVERY = [
    RunKey(benchmark.id, scenario.name, mode)
    for benchmark in default_benchmarks()
    for scenario, mode in product(benchmark.scenarios, MODES)
]
selected_runs = st.sets(st.sampled_from(EVERY)).map(list)


@given(selected_runs)
def test_a_run_is_planned_alike_whatever_else_is_selected(runs: list[RunKey]) -> None:
    ids = [benchmark.id for benchmark in default_benchmarks()]
    together = plan_session(Selection(runs, rates_known=ids))
    assert together == plan_session(Selection(runs[::-1], rates_known=ids))
    for key in runs:
        alone = plan_session(Selection([key], rates_known=ids))
        steps = [
            [s for s in plan.steps if s.key == key and s.kind != "rate"]
            for plan in (together, alone)
        ]
        assert steps[0] == steps[1]


@given(selected_runs, st.booleans(), st.booleans())
def test_a_rate_is_measured_once_where_no_accuracy_run_shows_it(
    runs: list[RunKey], given_rate: bool, without_rates: bool
) -> None:
    places = {(key.benchmark, key.scenario) for key in runs} if without_rates else set()
    plan = plan_session(Selection(runs, repeat=2, offline_rate_given=given_rate, no_rate=places))
    for key in plan.runs:
        assert isinstance(key, RunKey)
        at_place = [s for s in plan.steps if s.key and str(s.key).startswith(_place(key))]
        rates = [s for s in at_place if s.kind == "rate"]
        accuracy = RunKey(key.benchmark, key.scenario, "accuracy")
        has_accuracy = any(s.key == accuracy for s in at_place) and not without_rates
        sized = any(s.key.mode != "accuracy" for s in at_place if isinstance(s.key, RunKey)) and (
            key.scenario == "SingleStream" or (key.scenario == "Offline" and not given_rate)
        )
        assert len(rates) == (sized and not has_accuracy)


def _place(key: RunKey) -> str:
    return f"{key.benchmark} {key.scenario} "
