"""Stand-in for a curve that the official client measured: each point's folder as the client writes
it, from drawn latencies; and the facts of submission.toml. None of it is a measurement."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from meta_tests.made_client import client_scores
from meta_tests.made_package import (
    C_MAX,
    CONCURRENCIES,
    OFFLINE,
    SCORED,
    client_point_config,
    point_summary,
)
from mlperf_suite.client_results.series import SERIES_MODELS

FACTS = """\
organization = "Someone"
submission_id = "box-2026"
benchmark = "llama3_1-8b"
division = "Standardized"
target_cohort = "2026-11-C1"
implementation = "server"
model_precision = "fp8"
link_to_model = "https://example.org/model"
dataset_name = "made up"
dataset_link = "https://example.org/data"

[system]
system_name = "Box of eight"
shortened_system_name = "Box 8"
system_availability_status = "Available"
availability_url = "https://example.org/box"
tensor_parallel = 1
data_parallel = 8

[[system.node_types]]
host_processor_core_count = 64
host_memory_configuration = "16 x 64 GB"
host_network_card_count = "2"
driver = "1.0"
filesystem = "ext4"
cooling = "air"
accelerator_info = [{ accelerator_model_name = "Accelerator", accelerators_per_node = 8 }]

[power]
cooling = "air"
scale_out = { present = false }

[[power.node_sets]]

[power.node_sets.components.cpu]
count_per_node = 2
tdp_per_unit = { value_w = 400, source_type = "vendor_spec", source = "https://example.org/cpu" }

[power.node_sets.components.accelerator]
count_per_node = 8
tdp_per_unit = { value_kw = 1.0, source_type = "vendor_spec", source = "https://example.org/tdp" }

[power.node_sets.components.scale_up_network]
method = "none"
"""
"""A complete submission.toml for a llama3_1-8b curve on one node of eight accelerators."""


def write_curve(root: Path, model: str = "llama3_1-8b", *, dedicated: bool = False) -> Path:
    """Write a folder for each point, as c16/, below <root>/curve; returns that folder."""
    curve = root / "curve"
    for concurrency in (*CONCURRENCIES, OFFLINE) if dedicated else CONCURRENCIES:
        folder = curve / (f"c{concurrency}" if concurrency <= C_MAX else "offline")
        (folder / "performance").mkdir(parents=True)
        summary = point_summary(model, concurrency)
        summary["run_config"]["warmup"] = {"enabled": False}
        _write_json(folder / "performance/result_summary.json", summary)
        config = yaml.safe_dump(client_point_config(concurrency))
        (folder / "config.yaml").write_text(config)
        if concurrency in (*SCORED, OFFLINE):
            (folder / "accuracy").mkdir()
            scores = client_scores(SERIES_MODELS[model])
            _write_json(folder / "accuracy/accuracy_results.json", scores)
    return curve


def write_facts(root: Path, model: str = "llama3_1-8b") -> Path:
    """Write <root>/submission.toml; returns it."""
    path = root / "submission.toml"
    path.write_text(FACTS.replace("llama3_1-8b", model))
    return path


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))
