"""Breaks of single rules in packages of MLPerf Endpoints, and values at a rule's bounds.

Of a made package of llama3_1-8b with an elected Offline point, unless a break is of one with a
dedicated point or of a curve of several turns. Many more are in evidence/endpoints.
"""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meta_tests.features.endpoints.made_inputs import messages, salts
from meta_tests.features.endpoints.made_package import (
    C_MAX,
    CONCURRENCIES,
    OFFLINE,
    PASSES,
    SPEC,
    as_two_nodes,
    network,
)
from meta_tests.tampering.member_changes import GONE, FileChange, change_file, times
from mlperf_suite.features.endpoints.official_client_results.series import AGENTIC_MODELS

CURVE = "results/box/llama3_1-8b"
CurveChange = Callable[[Path], object]


@dataclass(frozen=True)
class PackageBreak:
    """What is changed, and the rules that see it, without their prefix.

    `files`: a pattern below the curve's folder whose files are changed, each alike; "" for a change
    of the folder. `turns`: the benchmark of several turns that the curve is made one of.
    """

    files: str
    change: Any
    rules: str
    name: str = ""
    dedicated: bool = False
    turns: str = ""

    def apply(self, curve: Path) -> None:
        if not self.files:
            self.change(curve)
            return
        for path in sorted(curve.glob(self.files)) or [curve / self.files]:
            change_file(path, self.change)

    def __str__(self) -> str:
        words = list(self.change) if isinstance(self.change, dict) else "text"
        return f"{self.turns} {self.name or f'{self.files} {words}'}: {self.rules or 'none'}"


def file_breaks(files: str, *rows: tuple[FileChange, str]) -> list[PackageBreak]:
    return [PackageBreak(files, change, rules) for change, rules in rows]


def folder_breaks(rules: str, changes: dict[str, CurveChange]) -> list[PackageBreak]:
    return [PackageBreak("", change, rules, name) for name, change in changes.items()]


POINT, POINTS = "r64/point.yaml", "r*/point.yaml"
RUN, CONFIG = "r64/result_summary.json", "r64/config.yaml"
SYSTEM, SYSTEMS = "r64/system_desc.json", "r*/system_desc.json"
SCORES, ALL_SCORES = "r64/accuracy_results.json", "r*/accuracy_results.json"
SEED, LOAD = "runtime_settings.runtime.", "settings.load_pattern."
WINDOW = "steady_state.window."
FIRST, POWER, PARTS = "accuracy_scores.0.", "../system_power.json", "node_sets.0.components."
_C_MAX, _PATTERN = "max_supported_concurrency", "runtime_settings.load_pattern"
TPS = PASSES * 13368 * 130 / 1315.625
"""Tokens/s of the point at concurrency 64, nearly."""
_KW = "provisioned_power_kw"
UNCOMPUTED: dict[str, Any] = {"computed": GONE, _KW: GONE}


def without(*names: str) -> CurveChange:
    """Removes folders, by their paths from the curve's."""

    def change(curve: Path) -> None:
        for name in names:
            shutil.rmtree((curve / name).resolve())

    return change


def together(*changes: CurveChange | tuple[str, FileChange]) -> CurveChange:
    """Changes one after another: of the folder, or of files."""

    def apply(curve: Path) -> None:
        for change in changes:
            if callable(change):
                change(curve)
            else:
                PackageBreak(*change, "").apply(curve)

    return apply


def measured_at(concurrency: int, instead_of: int = 0) -> CurveChange:
    """A further point, of a run of its own without accuracy."""

    def change(curve: Path) -> None:
        if instead_of:
            shutil.rmtree(curve / f"r{instead_of}")
        folder = curve / f"r{concurrency}"
        shutil.copytree(curve / "r128", folder)
        change_file(folder / "point.yaml", {"concurrency": concurrency})
        change_file(folder / "config.yaml", {f"{LOAD}target_concurrency": concurrency})
        # Another run: latencies of one nanosecond more.
        later = [f"latency.{name}" for name in ("min", "max", "median", "avg")]
        change_file(
            folder / "result_summary.json",
            {
                "run_config.load_pattern.target_concurrency": concurrency,
                "latency.total": lambda ns: ns + PASSES * 13368,
                "latency.percentiles": lambda ns: {name: value + 1 for name, value in ns.items()},
                **dict.fromkeys(later, lambda ns: ns + 1),
            },
        )

    return change


