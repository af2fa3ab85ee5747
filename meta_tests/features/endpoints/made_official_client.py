"""Results as the official HTTP client writes them, made from drawn latencies and lengths."""

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from meta_tests.features.submission_check.made_submissions import system_fields
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    WAN,
    OfficialClientBenchmark,
    official_client_benchmark,
)
from mlperf_suite.features.endpoints.rules.distribution_checks import bucket_edges
from mlperf_suite.features.submission_check.submission_rules import MEASUREMENT_FIELDS
from mlperf_suite.rules.stopping_criterion import discarded_queries

_GRID = ("99.9", "99.0", "97.0", "95.0", "90.0", "80.0", "75.0", "50.0", "25.0", "10.0", "1.0")
_RUN_S = 640.0
_MEAN_TOKENS = {"gpt-oss-120b": 1250, "deepseek-r1": 3800, "llama3.1-8b": 128}


def client_series(values: Any, *, estimates: bool = True) -> dict[str, Any]:
    ascending, n = np.sort(values), len(values)
    shares = {name: float(name) / 100 for name in _GRID}
    ranks = {name: int(share * (n - 1)) for name, share in shares.items()}
    edges = np.array(bucket_edges(ascending[0].item(), ascending[-1].item(), 30))
    counts, _ = np.histogram(np.clip(ascending, edges[0], edges[-1]), edges)
    total = ascending.sum().item()
    made = {
        "total": total,
        "min": ascending[0].item(),
        "max": ascending[-1].item(),
        "median": ascending[ranks["50.0"]].item(),
        "avg": total / n,
        "std_dev": float(ascending.std(ddof=1)),
        "percentiles": {name: ascending[rank].item() for name, rank in ranks.items()},
    }
    if estimates:
        made["early_stopping_percentiles"] = {
            name: ascending[n - discarded].item()
            if (discarded := discarded_queries(n, share))
            else None
            for name, share in shares.items()
            if share >= 0.5
        }
    buckets = [[low.item(), high.item()] for low, high in pairwise(edges)]
    return made | {"histogram": {"buckets": buckets, "counts": counts.tolist()}}


def _pattern(scenario: str, rate: float) -> dict[str, Any]:
    if scenario == "Offline":
        return {"type": "max_throughput"}
    if scenario == "SingleStream":
        return {"type": "concurrency", "target_concurrency": 1}
    return {"type": "poisson", "target_qps": rate, "use_legacy_loadgen_qps_metrics": True}


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What happened to each request; times in ns."""

    benchmark: OfficialClientBenchmark
    issued: Any
    ttft: Any
    latency: Any
    tpot: Any
    lengths: Any

    @property
    def inputs(self) -> Any:
        """Tokens of the prompts, of each sample in turn."""
        return 20 + np.arange(len(self.issued)) % self.benchmark.samples % 50

    @property
    def is_at_a_rate(self) -> bool:
        return self.benchmark.scenario in ("Server", "Interactive")

    @property
    def windows_ns(self) -> tuple[int, int]:
        """To the last end, and from the first issue to the end of the request issued last."""
        ends = self.issued + self.latency
        return int(ends.max()), int(ends[-1] - self.issued[0])


def client_run(benchmark: OfficialClientBenchmark, seed: int = 0) -> ClientRun:
    """Draw a run of a benchmark's scenario within its limits."""
    draw, n = np.random.default_rng(seed), benchmark.samples + 1000
    mean = _MEAN_TOKENS.get(benchmark.id, 40)
    lengths = draw.integers(mean - 20, mean + 21, n)
    limits_ns = {name: 1e6 * limit for name, limit in benchmark.limits_ms.items()}
    ttft = np.floor(draw.uniform(0.3, 0.9, n) * limits_ns.get("ttft", 0.3e9)).astype(int)
    latency = ttft + (draw.uniform(0.3, 0.9, n) * limits_ns.get("tpot", 4e6) * lengths).astype(int)
    if benchmark.scenario == "SingleStream":
        latency = (latency * (_RUN_S * 1e9 / latency.sum())).astype(int) + 1
        issued = latency.cumsum() - latency
    elif benchmark.scenario == "Offline":
        latency = np.sort(latency) * (_RUN_S * 1e9 / latency.max())
        latency, issued = latency.astype(int), np.arange(n)
    else:
        issued = np.sort(draw.integers(1, int((_RUN_S - 20) * 1e9), n))
    return ClientRun(benchmark, issued, ttft, latency, (latency - ttft) / lengths, lengths)


