"""Stand-in for a curve that the official client measured: each point's folder as the client writes
it, from drawn latencies or a replay of them; and the facts of submission.toml. None of it is a
measurement."""

import heapq
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from meta_tests.features.endpoints.made_official_client import (
    ClientRun,
    client_events,
    client_scores,
)
from meta_tests.features.endpoints.made_package import (
    C_MAX,
    CONCURRENCIES,
    OFFLINE,
    SCORED,
    client_point_config,
    point_summary,
    write_json,
)
from meta_tests.suite_runs import ROOT
from mlperf_suite.__main__ import main
from mlperf_suite.features.endpoints.official_client_results.series import SERIES_MODELS

FACTS = (ROOT / "docs" / "submission.toml").read_text()
"""The sample of submission.toml: a llama3_1-8b curve on one node of eight accelerators."""


def write_curve(root: Path, model: str = "llama3_1-8b", *, dedicated: bool = False) -> Path:
    """Write a folder for each point, as c16/, below <root>/curve; returns that folder."""
    curve = root / "curve"
    for concurrency in (*CONCURRENCIES, OFFLINE) if dedicated else CONCURRENCIES:
        folder = curve / (f"c{concurrency}" if concurrency <= C_MAX else "offline")
        (folder / "performance").mkdir(parents=True)
        summary = point_summary(model, concurrency)
        summary["run_config"]["warmup"] = {"enabled": False}
        write_json(folder / "performance/result_summary.json", summary)
        config = yaml.safe_dump(client_point_config(concurrency))
        (folder / "config.yaml").write_text(config)
        if concurrency in (*SCORED, OFFLINE):
            (folder / "accuracy").mkdir()
            scores = client_scores(SERIES_MODELS[model], 100.0 + concurrency)
            write_json(folder / "accuracy/accuracy_results.json", scores)
    return curve


def replay(model: str, concurrency: int, passes: int = 6, duration_s: float = 1800.0) -> ClientRun:
    """A closed loop of drawn latencies: each answer lets the next request go."""
    benchmark = SERIES_MODELS[model]
    draw, n = np.random.default_rng(concurrency), passes * benchmark.samples
    lengths = draw.integers(110, 151, n)
    mean_ns = concurrency * duration_s * 1e9 / n
    latency = np.floor(draw.uniform(0.9, 1.1, n) * mean_ns).astype(int)
    ttft = latency // 10
    free = [0] * concurrency
    issued = np.zeros(n, dtype=int)
    for number, latency_ns in enumerate(latency.tolist()):
        # A nanosecond between issues keeps them in their order.
        issued[number] = max(free[0], issued[number - 1] + 1)
        heapq.heapreplace(free, int(issued[number]) + latency_ns)
    return ClientRun(benchmark, issued, ttft, latency, (latency - ttft) / (lengths - 1), lengths)


def write_replay(curve: Path, concurrency: int, model: str = "llama3_1-8b") -> None:
    """Replace a point of `write_curve` by a replay with its events.jsonl."""
    run = replay(model, concurrency)
    folder = curve / f"c{concurrency}"
    summary = point_summary(model, concurrency, run)
    summary["run_config"]["warmup"] = {"enabled": True, "drain": True}
    write_json(folder / "performance/result_summary.json", summary)
    (folder / "events.jsonl").write_text(client_events(run, words=True, salted=True))


def write_tokenizer(root: Path) -> str:
    """A tokenizer.json that makes one token of each word; returns submission.toml's line."""
    tokenizer = Tokenizer(WordLevel({"a": 0, "?": 1}, unk_token="?"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    (root / "tokenizer").mkdir()
    tokenizer.save(str(root / "tokenizer" / "tokenizer.json"))
    return 'tokenizer = "tokenizer"\n'


def write_facts(root: Path, model: str = "llama3_1-8b") -> Path:
    """Write <root>/submission.toml; returns it."""
    path = root / "submission.toml"
    path.write_text(FACTS.replace("llama3_1-8b", model))
    return path


def build(root: Path, curve: Path | None = None) -> int:
    """Build <root>/out of a curve's folder and <root>/submission.toml; the command's exit status.

    `curve`: <root>/curve by default.
    """
    options = ["--facts", str(root / "submission.toml"), "--out", str(root / "out")]
    return main(["submission", "--series", "endpoints", *options, str(curve or root / "curve")])


def point_of(root: Path, concurrency: int) -> dict[str, Any]:
    (path,) = (root / "out").glob(f"*/*/results/*/*/r{concurrency}/point.yaml")
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content
