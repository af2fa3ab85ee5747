"""Whole sessions against servers that fail: they end, say why in a line, and keep what was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import stand_in_server
from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.assets import embedded_model_dir

ACCURACY_SAMPLES = 84
"""Of the smoke profile: every row of the embedded data."""


def session(folder: Path, **options: Any) -> tuple[SuiteRun, str]:
    """An Offline session on a stand-in of the embedded model, and the server's URL."""
    server_options = StandIn(model=str(embedded_model_dir()), max_model_len=8192, **options)
    with stand_in_server(server_options) as server:
        run = run_suite(
            folder / "results", "-m", "offline and datacenter", f"--endpoint={server.url}"
        )
    return run, server.url


@pytest.mark.parametrize(
    ("options", "words", "logs"),
    [
        # Whether its answer or the next request is told first is a race.
        ({"fault": "dies", "fault_from": 40}, "onnection", ("Accuracy",)),
        (
            # After the trial, the probe, the warm-up and the accuracy run.
            {"fault": "status-500", "fault_from": 2 * ACCURACY_SAMPLES},
            "answered with status 500",
            ("Accuracy", "Performance", "Compliance"),
        ),
    ],
    ids=["dies in the accuracy run", "refuses from the performance run on"],
)
def test_a_fault_fails_the_session_and_keeps_the_results(
    options: dict[str, Any], words: str, logs: tuple[str, ...], tmp_path: Path
) -> None:
    run, url = session(tmp_path, **options)
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED, run.output
    meta = run.summary.meta
    assert meta.status == "failed"
    assert meta.reason is not None
    assert url in meta.reason
    assert words in meta.reason
    assert "\n" not in meta.reason
    assert meta.reason in run.output
    assert [endpoint.requests > 0 for endpoint in run.summary.run.remote["accuracy"].endpoints] == [
        True
    ]
    summaries = {
        path.relative_to(run.folder).parts[0] for path in run.folder.rglob("mlperf_log_detail.txt")
    }
    assert summaries == {*logs}


def test_a_server_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    """Before anything is loaded, and without a results folder."""
    with stand_in_server() as server:
        url = server.url
    run = run_suite(tmp_path / "results", "-m", "offline and datacenter", f"--endpoint={url}")
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR, run.output
    assert f"{url}: refused the connection" in run.output
