"""The real client, where `make endpoints-client` built it: against its own echo server, and in a
session against a stand-in server."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from pathlib import Path

import yaml

from evidence.from_elsewhere import OFFICIAL_CLIENT, needs_official_client
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import stand_in_server
from meta_tests.suite_runs import run_suite
from mlperf_suite.assets import embedded_model_dir
from scripts.local_servers import free_port

pytestmark = needs_official_client
PROGRAM = OFFICIAL_CLIENT / "bin" / "inference-endpoint"
_CONFIG = """\
name: echo
type: online
model_params: {{name: echo, streaming: "on", max_new_tokens: 16}}
report_dir: {folder}/report
datasets:
- {{name: perf, type: performance, path: {folder}/data.jsonl, parser: {{prompt: text_input}}}}
settings:
  runtime: {{min_duration_ms: 0, n_samples_to_issue: 16}}
  client: {{num_workers: 1}}
  load_pattern: {{type: concurrency, target_concurrency: 4}}
endpoint_config: {{endpoints: ["{url}"]}}
"""


def test_results_of_the_real_client_name_the_commit_that_was_built(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "data.jsonl").write_text('{"text_input": "An echo"}\n' * 8)
    config = tmp_path / "config.yaml"
    config.write_text(_CONFIG.format(folder=tmp_path, url=f"http://127.0.0.1:{port}"))
    echo = [str(OFFICIAL_CLIENT / "bin" / "python"), "-m", "inference_endpoint.testing.echo_server"]
    with (tmp_path / "echo.log").open("w") as log:
        server = subprocess.Popen([*echo, "--port", str(port)], stdout=log, stderr=log)
    try:
        await_port(server, port)
        subprocess.run(
            [PROGRAM, "benchmark", "from-config", "--config", config],
            capture_output=True,
            check=True,
            timeout=300,
        )
    finally:
        server.kill()
        server.wait()
    summary = json.loads((tmp_path / "report" / "performance" / "result_summary.json").read_text())
    command = ["git", "-C", str(OFFICIAL_CLIENT / "source"), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert commit.startswith(summary["git_sha"])
    assert (summary["n_samples_completed"], summary["n_samples_failed"]) == (16, 0)


def await_port(server: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the server takes connections; AssertionError if it ends or needs two minutes."""
    limit = time.monotonic() + 120
    while time.monotonic() < limit and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError(f"the echo server did not listen (exit status {server.poll()})")


def test_a_session_obeys_the_rules(tmp_path: Path) -> None:
    """Server and Offline of the stand-in server: every rule but that on its answers' quality."""
    options = StandIn(
        model=str(embedded_model_dir()), max_model_len=8192, first_token_s=0.05, rest_s=0.2
    )
    selection = ("-m", "(offline or server) and datacenter", "--server-target-qps=20")
    with stand_in_server(options) as server:
        run = run_suite(
            tmp_path / "results",
            *selection,
            f"--endpoint={server.url}",
            "--client=inference-endpoint",
        )
    for scenario in ("offline", "server"):
        (folder,) = (tmp_path / "results").glob(f"*-llama3.1-8b-{scenario}-client")
        verdicts = json.loads((folder / "summary.json").read_text())["verdicts"]
        failed = {verdict["rule"] for verdict in verdicts if verdict["status"] == "failed"}
        assert failed == {"client_accuracy_gate"}, run.output
        config = yaml.safe_load((folder / "report" / "config.yaml").read_text())
        assert config["type"] == ("offline" if scenario == "offline" else "online")
