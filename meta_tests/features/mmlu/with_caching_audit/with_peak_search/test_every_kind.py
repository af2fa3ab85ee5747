"""Every kind of run in one session, as all markers together select them."""

import json

from pytest import MonkeyPatch

from meta_tests.features.peak_search.known_systems import search_rates
from meta_tests.session.scripted_session import ACCURACY, LLAMA, Make, check_made_as_planned
from mlperf_suite.benchmarks.catalog import default_benchmarks
from mlperf_suite.features.caching_audit.kind import CachingKey
from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.features.peak_search.kind import SearchKey
from mlperf_suite.loadgen.load_plan import COMPARED, RunKey
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.run_kind import Selection, StepKey

EVERY: list[StepKey] = [
    *(
        RunKey(benchmark.id, scenario.name, mode)
        for benchmark in default_benchmarks()
        for scenario in benchmark.scenarios
        for mode in (*COMPARED, *(audit.mode for audit in benchmark.audits))
    ),
    CachingKey(LLAMA, "Offline"),
    SearchKey(LLAMA, "Interactive"),
    MMLU,
]


def test_the_steps_made_are_those_planned(
    make: Make, short: None, monkeypatch: MonkeyPatch
) -> None:
    search_rates(monkeypatch, 2)
    check_made_as_planned(make(*EVERY, warmup="1", mmlu_limit="4"), *EVERY)


def test_the_printed_plan_fits_80_columns_and_ends_with_mmlu() -> None:
    plan = plan_session(Selection(EVERY, repeat=5))
    lines = plan.lines(dict.fromkeys(plan.steps, 61.0), "as the last run went", 3661.0)
    assert max(map(len, [*lines, *plan.lines({}, "word " * 40)])) <= 80
    kinds = [step.kind for step in plan.steps]
    assert "search" in kinds and kinds[-2:] == ["load", "mmlu"]


def test_what_else_is_selected_changes_nothing_of_a_run(make: Make) -> None:
    """The engine that is loaded, what it is asked, and what is written of its settings."""
    alone, together = make(ACCURACY), make(*EVERY)
    configs = []
    for session in (alone, together):
        assert session.suite.make(ACCURACY).ok
        configs.append(json.loads((session.folder / "config.json").read_text())["engine"])
    assert alone.engines[0].batch_sizes == together.engines[0].batch_sizes
    assert configs[0] == configs[1]
