"""The runs of the official HTTP client in a session: --client inference-endpoint."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.errors import UsageError
from mlperf_suite.plugin.cases import ClientCase, client_case_of
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.strangers import printable

if TYPE_CHECKING:
    from mlperf_suite.client_results.client_benchmarks import ClientRunKey
    from mlperf_suite.judging.verdict_group import VerdictGroup
    from mlperf_suite.session.client_runs import ClientOutcome, ClientRuns

_RUNS: pytest.StashKey[ClientRuns] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Check what could stop the runs, before any begins. Raises pytest.UsageError."""
    config = session.config
    cases = [case for item in session.items if (case := client_case_of(item))]
    if not cases or config.getoption("collectonly"):
        return
    from mlperf_suite.plugin.progress import TerminalWatcher
    from mlperf_suite.session.client_runs import ClientRuns

    with_accuracy = frozenset(case.key for case in cases if case.mode == "accuracy")
    watcher = TerminalWatcher(config.get_terminal_writer())
    runs = ClientRuns(settings_of(config), watcher, with_accuracy)
    try:
        runs.check(frozenset(case.key for case in cases))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_RUNS] = runs


@pytest.fixture(scope="session")
def client_runs(pytestconfig: pytest.Config) -> Iterator[ClientRuns]:
    """The session's runs of the official client."""
    from mlperf_suite.engines.watch import terminated_like_interrupted

    with terminated_like_interrupted():
        yield pytestconfig.stash[_RUNS]


def outcome_of(runs: ClientRuns, case: ClientCase) -> tuple[ClientOutcome, bool]:
    """What became of a case's run, and whether it was made in this call."""
    now = case.key not in runs.outcomes
    return runs.make(case.key), now


def _group_of(key: ClientRunKey, outcome: ClientOutcome, config: pytest.Config) -> VerdictGroup:
    from mlperf_suite.judging.verdict_group import scenario_of, verdict_group

    benchmark = BENCHMARKS[key.benchmark]
    verdicts = [("performance", list(outcome.verdicts.values()))]
    scenario = scenario_of(benchmark, key.scenario)
    return verdict_group(str(key), settings_of(config).round, verdicts, benchmark, scenario)


def _figures(outcome: ClientOutcome) -> str:
    """The headline figures of a run, and where its files are."""
    run, words = outcome.summary, []
    if run is not None:
        rates = {"tokens/s": run.tps, "requests/s": run.qps}
        words = [f"{value:,.2f} {unit}" for unit, value in rates.items() if value is not None]
        tails = {name: getattr(run, name).percentiles.get("99.0") for name in ("ttft", "tpot")}
        words += [f"{n.upper()} p99 {v / 1e6:,.1f} ms" for n, v in tails.items() if v is not None]
    return f"  {', '.join(words) or 'no figures'}: {outcome.folder}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    yield
    config = terminalreporter.config
    runs = config.stash.get(_RUNS, None)
    if runs is None or not runs.outcomes:
        return
    from mlperf_suite.plugin.progress import terminal_console
    from mlperf_suite.reports.terminal import judged_table

    settings, console = settings_of(config), terminal_console(config)
    terminalreporter.section(f"{settings.client}, {settings.label}")
    judged = [_group_of(k, o, config) for k, o in runs.outcomes.items() if o.verdicts]
    console.print(judged_table(judged), soft_wrap=True)
    for key, outcome in runs.outcomes.items():
        words = outcome.failure or f"{key}:"
        console.print(printable(words), soft_wrap=True, markup=False)
        console.print(printable(_figures(outcome)), soft_wrap=True, markup=False)
