"""The plan of a session: its steps, their order, what needs what, and how it is printed."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.registry import default_benchmarks
from mlperf_suite.results.record import RunKey
from mlperf_suite.session.plan import MMLU, SearchKey, clock, plan_session

LLAMA = "llama3.1-8b"
EVERY = [
    RunKey(benchmark.id, scenario.name, mode)
    for benchmark in default_benchmarks()
    for scenario, mode in product(benchmark.scenarios, ("accuracy", "performance", "test06"))
]
wanted_runs = st.sets(st.sampled_from(EVERY)).map(list)


def run(scenario: str, mode: str = "performance") -> RunKey:
    return RunKey(LLAMA, scenario, mode)  # type: ignore[arg-type]


def test_offline_is_loaded_warmed_up_and_run_in_this_order() -> None:
    plan = plan_session([run("Offline"), run("Offline", "accuracy")])
    assert [(s.kind, str(s.key or "")) for s in plan.steps] == [
        ("load", ""),
        ("warm-up", "llama3.1-8b Offline accuracy"),
        ("run", "llama3.1-8b Offline accuracy"),
        ("warm-up", "llama3.1-8b Offline performance"),
        ("run", "llama3.1-8b Offline performance"),
    ]
    assert plan.needs[run("Offline")] == (run("Offline", "accuracy"),)


@given(wanted_runs, st.booleans())
def test_every_run_is_planned_once_and_after_what_it_needs(
    wanted: list[RunKey], known: bool
) -> None:
    rate_known = {b.id: known for b in default_benchmarks()}
    plan = plan_session(wanted, rate_known=rate_known)
    runs = [step.key for step in plan.steps if step.kind == "run"]
    assert len(runs) == len(set(runs))
    assert set(runs) == set(wanted) | plan.unasked
    for key in runs:
        for need in plan.needs[key]:
            assert runs.index(need) < runs.index(key)
    if known:
        assert not plan.unasked


@given(wanted_runs)
def test_the_plan_does_not_depend_on_the_order_of_what_is_wanted(wanted: list[RunKey]) -> None:
    assert plan_session(wanted) == plan_session(reversed(wanted))


@given(wanted_runs)
def test_a_run_is_planned_alike_whatever_else_is_selected(wanted: list[RunKey]) -> None:
    alone = {key: plan_session([key], rate_known={key.benchmark: True}) for key in wanted}
    rate_known = {b.id: True for b in default_benchmarks()}
    together = plan_session(wanted, rate_known=rate_known)
    for key, plan in alone.items():
        own, apart = (
            [s for s in one.steps if s.key == key and s.kind != "rate"] for one in (together, plan)
        )
        assert own == apart


def test_servers_rate_takes_an_offline_run_where_none_is_known() -> None:
    plan = plan_session([run("Server")])
    assert plan.unasked == {run("Offline")}
    assert plan.needs[run("Server")] == (run("Offline"),)
    assert plan.runs == (run("Offline"), run("Server"))
    assert plan_session([run("Server")], rate_known={LLAMA: True}).runs == (run("Server"),)


def test_repeats_are_runs_of_their_own_each_warmed_up() -> None:
    plan = plan_session([run("Offline"), run("Offline", "accuracy")], repeat=3)
    performance = [s for s in plan.steps if s.key == run("Offline")]
    assert [(s.kind, s.number) for s in performance] == [
        ("warm-up", 1),
        ("run", 1),
        ("warm-up", 2),
        ("run", 2),
        ("warm-up", 3),
        ("run", 3),
    ]
    assert sum(s.key == run("Offline", "accuracy") for s in plan.steps) == 2


@given(wanted_runs, st.booleans())
def test_a_rate_is_measured_once_where_no_accuracy_run_shows_it(
    wanted: list[RunKey], given_rate: bool
) -> None:
    plan = plan_session(wanted, repeat=2, offline_rate_given=given_rate)
    for key in plan.runs:
        of_place = [s for s in plan.steps if s.key and str(s.key).startswith(_place(key))]
        rates = [s for s in of_place if s.kind == "rate"]
        shown = any(s.key == RunKey(key.benchmark, key.scenario, "accuracy") for s in of_place)
        is_sized = key.scenario == "SingleStream" or (key.scenario == "Offline" and not given_rate)
        measured = is_sized and not shown
        assert len(rates) == measured
        if rates:
            assert of_place[0] is rates[0]


def _place(key: RunKey) -> str:
    return f"{key.benchmark} {key.scenario} "


def test_without_a_warm_up_there_is_none() -> None:
    plan = plan_session(EVERY, warm_up=False)
    assert not [step for step in plan.steps if step.kind == "warm-up"]


def test_mmlu_has_an_engine_of_its_own_after_everything_else() -> None:
    plan = plan_session([run("Offline")], [SearchKey(LLAMA, "Server")], mmlu=True)
    assert [step.kind for step in plan.steps][-3:] == ["search", "load", "mmlu"]
    assert plan.keys[-1] == MMLU
    alone = plan_session([], mmlu=True)
    assert [step.kind for step in alone.steps] == ["load", "mmlu"]


def test_an_engine_that_runs_elsewhere_is_connected_to() -> None:
    here, there = (
        plan_session([run("Offline")], [SearchKey(LLAMA, "Server")], mmlu=True, remote=remote)
        for remote in (False, True)
    )
    assert [step.what for step in there.steps if step.kind == "load"] == [
        "connect to the endpoint",
        "connect to the endpoint for MMLU",
    ]
    assert [s for s in there.steps if s.kind != "load"] == [
        s for s in here.steps if s.kind != "load"
    ]
    assert there.needs == here.needs


def test_the_printed_plan_fits_80_columns_and_adds_up() -> None:
    plan = plan_session(EVERY, [SearchKey(LLAMA, "Interactive")], mmlu=True, repeat=5)
    lines = plan.lines(dict.fromkeys(plan.steps, 61.0), "as the last run went")
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"plan: {len(plan.steps)} steps, about {clock(61 * len(plan.steps))}"
    assert len(lines) == len(plan.steps) + 2
    assert plan.summary_lines(dict.fromkeys(plan.steps, 61.0)) == lines[:1]
    assert max(map(len, plan.lines({}, "word " * 40))) <= 80
    assert plan.lines()[0] == f"plan: {len(plan.steps)} steps"


def test_seconds_as_a_clock_shows_them() -> None:
    assert [clock(s) for s in (0, 59.6, 61, 3600, 7325)] == [
        "0:00",
        "1:00",
        "1:01",
        "1:00:00",
        "2:02:05",
    ]


def test_accuracy_data_of_another_kind_shows_no_rate_for_performance() -> None:
    """gpt-oss-120b's accuracy answers are some eight times as long."""
    wanted = [RunKey("gpt-oss-120b", "Offline", mode) for mode in ("accuracy", "performance")]
    kinds = [(s.kind, s.key.mode) for s in plan_session(wanted).steps if isinstance(s.key, RunKey)]
    assert ("rate", "performance") in kinds
    alike = [RunKey("llama2-70b-99", "Offline", mode) for mode in ("accuracy", "performance")]
    assert "rate" not in {step.kind for step in plan_session(alike).steps}
