"""Allure's titles, parameters, behaviours, labels and attachments, and its environment's table.

The table has what JUnit's suite has: settings, versions, and what became of each result.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.plugin.cases import Case
from mlperf_suite.plugin.ci_reports import judged_run, session_properties
from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.outcomes import STATUS_PROPERTY, VERDICT
from mlperf_suite.rules.verdict import in_words
from mlperf_suite.session.run_kind import StepKey

_ATTACHED = pytest.StashKey[set[str]]()
_LAST = pytest.StashKey[dict[tuple[str, str], str]]()


class _Text:
    """What Allure shows without the quotes of a str."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    keys = ((judged_run(item), item.nodeid) for item in session.items)
    last = {key.benchmark_and_scenario: nodeid for key, nodeid in keys if key is not None}
    session.config.stash[_LAST] = last
    session.config.stash[_ATTACHED] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Describe the test after the call, when its run is made and judged."""
    try:
        return (yield)
    finally:
        if item.config.getoption("allure_report_dir", None):
            _describe(item)


def _describe(item: pytest.Item) -> None:
    import allure

    key, verdict = judged_run(item), item.stash.get(VERDICT, None)
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    for name, value in parameters.items():
        if isinstance(value, Case):
            allure.dynamic.parameter(name, _Text(_run_words(value.key)))
    if verdict is not None:
        allure.dynamic.title(verdict.rule if key is None else f"{key}: {verdict.rule}")
        allure.dynamic.description(verdict.line)
        allure.dynamic.story(verdict.rule)
        for name in ("found", "required"):
            # Not part of the test's identity: its history continues when the figure changes.
            allure.dynamic.parameter(name, _Text(getattr(verdict, name)), excluded=True)
    if status := dict(item.user_properties).get(STATUS_PROPERTY):
        # Allure itself knows them as skipped alone.
        allure.dynamic.label("verdict", status)
        allure.dynamic.tag(status)
    if key is not None:
        _describe_run(item, key)


def _run_words(key: StepKey) -> str:
    return ", ".join(filter(None, (key.scenario, key.mode)))


def _describe_run(item: pytest.Item, key: StepKey) -> None:
    import allure

    category = BENCHMARKS[key.benchmark].category
    labels = {"benchmark": key.benchmark, "category": category, "scenario": key.scenario}
    for name, value in labels.items():
        allure.dynamic.label(name, value)
    allure.dynamic.parent_suite(key.benchmark)
    allure.dynamic.suite(key.scenario)
    allure.dynamic.sub_suite(key.mode)
    allure.dynamic.epic(key.benchmark)
    allure.dynamic.feature(_run_words(key))
    allure.dynamic.tag(settings_of(item.config).profile)
    suite = item.config.stash.get(SUITE, None)
    if suite is not None and suite.recorder.has_begun(key):
        result = suite.recorder.result_of(key)
        summary, folder = suite.recorder.summary(result), result.folder.path
        part = {"performance": "Performance", "accuracy": "Accuracy"}.get(key.mode)
        # A caching audit's logs are not part of summary.logs, so none are attached.
        part = part or f"Compliance/{key.mode.upper()}"
        logs = [name for name in summary.logs if name.startswith(f"{part}/")]
        _attach(item, folder, [name for name in logs if name.endswith(".txt")])
        if item.config.stash[_LAST].get(key.benchmark_and_scenario) == item.nodeid:
            plots = sorted(f"plots/{path.name}" for path in (folder / "plots").glob("*.png"))
            _attach(item, folder, ["report.html", "report.md", "summary.json", *plots])


def _attach(item: pytest.Item, folder: Path, names: list[str]) -> None:
    """Attach files of a run, each once per session."""
    import allure

    kinds = allure.attachment_type
    by_suffix = {".txt": kinds.TEXT, ".md": kinds.TEXT, ".json": kinds.JSON}
    by_suffix |= {".html": kinds.HTML, ".png": kinds.PNG}
    for name in names:
        path = folder / name
        if str(path) in item.config.stash[_ATTACHED] or not path.is_file():
            continue
        item.config.stash[_ATTACHED].add(str(path))
        allure.attach.file(str(path), name, by_suffix[path.suffix])


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of the environment, whose keys have no blanks."""
    suite = session.config.stash.get(SUITE, None)
    folder = session.config.getoption("allure_report_dir", None)
    if suite is None or not folder:
        return
    properties = session_properties(suite).items()
    lines = (f"{name.replace(' ', '_')}={in_words(value)}\n" for name, value in properties)
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "environment.properties").write_text("".join(lines), encoding="utf-8")
