"""The plan of a session: its steps, their order, what needs what, and how it is printed."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import default_benchmarks
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.session.plan import Plan, duration_words, plan_session
from mlperf_suite.session.run_kind import Selection, Step

LLAMA = "llama3.1-8b"
MODES: tuple[Mode, ...] = ("accuracy", "performance", "test06")
EVERY = [
    RunKey(benchmark.id, scenario.name, mode)
    for benchmark in default_benchmarks()
    for scenario, mode in product(benchmark.scenarios, MODES)
]
selected_runs = st.sets(st.sampled_from(EVERY)).map(list)


def run(scenario: str, mode: str = "performance") -> RunKey:
    return RunKey(LLAMA, scenario, mode)


def kinds(plan: Plan) -> list[str]:
    return [step.kind for step in plan.steps]


def test_offline_is_loaded_probed_warmed_up_and_run_in_this_order() -> None:
    plan = plan_session(Selection([run("Offline"), run("Offline", "accuracy")]))
    assert [(s.kind, str(s.key or "")) for s in plan.steps] == [
        ("load", ""),
        ("probe", ""),
        ("warm-up", "llama3.1-8b Offline accuracy"),
        ("run", "llama3.1-8b Offline accuracy"),
        ("warm-up", "llama3.1-8b Offline performance"),
        ("run", "llama3.1-8b Offline performance"),
    ]
    assert plan.needs[run("Offline")] == (run("Offline", "accuracy"),)


def test_what_features_and_engines_measure_is_around_the_probe() -> None:
    of_features = [Step("idle power", None, "idle power")]
    of_engine = (Step("scaling", None, "all of it"),)
    runs = [run("Offline", "accuracy")]
    plan = plan_session(Selection(runs, of_features=of_features, of_engine=of_engine))
    assert kinds(plan)[:4] == ["load", "idle power", "probe", "scaling"]


@given(selected_runs, st.booleans())
def test_each_run_is_planned_once_after_its_needs(runs: list[RunKey], has_rates: bool) -> None:
    rates_known = [b.id for b in default_benchmarks()] if has_rates else []
    plan = plan_session(Selection(runs, rates_known=rates_known))
    keys = [step.key for step in plan.steps if step.kind == "run"]
    assert len(keys) == len(set(keys))
    assert set(keys) == set(runs) | plan.implicit_runs
    for key in keys:
        assert key is not None
        for need in plan.needs[key]:
            assert keys.index(need) < keys.index(key)
    if has_rates:
        assert not plan.implicit_runs


def test_a_profiled_offline_run_is_measured_for_server_without_the_profiler() -> None:
    runs = [run("Offline", "accuracy"), run("Offline"), run("Server")]
    assert "rate" not in kinds(plan_session(Selection(runs)))
    plan = plan_session(Selection(runs, profiled=True))
    assert [s.key for s in plan.steps if s.kind == "rate"] == [run("Offline")]


def test_a_scenario_is_warmed_up_before_each_run_once_or_never() -> None:
    runs = [run("Offline", "accuracy"), run("Offline")]
    assert kinds(plan_session(Selection(runs, repeat=2))).count("warm-up") == 3
    once = kinds(plan_session(Selection(runs, repeat=2, warm_up_once=True)))
    assert [kind for kind in once if kind in ("warm-up", "run")] == ["warm-up", *["run"] * 3]
    assert "warm-up" not in kinds(plan_session(Selection(runs, warm_up=False)))


def test_the_printed_plan_fits_80_columns_and_adds_up() -> None:
    plan = plan_session(Selection(EVERY, repeat=5))
    assert [duration_words(s) for s in (0, 59.6, 61, 7325)] == [
        "0 s",
        "1 min 0 s",
        "1 min 1 s",
        "2 h 2 min",
    ]
    lines = plan.lines(dict.fromkeys(plan.steps, 61.0), "as the last run went", 3661.0)
    assert max(map(len, [*lines, *plan.lines({}, "word " * 40)])) <= 80
    assert lines[0] == f"plan: {len(plan.steps)} steps, about 1 h 1 min"
    assert len(lines) == len(plan.steps) + 2
    assert plan.summary_lines(3661.0) == lines[:1]
