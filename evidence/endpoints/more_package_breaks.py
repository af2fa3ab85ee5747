"""Further breaks of single rules in packages of MLPerf Endpoints, and values at a rule's bounds."""

import shutil
from typing import Any

from meta_tests.features.endpoints.made_package import C_MAX, network
from meta_tests.features.endpoints.package_breaks import (
    CONFIG,
    FIRST,
    LOAD,
    PARTS,
    POINT,
    POINTS,
    POWER,
    RUN,
    SCORES,
    SEED,
    SYSTEM,
    SYSTEMS,
    TPS,
    TURNS_AVG,
    UNCOMPUTED,
    WINDOW,
    PackageBreak,
    file_breaks,
    folder_breaks,
    half_used,
    in_racks,
    measured_at,
    together,
    two_nodes,
    without,
)
from meta_tests.tampering.member_changes import GONE, times
from mlperf_suite.features.endpoints.official_client_results.series import (
    AGENTIC_MODELS,
    AGENTIC_TARGETS,
)

_UNIT, _OF_ACCELERATOR = f"{PARTS}cpu.tdp_per_unit", f"{PARTS}accelerator."
_GRACE = {
    _UNIT: GONE,
    f"{PARTS}cpu.model": "Grace, 72 cores",
    **UNCOMPUTED,
    "provisioned_power_kw": 12.9,
}
_SERVICED: dict[str, Any] = {"division": "Serviced"}
_CORES, _PARAMS = "node_types.0.host_processor_", "model_params."
_PARTS_GONE: dict[str, Any] = {"node_sets.0.components": GONE}
_KIMI, _QWEN, _ = AGENTIC_MODELS
_ONE_USED = (POINT, {"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 1}]})


def _b200(kw: float) -> dict[str, Any]:
    """An accelerator of 1,000 W by appendix D with a figure of its own."""
    own = {f"{_OF_ACCELERATOR}model": "B200", f"{_OF_ACCELERATOR}tdp_per_unit.value_kw": kw}
    return own | UNCOMPUTED


BREAKS = [
    *file_breaks(SYSTEMS, (GONE, "layout files_readable")),
    *file_breaks(
        POWER,
        ({"cooling": GONE}, "power"),
        ({"scale_out": network(1), **UNCOMPUTED, "provisioned_power_kw": 14.32}, ""),
        (in_racks(2, 26.4, computed={"published_node_power_w": 13_200.0}), ""),
    ),
    *file_breaks(f"r{C_MAX}/accuracy_results.json", (GONE, "accuracy_points")),
    *folder_breaks("points", {"six points": without("r512")}),
    *folder_breaks("benchmark", {"another model": lambda c: c.rename(c.with_name("llama2-70b"))}),
    *file_breaks(
        POINT,
        ({"shared_src": "src/absent"}, "layout"),
        ({"shared_docs": "../box-2026/docs"}, "layout"),
        ({"seed_set": GONE}, "files_readable"),
        ({"concurrency": 0}, "files_readable"),
        ({"steady_state.status": "fine"}, "files_readable"),
        ({f"{SEED}model_seed": 42}, "seeds"),
        ({f"{WINDOW}super_pass_end": 3}, "steady_state"),
        ({f"{WINDOW}super_pass_end": 9}, "steady_state"),
    ),
    *file_breaks(
        POINTS,
        ({"target_cohort": "2026-12-C1"}, "seeds"),
    ),
    *file_breaks(
        SYSTEMS,
        ({"node_types": GONE}, "files_readable"),
    ),
    *file_breaks(
        SYSTEM,
        ({"system_name": "Another"}, "system_description"),
        ({"data_parallel": 4}, "engagement"),
        ({"tensor_parallel": 2}, "engagement"),
        ({"tensor_parallel": 2, "data_parallel": 4}, ""),
    ),
    *file_breaks(
        CONFIG,
        ({f"{LOAD}target_concurrency": 128}, "files_agree"),
    ),
    *file_breaks(
        RUN,
        ({"run_config.load_pattern.target_concurrency": 128}, "files_agree"),
        ({"n_samples_issued": 66_841}, "requests"),
        ({"state": "interrupted"}, "requests"),
        ({"tpot/percentiles/101": 1.0}, "figures distributions"),
    ),
    *file_breaks(
        SCORES,
        ({f"{FIRST}dataset_type": "performance"}, "accuracy_points"),
        ({f"{FIRST}score.rouge1": "38.39"}, "accuracy_gate"),
    ),
    *file_breaks(
        POWER,
        ({_UNIT: GONE}, "power"),
        ({"provisioned_power_kw": 12.0}, "power"),
        ({"scale_out.present": True, **UNCOMPUTED}, "power"),
    ),
    *folder_breaks(
        "layout",
        {
            "two in src/": together(
                lambda c: shutil.copytree(c / "../../../src/server", c / "../../../src/other"),
                (POINT, {"shared_src": "src/other"}),
            ),
            "another folder": lambda c: (c / "r64").rename(c / "r65"),
        },
    ),
    *file_breaks(
        POINT,
        ({"dataset_link": "another"}, "benchmark"),
        ({"link_to_model": "another"}, "benchmark"),
    ),
    *folder_breaks(
        "runs_of_their_own",
        {
            "a second system": lambda c: shutil.copytree(c.parent, c.parent.with_name("other")),
            "one accuracy run": lambda c: shutil.copy(c / SCORES, c / "r16"),
        },
    ),
    *folder_breaks(
        "points distributions runs_of_their_own",
        {"33 points": together(*map(measured_at, range(600, 626)))},
    ),
    *folder_breaks(
        "regions accuracy_points distributions runs_of_their_own",
        {"no ultra-low point": together(measured_at(700, 16), measured_at(701, 24))},
    ),
    *folder_breaks(
        "regions accuracy_points",
        {"no low point": measured_at(700, 24), "no medium point": measured_at(700, 64)},
    ),
    *folder_breaks(
        "offline_point accuracy_points",
        {
            "an elected point below C_max": together(
                (POINTS, {"offline": "none"}), ("r512/point.yaml", {"offline": "elected"})
            )
        },
    ),
    *file_breaks(
        RUN,
        ({"system_tps": times(1.02)}, "figures"),
        ({"system_tps": times(1.009)}, ""),
        ({"tps_per_user": times(1.02)}, "figures"),
        ({"tpot/percentiles/90.0": GONE}, "figures"),
        (
            {"duration_ns": times(0.5), "tps": times(2), "qps": times(2), "system_tps": times(2)},
            "distributions duration",
        ),
        ({"system_tps_per_kw": 1.02 * TPS / 13.2}, "engagement"),
        ({"system_tps_per_kw": TPS / 13.2}, ""),
    ),
    *file_breaks(
        POWER,
        ({_UNIT: GONE, f"{PARTS}cpu.model": "Xeon", **UNCOMPUTED}, ""),
        ({f"{_UNIT}.value_w": 9.9, **UNCOMPUTED}, "power"),
        ({f"{_UNIT}.value_w": 10, **UNCOMPUTED}, ""),
        (_b200(0.49), "power"),
        (_b200(0.5), ""),
    ),
    *folder_breaks(
        "",
        {
            "one used": half_used(TPS / 13.82),
            "different, one of them named": two_nodes(_ONE_USED, different=True),
        },
    ),
    *folder_breaks(
        "engagement",
        {
            "half used, power of one": half_used(TPS / 13.82, nodes=2),
            "replicas of both on one": two_nodes(_ONE_USED),
            "a replica of more": two_nodes((SYSTEM, {"tensor_parallel": 32, "data_parallel": 1})),
        },
    ),
    *folder_breaks(
        "power",
        {
            "no network": two_nodes(
                (POWER, {"scale_out": {"present": False}, "provisioned_power_kw": GONE})
            ),
            "different, of one number": two_nodes(
                (POWER, {"node_sets.1.node_set_id": 1}), different=True
            ),
        },
    ),
    *folder_breaks(
        "",
        {
            "none, serviced": together((POWER, GONE), (SYSTEMS, _SERVICED), (POINTS, _SERVICED)),
            "liquid": together(
                (SYSTEMS, {"node_types.0.cooling": "Liquid"}),
                (POWER, {"cooling": "liquid"} | UNCOMPUTED | {"provisioned_power_kw": 11.44}),
            ),
            "a processor of appendix D": together(
                (SYSTEMS, {f"{_CORES}core_count": GONE, f"{_CORES}vcpu_count": 144}),
                (POWER, _GRACE),
            ),
            "a published system of unknown accelerators": together(
                (SYSTEMS, {"node_types.0.accelerator_info": [], "data_parallel": 99}),
                (POWER, _PARTS_GONE | in_racks(1, 13.2, "published_system")),
            ),
        },
    ),
    PackageBreak(CONFIG, {f"{_PARAMS}temperature": 0.0}, "agentic_settings", turns=_KIMI),
    PackageBreak(CONFIG, {f"{_PARAMS}presence_penalty": GONE}, "agentic_settings", turns=_QWEN),
    *(
        PackageBreak("r24/result_summary.json", {TURNS_AVG: tokens}, "", turns=model)
        for model in AGENTIC_MODELS
        for tokens in AGENTIC_TARGETS[model].tokens
    ),
]
