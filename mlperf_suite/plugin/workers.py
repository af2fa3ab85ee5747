"""Supports pytest-xdist: tests that use the engine run on one worker, MMLU's shares on several."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite import SUITE_FOLDER
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.session.engine_source import source_of

if TYPE_CHECKING:
    from mlperf_suite.mmlu.journal import Shares
    from mlperf_suite.settings import Settings

_SHARES: pytest.StashKey[Shares | None] = pytest.StashKey()
_GROUP = "engine"
_OWN_TESTS = ("meta_tests", "evidence")
"""Folders whose tests are of the suite itself: their sessions load engines of their own."""
_SHARE = re.compile(r"::test_share\[(\d+)\]")


@pytest.hookimpl(trylast=True)
def pytest_mlperf_engine_count(settings: Settings) -> int:
    # All endpoints are one system, whichever worker uses them, and so are replicas.
    if source_of(settings).is_one_system:
        return 1
    from mlperf_suite.mmlu.journal import engine_count

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
    from mlperf_suite.mmlu.journal import Shares, gpus_per_engine

    count = min(workers, config.hook.pytest_mlperf_engine_count(settings=settings))
    if count == 1:
        return None
    return Shares(
        settings.results_dir / f".mmlu-{os.environ['PYTEST_XDIST_TESTRUNUID']}",
        count,
        gpus_per_engine(settings),
        600.0 if settings.smoke else 3600.0,
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Check that one worker loads the engine: two would disturb each other's measurements."""
    dist, settings = config.getoption("dist"), settings_of(config)
    if settings.plan:
        raise pytest.UsageError("--plan: runs nothing that workers could share: leave out -n")
    runs_nothing = settings.logs is not None
    if len(specs) == 1 or dist == "loadgroup" or runs_nothing or not collects_suite(config):
        return
    raise pytest.UsageError(
        f"-n with --dist {dist}: each worker would load its own engine, and they would "
        "disturb each other's measurements: use --dist loadgroup"
    )


def collects_suite(config: pytest.Config) -> bool:
    """Whether tests may use the engine: any but the suite's own tests may."""
    paths = [
        (config.invocation_params.dir / argument.partition("::")[0]).resolve()
        for argument in config.args
    ]
    return any(not _is_own_test(path) for path in paths)


def _is_own_test(path: Path) -> bool:
    return any(path.is_relative_to(SUITE_FOLDER / name) for name in _OWN_TESTS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Group tests by their ids, since pytest-xdist 3.8 finds no xdist_group under pytest 9.2."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class OneEngineScheduling(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if share := _SHARE.search(nodeid):
                return f"{_GROUP}-{share[1]}"
            is_own = nodeid.partition("/")[0] in _OWN_TESTS
            return str(super()._split_scope(nodeid)) if is_own else _GROUP

    return OneEngineScheduling(config, log)


def shares_folder(config: pytest.Config) -> list[Path]:
    """The folder of the shares, an empty list if there is none."""
    shares = config.stash.get(_SHARES, None)
    return [shares.folder] if shares is not None and shares.folder.is_dir() else []
