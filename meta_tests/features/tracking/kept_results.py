"""Results that a tracker is sent, and the module of one."""

from pathlib import Path
from typing import Any

from mlperf_suite.results.run_folder import write_json

TOKEN = "planted-OF-a-token"
MODULE = "meta_tests.features.tracking.folder_tracker"
RUN: dict[str, Any] = {
    "performance": {
        "valid": True,
        "tokens_per_sec": 14501.5,
        "ttft_ms": {"p99": 149.5},
        "metric": {"name": "result_x", "value": 3.5, "unit": "tokens/s"},
        "blocks": {"tokens_per_sec": [1.0, 2.0, 4.0]},
        "repeats": [{"tokens_per_sec": 14000.0}],
        "goodput": {"requests": 9, "within": 8},
    },
    "accuracy": {"scores": [{"name": "rouge1", "value": 38.5, "unit": "%", "low": 36.5}]},
}
POINT = {"concurrency": 8, "outcome": "measured", "duration_s": 20.0, "output_tokens": 400}
CURVE = {"client": "own", "points": [POINT | {"blocks": [{"tokens_per_sec": 20.0}] * 2}]}


def kept(
    results: Path, day: int = 1, scenario: str = "Server", curve: Any = CURVE, **meta: Any
) -> Path:
    """A result in its folder. `curve`: a rehearsed one is no result."""
    folder = results / f"202611{day:02}-120000-llama3.1-8b-{scenario.lower()}"
    folder.mkdir(parents=True)
    started = f"2026-11-{day:02}T12:00:00+00:00"
    about = {"benchmark": "llama3.1-8b", "scenario": scenario, "status": "complete"}
    about |= {"started": started, "model": "embedded", "profile": "smoke", "round": "v6.1", **meta}
    content = {"meta": about, "system": {"cpu": "a CPU"}, "run": RUN, "curve": curve}
    write_json(folder / "summary.json", content)
    write_json(folder / "config.json", {"settings": {"precision": "auto"}})
    write_json(folder / "peak_qps.json", {"trials": [{"target_qps": 4.5, "valid": False}]})
    (folder / "engine.log").write_text(f"sent with {TOKEN}\n")
    (folder / "responses.jsonl").write_text("{}\n")
    for name in ("samples.json", "rouge_samples.json"):
        (folder / "Accuracy").mkdir(exist_ok=True)
        write_json(folder / "Accuracy" / name, {"dataset_sha256": "", "scores": {}})
    return folder