def client_summary(run: ClientRun) -> dict[str, Any]:
    n, at_a_rate = len(run.issued), run.is_at_a_rate
    duration_ns, window_ns = run.windows_ns
    divisor_ns = window_ns if at_a_rate else duration_ns
    return {
        "version": "0.1.0",
        "git_sha": None,
        "test_started_at": 0,
        "n_samples_issued": n,
        "n_samples_completed": n,
        "n_samples_failed": 0,
        "duration_ns": duration_ns,
        "state": "complete",
        "complete": True,
        "ttft": client_series(run.ttft) if at_a_rate else {},
        "tpot": client_series(run.tpot) if at_a_rate else {},
        "latency": client_series(run.latency),
        "output_sequence_lengths": client_series(run.lengths, estimates=False),
        "input_sequence_lengths": client_series(run.inputs, estimates=False),
        "legacy_loadgen_window_duration_ns": window_ns if at_a_rate else None,
        "qps": (n - at_a_rate) / divisor_ns * 1e9,
        "tps": int(run.lengths.sum()) / divisor_ns * 1e9,
        "finish_reason_counts": {"stop": n, "length": 0, "other": 0},
        "run_config": {
            "load_pattern": {
                "target_qps": None,
                "target_concurrency": None,
                **_pattern(run.benchmark.scenario, n / (_RUN_S - 20)),
            },
            "warmup": {"enabled": False, "salt": True},
            **_seeds(),
        },
    }


