"""Supports pytest-xdist: tests that use the engine run on one worker, unless it is their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from mlperf_suite import SUITE_FOLDER
from mlperf_suite.plugin.options import settings_of

_GROUP = "engine"
_OWN_TESTS = ("meta_tests", "evidence")
"""Folders whose tests are of the suite itself: their sessions load engines of their own."""
_OWN_ENGINE = re.compile(rf"\[({_GROUP}-\d+)\]$")
"""Ends the id of a test that has an engine of its own beside that of the others: engine-2."""


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
    own = [SUITE_FOLDER / name for name in _OWN_TESTS]
    return not all(any(path.is_relative_to(folder) for folder in own) for path in paths)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Group tests by their ids, since pytest-xdist 3.8 finds no xdist_group under pytest 9.2."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class OneEngineScheduling(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if own := _OWN_ENGINE.search(nodeid):
                return own[1]
            is_own = nodeid.partition("/")[0] in _OWN_TESTS
            return str(super()._split_scope(nodeid)) if is_own else _GROUP

    return OneEngineScheduling(config, log)
