"""Makes `mlperf-suite` pytest on the suite's own tests, from any folder and without a clone.

The command imports this file before pytest could rewrite its assertions; it has none:
PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import pytest

from mlperf_suite import IS_CLONE, PACKAGE, SUITE_FOLDER
from mlperf_suite.assets import assets_dir
from mlperf_suite.plugin.options import rewrite

pytest_plugins = ("mlperf_suite.plugin",)


def run_tests(arguments: Sequence[str]) -> int:
    """Run pytest with its own arguments and the suite's options; return pytest's exit status."""
    try:
        rewrite(arguments)
    except pytest.UsageError as error:
        # pytest answers --version before it loads a plugin, and exits with 0.
        print(f"ERROR: {error}", file=sys.stderr)
        return int(pytest.ExitCode.USAGE_ERROR)
    options = ["-p", __name__, "-c", str(SUITE_FOLDER / "pytest.ini"), f"--rootdir={SUITE_FOLDER}"]
    if not IS_CLONE:
        # Of an environment without torch, which a client does not need.
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
        options += ["-o", f"cache_dir={assets_dir() / 'pytest_cache'}"]
    return int(pytest.main([*options, *arguments]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Iterator[None]:
    """Where no test is named, run all: pytest looks for them in the current folder otherwise."""
    names = early_config.known_args_namespace.file_or_dir
    if not names:
        of_features = (PACKAGE / "features").glob("*/tests")
        tests = [str(path) for path in (SUITE_FOLDER / "tests", *sorted(of_features))]
        names += tests
        args += tests
    return (yield)
