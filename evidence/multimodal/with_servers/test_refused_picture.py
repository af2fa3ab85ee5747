"""A whole session on a chat server that refuses one picture: one line, and what was measured."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from meta_tests.features.servers.chat_stand_in import Events, chat_server, delta, last
from meta_tests.features.servers.replies import Refusal
from meta_tests.suite_runs import run_suite
from mlperf_suite.datasets.media import PictureFile
from mlperf_suite.features.multimodal.qwen3_vl import QWEN3_VL, load_products
from mlperf_suite.results.run_folder import read_summary, run_folders

MODELS = json.dumps({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]})


def test_a_picture_that_the_server_refuses_ends_the_run_in_one_line(tmp_path: Path) -> None:
    third = load_products("embedded").items[2].media
    assert isinstance(third, PictureFile)
    refused = base64.b64encode(third.content).decode()

    def answer(body: dict[str, Any]) -> Events:
        if refused in json.dumps(body["messages"]):
            raise Refusal(400, "cannot identify image file")
        event = delta(content="a")
        event["choices"][0]["token_ids"] = [5]
        return [event, *last(prompt=321, tokens=1)]

    with chat_server(answer, pages={"/v1/models": lambda: MODELS}) as server:
        words = ["--endpoint", server.url, "--served-model-name", "m", "--warmup=0"]
        session = run_suite(
            tmp_path, *("--benchmark", QWEN3_VL.id, "-m", "offline and datacenter"), *words
        )
    why = f"sample 2: {server.url} answered with status 400: cannot identify image file"
    assert session.exit_code == 1 and why in session.output
    (folder,) = run_folders(session.results_dir)
    summary = read_summary(folder)
    assert summary is not None
    assert (summary.verdict, summary.meta.status, summary.meta.reason) == ("failed", "failed", why)
    # What the client measured until then is kept, and no figure of the run.
    assert summary.run.remote["accuracy"].client.processes
    assert summary.run.is_empty and not summary.verdicts
    report = (folder / "report.md").read_text()
    assert "**failed:** " in report and "No accuracy result." in report
