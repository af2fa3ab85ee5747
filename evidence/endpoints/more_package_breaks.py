"""Further breaks of single rules in packages of MLPerf Endpoints, and values at a rule's bounds."""

import shutil
from typing import Any

from meta_tests.features.endpoints.package_breaks import (
    PARTS,
    POINT,
    POINTS,
    POWER,
    RUN,
    SCORES,
    SYSTEM,
    TPS,
    UNCOMPUTED,
    file_breaks,
    folder_breaks,
    half_used,
    measured_at,
    together,
    two_nodes,
)
from meta_tests.tampering.member_changes import GONE, times

_UNIT, _OF_ACCELERATOR = f"{PARTS}cpu.tdp_per_unit", f"{PARTS}accelerator."
_ONE_USED = (POINT, {"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 1}]})


def _b200(kw: float) -> dict[str, Any]:
    """An accelerator of 1,000 W by appendix D with a figure of its own."""
    own = {f"{_OF_ACCELERATOR}model": "B200", f"{_OF_ACCELERATOR}tdp_per_unit.value_kw": kw}
    return own | UNCOMPUTED


BREAKS = [
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
]
