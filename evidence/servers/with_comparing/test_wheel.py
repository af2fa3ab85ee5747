"""A wheel of the project measures a server, compares the runs and judges them, with no engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evidence.set_up.wheels import command, without_engine
from meta_tests.features.servers.stand_in_server import stand_in_server
from mlperf_suite.assets import embedded_model_dir


def test_a_server_is_measured_without_an_engine_installed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    client = without_engine(tmp_path_factory)
    # A short run: at its own rate, the server would work for 10 s.
    selection = ("-m", "offline and datacenter and performance", "--offline-target-qps=8.4")
    with stand_in_server() as server:
        target = ("--endpoint", server.url, "--served-model-name", "stand-in")
        model = ("--model", str(embedded_model_dir()))
        _, output = command(tmp_path, client, *selection, *target, *model)
    assert "tokens/s" in output and "PyTorch was not found" not in output, output
    assert (tmp_path / "results" / "latest" / "report.html").is_file()
    run = (tmp_path / "results" / "latest").resolve()
    status, output = command(tmp_path, client, "compare", str(run), str(run))
    assert status == 0 and "tokens/s" in output, output
    status, output = command(tmp_path, client, "-m", "compliance", "--logs", str(run))
    assert re.search(r"Performance v\d\.\d: not valid; \d+ passed", output), output
