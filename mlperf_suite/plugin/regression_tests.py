"""The regression gate: with --baseline, a test for each metric that is compared."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.benchmarks.definition import RUNNABLE
from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.hardware import describe_system
from mlperf_suite.plugin.mmlu_tests import RUN
from mlperf_suite.plugin.options import SETTINGS
from mlperf_suite.plugin.runs import SUITE, made_run
from mlperf_suite.results.baseline import MMLU_KIND, Reference, load_references
from mlperf_suite.results.record import RunKey
from mlperf_suite.results.regression import METRICS, samples_of
from mlperf_suite.session.executor import Session
from mlperf_suite.session.mmlu_run import MmluRun

REFERENCES = pytest.StashKey[dict[tuple[str, str], Reference]]()
_FIXTURE, _MMLU_FIXTURE = "regression_verdict", "mmlu_regression_verdict"
_STATUS = {"regressed": "failed", "cannot tell": "not judged"}


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    try:
        config.stash[REFERENCES] = load_references(map(Path, config.stash[SETTINGS].baselines))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Without --baseline there is nothing to compare with."""
    if not inspect.isfunction(obj):
        return None
    arguments, references = inspect.signature(obj).parameters, collector.config.stash[REFERENCES]
    of_mmlu = MMLU_KIND in references
    if _MMLU_FIXTURE in arguments:
        return None if of_mmlu else []
    return [] if _FIXTURE in arguments and len(references) == of_mmlu else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _FIXTURE not in metafunc.fixturenames:
        return
    mode = metafunc.module.MODE
    metafunc.parametrize(
        ("run_key", "metric_name"),
        [
            pytest.param(
                RunKey(category, scenario.name, mode),
                metric.name,
                marks=[getattr(pytest.mark, category), getattr(pytest.mark, scenario.marker)],
                id=f"{category}-{scenario.marker}-{metric.name}",
            )
            for category, benchmark in RUNNABLE.items()
            for scenario in benchmark.scenarios
            if (baseline := metafunc.config.stash[REFERENCES].get((category, scenario.name)))
            for metric in METRICS
            if metric.path[0] == mode and samples_of(metric, baseline.summary)
        ],
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    suite, references = config.stash.get(SUITE, None), config.stash[REFERENCES]
    if suite is None or not references:
        return
    suite.references = references
    planned: set[tuple[str, str]] = {(key.category, key.scenario) for key in suite.planned}
    if suite.wants_scoring:
        planned.add(MMLU_KIND)
    settings = suite.settings
    for kind, reference in references.items():
        if kind not in planned:
            raise pytest.UsageError(
                f"--baseline {reference.named}: a run of {' '.join(kind).strip()}, "
                "which is not selected"
            )
        meta: dict[str, object] = {
            "model": settings.model,
            "profile": settings.profile,
            "round": settings.round.name,
        }
        if kind == MMLU_KIND:
            run = config.stash[RUN]
            meta |= {"dataset": run.data.name, "questions": run.planned, "shots": run.shots}
        else:
            (category,) = [c for c in RUNNABLE if c == kind[0]]
            meta |= {
                "dataset": settings.dataset,
                "samples": suite.samples(RunKey(category, kind[1], "performance")),
                "max_new_tokens": settings.max_new_tokens,
            }
        try:
            if not settings.baseline_allow_different:
                reference.check({"meta": meta, "system": describe_system()})
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None


@pytest.fixture
def regression_verdict(
    request: pytest.FixtureRequest, suite: Session, run_key: RunKey, metric_name: str
) -> Verdict:
    """What became of the metric since the baseline, as a rule's verdict."""
    made_run(request, suite, run_key, f"regression_{metric_name}")
    result = suite.results[run_key.category, run_key.scenario]
    return _verdict(suite.summary(result)["regression"], metric_name)


@pytest.fixture
def mmlu_regression_verdict(request: pytest.FixtureRequest, mmlu: MmluRun) -> Verdict:
    """What became of the MMLU score since the baseline, as a rule's verdict."""
    failure = None
    try:
        mmlu.verdicts()
    except SuiteError as error:
        failure = str(error)
    if failure is not None:
        pytest.fail(failure, pytrace=False)
    return _verdict(mmlu.summary()["regression"], "mmlu")


def _verdict(regression: Mapping[str, Any], metric_name: str) -> Verdict:
    if regression["refused"]:
        pytest.fail(regression["refused"], pytrace=False)
    found = next((m for m in regression["metrics"] if m["metric"] == metric_name), None)
    percent = regression["max_regression"] * 100
    allowed = f"no loss of more than {percent:g}% and of more than the noise"
    if found is None:
        return Verdict(f"regression_{metric_name}", "not judged", "no figure", allowed)
    status = _STATUS.get(found["outcome"], "passed")
    return Verdict(
        f"regression_{metric_name}",
        status,  # type: ignore[arg-type]
        f"{found['outcome']}: {found['words']}, {found['baseline']:,.6g} then and "
        f"{found['current']:,.6g} {found['unit']} now",
        allowed,
        f"noise from {found['noise_from']}"
        + (": --repeat 5 measures it better" if found["outcome"] == "cannot tell" else ""),
    )
