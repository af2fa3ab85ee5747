"""What CI gets of a session: JUnit properties, Allure labels and files, benchmark records."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import allure
import pytest

from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.loadgen.load_plan import AUDIT_MODES, RunKey
from mlperf_suite.plugin import ci_reports
from mlperf_suite.results.run_folder import RunFolder
from mlperf_suite.results.schema import PerformanceFigures


@dataclass(frozen=True)
class CiSession:
    """A session on the stand-in engine, and what its plugins wrote."""

    run: SuiteRun
    folder: Path

    @property
    def figures(self) -> PerformanceFigures:
        performance = self.run.summary.run.performance
        assert performance is not None and performance.latency_ms is not None
        return performance

    @property
    def latency_ms(self) -> Mapping[str, float]:
        return self.figures.latency_ms or {}

    def allure(self) -> list[dict[str, Any]]:
        files = (self.folder / "allure").glob("*-result.json")
        return [json.loads(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> CiSession:
    folder = tmp_path_factory.mktemp("ci")
    run = run_suite(
        folder / "results",
        *("-m", "offline and datacenter and performance", "-p", "meta_tests.stand_in_plugin"),
        "--offline-target-qps=8.4",
        f"--junitxml={folder}/junit.xml",
        f"--alluredir={folder}/allure",
        f"--benchmark-json={folder}/benchmark.json",
        f"--benchmark-storage={folder}/kept",
        "--benchmark-autosave",
        STAND_IN='{"delays_s": [10.2]}',
    )
    assert run.exit_code == 0, run.output
    return CiSession(run, folder)


def _properties(element: ET.Element) -> dict[str, str]:
    return {p.get("name", ""): p.get("value", "") for p in element.findall("properties/property")}


def test_junit_tells_the_session_and_each_tests_figures(session: CiSession) -> None:
    (suite,) = ET.parse(session.folder / "junit.xml").iter("testsuite")
    properties = _properties(suite)
    settings = {"model": "embedded", "round": "v6.1", "profile": "smoke", "dataset": "embedded"}
    assert settings.items() <= properties.items()
    assert {"vllm_version", "loadgen_version", "torch_version"} <= properties.keys()
    cases = {case.get("name"): _properties(case) for case in suite.iter("testcase")}
    rule = cases["test_result_valid[llama3.1-8b-offline]"]
    assert (rule["found"], rule["required"]) == ("VALID", "VALID")
    for name, properties in cases.items():
        assert float(properties["tokens_per_sec"]) == session.figures.tokens_per_sec, name
        assert float(properties["latency_ms_p99"]) == session.latency_ms["p99"], name


def test_allure_has_labels_and_each_rules_found_and_required(session: CiSession) -> None:
    results = session.allure()
    assert len(results) > 10
    for result in results:
        labels = [(label["name"], label["value"]) for label in result["labels"]]
        told_of = {
            ("benchmark", "llama3.1-8b"),
            ("category", "datacenter"),
            ("scenario", "Offline"),
        }
        assert told_of <= set(labels)
        names = {parameter["name"] for parameter in result["parameters"]}
        if "result_valid" in result["name"]:
            assert {"found", "required"} <= names
        assert "object at 0x" not in json.dumps(result)
    assert "round=v6.1" in (session.folder / "allure" / "environment.properties").read_text()


def test_allure_has_the_logs_the_report_and_the_plots_once(session: CiSession) -> None:
    attached = [a for result in session.allure() for a in result.get("attachments", [])]
    names = sorted(attachment["name"] for attachment in attached)
    assert names == [
        "Performance/mlperf_log_detail.txt",
        "Performance/mlperf_log_summary.txt",
        "plots/latency.png",
        "plots/life.png",
        "plots/tokens_per_s.png",
        "report.html",
        "report.md",
        "summary.json",
    ]
    for attachment in attached:
        content = (session.run.folder / attachment["name"]).read_bytes()
        assert (session.folder / "allure" / attachment["source"]).read_bytes() == content


@pytest.mark.parametrize("mode", ["accuracy", "performance", "caching", *AUDIT_MODES])
def test_allure_has_the_logs_of_each_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    monkeypatch.setattr(allure, "dynamic", MagicMock())
    attached: list[str] = []
    monkeypatch.setattr(ci_reports, "_attach", lambda item, folder, names: attached.extend(names))
    monkeypatch.setattr(ci_reports, "settings_of", lambda config: SimpleNamespace(profile="smoke"))
    item = SimpleNamespace(config=SimpleNamespace(stash={ci_reports._LAST: {}}), nodeid="test")
    folder = RunFolder(tmp_path, "gpt-oss-120b", "Offline", datetime(2026, 1, 1))
    paths = {
        name: folder.of_mode(name).relative_to(folder.path) / "mlperf_log_summary.txt"
        for name in ("accuracy", "performance", *AUDIT_MODES)
    }
    summary = SimpleNamespace(logs=tuple(map(str, paths.values())))
    key = RunKey("gpt-oss-120b", "Offline", mode)
    ci_reports._tell_allure(item, key, None, (summary, folder.path))  # type: ignore[arg-type]
    assert attached == ([str(paths[mode])] if mode in paths else [])


def _benchmark_table(output: str) -> list[str]:
    """Its lines, from the head to the row of the run."""
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Name (time in"))
    return lines[start - 1 : start + 4]


def test_pytest_benchmarks_table_fits_80_columns(session: CiSession) -> None:
    table = _benchmark_table(session.run.output)
    assert table[1].split()[-4:] == ["Mean", "StdDev", "OPS", "Rounds"]
    assert table[3].startswith("test_run[llama3.1-8b-offline]")
    longest = len("llama3.1-8b-edge-singlestream") - len("llama3.1-8b-offline")
    assert max(len(line) for line in table) + longest <= 80


@pytest.mark.parametrize(
    ("arguments", "columns", "columns_shown", "quiet"),
    [
        ((), None, ["mean", "stddev", "ops", "rounds"], True),
        (("--benchmark-autosave",), None, ["mean", "stddev", "ops", "rounds"], False),
        (("--benchmark-columns=min",), ["min"], ["min"], False),
    ],
)
def test_the_users_own_columns_are_kept(
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    columns: list[str] | None,
    columns_shown: list[str],
    quiet: bool,
) -> None:
    """And a table is shown to who asks for one of pytest-benchmark's options."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    option = SimpleNamespace(benchmark_columns=columns, benchmark_quiet=False)
    config: Any = SimpleNamespace(
        option=option,
        invocation_params=SimpleNamespace(args=arguments),
        getini=lambda name: ["--strict-markers"],
    )
    ci_reports.pytest_configure(config)
    assert (option.benchmark_columns, option.benchmark_quiet) == (columns_shown, quiet)


def test_pytest_benchmark_keeps_the_run(session: CiSession) -> None:
    (record_file,) = (session.folder / "kept").rglob("*.json")
    for file in (session.folder / "benchmark.json", record_file):
        (record,) = json.loads(file.read_text())["benchmarks"]
        assert record["name"] == "test_run[llama3.1-8b-offline]"
        assert record["stats"]["ops"] == pytest.approx(session.figures.samples_per_sec)
        assert record["extra_info"]["tokens_per_sec"] == session.figures.tokens_per_sec
        assert record["extra_info"]["latency_ms_p50"] == session.latency_ms["p50"]
