"""Damages and forgeries of a package of MLPerf Endpoints, each with the rules that see it.

    python -m evidence.endpoints.package_damages CLI [--write]

prints each beside the verdict of the official checker, and rewrites the tables of
docs/evidence/endpoints-packages.md with --write; CLI is the installed endpoints-submission-cli. A
damage is one of a made package of llama3_1-8b with an elected Offline point, unless it is of one
with a dedicated point.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evidence.tables import PAGES, write_cells
from meta_tests.features.endpoints.made_inputs import messages
from meta_tests.features.endpoints.made_package import (
    C_MAX,
    OFFLINE,
    SPEC,
    as_agentic,
    as_two_nodes,
    network,
    write_package,
)
from meta_tests.features.endpoints.package_breaks import (
    ALL_SCORES,
    CONFIG,
    CURVE,
    FIRST,
    LOAD,
    PARTS,
    POINT,
    POINTS,
    POWER,
    RUN,
    SALTS,
    SCORES,
    SEED,
    SYSTEM,
    SYSTEMS,
    TPS,
    TURNS_AVG,
    UNCOMPUTED,
    WINDOW,
    PackageBreak,
    events_of,
    token_ids,
    turn,
    with_score,
    without,
)
from meta_tests.tampering.member_changes import GONE, times
from mlperf_suite.features.endpoints.judging.packages import judge_package
from mlperf_suite.features.endpoints.official_client_results.series import AGENTIC_MODELS
from mlperf_suite.judging.verdict_group import VerdictGroup
from mlperf_suite.rules.registry import rules_of

PREFIX = "package_"


@dataclass(frozen=True)
class PackageDamage(PackageBreak):
    """A break of a whole package."""

    def make(self, package: Path) -> None:
        curve = package / CURVE
        self.apply(as_agentic(curve, self.turns) if self.turns else curve)


def _damage(files: str, change: Any, rules: str, *, dedicated: bool = False) -> PackageDamage:
    return PackageDamage(files, change, rules, dedicated=dedicated)


_SALTED: dict[str, tuple[list[Any], list[Any]]] = {
    "salts of 32 bits": ([f"[{salt[:8]}] made up" for salt in SALTS], []),
    "a salt sent twice": ([f"[{SALTS[0]}] made up"] * 2, []),
    "a request without a salt": ([f"[{SALTS[0]}] made up", "made up"], []),
    "salts that count": ([f"[{n:016x}] made up" for n in range(200)], []),
    "salts behind the user's text": ([f"made {s[0]} up [{s}]" for s in SALTS], []),
    "salts before the system prompt": (
        [messages(f"[salt: {salt}]\n\nBe brief.", "made up") for salt in SALTS],
        [],
    ),
    "salts in the accuracy run": (
        [f"[{salt}] made up" for salt in SALTS],
        [f"[{SALTS[0]}] made up"],
    ),
    "salts of 2 token ids": (token_ids(2), []),
    "salts of token ids behind the user's text": (token_ids(4, before=30), []),
    "salts of token ids sent twice": ([*token_ids(4), *token_ids(4)[:3]], []),
    "salts of token ids in the accuracy run": (token_ids(4), token_ids(4)),
}
"""Prompts of a measurement and of its accuracy run."""


def _with_copies(*pairs: tuple[str, str]) -> Callable[[Path], None]:
    """Copies folders and files over others."""

    def change(curve: Path) -> None:
        for one, another in pairs:
            if (curve / one).is_dir():
                shutil.copytree(curve / one, curve / another)
            else:
                shutil.copy(curve / one, curve / another)

    return change


def _renamed(one: str, another: str) -> Callable[[Path], None]:
    def change(curve: Path) -> None:
        (curve / one).rename((curve / another).resolve())

    return change


def _both(*damages: PackageDamage) -> Callable[[Path], None]:
    def change(curve: Path) -> None:
        for damage in damages:
            damage.apply(curve)

    return change


def _two_nodes(*damages: PackageDamage, different: bool = False) -> Callable[[Path], None]:
    """A system of two nodes, and damages to it."""

    def change(curve: Path) -> None:
        as_two_nodes(curve, different=different)
        for damage in damages:
            damage.apply(curve)

    return change


def _half_used(nodes: int = 1, **figures: float) -> list[PackageDamage]:
    """A point with eight of sixteen replicas, explained, and figures of its run."""
    shortfall = {"dp_actual": 8, "dp_formula": 16, "reason": "latency"}
    used = [{"system_node_ensemble_id": 1, "nodes": nodes}]
    return [
        _damage(SYSTEM, {"data_parallel": 8}, ""),
        _damage(POINT, {"nodes_used": used, "dp_shortfall": shortfall}, ""),
        _damage(RUN, figures, ""),
    ]


def _scores_in_results(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """A point's scores stand in results.json, changed."""

    def changed(curve: Path) -> None:
        path = curve / SCORES
        scores = json.loads(path.read_text())["accuracy_scores"]
        path.with_name("results.json").write_text(json.dumps(change(scores)))
        path.unlink()

    return changed


def _as_other_point(curve: Path, concurrency: int) -> None:
    """A whole further point, as another concurrency, with a run of its own."""
    folder = curve / f"r{concurrency}"
    shutil.copytree(curve / "r128", folder)
    _damage(f"r{concurrency}/point.yaml", {"concurrency": concurrency}, "").apply(curve)
    load = {"settings.load_pattern.target_concurrency": concurrency}
    _damage(f"r{concurrency}/config.yaml", load, "").apply(curve)
    summary = json.loads((folder / "result_summary.json").read_text())
    summary["run_config"]["load_pattern"]["target_concurrency"] = concurrency
    # Another run: latencies of one nanosecond more.
    summary["latency"]["total"] += summary["n_samples_completed"]
    for name in ("min", "max", "median", "avg"):
        summary["latency"][name] += 1
    percentiles = summary["latency"]["percentiles"]
    summary["latency"]["percentiles"] = {n: value + 1 for n, value in percentiles.items()}
    summary["duration_ns"] += concurrency
    duration_s = summary["duration_ns"] / 1e9
    summary["qps"] = summary["n_samples_completed"] / duration_s
    tokens = summary["output_sequence_lengths"]["total"]
    summary["tps"] = summary["system_tps"] = tokens / duration_s
    (folder / "result_summary.json").write_text(json.dumps(summary))


