"""Selects which collected tests run, in which order, and says why the others do not."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import LOADGEN
from mlperf_suite.plugin.cases import MetricCase, asks_for_engine, cases_of, no_case_of, steps_of
from mlperf_suite.plugin.existing_logs import is_of_logs, judged_of
from mlperf_suite.plugin.lifecycle import plan_of
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.session.companion import companion_kinds
from mlperf_suite.session.plan import Plan
from mlperf_suite.session.run_kind import (
    OTHER_BENCHMARK,
    TEST,
    NoCase,
    StepKey,
    kind_of,
    run_kinds,
    why_not_ours,
)
from mlperf_suite.settings import Settings

_LEFT_OUT = pytest.StashKey[Counter[NoCase]]()
_COLUMNS = 80


def _selection_of(settings: Settings) -> dict[str, list[str]]:
    """The values that the user selects, by option; an empty list selects everything."""
    return {
        "benchmark": settings.named_benchmarks,
        "category": [settings.category] if settings.category else [],
        "scenario": [settings.scenario] if settings.scenario else [],
        "mode": [] if settings.mode == "both" else [settings.mode],
    }


def why_not(item: pytest.Item, settings: Settings) -> NoCase | None:
    """Why a test does not run in this session; None if it does."""
    if judged_of(item.config) is not None:
        return None if is_of_logs(item) else NoCase(TEST, "--logs runs nothing")
    modes = {case.key: case.mode for case in cases_of(item)}
    reasons = [_why_not_step(step, modes.get(step, step.mode), settings) for step in steps_of(item)]
    reasons = reasons or [why_not_ours(settings)]
    return no_case_of(item) or next(filter(None, reasons), None)


def _unlike_selection(step: StepKey, mode: str, settings: Settings) -> NoCase | None:
    """Which option leaves out a step in a mode; None if none does.

    A feature's own result has no benchmark, category or scenario.
    """
    benchmark = BENCHMARKS.get(step.benchmark)
    own = {"benchmark": step.benchmark, "scenario": step.scenario} if benchmark else {}
    place = {**own, "category": benchmark.category if benchmark else None, "mode": mode}
    for name, value in _selection_of(settings).items():
        if value and place.get(name) not in value:
            return NoCase(TEST, f"--{name} {', '.join(value)}")
    return None


def _why_not_step(step: StepKey, mode: str, settings: Settings) -> NoCase | None:
    reason = _unlike_selection(step, mode, settings) or kind_of(step).why_not(step, settings)
    if reason is not None:
        return reason
    ids = [benchmark.id for benchmark in settings.benchmarks]
    if step.benchmark in BENCHMARKS and step.benchmark not in ids:
        return NoCase(TEST, f"no --benchmark {step.benchmark}")
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot run here and sort the rest in the order of the session's plan."""
    settings = settings_of(config)
    why = {item: why_not(item, settings) for item in items}
    made = [step for item, reason in why.items() if reason is None for step in steps_of(item)]
    steps = list(dict.fromkeys(made))
    for item, reason in why.items():
        beside = (case.why_not_beside(steps) for case in cases_of(item))
        why[item] = reason or next(filter(None, beside), None)
    selection = [item for item, reason in why.items() if reason is None]
    rest = [item for item, reason in why.items() if reason is not None]
    reasons = Counter(reason for reason in why.values() if reason is not None)
    if rest and not selection:
        raise pytest.UsageError(_nothing_left(config, settings, reasons))
    _refuse_what_does_nothing(config, selection)
    config.stash[_LEFT_OUT] = reasons
    config.hook.pytest_deselected(items=rest)
    plan = plan_of(config, selection)
    items[:] = sorted(selection, key=partial(_place, plan))


def _place(plan: Plan, item: pytest.Item) -> tuple[int, bool]:
    """A test's place in the session: before all runs, or after the last run that it needs; there,
    after the other tests if it judges a regression."""
    if asks_for_engine(item):
        return -1, False
    compared = [case.key for case in cases_of(item) if isinstance(case, MetricCase)]
    steps = [*steps_of(item), *(step for key in compared for step in plan.family(key))]
    return max(map(plan.order_of, steps), default=plan.order_of(None)), bool(compared)


def _nothing_left(config: pytest.Config, settings: Settings, reasons: Counter[NoCase]) -> str:
    options = [
        f"--{name} {value}" for name, values in _selection_of(settings).items() for value in values
    ]
    if settings.own_runs:
        options.append(settings.own_runs)
    if settings.logs is not None:
        options = [f"--logs {settings.logs}"]
    reason = ", ".join(options or dict.fromkeys(reason.why for reason in reasons))
    expression = config.getoption("markexpr") or config.getoption("keyword") or "the tests named"
    return f"{reason}: leaves nothing to run of '{expression}'"


def _refuse_what_does_nothing(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject a command-line option that no selected test uses."""
    steps = list(dict.fromkeys(step for item in items for step in steps_of(item)))
    for kind in run_kinds([LOADGEN, *(step.kind for step in steps)]):
        own = [step for step in steps if step.kind == kind.name]
        if fault := kind.fault(own, steps, config.getoption):
            raise pytest.UsageError(fault)
    for companion in companion_kinds():
        if fault := companion.fault(settings_of(config), config.getoption):
            raise pytest.UsageError(fault)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    left_out = config.stash.get(_LEFT_OUT, Counter())
    reasons = {case: count for case, count in left_out.items() if case.why != OTHER_BENCHMARK}
    if not reasons:
        return []
    lines, line = [], "not selected:"
    for number, (reason, count) in enumerate(reasons.items(), 1):
        words = f"{count} {reason.kind[count != 1]} ({reason.why})"
        words += "" if number == len(reasons) else ","
        if len(line) + 1 + len(words) > _COLUMNS:
            lines.append(line)
            line = " "
        line = f"{line} {words}"
    return [*lines, line]
