"""Trees that the submission command builds of the client's results, before the official checker."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.from_elsewhere import INFERENCE, needs_inference
from evidence.verdicts import official_verdict
from meta_tests.features.submission.result_folders import client_folders, submit, write_result
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS


@needs_inference
@pytest.mark.parametrize("beside_loadgen", [False, True])
def test_the_checker_accepts_the_tree(tmp_path: Path, beside_loadgen: bool) -> None:
    results = {n: f"llama3.1-8b/{n}={folder}" for n, folder in client_folders(tmp_path).items()}
    if beside_loadgen:
        offline = LLAMA3_1_8B.scenario("Offline")
        results["Offline"] = str(write_result(tmp_path / "results", LLAMA3_1_8B, offline))
    assert submit(tmp_path, *results.values()) == 0
    assert official_verdict(tmp_path / "tree", INFERENCE, ROUNDS["v6.1"]) == "passes"
