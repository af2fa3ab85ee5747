"""The regression gate: with --baseline, one test for each compared metric."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.rules.verdict import Status, Verdict, figure_words
from mlperf_suite.session.plan import Plan
from mlperf_suite.session.run_kind import kind_of

if TYPE_CHECKING:
    from mlperf_suite.results.baseline import BaselineRun
    from mlperf_suite.results.schema import RegressionFigures
    from mlperf_suite.session.executor import Session

Baselines = Mapping[tuple[str, str], "BaselineRun"]
BASELINES = pytest.StashKey[Baselines]()
_STATUS: dict[str, Status] = {"regressed": "failed", "cannot tell": "not judged"}


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
    from mlperf_suite.results.schema import Meta, Summary

    compared = {key.benchmark_and_scenario: key for key in plan.keys if kind_of(key).is_compared}
    settings = suite.settings
    for kind, baseline in baselines.items():
        if kind not in compared:
            name = " ".join(kind).strip()
            raise UsageError(f"--baseline {baseline.label}: a run of {name}, which is not selected")
        meta = Meta(
            model=settings.model,
            profile=settings.profile,
            round=settings.round.name,
            load_generator=suite.recorder.load_generator,
            **kind_of(compared[kind]).meta(compared[kind], suite),
        )
        if not settings.baseline_allow_different:
            about = Summary(meta=meta, system=describe_system())
            baseline.check(about, settings.server_target_qps)


def regression_verdict(regression: RegressionFigures | None, metric: str) -> Verdict:
    """A metric's change since the baseline, as a rule's verdict."""
    from mlperf_suite.results.regression import METRICS

    rule = f"regression_{metric}"
    if regression is None:
        return Verdict(rule, "not judged", "no figure", "a run to compare")
    share = regression.max_regression or 0.0
    limit = f"no loss beyond both {share * 100:g}% and the noise"
    if regression.refused:
        return Verdict(rule, "failed", "no comparison", limit, regression.refused)
    change = regression.of(metric)
    if change is None or change.baseline is None or change.current is None:
        return Verdict(rule, "not judged", "no figure", limit)
    # Of all metrics, only performance runs are repeated.
    is_repeated = any(m.name == metric and m.of_run for m in METRICS)
    advice = ": --repeat 5 measures it better" if is_repeated else ""
    return Verdict(
        rule,
        _STATUS.get(change.outcome, "passed"),
        f"{change.outcome}: {change.words}, baseline {figure_words(change.baseline, 6)}, "
        f"candidate {figure_words(change.current, 6)} {change.unit}",
        limit,
        f"noise from {change.noise_from}{advice if change.outcome == 'cannot tell' else ''}",
    )
