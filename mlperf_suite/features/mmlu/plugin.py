"""MMLU's fixtures and cases, and how pytest-xdist's workers share its questions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.plugin.baseline_gate import baselines_of
from mlperf_suite.plugin.cases import REGRESSION, Case, MetricCase, cases_of, parametrize
from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.outcomes import MetricChange, SessionRun, or_fail
from mlperf_suite.plugin.terminal_report import OF_WORKERS
from mlperf_suite.secrets import redact_files
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.session.run_kind import NoCase, StepKey, kind_of

if TYPE_CHECKING:
    from mlperf_suite.features.mmlu.mmlu_run import Share
    from mlperf_suite.features.mmlu.shares import Shares
    from mlperf_suite.session.executor import Session
    from mlperf_suite.settings import Settings

_SHARES: pytest.StashKey[Shares | None] = pytest.StashKey()
_SHARE = ("test of MMLU's shares", "tests of MMLU's shares")


@dataclass(frozen=True, slots=True)
class ShareCase(Case):
    """A share of the questions that a worker of pytest-xdist scores, counted from 1: the worker
    that makes the run scores the first."""

    index: int

    def why_not_beside(self, steps: Iterable[StepKey]) -> NoCase | None:
        """Shares would compete with a measured engine for memory, host cores and PCIe."""
        if any(kind_of(step).role == "runs" for step in steps):
            return NoCase(_SHARE, "LoadGen runs are selected as well")
        return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config, names = metafunc.config, metafunc.fixturenames
    hidden = pytest.HIDDEN_PARAM
    if "mmlu_run" in names:
        parametrize(metafunc, "mmlu_run", [pytest.param(Case(MMLU), id=hidden)], REGRESSION)
    if "mmlu_change" in names:
        change = pytest.param(MetricCase(MMLU, "mmlu"), id=hidden)
        is_compared = MMLU.benchmark_and_scenario in baselines_of(config)
        parametrize(metafunc, "mmlu_change", [change] if is_compared else [], REGRESSION)
    if "mmlu_share" in names:
        shares = shares_of(config)
        cases = [ShareCase(MMLU, index) for index in range(1, shares.count if shares else 1)]
        # Each on a worker of its own: `mlperf_suite.plugin.workers` knows it by its id.
        params = [pytest.param(case, id=f"engine-{case.index}") for case in cases]
        parametrize(metafunc, "mmlu_share", params, NoCase(_SHARE, "one engine"))


@pytest.fixture(scope="session")
def mmlu_run(request: pytest.FixtureRequest, suite: Session) -> SessionRun:
    """Every question of MMLU scored through lm-eval."""
    return SessionRun(request.config, request.param.key)


@pytest.fixture
def mmlu_change(request: pytest.FixtureRequest, suite: Session) -> MetricChange:
    """The change of the MMLU score since the baseline."""
    return MetricChange(request.config, request.param)


@pytest.fixture
def mmlu_share(request: pytest.FixtureRequest, suite: Session) -> Share:
    """A share of MMLU's subjects, scored now on this worker's engine."""
    index = request.param.index
    share: Share = or_fail(request.config, lambda: suite.maker(MMLU.kind).score_share(index))
    return share


# Several engines


class MmluHooks:
    @pytest.hookspec(firstresult=True)
    def pytest_mlperf_engine_count(self, settings: Settings) -> int | None:
        """Return how many engines can be loaded at once, to share MMLU among pytest-xdist's
        workers."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(MmluHooks)


@pytest.hookimpl(trylast=True)
def pytest_mlperf_engine_count(settings: Settings) -> int:
    # All endpoints are one system, whichever worker uses them, and so are replicas.
    if source_of(settings).is_one_system:
        return 1
    from mlperf_suite.features.mmlu.shares import engine_count

    return engine_count(settings)


def shares_of(config: pytest.Config) -> Shares | None:
    """How MMLU is shared among pytest-xdist's workers; None if one engine scores all of it."""
    if _SHARES not in config.stash:
        config.stash[_SHARES] = _shares(config, settings_of(config))
    return config.stash[_SHARES]


def _shares(config: pytest.Config, settings: Settings) -> Shares | None:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return None
    from mlperf_suite.features.mmlu.shares import Shares, gpus_per_engine

    count = min(workers, config.hook.pytest_mlperf_engine_count(settings=settings))
    if count == 1:
        return None
    return Shares(
        settings.results_dir / f".mmlu-{os.environ['PYTEST_XDIST_TESTRUNUID']}",
        count,
        gpus_per_engine(settings),
        600.0 if settings.smoke else 3600.0,
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Share the questions, unless a worker's share was not selected."""
    config = session.config
    suite = config.stash.get(SUITE, None)
    if suite is not None and (shares := shares_of(config)) is not None:
        cases = [case for item in session.items for case in cases_of(item)]
        if sum(isinstance(case, ShareCase) for case in cases) == shares.count - 1:
            suite.maker(MMLU.kind).shares = shares


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """On a worker of pytest-xdist: send the controller the results."""
    config = session.config
    suite = config.stash.get(SUITE, None)
    if suite is None or not hasattr(config, "workeroutput") or not suite.recorder.has_begun(MMLU):
        return
    own = suite.recorder.result_of(MMLU)
    summary = json.dumps(suite.recorder.summary(own).as_json())
    config.workeroutput["mmlu"] = [summary, str(own.folder.path)]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hook of pytest-xdist: collect what a worker that ended has made."""
    if output := getattr(node, "workeroutput", {}).get("mmlu"):
        from mlperf_suite.results import schema

        of_workers = node.config.stash.setdefault(OF_WORKERS, [])
        of_workers.append((schema.Summary.read(json.loads(output[0])), Path(output[1])))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Redact secrets in the files of the shares."""
    shares = config.stash.get(_SHARES, None)
    if shares is not None and shares.folder.is_dir():
        redact_files([shares.folder])
