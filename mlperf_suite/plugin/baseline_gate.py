"""The regression gate: with --baseline, one test for each compared metric."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.errors import UsageError
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.rules.verdict import Status, Verdict
from mlperf_suite.session.plan import Plan
from mlperf_suite.session.run_kind import kind_of

if TYPE_CHECKING:
    from mlperf_suite.results.baseline import BaselineRun
    from mlperf_suite.results.schema import Summary
    from mlperf_suite.session.executor import Session
    from mlperf_suite.settings import Settings

Baselines = Mapping[tuple[str, str], "BaselineRun"]
BASELINES = pytest.StashKey[Baselines]()
CANNOT_TELL = "cannot tell"
"""The gate's one word where the noise hides whether a metric lost."""


def baselines_of(config: pytest.Config) -> Baselines:
    """The runs that --baseline names, by benchmark and scenario. Raises pytest.UsageError."""
    names = settings_of(config).baselines
    if not names:
        return {}
    if BASELINES not in config.stash:
        from mlperf_suite.results.baseline import load_baselines

        try:
            config.stash[BASELINES] = load_baselines(map(Path, names))
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[BASELINES]


def pytest_configure(config: pytest.Config) -> None:
    """Report an unusable baseline at once, whatever is collected."""
    baselines_of(config)


def check_baselines(suite: Session, plan: Plan, baselines: Baselines) -> None:
    """Raise UsageError for a baseline whose run is not planned or differs in its conditions."""
    from mlperf_suite.hardware import describe_system
    from mlperf_suite.results.schema import Config, Meta, Summary

    compared = {key.benchmark_and_scenario: key for key in plan.keys if kind_of(key).is_compared}
    settings = suite.settings
    for kind, baseline in baselines.items():
        if kind not in compared:
            name = " ".join(kind).strip()
            raise UsageError(f"--baseline {baseline.label}: a run of {name}, which is not selected")
        meta = Meta(
            benchmark=baseline.summary.meta.benchmark,
            scenario=baseline.summary.meta.scenario,
            model=settings.model,
            profile=settings.profile,
            round=settings.round.name,
            load_generator=suite.recorder.load_generator,
            **kind_of(compared[kind]).meta(compared[kind], suite),
        )
        if not settings.baseline_allow_different:
            benchmark = BENCHMARKS.get(kind[0])
            own = suite.recorder.config_json(benchmark) if benchmark else {}
            config = Config.read(own or {"settings": settings.as_json()})
            about = Summary(meta=meta, system=describe_system())
            baseline.check(about, settings.server_target_qps, config)


def regression_verdict(summary: Summary, metric: str, settings: Settings) -> Verdict:
    """A metric's change since the baseline, as a rule's verdict."""
    from mlperf_suite.results.regression import next_step

    rule, regression = f"regression_{metric}", summary.regression
    if regression is None:
        return Verdict(rule, "not judged", "no figure", "a run to compare")
    share = regression.max_regression or 0.0
    limit = f"no loss beyond both {share * 100:g}% and the noise"
    if regression.refused:
        return Verdict(rule, "failed", "no comparison", limit, regression.refused)
    change = regression.of(metric)
    if change is None or change.baseline is None or change.current is None:
        return Verdict(rule, "not judged", "no figure", limit)
    is_unknown = change.outcome == CANNOT_TELL
    has_failed = settings.fail_on_cannot_tell if is_unknown else change.outcome == "regressed"
    status: Status = "failed" if has_failed else "not judged" if is_unknown else "passed"
    step = f"; next: {next_step(summary, [change])}" if is_unknown else ""
    return Verdict(rule, status, change.line, limit, f"noise from {change.noise_from}{step}")
