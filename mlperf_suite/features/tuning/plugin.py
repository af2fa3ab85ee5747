"""`pytest -m tune`: the command `tune` under the session's own options, once a session."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.plugin.cases import is_by_name, parametrize
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.session.run_kind import NoCase
from mlperf_suite.settings import OPTIONS

if TYPE_CHECKING:
    from mlperf_suite.features.tuning.tuning_result import TuningResult

_FOLDER = "tuning"
_NO_TUNING = NoCase(("tuning", "tunings"), "no -m tune")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("mlperf").addoption(
        "--tune",
        metavar="OPTIONS",
        default="",
        help="with -m tune: options of mlperf-suite tune in one text, as '--minutes 10'; the other "
        "options of this session are those of every run",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One tuning, if the user selects it by name: it takes the longest."""
    if "tuning" in metafunc.fixturenames:
        is_asked = is_by_name(metafunc.config, "tune")
        cases = [pytest.param(None, id=pytest.HIDDEN_PARAM)] if is_asked else []
        parametrize(metafunc, "tuning", cases, _NO_TUNING)


@pytest.fixture(scope="session")
def tuning(request: pytest.FixtureRequest) -> TuningResult:
    """The outcome of the search: the candidate, its pairs with the default, the gain."""
    return make_tuning(request.config)


def make_tuning(config: pytest.Config) -> TuningResult:
    """Search and compare, in the folder `tuning` of the results; one that was interrupted goes on.

    Raises pytest.UsageError for options that contradict each other.
    """
    from mlperf_suite.features.tuning.command import add_options
    from mlperf_suite.features.tuning.tune import tune
    from mlperf_suite.features.tuning.tuning_request import request_of
    from mlperf_suite.plugin.progress import TerminalDisplay

    parser = argparse.ArgumentParser("--tune", add_help=False, exit_on_error=False)
    add_options(parser)
    out = settings_of(config).results_dir / _FOLDER
    try:
        own = shlex.split(config.getoption("tune"))
    except ValueError as error:
        raise pytest.UsageError(f"--tune: {error}") from None
    ends = [] if "--" in own else ["--"]
    words = [f"--out={out}", *own, *ends, *_options_of_runs(config)]
    # A fixture is set up while pytest captures what is written to the terminal.
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        display = TerminalDisplay(config.get_terminal_writer())
    try:
        arguments, unknown = parser.parse_known_args(words)
        if unknown:
            raise UsageError(f"unknown: {' '.join(unknown)}")
        return tune(request_of(arguments), display.say)
    except (UsageError, argparse.ArgumentError) as error:
        raise pytest.UsageError(f"--tune: {error}") from None


def _options_of_runs(config: pytest.Config) -> list[str]:
    """The options of this session's command line; variables and files reach the runs anyway."""
    words: list[str] = []
    for plugin in config.getoption("plugins"):
        words += ["-p", plugin]
    if file := config.getoption("suite_config"):
        words.append(f"--suite-config={file}")
    for spec in OPTIONS:
        given = config.getoption(spec.dest)
        if spec.dest == "results_dir" or given is None:
            continue
        if spec.switch:
            words += [spec.flag] if given == "true" else []
        else:
            words += [f"{spec.flag}={v}" for v in (given if isinstance(given, list) else [given])]
    return words
