"""The fixtures of the tests of sessions, reports and judging, for those of features."""

from functools import cache, partial
from typing import Any

import pytest
import yaml

from meta_tests.judging.conftest import submission
from meta_tests.reports.conftest import undrawn
from meta_tests.session.conftest import lines, make, quick, short
from mlperf_suite.features.submission_check import tree_files

__all__ = ["lines", "make", "quick", "short", "submission", "undrawn"]

_load = yaml.load
_load_once = cache(partial(_load, Loader=tree_files._YamlLoader))


@pytest.fixture(scope="module")
def yaml_once() -> Any:
    """YAML that is judged is read once where it is the same: reading takes half of a package's
    time."""

    def load(text: Any, loader: Any) -> Any:
        return _load_once(text) if loader is tree_files._YamlLoader else _load(text, loader)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "load", load)
        yield
