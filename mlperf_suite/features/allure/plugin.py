"""Allure's titles, parameters, behaviours, labels and attachments, and its environment's table.

The table has what JUnit's suite has: settings, versions, and what became of each result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.plugin.cases import Case, step_of
from mlperf_suite.plugin.ci_reports import judged_run, session_properties
from mlperf_suite.plugin.existing_logs import is_of_logs
from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.outcomes import STATUS_PROPERTY, VERDICT
from mlperf_suite.rules.registry import rule_named
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session.run_kind import StepKey
from mlperf_suite.untrusted_files import printable

_CATEGORIES = (
    ("Regressed", "failed", r"Failed: regression_\w+: failed: found regressed.*"),
    ("Cannot tell", "failed", r"Failed: regression_\w+: failed: found cannot tell.*"),
    ("Cannot tell", "skipped", r".*: regression_\w+: cannot tell: .*"),
    ("Not comparable", "failed", r"Failed: regression_\w+: failed: found no comparison.*"),
    ("Failed rules", "failed", r"Failed: (?!regression_)\w+: failed: .*"),
    ("Not judged", "skipped", r".*: not judged: .*"),
    ("Shortened", "skipped", r".*: shortened: .*"),
)
"""What Allure's page groups results that did not pass by: a name, Allure's status, and a pattern
of the whole message."""
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the parameters in words, before Allure takes the fixtures' values.

    Allure takes results of a test with the same parameters for retries and counts the last alone:
    the test's id, which is not shown, tells its benchmarks and metrics apart.
    """
    callspec = getattr(item, "callspec", None)
    if not item.config.getoption("allure_report_dir", None) or callspec is None:
        return
    import allure

    for name, value in callspec.params.items():
        if isinstance(value, str):
            allure.dynamic.parameter(name, _Text(value))
            continue
        hidden = allure.parameter_mode.HIDDEN
        allure.dynamic.parameter(name, _Text(callspec.id), mode=hidden)
        if isinstance(value, Case):
            allure.dynamic.parameter("run", _Text(_run_words(value.key)), excluded=True)


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
    if verdict is not None:
        allure.dynamic.title(f"{verdict.rule} ({_subject(item, verdict)})")
        allure.dynamic.description(_description(verdict))
        allure.dynamic.story(verdict.rule)
        for name in ("found", "required"):
            # Not part of the test's identity: its history continues when the figure changes.
            allure.dynamic.parameter(name, _Text(getattr(verdict, name)), excluded=True)
    elif key is not None:
        name = getattr(item, "originalname", item.name)
        allure.dynamic.title(f"{name.removeprefix('test_')} ({key})")
    if status := dict(item.user_properties).get(STATUS_PROPERTY):
        # Allure itself knows them as skipped alone.
        allure.dynamic.label("verdict", status)
        allure.dynamic.tag(status)
    if key is not None:
        _describe_run(item, key)
    elif verdict is not None and is_of_logs(item):
        allure.dynamic.parent_suite("logs")
        allure.dynamic.suite(_subject(item, verdict))
        allure.dynamic.feature(_subject(item, verdict))


def _subject(item: pytest.Item, verdict: Verdict) -> str:
    """What is judged: a step of the session, or a result of existing logs."""
    callspec = getattr(item, "callspec", None)
    test = callspec.id if callspec else item.name
    return str(step_of(item) or test.removesuffix(f"-{verdict.rule}"))


def _description(verdict: Verdict) -> str:
    """What the rule requires; the verdict's line too where no message has it."""
    rule = rule_named(verdict.rule)
    parts = [] if rule is None else [f"{rule.sentence} ({rule.attribution})"]
    return "\n\n".join([*parts, *([verdict.line] if verdict.passed or rule is None else [])])


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
    """Write the table of the environment, whose keys have no blanks, and the categories."""
    suite = session.config.stash.get(SUITE, None)
    folder = session.config.getoption("allure_report_dir", None)
    if suite is None or not folder:
        return
    properties = session_properties(suite).items()
    lines = (f"{name.replace(' ', '_')}={printable(value)}\n" for name, value in properties)
    categories = [
        {"name": name, "matchedStatuses": [status], "messageRegex": pattern}
        for name, status, pattern in _CATEGORIES
    ]
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "environment.properties").write_text("".join(lines), encoding="utf-8")
    (Path(folder) / "categories.json").write_text(json.dumps(categories), encoding="utf-8")