def _more_points(*concurrencies: int) -> Callable[[Path], None]:
    def change(curve: Path) -> None:
        for concurrency in concurrencies:
            _as_other_point(curve, concurrency)

    return change


def _moved(one: int, another: int) -> Callable[[Path], None]:
    """A point measured at another concurrency, without its accuracy run."""

    def change(curve: Path) -> None:
        shutil.rmtree(curve / f"r{one}")
        _as_other_point(curve, another)

    return change


_KIMI, _QWEN, _DEEPSEEK = AGENTIC_MODELS
_SALTED_TURNS: dict[str, list[Any]] = {
    "no salts in conversations": [("a", messages("Be brief.", "made up"))],
    "one turn without its salts": [turn(1), turn(1), ("1", messages("Be brief.", "made up"))],
    "a salt of another conversation": [turn(1), turn(2), turn(1, own="ffff")],
    "a pass with the salts of the last": [(f"{n}", turn(n % 40)[1]) for n in range(80)],
    "salts of single requests": [f"[{salt}] made up" for salt in SALTS],
}


_NO_POWER = {"provisioned_power_kw": GONE}
_NETWORK = network(1)
_NICS = _NETWORK["nics"]
_UNREADABLE: dict[str, str] = {
    "is a list": "[1, 2]",
    "is no YAML or JSON": "{a: [1",
    "is empty": "",
    "is nested deeply": "[" * 100_000,
}
_DISCLOSED = (
    *("division", "max_supported_concurrency", "model_name", "model_precision", "link_to_model"),
    *("dataset_name", "dataset_type", "dataset_link", "shared_src", "shared_docs", "seed_set"),
    *("target_cohort", "warmup", "runtime_settings", "concurrency"),
)
_DESCRIBED = (
    *("system_name", "system_availability_status", "max_supported_concurrency", "system_size"),
    *("system_node_ensemble_count", "system_node_ensemble_total", "shortened_system_name"),
    *("division", "node_types"),
)
_OF_A_NODE = (*("host_memory_configuration", "host_network_card_count", "driver", "filesystem"),)
_OLD_MEMBERS = ("score", "unit_samples", "num_repeats", "total_samples")
PACKAGE_DAMAGES: dict[str, PackageDamage] = {
    # Layout
    "no docs/": _damage("", without("../../../docs"), "layout"),
    "no src/": _damage("", without("../../../src"), "layout"),
    "no implementation in src/": _damage("", without("../../../src/server"), "layout"),
    "an implementation without README.md": _damage("../../../src/server/README.md", GONE, "layout"),
    "a curve without a point": _damage(
        "",
        without(*(f"r{c}" for c in (16, 24, 64, 128, 256, 512, C_MAX))),
        "layout accuracy_gate points",
    ),
    "a system without a model": _damage("", without("."), "layout accuracy_gate points"),
    "a point without point.yaml": _damage(POINT, GONE, "layout files_readable"),
    "a point without config.yaml": _damage(CONFIG, GONE, "layout files_readable"),
    "a point without result_summary.json": _damage(RUN, GONE, "layout files_readable"),
    "a point without system_desc.json": _damage(SYSTEM, GONE, "layout files_readable"),
    "no system_desc.json at all": _damage(SYSTEMS, GONE, "layout files_readable"),
    "a folder of another concurrency": _damage("", _renamed("r64", "r65"), "layout"),
    "shared_src is no folder": _damage(POINT, {"shared_src": "src/absent"}, "layout"),
    "shared_docs leads out of the package": _damage(
        POINT, {"shared_docs": "../box-2026/docs"}, "layout"
    ),
    "shared_src from the root": _damage(POINT, {"shared_src": "/tmp"}, "layout"),
    **{
        f"{file} {what}": _damage(f"r64/{file}", text, f"files_readable{' layout' * (not text)}")
        for file in ("point.yaml", "config.yaml", "result_summary.json", "system_desc.json")
        for what, text in _UNREADABLE.items()
    },
    "point.yaml makes an object": _damage(
        POINT, "!!python/object/apply:os.getcwd []", "files_readable"
    ),
    # Members
    **{f"no {n} in point.yaml": _damage(POINT, {n: GONE}, "files_readable") for n in _DISCLOSED},
    **{
        f"no {n} in system_desc.json": _damage(SYSTEMS, {n: GONE}, "files_readable")
        for n in _DESCRIBED
    },
    **{
        f"no {n} of a node": _damage(SYSTEMS, {f"node_types.0.{n}": GONE}, "files_readable")
        for n in _OF_A_NODE
    },
    "a concurrency of 0": _damage(POINT, {"concurrency": 0}, "files_readable"),
    "a region of another name": _damage(POINT, {"region": "somewhere"}, "files_readable"),
    "an Offline point of another kind": _damage(POINT, {"offline": "perhaps"}, "files_readable"),
    "a steady state of another status": _damage(
        POINT, {"steady_state.status": "fine"}, "files_readable"
    ),
    "a steady state of another verdict": _damage(
        POINT, {"steady_state.verdict": "steady"}, "files_readable"
    ),
    "a metric in another state": _damage(
        POINT, {"steady_state.state.tpot_p90": "flat"}, "files_readable"
    ),
    "a negative warm-up": _damage(POINT, {"warmup.duration_s": -1.0}, "files_readable"),
    "a warm-up of two days": _damage(POINT, {"warmup.duration_s": 172_800.0}, "files_readable"),
    "a warm-up without data": _damage(POINT, {"warmup.data_source": GONE}, "files_readable"),
    "a warm-up that completed more than it issued": _damage(
        POINT, {"warmup.requests_completed": 101}, "warmup"
    ),
    "a warm-up at concurrency 0": _damage(POINT, {"warmup.concurrency": 0}, "warmup"),
    # The system
    "a short name of 21 characters": _damage(
        SYSTEMS, {"shortened_system_name": "x" * 21}, "files_readable"
    ),
    "another availability": _damage(
        SYSTEMS, {"system_availability_status": "Soon"}, "files_readable"
    ),
    "another division": _damage(SYSTEMS, {"division": "Closed"}, "files_readable"),
    "two names of the availability differ": _damage(
        SYSTEMS, {"publication_status": "Preview"}, "files_readable"
    ),
    "available without a link": _damage(SYSTEMS, {"availability_url": " "}, "system_description"),
    "a preview without a date": _damage(
        SYSTEMS, {"system_availability_status": "Preview"}, "system_description"
    ),
    "a date that is none": _damage(
        SYSTEMS, {"target_availability_date": "2027-02-30"}, "system_description"
    ),
    "a node without core count": _damage(
        SYSTEMS, {"node_types.0.host_processor_core_count": GONE}, "system_description"
    ),
    "one point of another system": _damage(
        SYSTEM, {"system_name": "Another"}, "system_description"
    ),
    "a tps_utilization of 0.5": _damage(SYSTEM, {"tps_utilization": 0.5}, "system_description"),
    # Disclosure
    "another division in point.yaml": _damage(POINT, {"division": "RDI"}, "files_agree"),
    "another C_max in point.yaml": _damage(
        POINT, {"max_supported_concurrency": 2048}, "files_agree"
    ),
    "measured at another concurrency": _damage(
        CONFIG, {f"{LOAD}target_concurrency": 128}, "files_agree"
    ),
    "a summary of another concurrency": _damage(
        RUN, {"run_config.load_pattern.target_concurrency": 128}, "files_agree"
    ),
    "measured at Poisson times": _damage(
        CONFIG, {f"{LOAD}type": "poisson", f"{LOAD}target_qps": 3.0}, "files_agree"
    ),
    "measured without streaming": _damage(CONFIG, {"model_params.streaming": "off"}, "files_agree"),
    "measured with other seeds": _damage(
        CONFIG, {"settings.runtime.scheduler_random_seed": 42}, "files_agree"
    ),
    # Seeds
    "another scheduler seed": _damage(
        POINT, {f"{SEED}scheduler_rng_seed": 42}, "seeds files_agree"
    ),
    "another sample index seed": _damage(
        POINT, {f"{SEED}sample_index_rng_seed": 42}, "seeds files_agree"
    ),
    "another model seed": _damage(POINT, {f"{SEED}model_seed": 42}, "seeds"),
    "no model seed": _damage(POINT, {f"{SEED}model_seed": GONE}, "seeds"),
    "a set that is not published": _damage(POINTS, {"seed_set": "B"}, "seeds"),
    "points of two sets": _damage(POINT, {"seed_set": "B"}, "seeds"),
    "a set in its fifth cohort": _damage(POINTS, {"target_cohort": "2026-12-C1"}, "seeds"),
    "a cohort before the set": _damage(POINTS, {"target_cohort": "2026-10-C0"}, "seeds"),
    "a cohort in a 13th month": _damage(POINTS, {"target_cohort": "2026-13-C0"}, "seeds"),
    "a third cohort of a month": _damage(POINTS, {"target_cohort": "2026-11-C2"}, "seeds"),
    # Speculative decoding
    "a drafter for a benchmark without one": _damage(
        POINT, {"speculative_decoding": {"weight_checksum": "sha256:0"}}, "drafter"
    ),
    "the drafter of another benchmark": _damage(
        POINT,
        {
            "speculative_decoding": {
                "weight_checksum": "git-sha1:633caf45f31288cbb70ee237f7c939db707ecc94"
            }
        },
        "drafter",
    ),
    # The benchmark
    "another model in point.yaml": _damage(POINT, {"model_name": "deepseek-r1"}, "benchmark"),
    "an unknown model": _damage(POINTS, {"model_name": "gpt-2"}, "benchmark"),
    "the model's name with a dot": _damage(POINTS, {"model_name": "llama3.1-8b"}, "benchmark"),
    "a folder of another model": _damage("", _renamed(".", "../llama2-70b"), "benchmark"),
    "points of two data sets": _damage(POINT, {"dataset": "another"}, "benchmark"),
    # The curve
    "six points": _damage("", without("r512"), "points"),
    "33 points": _damage("", _more_points(*range(600, 626)), "points"),
    "a load pattern poisson": _damage(
        POINT, {"runtime_settings.load_pattern": "poisson"}, "points files_agree"
    ),
    "a point of several turns": _damage(
        POINT, {"runtime_settings.load_pattern": "agentic_inference"}, "points files_agree"
    ),
    "a point twice": _damage(
        "",
        _with_copies(("r64", "r064")),
        "points distributions accuracy_points runs_of_their_own",
    ),
    "C_max 32": _damage(
        SYSTEMS,
        {"max_supported_concurrency": 32},
        "files_agree regions offline_point accuracy_points",
    ),
    "no ultra-low point": _damage(
        "",
        _both(_damage("", _moved(16, 700), ""), _damage("", _moved(24, 701), "")),
        "regions accuracy_points",
    ),
    "no low point": _damage("", _moved(24, 700), "regions accuracy_points"),
    "no medium point": _damage("", _moved(64, 700), "regions accuracy_points"),
    "a point beyond the margin": _damage("", _more_points(1128), "regions"),
    "a point in the margin": _damage("", _more_points(1127), ""),
    "a region that is not the point's": _damage(POINT, {"region": "high_concurrency"}, "regions"),
    "C_min declared": _damage(SYSTEMS, {"c_min_override": 16}, ""),
    "C_min declared once": _damage(SYSTEM, {"c_min_override": 16}, "regions system_description"),
    "C_min declared without a point": _damage(
        SYSTEMS, {"c_min_override": 20}, "regions accuracy_points"
    ),
    "C_min declared above 32": _damage(SYSTEMS, {"c_min_override": 64}, "files_readable"),
    "C_min declared as null": _damage(SYSTEMS, {"c_min_override": None}, "files_readable"),
    # The Offline point
    "no Offline point": _damage(POINTS, {"offline": "none"}, "offline_point"),
    "two Offline points": _damage(
        "r512/point.yaml", {"offline": "elected"}, "offline_point accuracy_points"
    ),
    "an elected point below C_max": _damage(
        "",
        _both(
            _damage(POINTS, {"offline": "none"}, ""),
            _damage("r512/point.yaml", {"offline": "elected"}, ""),
        ),
        "offline_point accuracy_points",
    ),
    "a dedicated point of a lower throughput": _damage(
        f"r{OFFLINE}/result_summary.json",
        {
            "duration_ns": times(1.05),
            "qps": times(1 / 1.05),
            "tps": times(1 / 1.05),
            "system_tps": times(1 / 1.05),
        },
        "offline_point",
        dedicated=True,
    ),
    "a dedicated point below C_max": _damage(
        f"r{OFFLINE}/point.yaml", {"concurrency": 1000}, "layout offline_point", dedicated=True
    ),
    "a dedicated point that alone is high": _damage(
        "",
        without("r128", "r256", "r512", "r1024"),
        "points regions accuracy_points",
        dedicated=True,
    ),
    "a dedicated point without accuracy": _damage(
        f"r{OFFLINE}/accuracy_results.json", GONE, "accuracy_points", dedicated=True
    ),
    "a dedicated point without TPOT": _damage(
        f"r{OFFLINE}/result_summary.json",
        {"tpot": {}, "ttft": {}, "tps_per_user": GONE},
        "",
        dedicated=True,
    ),
    # The measurement
    "a window of 1,199 s": _damage(POINT, {f"{WINDOW}duration_s": 1199.0}, "duration"),
    "a window of 599 s": _damage("r16/point.yaml", {f"{WINDOW}duration_s": 599.0}, "duration"),
    "a window of 1,199 s at 32 and below": _damage(
        "r24/point.yaml", {f"{WINDOW}duration_s": 1199.0}, ""
    ),
    "a window longer than its run": _damage(POINT, {f"{WINDOW}duration_s": 9999.0}, "duration"),
    "a short run without a window": _damage(
        "",
        _both(
            _damage(POINT, {"steady_state": GONE}, ""),
            _damage(
                RUN,
                {
                    "duration_ns": 1_100_000_000_000,
                    "qps": 66840 / 1100,
                    "tps": GONE,
                    "system_tps": GONE,
                },
                "",
            ),
        ),
        "duration figures distributions",
    ),
    "no steady state": _damage(POINT, {"steady_state": GONE}, ""),
    "windowable over three passes": _damage(POINT, {f"{WINDOW}super_pass_end": 3}, "steady_state"),
    "windowable over the samples of three passes": _damage(
        POINT, {f"{WINDOW}super_pass_end": 3, f"{WINDOW}n_samples": 40_104}, "steady_state"
    ),
    "windowable and drifting": _damage(
        POINT, {"steady_state.state.tpot_p90": "Drifting Up"}, "steady_state"
    ),
    "windowable without a window": _damage(POINT, {"steady_state.window": {}}, "steady_state"),
    "four passes that do not suffice": _damage(
        POINT, {"steady_state.status": "insufficient_passes"}, "steady_state"
    ),
    "super-passes of half the data set": _damage(
        POINT, {f"{WINDOW}super_pass_size": 6684}, "steady_state"
    ),
    "more passes than were issued": _damage(POINT, {f"{WINDOW}super_pass_end": 9}, "steady_state"),
    "a window of more samples than its passes": _damage(
        POINT, {f"{WINDOW}n_samples": 60_000}, "steady_state"
    ),
    "a duration of 0": _damage(RUN, {"duration_ns": 0}, "duration figures distributions"),
    "requests that are not accounted for": _damage(RUN, {"n_samples_issued": 66_841}, "requests"),
    "failed requests": _damage(
        RUN, {"n_samples_issued": 66_841, "n_samples_failed": 1}, "requests"
    ),
    "an interrupted run": _damage(RUN, {"state": "interrupted"}, "requests"),
    "a run that is not complete": _damage(RUN, {"complete": False}, "requests"),
    "half a data set": _damage(
        RUN,
        {"n_samples_issued": 6684, "n_samples_completed": 6684},
        "requests figures distributions steady_state",
    ),
    "half a data set that the checker knows": _damage(
        "",
        _both(
            _damage(POINTS, {"dataset": "cnn_dailymail"}, ""),
            _damage(RUN, {"n_samples_issued": 6684, "n_samples_completed": 6684}, ""),
        ),
        "requests figures distributions steady_state",
    ),
    "system_tps 2% higher": _damage(RUN, {"system_tps": times(1.02)}, "figures"),
    "the client's tps 2% higher": _damage(RUN, {"tps": times(1.02)}, "figures"),
    "tps_per_user 2% higher": _damage(RUN, {"tps_per_user": times(1.02)}, "figures"),
    "no TPOT at p90": _damage(RUN, {"tpot/percentiles/90.0": GONE}, "figures"),
    "two values of TPOT at p90": _damage(
        RUN, {"tpot/percentiles/90": 1.0}, "figures distributions"
    ),
    "TPOT at p90 halved": _damage(
        RUN, {"tpot/percentiles/90.0": times(0.5), "tps_per_user": times(2.0)}, "distributions"
    ),
    "more tokens, with every rate": _damage(
        RUN,
        {
            "output_sequence_lengths.total": times(1.5),
            "tps": times(1.5),
            "system_tps": times(1.5),
        },
        "distributions",
    ),
    "half the duration, with every rate": _damage(
        RUN,
        {"duration_ns": times(0.5), "tps": times(2), "qps": times(2), "system_tps": times(2)},
        "distributions duration",
    ),
    "negative tokens": _damage(RUN, {"output_sequence_lengths.total": -1}, "figures distributions"),
    "NaN tokens/s": _damage(RUN, {"tps": float("nan")}, "files_readable"),
    "a percentile without a number": _damage(RUN, {"tpot/percentiles/high": 1.0}, "figures"),
    "the run of another point": _damage(
        "",
        _with_copies(("r128/result_summary.json", "r256/result_summary.json")),
        "distributions files_agree runs_of_their_own",
    ),
    "events of another run": _damage(
        "r64/events.jsonl",
        '{"event_type": "session.start_performance_tracking", "timestamp_ns": 1}\n',
        "distributions",
    ),
    "events that are cut": _damage("r64/events.jsonl", '{"event_type', "distributions"),
    # What was sent. So few requests are another run's, too.
    **{
        name: _damage("r64/events.jsonl", events_of(prompts, later), "distributions salt")
        for name, (prompts, later) in _SALTED.items()
    },
    # Accuracy
    "no accuracy run": _damage(ALL_SCORES, GONE, "accuracy_points accuracy_gate"),
    "no accuracy in medium": _damage(SCORES, GONE, "accuracy_points"),
    "no accuracy at the Offline point": _damage(
        f"r{C_MAX}/accuracy_results.json", GONE, "accuracy_points"
    ),
    "accuracy at a fifth point": _damage(
        "",
        _with_copies(
            ("r64/accuracy_results.json", "r128/accuracy_results.json"),
            ("r64/accuracy_results.json", "r256/accuracy_results.json"),
        ),
        "accuracy_points runs_of_their_own",
    ),
    "no ROUGE-2": _damage(SCORES, {f"{FIRST}score.rouge2": GONE}, "accuracy_gate"),
    "ROUGE-1 below the gate": _damage(SCORES, {f"{FIRST}score.rouge1": "38.39"}, "accuracy_gate"),
    "ROUGE-1 of 0": _damage(SCORES, {f"{FIRST}score.rouge1": "0.0"}, "accuracy_gate"),
    "ROUGE-1 as a share": _damage(SCORES, {f"{FIRST}score.rouge1": "0.387792"}, "accuracy_gate"),
    "answers too long": _damage(SCORES, {f"{FIRST}score.gen_len": "9000000"}, "accuracy_gate"),
    "one answer too few": _damage(
        SCORES,
        {f"{FIRST}{n}": 13_367 for n in ("unit_samples", "total_samples")},
        "accuracy_gate",
    ),
    "a data set of one answer less": _damage(
        SCORES,
        {
            f"{FIRST}{name}": 13_367
            for name in (
                *("unit_samples", "total_samples", "response_counts.issued"),
                "response_counts.scored",
            )
        },
        "accuracy_gate",
    ),
    "an accuracy run that is not complete": _damage(
        SCORES, {f"{FIRST}complete": False}, "accuracy_gate"
    ),
    "every answer missing": _damage(
        SCORES, {f"{FIRST}response_counts.missing": 13_368}, "accuracy_gate"
    ),
    "scores of the performance data alone": _damage(
        SCORES, {f"{FIRST}dataset_type": "performance"}, "accuracy_points"
    ),
    "accuracy_results.json is cut": _damage(SCORES, '{"accuracy', "files_readable accuracy_points"),
    "no scores": _damage(SCORES, {"accuracy_scores": []}, "accuracy_points"),
    "scores without a name": _damage(
        SCORES, {f"{FIRST}dataset_name": GONE}, "files_readable accuracy_points"
    ),
    "scores in results.json": _damage(
        "", _scores_in_results(lambda scores: {"accuracy_scores": scores}), ""
    ),
    "scores in results.json by data sets": _damage(
        "",
        _scores_in_results(lambda s: {"accuracy_scores": {r["dataset_name"]: r for r in s}}),
        "",
    ),
    "scores in results.json below the gate": _damage(
        "",
        _scores_in_results(
            lambda s: {"accuracy_scores": [s[0] | {"score": s[0]["score"] | {"rouge1": "38"}}]}
        ),
        "accuracy_gate",
    ),
    "scores in results.json without counts of answers": _damage(
        "",
        _scores_in_results(
            lambda s: {"accuracy_scores": {"made up": {n: s[0][n] for n in _OLD_MEMBERS}}}
        ),
        "accuracy_gate",
    ),
    "a results.json without scores": _damage(
        "", _scores_in_results(lambda s: {"qps": 1.0}), "accuracy_points"
    ),
    "scores in results.json that are a text": _damage(
        "",
        _scores_in_results(lambda s: {"accuracy_scores": "good"}),
        "accuracy_points files_readable",
    ),
    "scores in results.json that are numbers": _damage(
        "",
        _scores_in_results(lambda s: {"accuracy_scores": [1, 2]}),
        "accuracy_points files_readable",
    ),
    "a results.json that is a list": _damage(
        "", _scores_in_results(lambda s: [1, 2]), "accuracy_points files_readable"
    ),
    "good scores in results.json beside bad ones": _damage(
        "",
        _both(
            _damage("", _with_copies((SCORES, "r64/results.json")), ""),
            _damage(SCORES, {f"{FIRST}score.rouge1": "38.39"}, ""),
        ),
        "accuracy_gate",
    ),
    "one data set scored twice": _damage(
        SCORES, {"accuracy_scores": lambda s: [*s, *s]}, "accuracy_gate"
    ),
    # Power
    "no system_power.json": _damage(POWER, GONE, "power"),
    "no system_power.json, Serviced": _damage(
        "",
        _both(
            _damage(POWER, GONE, ""),
            _damage(SYSTEMS, {"division": "Serviced"}, ""),
            _damage(POINTS, {"division": "Serviced"}, ""),
        ),
        "",
    ),
    "system_power.json is cut": _damage(POWER, '{"cooling', "power"),
    "no cooling in system_power.json": _damage(POWER, {"cooling": GONE}, "power"),
    "no node sets": _damage(POWER, {"node_sets": []}, "power"),
    "no network between nodes said": _damage(POWER, {"scale_out": GONE}, "power"),
    "power of a liquid-cooled system": _damage(
        POWER, {"cooling": "liquid", "computed": GONE, "provisioned_power_kw": GONE}, "power"
    ),
    "a part without power": _damage(POWER, {f"{PARTS}cpu.tdp_per_unit": GONE}, "power"),
    "a part with appendix D's power": _damage(
        POWER,
        {f"{PARTS}cpu.tdp_per_unit": GONE, f"{PARTS}cpu.model": "Xeon", **UNCOMPUTED},
        "",
    ),
    "a part with two powers": _damage(POWER, {f"{PARTS}cpu.tdp_per_unit.value_kw": 0.4}, "power"),
    "a part's power in pJ": _damage(
        POWER,
        {f"{PARTS}cpu.tdp_per_unit": {"value_pj": 3, **SPEC}, **UNCOMPUTED},
        "power",
    ),
    "a power without a link": _damage(
        POWER, {f"{PARTS}cpu.tdp_per_unit.source": "the data sheet"}, "power"
    ),
    "a power that nobody published": _damage(
        POWER, {f"{PARTS}cpu.tdp_per_unit.source_type": "own"}, "power"
    ),
    "a negative power": _damage(POWER, {f"{PARTS}cpu.tdp_per_unit.value_w": -1}, "power"),
    "no accelerator among the parts": _damage(POWER, {f"{PARTS}accelerator": GONE}, "power"),
    "no network within the node said": _damage(POWER, {f"{PARTS}scale_up_network": GONE}, "power"),
    "switches within the node without their number": _damage(
        POWER, {f"{PARTS}scale_up_network.method": "declared_tdp"}, "power"
    ),
    "a total that is not the parts'": _damage(
        POWER, {"computed.total_system_power_w": 12_000.0}, "power"
    ),
    "a power in kW that is not the parts'": _damage(POWER, {"provisioned_power_kw": 12.0}, "power"),
    "published without a figure": _damage(
        POWER, {"node_sets.0.power_method": "published_system"}, "power"
    ),
    "scaled from a rack of one node": _damage(
        POWER,
        {
            "node_sets.0.power_method": "node_scaling",
            "node_sets.0.published_power": {"value_kw": 20, **SPEC},
            "node_sets.0.nodes_in_published_rack": 1,
            **UNCOMPUTED,
        },
        "power",
    ),
    "scaled from a rack of two nodes": _damage(
        POWER,
        {
            "node_sets.0.power_method": "node_scaling",
            "node_sets.0.published_power": {"value_kw": 26.4, **SPEC},
            "node_sets.0.nodes_in_published_rack": 2,
            "computed": {"published_node_power_w": 13_200.0},
        },
        "",
    ),
    "a network between nodes without its parts": _damage(
        POWER, {"scale_out.present": True, **UNCOMPUTED}, "power"
    ),
    "a network between nodes": _damage(
        POWER, {"scale_out": _NETWORK, "provisioned_power_kw": 14.32, "computed": GONE}, ""
    ),
    "network cards that do not count": _damage(
        POWER,
        {"scale_out": {**_NETWORK, "nics": {**_NICS, "counted": False}}, **UNCOMPUTED},
        "power",
    ),
    "less bandwidth than the network cards have": _damage(
        POWER, {"scale_out": {**_NETWORK, "required_bandwidth_tbps": 0.1}, **UNCOMPUTED}, "power"
    ),
    "switches of too little bandwidth": _damage(
        POWER, {"scale_out": {**_NETWORK, "switches": []}, **UNCOMPUTED}, "power"
    ),
    "a declared power": _damage(
        POWER,
        {"declared_provisioned_power": {"value_kw": 20, **SPEC}, "provisioned_power_kw": 20.0},
        "",
    ),
    "more nodes than there are": _damage(
        POINT, {"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 2}]}, "engagement"
    ),
    "nodes of an ensemble that is not there": _damage(
        POINT, {"nodes_used": [{"system_node_ensemble_id": 2, "nodes": 1}]}, "engagement"
    ),
    "nodes of an ensemble twice": _damage(
        POINT, {"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 1}] * 2}, "engagement"
    ),
    "fewer replicas than fit": _damage(SYSTEM, {"data_parallel": 4}, "engagement"),
    "fewer replicas than fit, explained": _damage(
        "",
        _both(
            _damage(SYSTEM, {"data_parallel": 4}, ""),
            _damage(
                POINT,
                {"dp_shortfall": {"dp_actual": 4, "dp_formula": 8, "reason": "memory"}},
                "",
            ),
        ),
        "",
    ),
    "more replicas than fit": _damage(SYSTEM, {"tensor_parallel": 2}, "engagement"),
    "system_tps_per_kw 2% higher": _damage(
        RUN, {"system_tps_per_kw": 1.02 * TPS / 13.2}, "engagement"
    ),
    # Two nodes
    "two nodes": _damage("", _two_nodes(), ""),
    "two different nodes": _damage("", _two_nodes(different=True), ""),
    "two nodes, one used": _damage("", _two_nodes(*_half_used(system_tps_per_kw=TPS / 13.82)), ""),
    "two nodes, one used, tokens/s over the power of both": _damage(
        "", _two_nodes(*_half_used(system_tps_per_kw=TPS / 27.64)), "engagement"
    ),
    "two nodes, half used, tokens/s over the power of one": _damage(
        "", _two_nodes(*_half_used(2, system_tps_per_kw=TPS / 13.82)), "engagement"
    ),
    "two nodes, one used without a reason": _damage(
        "", _two_nodes(*_half_used()[:1]), "engagement"
    ),
    "two nodes, replicas of both on one": _damage(
        "",
        _two_nodes(
            _damage(POINT, {"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 1}]}, "")
        ),
        "engagement",
    ),
    "two nodes, each named": _damage(
        "",
        _two_nodes(
            _damage(POINT, {"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 1}] * 2}, "")
        ),
        "engagement",
    ),
    "two nodes, a replica on both": _damage(
        "", _two_nodes(_damage(SYSTEM, {"tensor_parallel": 16, "data_parallel": 1}, "")), ""
    ),
    "two nodes, a replica of more": _damage(
        "",
        _two_nodes(_damage(SYSTEM, {"tensor_parallel": 32, "data_parallel": 1}, "")),
        "engagement",
    ),
    "two nodes, the power of one": _damage(
        "", _two_nodes(_damage(POWER, {"provisioned_power_kw": 13.32}, "")), "power"
    ),
    "two nodes without a network": _damage(
        "",
        _two_nodes(_damage(POWER, {"scale_out": {"present": False}, **_NO_POWER}, "")),
        "power",
    ),
    "two nodes, a network for one": _damage(
        "", _two_nodes(_damage(POWER, {"scale_out": network(1)}, "")), "power"
    ),
    "two nodes, described as one": _damage(
        "",
        _two_nodes(
            _damage(
                SYSTEMS, {"node_types.0.number_of_nodes": 1, "system_node_ensemble_total": 1}, ""
            )
        ),
        "power",
    ),
    "two nodes of three": _damage(
        "",
        _two_nodes(_damage(SYSTEMS, {"system_node_ensemble_total": 3}, "")),
        "system_description",
    ),
    "two different nodes, only one named": _damage(
        "",
        _two_nodes(
            _damage(POINT, {"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 1}]}, ""),
            different=True,
        ),
        "",
    ),
    "two different nodes, replicas of one": _damage(
        "", _two_nodes(_damage(SYSTEM, {"data_parallel": 8}, ""), different=True), "engagement"
    ),
    "two different nodes of one ensemble": _damage(
        "",
        _two_nodes(
            _damage(POWER, {"node_sets.1.system_node_ensemble_id": 1}, ""),
            _damage(POINTS, {"nodes_used": lambda used: used[:1]}, ""),
            different=True,
        ),
        "engagement power",
    ),
    "two different nodes of one number": _damage(
        "",
        _two_nodes(_damage(POWER, {"node_sets.1.node_set_id": 1}, ""), different=True),
        "power",
    ),
    "two different nodes, one without power": _damage(
        "",
        _two_nodes(
            _damage(POWER, {"node_sets": lambda sets: sets[:1], **_NO_POWER}, ""), different=True
        ),
        "engagement",
    ),
}
_AS_OF_ONE_TURN = (
    *("no src/", "a point without point.yaml", "a point without result_summary.json"),
    *("a folder of another concurrency", "shared_src is no folder", "point.yaml is a list"),
    *("result_summary.json is no YAML or JSON", "no warmup in point.yaml"),
    *("no seed_set in point.yaml", "no node_types in system_desc.json", "a concurrency of 0"),
    *("a steady state of another status", "a warm-up at concurrency 0"),
    *("available without a link", "one point of another system", "a tps_utilization of 0.5"),
    *("another division in point.yaml", "measured at another concurrency"),
    *("a summary of another concurrency", "measured with other seeds", "another scheduler seed"),
    *("no model seed", "a set that is not published", "a set in its fifth cohort"),
    *("a drafter for a benchmark without one", "another model in point.yaml"),
    *("an unknown model", "points of two data sets", "six points", "33 points"),
    *("a point beyond the margin", "a point in the margin"),
    *("a region that is not the point's", "C_min declared"),
    *("a window of 599 s", "a window longer than its run", "no steady state"),
    *("windowable over three passes", "windowable and drifting", "windowable without a window"),
    *("four passes that do not suffice", "a duration of 0", "requests that are not accounted for"),
    *("an interrupted run", "system_tps 2% higher", "tps_per_user 2% higher"),
    *("no TPOT at p90", "TPOT at p90 halved", "a percentile without a number"),
    *("no system_power.json", "a part without power"),
    *("more nodes than there are", "fewer replicas than fit", "more replicas than fit"),
)
"""What is judged of several turns as of one."""
_REPLAY, _SCORED_RUN = "datasets.0.agentic_inference.", "datasets.1.accuracy_config."
_OF_TURNS = {
    # The curve
    "no low point": _damage("", _moved(24, 700), "regions accuracy_points agentic_accuracy"),
    "no medium point": _damage("", _moved(64, 700), "regions accuracy_points agentic_accuracy"),
    "C_min declared without a point": _damage(
        SYSTEMS, {"c_min_override": 20}, "regions accuracy_points agentic_accuracy"
    ),
    "failed requests": _damage(
        RUN, {"n_samples_issued": 66_841, "n_samples_failed": 1}, "requests figures"
    ),
    "accuracy_results.json is cut": _damage(
        SCORES, '{"accuracy', "files_readable accuracy_points agentic_accuracy"
    ),
    "an elected Offline point": _damage(
        f"r{C_MAX}/point.yaml", {"offline": "elected"}, "offline_point"
    ),
    "an elected Offline point without accuracy": _damage(
        "r512/point.yaml", {"offline": "elected"}, "offline_point accuracy_points"
    ),
    "a dedicated Offline point": _damage(
        "r512/point.yaml", {"offline": "dedicated"}, "offline_point accuracy_points"
    ),
    "a point of one turn": _damage(
        POINT,
        {"runtime_settings.load_pattern": "concurrency"},
        "points files_agree offline_point",
    ),
    "C_max 32": _damage(
        SYSTEMS,
        {"max_supported_concurrency": 32},
        "files_agree regions accuracy_points agentic_accuracy",
    ),
    "a window of 2,399 s": _damage(POINT, {f"{WINDOW}duration_s": 2399.0}, "duration"),
    "a window of 600 s at 32 and below": _damage(
        "r24/point.yaml", {f"{WINDOW}duration_s": 600.0}, ""
    ),
    "a run of 2,399 s without a window": _damage(
        "",
        _both(
            _damage(POINT, {"steady_state": GONE}, ""),
            _damage(
                RUN,
                {
                    "duration_ns": 2399 * 10**9,
                    "qps": 66840 / 2399,
                    "tps": GONE,
                    "system_tps": GONE,
                },
                "",
            ),
        ),
        "duration figures",
    ),
    "an interactivity 2% higher": _damage(RUN, {"e2e_avg_interactivity": times(1.02)}, "figures"),
    "an interactivity of nothing": _damage(
        RUN, {"latency.total": 0, "e2e_avg_interactivity": 1.0}, "figures distributions"
    ),
    "the interactivity of other sums": _damage(
        RUN,
        {"output_tokens_per_turn_total": 1e6, "e2e_turn_time_seconds_total": 1e6},
        "figures",
    ),
    "sums that fit the interactivity": _damage(
        RUN,
        {
            "output_tokens_per_turn_total": 1e6,
            "e2e_turn_time_seconds_total": 1e6,
            "e2e_avg_interactivity": 1.0,
        },
        "",
    ),
    # Accuracy
    "inline below the gate at one point": _damage(
        "", with_score("r128", "performance", 0.52), "agentic_accuracy"
    ),
    "inline in percent": _damage("", with_score("r128", "performance", 58.9), "agentic_accuracy"),
    "no inline score at one point": _damage(
        "", with_score("r128", "performance", None), "agentic_accuracy"
    ),
    "no scores at one point": _damage("r128/accuracy_results.json", GONE, "agentic_accuracy"),
    "SWE-bench below the gate": _damage(
        "", with_score("r*", "swe_bench", 0.68), "agentic_accuracy"
    ),
    "SWE-bench below in one region so that the mean is": replace(
        _damage("", with_score("r64", "swe_bench", 0.78), "agentic_accuracy"), turns=_KIMI
    ),
    "SWE-bench in percent": _damage("", with_score("r*", "swe_bench", 97.5), "agentic_accuracy"),
    "SWE-bench below in one region alone": _damage("", with_score("r64", "swe_bench", 0.95), ""),
    "no SWE-bench in medium": _damage(
        SCORES, {"accuracy_scores": lambda s: s[:1]}, "agentic_accuracy accuracy_points"
    ),
    "SWE-bench at a fifth point": _damage(
        "r128/accuracy_results.json",
        {
            "accuracy_scores": lambda s: [
                *s,
                s[0] | {"dataset_name": "swe_bench", "dataset_type": "accuracy", "score": 0.99},
            ]
        },
        "accuracy_points",
    ),
    "two inline scores": _damage(
        "r128/accuracy_results.json",
        {"accuracy_scores": lambda s: [*s, s[0] | {"dataset_name": "another"}]},
        "agentic_accuracy",
    ),
    "turns that are too long": _damage(
        "r24/result_summary.json", {TURNS_AVG: 970.5}, "agentic_accuracy"
    ),
    "turns that are too short": _damage(
        "r24/result_summary.json", {TURNS_AVG: 343.5}, "agentic_accuracy"
    ),
    # What was sent
    **{
        name: _damage("r64/events.jsonl", events_of(prompts, []), "distributions salt")
        for name, prompts in _SALTED_TURNS.items()
    },
    # Settings
    "no salt": _damage(CONFIG, {f"{_REPLAY}enable_salt": False}, "agentic_settings"),
    "no delay of tools": _damage(CONFIG, {f"{_REPLAY}inject_tool_delay": GONE}, "agentic_settings"),
    "conversations that stop with the first": _damage(
        CONFIG, {f"{_REPLAY}stop_issuing_on_first_user_complete": True}, "agentic_settings"
    ),
    "half of the conversations": _damage(
        CONFIG, {f"{_REPLAY}num_trajectories_to_issue": 306}, "agentic_settings"
    ),
    "no conversations": _damage(
        CONFIG, {f"{_REPLAY}num_trajectories_to_issue": GONE}, "agentic_settings"
    ),
    "conversations that are text": _damage(
        CONFIG, {f"{_REPLAY}num_trajectories_to_issue": "613"}, "agentic_settings"
    ),
    "no data sets": _damage(CONFIG, {"datasets": GONE}, "agentic_settings"),
    "data that is not scored inline": _damage(
        CONFIG, {"datasets.0.accuracy_config": GONE}, "agentic_settings"
    ),
    "SWE-bench of 20 problems": _damage(
        CONFIG, {f"{_SCORED_RUN}extras.num_instances": 20}, "agentic_settings"
    ),
    "SWE-bench by another scorer": _damage(
        CONFIG, {f"{_SCORED_RUN}eval_method": "pass_at_1"}, "agentic_settings"
    ),
}
"""What is judged of several turns alone."""
_SAMPLED = {
    "a temperature of 0": (_KIMI, {"model_params.temperature": 0.0}),
    "a penalty of its own": (_KIMI, {"model_params.frequency_penalty": 0.5}),
    "answers of at most 512 tokens": (_QWEN, {"model_params.max_new_tokens": 512}),
    "no penalty": (_QWEN, {"model_params.presence_penalty": GONE}),
    "a temperature that is true": (_QWEN, {"model_params.temperature": True}),
}


def _agentic_damages() -> dict[str, PackageDamage]:
    damages = {name: PACKAGE_DAMAGES[name] for name in _AS_OF_ONE_TURN} | _OF_TURNS
    models = (_KIMI, _QWEN, _DEEPSEEK)
    made = {
        f"several turns, {name}": replace(
            damage, turns=damage.turns or models[number % len(models)]
        )
        for number, (name, damage) in enumerate(damages.items())
    }
    return made | {
        f"several turns, {name}": replace(_damage(CONFIG, change, "agentic_settings"), turns=model)
        for name, (model, change) in _SAMPLED.items()
    }


PACKAGE_DAMAGES |= _agentic_damages()


def failed_rules(groups: Iterable[VerdictGroup]) -> set[str]:
    """The rules that are broken in a package, by its verdicts, without their prefix."""
    return {rule.removeprefix(PREFIX) for group in groups for rule in group.failed_rules}


def official_ids(package: Path, cli: Path) -> tuple[set[str], set[str]]:
    """The ids of the official checker's errors, and of its warnings."""
    command = [str(cli), "check-submission", "--json", str(package)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        results = json.loads(process.stdout)["results"]
    except ValueError:
        return {"traceback"}, set()
    by_severity = {"error": set[str](), "warning": set[str](), "info": set[str]()}
    for result in results:
        by_severity[result["severity"]].add(result["rule"])
    return by_severity["error"], by_severity["warning"] - by_severity["error"]


_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


def rules_of_id() -> dict[str, set[str]]:
    """The rules that answer for an id of the checker, as their sources name them."""
    rules: dict[str, set[str]] = {}
    for rule in rules_of("package"):
        for name in _ID.findall(rule.source.partition("checker: ")[2]):
            rules.setdefault(name, set()).add(rule.name.removeprefix(PREFIX))
    return rules


PAGE = PAGES / "endpoints-packages.md"
HEADER = "| damage | the suite | the official checker |"
_COUNTS = (
    "| damages | fail in both | pass in both | pass there, fail here | fail there, pass here "
    "| traceback there, a verdict here |"
)
_PASSES = "passes"


def _rows(cli: Path, folder: Path) -> list[tuple[str, str, str]]:
    honest = {flag: write_package(folder / str(flag), dedicated=flag) for flag in (False, True)}
    rows = []
    for number, (name, damage) in enumerate(PACKAGE_DAMAGES.items()):
        package = folder / f"{number}" / "box-2026"
        shutil.copytree(honest[damage.dedicated], package)
        damage.make(package)
        errors, warnings = official_ids(package, cli)
        official = ", ".join(sorted(errors)) or _PASSES
        official += f" (warns: {', '.join(sorted(warnings))})" if warnings else ""
        failed = failed_rules(judge_package(package))
        ours = ", ".join(f"`{rule}`" for rule in sorted(failed)) or _PASSES
        rows.append((name, ours, official))
        print(f"| {' | '.join(rows[-1])} |", flush=True)
        shutil.rmtree(package)
    return rows


def counts_of(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """The counts above the table, by what both say of each damage."""
    pairs = Counter(
        (
            official if official == "traceback" else official.startswith(_PASSES),
            ours == _PASSES,
        )
        for _, ours, official in rows
    )
    tracebacks = pairs["traceback", False] + pairs["traceback", True]
    alike = pairs[False, False], pairs[True, True]
    figures = (pairs.total(), *alike, pairs[True, False], pairs[False, True], tracebacks)
    return [str(figure) for figure in figures]


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        rows = _rows(Path(arguments[0]), Path(temporary))
    if "--write" in arguments:
        write_cells(PAGE, _COUNTS, [counts_of(rows)])
        write_cells(PAGE, HEADER, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
