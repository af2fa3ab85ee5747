"""Files of the official HTTP client: read as types, and a damaged one gives one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.features.endpoints.official_client_results.result_files import (
    ResultSummary,
    read_typed,
)

SUMMARY: dict[str, Any] = {
    "n_samples_issued": 3,
    "n_samples_completed": 3,
    "n_samples_failed": 0,
    "duration_ns": 10**9,
    "state": "complete",
    "complete": True,
    "ttft": {"avg": 1.5, "early_stopping_percentiles": {"99.0": None}},
    "run_config": {"scheduler_random_seed": 2**64 - 1, "load_pattern": {"type": "poisson"}},
    "a member of tomorrow": [],
}


def written(folder: Path, content: Any) -> Path:
    path = folder / "result_summary.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


DAMAGES: dict[str, Any] = {
    "empty": "",
    "cut": json.dumps(SUMMARY)[:-9],
    "half a surrogate pair": '{"state": "\\ud800"',
    "deep": "[" * 100_000,
    "twice": json.dumps(SUMMARY)[:-1] + ', "complete": true}',
    "NaN": json.dumps(SUMMARY | {"qps": float("nan")}),
    "infinite": json.dumps(SUMMARY | {"qps": 1}).replace('"qps": 1', '"qps": 1e999'),
    "true for a count": SUMMARY | {"n_samples_issued": True},
    "below 0": SUMMARY | {"duration_ns": -1},
    "more requests than any run": SUMMARY | {"n_samples_issued": 2**40},
    "many percentiles": SUMMARY | {"ttft": {"percentiles": {f"{p}": 1 for p in range(99)}}},
    "no state": {name: value for name, value in SUMMARY.items() if name != "state"},
    "many buckets": SUMMARY | {"ttft": {"histogram": {"counts": [1] * 10_000}}},
    "a control character": SUMMARY | {"ttft": {"percentiles": {"\x1b[2J": "\x1b[2J"}}},
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_gives_one_line(tmp_path: Path, name: Any) -> None:
    content, problem = read_typed(written(tmp_path, DAMAGES[name]), ResultSummary)
    assert content is None
    assert problem.startswith("result_summary.json")
    assert problem.isprintable()
    assert len(problem) < 300
