"""vLLM's own server and the demonstrations on it: they answer, and leave nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from meta_tests.suite_runs import ROOT, still_running, wait_until
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.errors import EngineError
from scripts.local_servers import vllm_server


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def test_vllms_server_answers_and_stops() -> None:
    with vllm_server() as server:
        family = [server.launcher, *server.launcher.children(recursive=True)]
        (card,) = get(f"{server.url}/v1/models")["data"]
        assert card["id"] == card["root"] == server.model == str(embedded_model_dir())
        assert "version" in get(f"{server.url}/version")
    assert still_running(family) == []


def test_vllms_server_says_why_it_does_not_start() -> None:
    with (
        pytest.raises(EngineError, match=r"^vLLM's server ended while it started: .*max_model_len"),
        vllm_server(arguments=["--max-model-len", "10000000"]),
    ):
        pytest.fail("it was never ready")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_demonstration_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C goes to the group, as a terminal sends it; SIGKILL to the demonstration alone."""
    demo_command = [sys.executable, "-m", "scripts.demos", "endpoint"]
    demo = subprocess.Popen(
        # A machine under load may let a server wait long.
        [*demo_command, f"--results-dir={tmp_path}", "--engine-silence=1800"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: bool(list(tmp_path.glob("2*/Accuracy/mlperf_log_detail.txt"))), demo)
    family = psutil.Process(demo.pid).children(recursive=True)
    if number == signal.SIGINT:
        os.killpg(demo.pid, number)
    else:
        demo.send_signal(number)
    output, _ = demo.communicate(timeout=120)
    assert demo.returncode == (2 if number == signal.SIGINT else -signal.SIGKILL), output
    deadline = time.monotonic() + 120
    while still_running(family) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert still_running(family) == []