def _without_window(duration_s: int) -> CurveChange:
    """The point at 64 has no steady state, and its whole run lasted so long."""
    rates = {"qps": 66840 / duration_s, "tps": GONE, "system_tps": GONE}
    return together(
        (POINT, {"steady_state": GONE}), (RUN, {"duration_ns": duration_s * 10**9, **rates})
    )


# What was sent

SALTS = salts(200)


def events_of(prompts: Sequence[Any], later: Sequence[Any] = ()) -> str:
    """An events.jsonl of requests with these prompts and of an accuracy run: texts, token ids, or
    a conversation's name and its messages."""
    events: list[dict[str, Any]] = [{"event_type": "session.start_performance_tracking"}]
    for number, prompt in enumerate([*prompts, *later]):
        if number == len(prompts):
            events.append({"event_type": "session.stop_performance_tracking"})
        conversation, sent = prompt if isinstance(prompt, tuple) else ("", prompt)
        before = 0 if isinstance(sent, str) else 1 if isinstance(sent[0], int) else 2
        of_request = {"sample_uuid": str(number), "conversation_id": conversation}
        data = ["PromptData", *[None] * before, sent]
        events.append({"event_type": "sample.issued", **of_request, "data": data})
    lines = [event | {"timestamp_ns": at_ns} for at_ns, event in enumerate(events)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def token_ids(salt_size: int, before: int = 0) -> list[list[int]]:
    """Each of 40 samples five times with a drawn salt, behind so many of its tokens."""
    draw = random.Random(1)
    samples = [[*range(100 * n, 100 * n + 40)] for n in range(1, 41)]
    return [
        [1, 2, *sample[:before], *(draw.randrange(10**5) for _ in range(salt_size)), *sample]
        for _ in range(5)
        for sample in samples
    ]


def turn(conversation: int, of_pass: str = "0a0b", own: str = "") -> tuple[str, Any]:
    """A turn of a conversation with its salts in the system prompt."""
    own = own or SALTS[conversation][:4]
    return f"{conversation}", messages(f"[salt: {of_pass}]\n\nBe brief.\n\n[salt: {own}]")


_SALTED = [f"[{salt}] made up" for salt in SALTS[:40]]
# So few requests are another run's, too.
_SENT = file_breaks(
    "r64/events.jsonl",
    (events_of([_SALTED[0], "made up"]), "distributions salt"),
    (events_of(_SALTED, _SALTED[:1]), "distributions salt"),
    (events_of(token_ids(2)), "distributions salt"),
    (events_of(token_ids(4), token_ids(4)), "distributions salt"),
    (events_of(_SALTED), "distributions"),
    (events_of(["made up"]), "distributions"),
    ('{"event_type', "distributions"),
)


def _in_results(change: Callable[[Any], Any]) -> CurveChange:
    """A point's scores stand in results.json, changed."""

    def changed(curve: Path) -> None:
        path = curve / SCORES
        scores = json.loads(path.read_text())["accuracy_scores"]
        path.with_name("results.json").write_text(json.dumps({"accuracy_scores": change(scores)}))
        path.unlink()

    return changed


def _warm_up(**ran: float) -> dict[str, Any]:
    """A warm-up at concurrency 0 that did nothing but this."""
    members = {"duration_s": 0.0, "requests_issued": 0, "requests_completed": 0} | ran
    return {f"warmup.{name}": value for name, value in members.items()} | {"warmup.concurrency": 0}


OF_ONE_TURN = [
    # Layout and files
    *folder_breaks(
        "layout",
        {
            "no docs/": without("../../../docs"),
            "nothing in src/": without("../../../src/server"),
        },
    ),
    *folder_breaks(
        "layout accuracy_gate points",
        {
            "no point": without(*(f"r{c}" for c in CONCURRENCIES)),
            "no curve": without("."),
            "no system": without(".."),
        },
    ),
    *file_breaks("../../../src/server/README.md", (GONE, "layout")),
    *(
        PackageBreak(f"r64/{file}", change, rules)
        for file in ("point.yaml", "config.yaml", "result_summary.json", "system_desc.json")
        for change, rules in ((GONE, "layout files_readable"), ("[1, 2]", "files_readable"))
    ),
    *file_breaks(
        POINT,
        ({"model_precision": "another"}, "benchmark"),
        # Disclosure
        ({"division": "RDI"}, "files_agree"),
        ({"warmup.requests_completed": 101}, "warmup"),
        ({"warmup.requests_completed": 91}, "warmup"),
        ({"warmup.requests_completed": 92}, ""),
        (_warm_up(duration_s=60.0), "warmup"),
        (_warm_up(), ""),
        ({f"{SEED}scheduler_rng_seed": 42}, "seeds files_agree"),
        ({"seed_set": "B"}, "seeds"),
        ({"speculative_decoding": {"weight_checksum": "sha256:0"}}, "drafter"),
        ({"model_name": "deepseek-r1"}, "benchmark"),
        # The curve
        ({_PATTERN: "poisson"}, "points files_agree"),
        ({"region": "high_concurrency"}, "regions"),
        # The measurement
        ({f"{WINDOW}duration_s": 1199.9}, "duration"),
        ({f"{WINDOW}duration_s": 1200.0}, ""),
        # Of 1,315.6 s, a fifth of whose requests are outside the window.
        ({f"{WINDOW}duration_s": 1249.8}, ""),
        ({f"{WINDOW}duration_s": 1249.9}, "steady_state"),
        ({f"{WINDOW}duration_s": 9999.0}, "duration"),
        ({"steady_state": GONE}, ""),
        ({"steady_state.state.tpot_p90": "Drifting Up"}, "steady_state"),
        ({"steady_state.window": {}}, "steady_state"),
        ({"steady_state.status": "insufficient_passes"}, "steady_state"),
        ({f"{WINDOW}super_pass_size": 6684}, "steady_state"),
        ({f"{WINDOW}n_samples": 60_000}, "steady_state"),
        # Nodes
        ({"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 2}]}, "engagement"),
        ({"nodes_used": [{"system_node_ensemble_id": 1, "nodes": 1}] * 2}, "engagement"),
    ),
    *file_breaks("r24/point.yaml", ({f"{WINDOW}duration_s": 600.0}, "")),
    *file_breaks(
        POINTS,
        ({"offline": "none"}, "offline_point"),
        ({"target_cohort": "soon"}, "seeds"),
    ),
    *file_breaks("r512/point.yaml", ({"offline": "elected"}, "offline_point accuracy_points")),
    # The system
    *file_breaks(
        SYSTEMS,
        ({"shortened_system_name": "x" * 21}, "files_readable"),
        ({"availability_url": " "}, "system_description"),
        ({"system_availability_status": "Preview"}, "system_description"),
        ({"target_availability_date": "2027-02-30"}, "system_description"),
        ({"node_types.0.host_processor_core_count": GONE}, "system_description"),
        ({_C_MAX: 32}, "files_agree regions offline_point accuracy_points"),
        ({"c_min_override": 16}, ""),
        ({"c_min_override": 20}, "regions accuracy_points"),
    ),
    *file_breaks(
        SYSTEM,
        ({"tps_utilization": 0.5}, "system_description"),
        ({"tps_utilization": 0.99}, ""),
        ({"tensor_parallel": 0}, "engagement files_readable"),
        ({"disaggregated": True, "data_parallel": 4}, ""),
    ),
    *file_breaks(
        CONFIG,
        ({"model_params.streaming": "off"}, "files_agree"),
    ),
    *folder_breaks(
        "points distributions accuracy_points runs_of_their_own",
        {"a point twice": lambda c: shutil.copytree(c / "r64", c / "r064")},
    ),
    *folder_breaks("", {"a point in the margin": measured_at(1127)}),
    *folder_breaks("regions", {"a point beyond the margin": measured_at(1128)}),
    *folder_breaks("duration figures distributions", {"a run of 1,199 s": _without_window(1199)}),
    # A run
    *file_breaks(
        RUN,
        ({"duration_ns": 0}, "duration figures distributions"),
        ({"n_samples_issued": 66_841, "n_samples_failed": 1}, "requests"),
        ({"tpot/percentiles/90": 1.0}, "figures distributions"),
        ({"tpot/percentiles/high": 1.0}, "figures"),
    ),
    *_SENT,
    # Accuracy
    *file_breaks(ALL_SCORES, (GONE, "accuracy_points accuracy_gate")),
    *file_breaks(
        SCORES,
        (GONE, "accuracy_points"),
        ('{"accuracy', "files_readable accuracy_points"),
        ({f"{FIRST}complete": False}, "accuracy_gate"),
        ({f"{FIRST}duration_s": 0.0001}, "accuracy_gate"),
        ({f"{FIRST}total_samples": 13_367}, "accuracy_gate"),
    ),
    *folder_breaks(
        "accuracy_points runs_of_their_own",
        {
            "accuracy at a fifth point": lambda c: [
                shutil.copy(c / SCORES, c / f"r{n}") for n in (128, 256)
            ]
        },
    ),
    *folder_breaks(
        "", {"by data sets": _in_results(lambda s: {score["dataset_name"]: score for score in s})}
    ),
    *folder_breaks(
        "accuracy_gate",
        {"below the gate": _in_results(lambda s: [{**s[0], "score": {"rouge1": "38"}}])},
    ),
    *folder_breaks("accuracy_points files_readable", {"a text": _in_results(lambda s: "good")}),
]

# The Offline point

_LOWER = {"duration_ns": times(1.05)} | dict.fromkeys(("qps", "tps", "system_tps"), times(1 / 1.05))
OF_DEDICATED = [
    replace(case, dedicated=True)
    for case in [
        *file_breaks(
            f"r{OFFLINE}/result_summary.json",
            (_LOWER, "offline_point"),
            ({"tpot": {}, "ttft": {}, "tps_per_user": GONE}, ""),
        ),
        *file_breaks(
            f"r{OFFLINE}/point.yaml",
            ({"concurrency": 1000}, "layout offline_point"),
            ({"concurrency": C_MAX}, "layout"),
        ),
        *file_breaks(f"r{OFFLINE}/accuracy_results.json", (GONE, "accuracy_points")),
        *folder_breaks("points", {"six points and Offline": without("r512")}),
        *folder_breaks(
            "points regions accuracy_points",
            {"none but Offline high": without("r128", "r256", "r512", "r1024")},
        ),
    ]
]

# Power

_NETWORK, _UNIT = network(1), f"{PARTS}cpu.tdp_per_unit"
_COMBINED, _OF_ACCELERATOR = f"{PARTS}combined_cpu_accelerator", f"{PARTS}accelerator."
_SCALE_UP = f"{PARTS}scale_up_network"
_ENERGY = {"aggregate_bandwidth_tbps": 14.4, "energy_per_bit_pj": {"value_pj": 5, **SPEC}}
_BY_BANDWIDTH = {"method": "bandwidth_estimate", **_ENERGY}
_DECLARED = {"declared_provisioned_power": {"value_kw": 20, **SPEC}, _KW: 20.0}


def in_racks(nodes: int, kw: float, method: Any = "node_scaling", **more: Any) -> dict[str, Any]:
    """The power of a published rack of so many nodes."""
    names = {
        "power_method": method,
        "published_power": {"value_kw": kw, **SPEC},
        "nodes_in_published_rack": nodes,
    }
    return {f"node_sets.0.{name}": value for name, value in names.items()} | more


def _between(**changes: Any) -> dict[str, Any]:
    return {"scale_out": _NETWORK | changes, **UNCOMPUTED}


OF_POWER = [
    *file_breaks(
        POWER,
        (GONE, "power"),
        ('{"cooling', "power"),
        ({"cooling": "liquid", **UNCOMPUTED}, "power"),
        ({_UNIT: {"value_pj": 3, **SPEC}, **UNCOMPUTED}, "power"),
        ({f"{PARTS}accelerator": GONE}, "power"),
        ({_SCALE_UP: GONE}, "power"),
        ({f"{_SCALE_UP}.method": "declared_tdp"}, "power"),
        ({f"{_SCALE_UP}.method": "bandwidth_estimate"}, "power"),
        ({_SCALE_UP: _BY_BANDWIDTH} | UNCOMPUTED | {_KW: 14.06}, ""),
        ({_COMBINED: {"value_kw": 8.8, **SPEC}}, "power"),
        (
            {
                _COMBINED: {"value_kw": 8.8, **SPEC},
                _UNIT: GONE,
                f"{_OF_ACCELERATOR}tdp_per_unit": GONE,
            },
            "",
        ),
        ({_UNIT: {"value_w": 400, "source_type": "mlc_default", "source": "D.9"}}, "power"),
        ({"computed.total_system_power_w": 12_000.0}, "power"),
        ({"node_sets.0.power_method": "published_system"}, "power"),
        (in_racks(1, 20, **UNCOMPUTED), "power"),
        (in_racks(2, 26.4, scale_out=_NETWORK, **UNCOMPUTED), "power"),
        (_between(nics={**_NETWORK["nics"], "counted": False}), "power"),
        (_between(required_bandwidth_tbps=0.1), "power"),
        (_between(switches=[]), "power"),
        (_DECLARED, ""),
    ),
]


def two_nodes(*changes: tuple[str, FileChange], different: bool = False) -> CurveChange:
    return together(lambda curve: as_two_nodes(curve, different=different), *changes)


def half_used(tps_per_kw: float, nodes: int = 1) -> CurveChange:
    """Two nodes, eight of whose sixteen replicas are used at a point, explained."""
    shortfall = {"dp_actual": 8, "dp_formula": 16, "reason": "latency"}
    used = [{"system_node_ensemble_id": 1, "nodes": nodes}]
    return two_nodes(
        (SYSTEM, {"data_parallel": 8}),
        (POINT, {"nodes_used": used, "dp_shortfall": shortfall}),
        (RUN, {"system_tps_per_kw": tps_per_kw}),
    )


OF_TWO_NODES = [
    *folder_breaks(
        "",
        {
            "two nodes": two_nodes(),
            "two different nodes": two_nodes(different=True),
            "one used, of a declared power": together(half_used(TPS / 10), (POWER, _DECLARED)),
        },
    ),
    *folder_breaks(
        "engagement",
        {
            "one used, power of both": half_used(TPS / 27.64),
        },
    ),
    *folder_breaks(
        "power",
        {
            "the power of one": two_nodes((POWER, {"provisioned_power_kw": 13.32})),
        },
    ),
    *folder_breaks(
        "system_description",
        {"two of three": two_nodes((SYSTEMS, {"system_node_ensemble_total": 3}))},
    ),
    *folder_breaks(
        "engagement power",
        {
            "different, of one ensemble": two_nodes(
                (POWER, {"node_sets.1.system_node_ensemble_id": 1}),
                (POINTS, {"nodes_used": lambda used: used[:1]}),
                different=True,
            )
        },
    ),
]

# Several turns

_REPLAY, _SCORED_RUN = "datasets.0.agentic_inference.", "datasets.1.accuracy_config."
TURNS_AVG = "output_sequence_lengths_full_run.output_sequence_lengths.avg"
_SUMS = dict.fromkeys(("output_tokens_per_turn_total", "e2e_turn_time_seconds_total"), 1e6)


def with_score(pattern: str, name: str, new: Any) -> CurveChange:
    """The score of that name in the files of points."""

    def change(curve: Path) -> None:
        for path in curve.glob(f"{pattern}/accuracy_results.json"):
            content = json.loads(path.read_text())
            for score in content["accuracy_scores"]:
                score["score"] = new if score["dataset_name"] == name else score["score"]
            path.write_text(json.dumps(content))

    return change


_TWO_INLINE = {"accuracy_scores": lambda s: [*s, s[0] | {"dataset_name": "another"}]}
_OF_TURNS = [
    *file_breaks(
        CONFIG,
        ({f"{_REPLAY}enable_salt": False}, "agentic_settings"),
        ({f"{_REPLAY}inject_tool_delay": GONE}, "agentic_settings"),
        ({f"{_REPLAY}stop_issuing_on_first_user_complete": True}, "agentic_settings"),
        ({f"{_REPLAY}num_trajectories_to_issue": 306}, "agentic_settings"),
        ({"datasets.0.accuracy_config": GONE}, "agentic_settings"),
        ({f"{_SCORED_RUN}eval_method": "pass_at_1"}, "agentic_settings"),
    ),
    *file_breaks(
        RUN,
        ({"e2e_avg_interactivity": times(1.02)}, "figures"),
        ({"latency.total": 0, "e2e_avg_interactivity": 1.0}, "figures distributions"),
        (_SUMS, "figures"),
        (_SUMS | {"e2e_avg_interactivity": 1.0}, ""),
        ({"n_samples_issued": 66_841, "n_samples_failed": 1}, "requests figures"),
    ),
    *file_breaks(POINT, ({_PATTERN: "concurrency"}, "points files_agree offline_point")),
    *file_breaks("r24/point.yaml", ({f"{WINDOW}duration_s": 600.0}, "")),
    *file_breaks(f"r{C_MAX}/point.yaml", ({"offline": "elected"}, "offline_point")),
    *file_breaks("r512/point.yaml", ({"offline": "dedicated"}, "offline_point accuracy_points")),
    *file_breaks("r128/accuracy_results.json", (GONE, "agentic_accuracy")),
    *file_breaks("r128/accuracy_results.json", (_TWO_INLINE, "agentic_accuracy")),
    *file_breaks(
        SCORES,
        ({"accuracy_scores": lambda s: s[:1]}, "agentic_accuracy accuracy_points"),
        ('{"accuracy', "files_readable accuracy_points agentic_accuracy"),
    ),
    *folder_breaks(
        "agentic_accuracy",
        {
            "inline below the gate": with_score("r128", "performance", 0.52),
            "no inline score": with_score("r128", "performance", None),
            "SWE-bench below the gate": with_score("r*", "swe_bench", 0.68),
            "SWE-bench in percent": with_score("r*", "swe_bench", 97.5),
        },
    ),
    *file_breaks(
        "r64/events.jsonl",
        (events_of([("a", messages("Be brief."))]), "distributions salt"),
        (events_of([turn(1), turn(1), ("1", messages("Be brief."))]), "distributions salt"),
        (events_of([turn(1), ("1", turn(2)[1]), *map(turn, range(2, 40))]), "distributions salt"),
        (events_of([(f"{n}", turn(n % 40)[1]) for n in range(80)]), "distributions salt"),
    ),
    *file_breaks(
        "r24/result_summary.json",
        ({TURNS_AVG: 970.5}, "agentic_accuracy"),
        ({TURNS_AVG: 343.5}, "agentic_accuracy"),
    ),
]
OF_TURNS = [
    *(
        replace(case, turns=AGENTIC_MODELS[number % len(AGENTIC_MODELS)])
        for number, case in enumerate(_OF_TURNS)
    ),
    PackageBreak(
        CONFIG, {"model_params.temperature": True}, "agentic_settings", turns=AGENTIC_MODELS[1]
    ),
]
BREAKS = [*OF_ONE_TURN, *OF_DEDICATED, *OF_POWER, *OF_TWO_NODES, *OF_TURNS]
