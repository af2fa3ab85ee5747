"""A package of the series MLPerf Endpoints that obeys every rule, made from drawn latencies."""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml

from meta_tests.features.endpoints.made_official_client import (
    ClientRun,
    client_scores,
    client_series,
)
from mlperf_suite.features.endpoints.official_client_results.series import (
    AGENTIC,
    AGENTIC_MODELS,
    AGENTIC_TARGETS,
    SEED_SETS,
    SERIES_MODELS,
)

C_MAX = 1024
CONCURRENCIES = (16, 24, 64, 128, 256, 512, C_MAX)
SCORED = (16, 24, 64, C_MAX)
OFFLINE = 13368
"""The concurrency of a dedicated Offline point: the size of a data set."""
PASSES = 5
_PARTS = Path(__file__).parent / "package.yaml"
SPEC = {"source_type": "vendor_spec", "source": "https://example.org/specification"}


@cache
def _parts() -> dict[str, Any]:
    parts: dict[str, Any] = yaml.safe_load(_PARTS.read_text())
    return parts


def _made(part: str) -> Any:
    """A part of what a package says, anew."""
    return deepcopy(_parts()[part])


def point_summary(model: str, concurrency: int, run: ClientRun | None = None) -> dict[str, Any]:
    """The result_summary.json of a run; by default of five passes over the data set, drawn."""
    run = run or _drawn(model, concurrency)
    n, duration_ns = len(run.issued), run.windows_ns[0]
    values = {"ttft": run.ttft, "tpot": run.tpot, "latency": run.latency}
    values["output_sequence_lengths"] = run.lengths
    series = {name: client_series(v, estimates=False) for name, v in values.items()}
    tokens_per_s = int(run.lengths.sum()) / duration_ns * 1e9
    return {
        "version": "0.1.0",
        "n_samples_issued": n,
        "n_samples_completed": n,
        "n_samples_failed": 0,
        "duration_ns": duration_ns,
        "state": "complete",
        "complete": True,
        **series,
        "legacy_loadgen_window_duration_ns": None,
        "qps": n / duration_ns * 1e9,
        "tps": tokens_per_s,
        "system_tps": tokens_per_s,
        "tps_per_user": 1e9 / series["tpot"]["percentiles"]["90.0"],
        "run_config": {"load_pattern": _load(concurrency), **_client_seeds()},
    }


def _drawn(model: str, concurrency: int) -> ClientRun:
    """Latencies as they are at this concurrency; all is issued when it has just time to end."""
    benchmark = SERIES_MODELS[model]
    draw, n = np.random.default_rng(concurrency), PASSES * benchmark.samples
    duration_ns = int(1e9 * (1300 + 1000 / concurrency))
    lengths = draw.integers(110, 151, n)
    mean_ns = 0.95 * min(concurrency, C_MAX) * duration_ns / n
    latency = np.floor(draw.uniform(0.9, 1.1, n) * mean_ns)
    ttft = np.floor(0.1 * latency)
    issued = duration_ns - latency
    return ClientRun(benchmark, issued, ttft, latency, (latency - ttft) / (lengths - 1), lengths)


def _load(concurrency: int) -> dict[str, Any]:
    if concurrency > C_MAX:
        return {"type": "max_throughput"}
    return {"type": "concurrency", "target_concurrency": concurrency}


def _client_seeds() -> dict[str, int]:
    seeds = SEED_SETS["A"].seeds
    return {
        "scheduler_random_seed": seeds["scheduler_rng_seed"],
        "dataloader_random_seed": seeds["sample_index_rng_seed"],
    }


def client_point_config(concurrency: int) -> dict[str, Any]:
    settings = {"runtime": _client_seeds(), "load_pattern": _load(concurrency)}
    return {"type": "online", "model_params": {"streaming": "on"}, "settings": settings}


def point_file(model: str, concurrency: int, offline: str) -> dict[str, Any]:
    samples = SERIES_MODELS[model].samples
    point: dict[str, Any] = _made("point")
    point |= {"concurrency": concurrency, "model_name": model, "offline": offline}
    runtime = dict(SEED_SETS["A"].seeds)
    point["runtime_settings"] = {"load_pattern": _load(concurrency)["type"], "runtime": runtime}
    point["steady_state"]["window"] |= {"super_pass_size": samples, "n_samples": 4 * samples}
    return point


def system_description() -> dict[str, Any]:
    """A system_desc.json: one node of eight accelerators, with a replica on each."""
    content: dict[str, Any] = _made("system")
    return content


def system_power() -> dict[str, Any]:
    """A system_power.json of that node: (2 x 400 W + 8 x 1,000 W) and half as much for the rest."""
    components = {
        "cpu": {"count_per_node": 2, "tdp_per_unit": {"value_w": 400, **SPEC}},
        "accelerator": {"count_per_node": 8, "tdp_per_unit": {"value_kw": 1.0, **SPEC}},
        "scale_up_network": {"method": "none"},
    }
    nodes = {"node_set_id": 1, "system_node_ensemble_id": 1, "nodes_provisioned": 1}
    return {
        "system_desc_id": "box",
        "cooling": "air",
        "node_sets": [{**nodes, "power_method": "component_sum", "components": components}],
        "scale_out": {"present": False},
        "computed": {"total_system_power_w": 13_200.0},
        "provisioned_power_kw": 13.2,
    }


