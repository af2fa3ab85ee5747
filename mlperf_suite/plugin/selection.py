"""Selects which collected tests run, in which order, and says why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.client_results.client_benchmarks import ClientRunKey
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.plugin.cases import (
    SEARCH,
    SHARE,
    ClientCase,
    NoCase,
    asks_for_engine,
    client_case_of,
    is_share,
    no_case_of,
    step_of,
    steps_of,
)
from mlperf_suite.plugin.existing_logs import is_of_logs, judged_of
from mlperf_suite.plugin.lifecycle import plan_of
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.session.plan import MMLU, CurveKey, MmluKey, Plan, SearchKey, StepKey

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

_LEFT_OUT = pytest.StashKey[Counter[NoCase]]()
_TEST = ("test", "tests")
_COLUMNS = 80


def _selection_of(settings: Settings) -> dict[str, list[str]]:
    """The values that the user selects, by option; an empty list selects everything."""
    return {
        "benchmark": settings.named_benchmarks,
        "category": [settings.category] if settings.category else [],
        "scenario": [settings.scenario] if settings.scenario else [],
        "mode": [] if settings.mode == "both" else [settings.mode],
    }


def _of_step(step: StepKey) -> dict[str, str | None]:
    """A step's values for the same options; MMLU has no benchmark, category or scenario."""
    if step == MMLU:
        return {"mode": "accuracy"}
    assert isinstance(step, RunKey | ClientRunKey | SearchKey | CurveKey)
    return {
        "benchmark": step.benchmark,
        "category": BENCHMARKS[step.benchmark].category,
        "scenario": step.scenario,
        "mode": step.mode if isinstance(step, RunKey) else "performance",
    }


def why_not(item: pytest.Item, settings: Settings) -> NoCase | None:
    """Why a test does not run in this session; None if it does."""
    if judged_of(item.config) is not None:
        return None if is_of_logs(item) else NoCase(_TEST, "--logs runs nothing")
    if settings.series is not None and not isinstance(step_of(item), CurveKey):
        return no_case_of(item) or NoCase(_TEST, f"--series {settings.series}")
    case = client_case_of(item)
    if case is not None:
        return _why_not_case(case, settings)
    if settings.by_official_client and not isinstance(step_of(item), ClientRunKey | CurveKey):
        return no_case_of(item) or NoCase(_TEST, f"--client {settings.client} makes its own runs")
    reasons = (_why_not_step(step, settings) for step in steps_of(item))
    return no_case_of(item) or next(filter(None, reasons), None)


def _why_not_case(case: ClientCase, settings: Settings) -> NoCase | None:
    place: dict[str, str | None] = {
        "benchmark": case.key.benchmark,
        "category": BENCHMARKS[case.key.benchmark].category,
        "scenario": case.key.scenario,
        "mode": case.mode,
    }
    return _unlike_selection(place, settings)


def _unlike_selection(place: Mapping[str, str | None], settings: Settings) -> NoCase | None:
    """Which option leaves out something of that place; None if none does."""
    for name, value in _selection_of(settings).items():
        if value and place.get(name) not in value:
            return NoCase(_TEST, f"--{name} {', '.join(value)}")
    return None


def _why_not_step(step: StepKey, settings: Settings) -> NoCase | None:
    place = _of_step(step)
    if reason := _unlike_selection(place, settings):
        return reason
    if settings.profile_run is not None and place.get("mode") != "performance":
        return NoCase(_TEST, "--profile-run makes performance runs")
    if isinstance(step, SearchKey) and not settings.find_peak_qps:
        return SEARCH
    ids = [benchmark.id for benchmark in settings.benchmarks]
    if not isinstance(step, MmluKey) and step.benchmark not in ids:
        return NoCase(_TEST, f"no --benchmark {step.benchmark}")
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot run here and sort the rest in the order of the session's plan."""
    settings = settings_of(config)
    why = {item: why_not(item, settings) for item in items}
    if any(
        isinstance(step, RunKey | SearchKey)
        for item, reason in why.items()
        if reason is None
        for step in steps_of(item)
    ):
        # Shares would compete with the measured engine for memory, host cores and PCIe.
        beside_runs = NoCase(SHARE.kind, "LoadGen runs are selected as well")
        why |= {item: reason or beside_runs for item, reason in why.items() if is_share(item)}
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


def _place(plan: Plan, item: pytest.Item) -> int:
    """A test's place in the session: before all runs, or after the last run that it needs."""
    if asks_for_engine(item):
        return -1
    return max((plan.order_of(step) for step in steps_of(item)), default=plan.order_of(None))


def _nothing_left(config: pytest.Config, settings: Settings, reasons: Counter[NoCase]) -> str:
    options = [
        f"--{name} {value}" for name, values in _selection_of(settings).items() for value in values
    ]
    if settings.series is not None:
        options.append(f"--series {settings.series}")
    if settings.logs is not None:
        options = [f"--logs {settings.logs}"]
    reason = ", ".join(options or dict.fromkeys(reason.why for reason in reasons))
    expression = config.getoption("markexpr") or config.getoption("keyword") or "the tests named"
    return f"{reason}: leaves nothing to run of '{expression}'"


def _refuse_what_does_nothing(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject a command-line option that no selected test uses."""
    steps = [step for item in items for step in steps_of(item)]
    if config.getoption("find_peak_qps") and not any(isinstance(s, SearchKey) for s in steps):
        raise pytest.UsageError(
            "--find-peak-qps: no search is among the selected tests: select Server or Interactive"
        )
    if any(isinstance(s, CurveKey) for s in steps) and not all(
        isinstance(s, CurveKey) for s in steps
    ):
        raise pytest.UsageError(
            "curve: its points need the engine to themselves: select it alone, with -m curve"
        )
    of_runs = {s.benchmark for s in steps if not isinstance(s, MmluKey)}
    chats = sorted(id_ for id_ in of_runs if BENCHMARKS[id_].chats)
    if chats and len(of_runs) > 1:
        raise pytest.UsageError(
            f"--benchmark {chats[0]}: its engine is asked for messages: select it alone"
        )
    if config.getoption("profile_seconds") and settings_of(config).profile_run is None:
        raise pytest.UsageError("--profile-seconds: can only be used with --profile-run")
    performs = any(isinstance(s, RunKey) and s.mode == "performance" for s in steps)
    if config.getoption("repeat") not in (None, "1") and not performs:
        raise pytest.UsageError(
            f"--repeat {config.getoption('repeat')}: no performance run is among the selected tests"
        )


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    reasons = config.stash.get(_LEFT_OUT, None)
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