def client_events(run: ClientRun, *, words: bool = False, salted: bool = False) -> str:
    """The events.jsonl of a run, with a request before it, and one of the accuracy run after it.

    `words`: each answer streams its length in words, the first of them alone. `salted`: each
    request is a text with a salt of its own, as MLPerf Endpoints allows; else its token ids.
    """
    draw, lengths, inputs = random.Random(1), run.lengths.tolist(), run.inputs.tolist()
    data: dict[tuple[str, str], list[Any]] = {("issued", "before"): ["PromptData", "made up"]}
    for number in range(len(run.issued)):
        first_id = 100 * (number % run.benchmark.samples)
        prompt: list[Any] = [None, list(range(first_id, first_id + inputs[number]))]
        if salted:
            prompt = [f"[{draw.randbytes(8).hex()}] made up"]
        data["issued", f"{number:x}"] = ["PromptData", *prompt]
        answer = ["a", " a" * (lengths[number] - 1)] if words else "made up"
        data["complete", f"{number:x}"] = ["TextModelOutput", answer]
    start_ns = 10**9
    of_requests = [
        (at_ns, f"sample.{kind}", f"{number:x}")
        for kind, times in (
            ("issued", run.issued),
            *([("recv_first", run.issued + run.ttft)] if run.is_at_a_rate else []),
            ("complete", run.issued + run.latency),
        )
        for number, at_ns in enumerate((times + start_ns).tolist())
    ]
    end_ns = start_ns + run.windows_ns[0]
    of_session = [
        (0, "session.started", ""),
        *((at, f"sample.{kind}", "before") for at, kind in enumerate(("issued", "complete"), 1)),
        (start_ns, "session.start_performance_tracking", ""),
        (end_ns + 1, "session.stop_performance_tracking", ""),
        *((end_ns + i, f"sample.{k}", "after") for i, k in ((2, "issued"), (3, "complete"))),
        (end_ns + 9, "session.ended", ""),
    ]
    lines = [
        {"event_type": kind, "timestamp_ns": at_ns, "sample_uuid": uuid}
        | ({"data": of_event} if (of_event := data.get((kind[7:], uuid))) else {})
        | ({"finish_reason": "stop"} if kind == "sample.complete" else {})
        for at_ns, kind, uuid in sorted([*of_session, *of_requests], key=lambda event: event[0])
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _seeds() -> dict[str, int]:
    round_ = ROUNDS["v6.1"]
    return {
        "scheduler_random_seed": round_.schedule_rng_seed,
        "dataloader_random_seed": round_.sample_index_rng_seed,
    }


def client_config(benchmark: OfficialClientBenchmark, summary: dict[str, Any]) -> dict[str, Any]:
    pattern = summary["run_config"]["load_pattern"]
    return {
        "name": "made up",
        "version": "1.0",
        "type": "offline" if benchmark.scenario == "Offline" else "online",
        "model_params": {"name": "made up", "streaming": "on"},
        "settings": {
            "runtime": {
                "min_duration_ms": 600_000,
                "n_samples_to_issue": summary["n_samples_issued"],
                **_seeds(),
            },
            "load_pattern": {name: value for name, value in pattern.items() if value is not None},
        },
    }


def client_scores(benchmark: OfficialClientBenchmark, duration_s: float = 100.0) -> dict[str, Any]:
    """An accuracy_results.json that obeys every rule, of a run that lasted so long."""
    answers = benchmark.answers
    parts = {"made up": answers}
    if benchmark.id == "gpt-oss-120b":
        parts = {"aime25": 240, "gpqa": 990, "livecodebench": answers - 1230}
    values = {score.name: score.value for score in benchmark.expected}
    score: Any = {name: f"{value}" for name, value in values.items()}
    if "rouge1" not in values:
        score = next(iter(values.values()), 0.5) / benchmark.scale
    mean = values.get("tokens_per_sample", float(_MEAN_TOKENS.get(benchmark.id, 40)))
    scores = [
        {
            "dataset_name": name,
            "score": score,
            "unit_samples": count,
            "num_repeats": 1,
            "total_samples": count,
            "duration_s": duration_s,
            "complete": True,
            "dataset_type": "accuracy",
            "response_counts": {"issued": count, "scored": count, "empty": 0, "missing": 0},
            "output_sequence_lengths": {"total": int(mean * count), "avg": mean},
        }
        for name, count in parts.items()
    ]
    return {"average_accuracy": None, "accuracy_scores": scores}


def write_client_submission(
    root: Path,
    name: str,
    scenarios: tuple[str, ...],
    division: str = "closed",
    with_events: str | None = None,
) -> Path:
    """Write a submission of the client's results that obeys every rule; returns its folder.

    `with_events`: the scenario that has its events.jsonl.
    """
    submission = root / division / "Someone"
    for seed, scenario in enumerate(scenarios):
        benchmark = official_client_benchmark(name, scenario)
        assert benchmark is not None
        folder = submission / "results" / "box" / name / scenario
        run = client_run(benchmark, seed)
        summary = client_summary(run)
        for path, content in (
            ("performance/result_summary.json", summary),
            ("accuracy/accuracy_results.json", client_scores(benchmark, 100.0 + seed)),
            ("measurements.json", dict.fromkeys(MEASUREMENT_FIELDS, "made up")),
        ):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(json.dumps(content))
        (folder / "config.yaml").write_text(yaml.safe_dump(client_config(benchmark, summary)))
        (folder / "README.md").write_text("made up\n")
        if scenario == with_events:
            (folder / "events.jsonl").write_text(client_events(run))
        if name == WAN:
            (folder / "audit").mkdir()
            (folder / "accuracy" / "videos").mkdir()
            (folder / "accuracy" / "videos" / "1.mp4").write_text("made up")
            audit = {"test": "output_caching_test", "passed": True}
            (folder / "audit" / "audit_output_caching_test.json").write_text(json.dumps(audit))
        category = benchmark.category
    described = {"submitter": "Someone", "division": division, "status": "available"}
    described |= {"system_type": category}
    (submission / "systems").mkdir(exist_ok=True)
    (submission / "systems" / "box.json").write_text(json.dumps(system_fields() | described))
    (submission / "src").mkdir(exist_ok=True)
    (submission / "src" / "README.md").write_text("made up\n")
    return submission