def write_package(root: Path, model: str = "llama3_1-8b", *, dedicated: bool = False) -> Path:
    """Write <root>/Someone/<submission id>; returns that folder. `dedicated`: its Offline point is
    a run of its own, not the one at C_max."""
    package = root / "Someone" / "box-2026"
    for name in ("docs", "src/server", f"results/box/{model}"):
        (package / name).mkdir(parents=True)
    (package / "src/server/README.md").write_text("made up\n")
    (package / "docs/system.md").write_text("made up\n")
    write_json(package / "results/box/system_power.json", system_power())
    for concurrency in (*CONCURRENCIES, OFFLINE) if dedicated else CONCURRENCIES:
        folder = package / "results/box" / model / f"r{concurrency}"
        folder.mkdir()
        offline = "dedicated" if concurrency > C_MAX else "none"
        if concurrency == C_MAX and not dedicated:
            offline = "elected"
        point, summary = point_file(model, concurrency, offline), point_summary(model, concurrency)
        if concurrency > C_MAX:
            del point["steady_state"]
        config = client_point_config(concurrency)
        write_json(folder / "system_desc.json", system_description())
        write_json(folder / "result_summary.json", summary)
        (folder / "point.yaml").write_text(yaml.safe_dump(point))
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        if concurrency in (*SCORED, OFFLINE):
            scores = client_scores(SERIES_MODELS[model], 100.0 + concurrency)
            write_json(folder / "accuracy_results.json", scores)
    return package


def as_agentic(curve: Path, model: str = AGENTIC_MODELS[0]) -> Path:
    """Make a curve one of several turns that obeys every rule, of runs that last twice as long; its
    new folder."""
    curve = curve.rename(curve.parent / model)
    for folder in curve.iterdir():
        point = yaml.safe_load((folder / "point.yaml").read_text())
        point["runtime_settings"]["load_pattern"] = AGENTIC
        point["steady_state"]["window"]["duration_s"] *= 2
        point |= {"offline": "none", "model_name": curve.name}
        (folder / "point.yaml").write_text(yaml.safe_dump(point))
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config["settings"]["load_pattern"]["type"] = AGENTIC
        config |= {"datasets": _made("data_sets")}
        config["model_params"] = _made("sampling")[model]
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        summary = json.loads((folder / "result_summary.json").read_text())
        summary["output_sequence_lengths_full_run"] = {
            "output_sequence_lengths": {"avg": fmean(AGENTIC_TARGETS[model].tokens)}
        }
        summary["run_config"]["load_pattern"]["type"] = AGENTIC
        summary["duration_ns"] *= 2
        for name in ("qps", "tps", "system_tps"):
            summary[name] /= 2
        lengths, latency = summary["output_sequence_lengths"], summary["latency"]
        summary["e2e_avg_interactivity"] = lengths["total"] / latency["total"] * 1e9
        write_json(folder / "result_summary.json", summary)
        scores = [_score("performance", "performance", 0.589)]
        if int(folder.name[1:]) in SCORED:
            scores.append(_score("swe_bench", "accuracy", 0.975))
        write_json(folder / "accuracy_results.json", {"accuracy_scores": scores})
    return curve


def as_two_nodes(curve: Path, *, different: bool = False) -> None:
    """Give a curve's system a second node: an equal one, or one of half as many accelerators."""
    power, described = system_power(), system_description()
    (first,), (node,) = power["node_sets"], described["node_types"]
    used = [{"system_node_ensemble_id": 1, "nodes": 1 if different else 2}]
    described |= {"system_node_ensemble_total": 2, "data_parallel": 16, "system_size": "2 nodes"}
    power |= {"scale_out": network(2), "provisioned_power_kw": 27.64}
    if different:
        second, small = (json.loads(json.dumps(nodes)) for nodes in (first, node))
        second |= {"node_set_id": 2, "system_node_ensemble_id": 2}
        second["components"]["accelerator"]["count_per_node"] = 4
        small["system_node_ensemble_id"] = 2
        small["accelerator_info"][0]["accelerators_per_node"] = 4
        power["node_sets"].append(second)
        described["node_types"].append(small)
        described |= {"system_node_ensemble_count": 2, "data_parallel": 12}
        used.append({"system_node_ensemble_id": 2, "nodes": 1})
        power["provisioned_power_kw"] = 21.64
    else:
        first["nodes_provisioned"] = node["number_of_nodes"] = 2
    del power["computed"]
    write_json(curve.parent / "system_power.json", power)
    for folder in curve.iterdir():
        write_json(folder / "system_desc.json", described)
        point = yaml.safe_load((folder / "point.yaml").read_text())
        (folder / "point.yaml").write_text(yaml.safe_dump(point | {"nodes_used": used}))


def network(nodes: int) -> dict[str, Any]:
    """The network between so many nodes: two cards of 40 W each, and a switch of 1,000 W."""
    cards = {"count_per_node": 2, "bandwidth_per_nic_gbps": 400, "counted": True}
    switch = {"model": "made up", "count": 1, "bandwidth_tbps": 0.8 * nodes}
    return {
        "present": True,
        "cabling": "passive",
        "required_bandwidth_tbps": 0.8 * nodes,
        "nics": {**cards, "tdp_per_nic": {"value_w": 40, **SPEC}},
        "switches": [{**switch, "power_per_switch": {"value_w": 1000, **SPEC}}],
    }


def _score(name: str, kind: str, score: float) -> dict[str, Any]:
    of_score = {"dataset_name": name, "dataset_type": kind, "score": score}
    return of_score | {"total_samples": 100, "complete": True}


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))
