"""The fixture of the tests of packages, which judge the same files many times."""

from functools import cache, partial
from typing import Any

import pytest
import yaml

from mlperf_suite.features.submission_check import tree_files

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
