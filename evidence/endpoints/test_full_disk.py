"""A curve whose disk fills up, on a small file system of its own: one line; it goes on later."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.own_disks import own_disk, skip_without_own_disks
from meta_tests.features.endpoints.official_client_stand_in import write_client
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import stand_in_server
from meta_tests.suite_runs import PYTEST, run_suite
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.results.run_folder import read_summary


def test_a_curve_that_fills_the_disk_goes_on_with_the_next_start(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_own_disks(tmp_path_factory.mktemp("attempt"))
    write_client(tmp_path / "client")
    monkeypatch.setenv("MADE_CLIENT", str(tmp_path / "client"))
    server = StandIn(model=str(embedded_model_dir()), max_model_len=8192)
    with stand_in_server(server) as running:
        curve = (
            *("--series=endpoints", f"--endpoint={running.url}", "--client=inference-endpoint"),
            *("-p", "meta_tests.features.endpoints.official_client_plugin"),
            *("-p", "no:cacheprovider"),
        )
        results = ("--results-dir", str(tmp_path / "disk" / "results"))
        result = own_disk(tmp_path, 1200, *PYTEST, *curve, *results)
        assert result.returncode == 1, result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr
        (folder,) = (tmp_path / "kept").glob("2*")
        summary = read_summary(folder)
        assert summary is not None and summary.meta.status == "failed"
        assert "no space left" in (summary.meta.reason or "").lower(), summary.meta.reason
        run = run_suite(tmp_path / "kept", *curve)
    assert f"{folder.name}: an unfinished curve: goes on with its " in run.output
