"""Writes the files of one curve into a package of MLPerf Endpoints.

What events.jsonl adds to a point, its steady state and its warm-up, is computed here.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mlperf_suite import __version__, strict_json
from mlperf_suite.errors import RefusedError, UsageError
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OfficialClientBenchmark,
)
from mlperf_suite.features.endpoints.official_client_results.event_lines import TokenCounts
from mlperf_suite.features.endpoints.official_client_results.package_files import (
    OF_A_POINT,
    POINT_YAML,
    SYSTEM_POWER,
    SteadyState,
)
from mlperf_suite.features.endpoints.official_client_results.provisioned_power import (
    ProvisionedPower,
    SystemPower,
)
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    OFFICIAL_CLIENT_ACCURACY,
    OFFICIAL_CLIENT_SUMMARY,
)
from mlperf_suite.features.endpoints.official_client_results.series import (
    SEED_SETS,
    Regions,
    min_duration_s,
)
from mlperf_suite.features.endpoints.official_client_results.steady_state import steady_state
from mlperf_suite.features.endpoints.official_client_results.super_passes import (
    WarmupEvents,
    read_super_passes,
    super_pass_size,
)
from mlperf_suite.features.servers.http_requests import TextCodec
from mlperf_suite.features.submission.official_client_points import OfficialClientPoint
from mlperf_suite.features.submission.package_facts import ACCURACY_RUN, PackageFacts
from mlperf_suite.features.submission.texts import folder_name
from mlperf_suite.features.submission_check.tree_files import yaml_text
from mlperf_suite.judging.reading import read_json
from mlperf_suite.results.run_folder import write_json, write_whole
from mlperf_suite.secrets import redact

_NOT_COPIED = shutil.ignore_patterns(".git", "__pycache__", "*.pyc")


@dataclass(frozen=True, slots=True)
class PackageCurve:
    """The points by the numbers of their folders. `dedicated`: that of a dedicated Offline run."""

    model: OfficialClientBenchmark
    points: Mapping[int, OfficialClientPoint]
    c_max: int
    c_min_override: int | None
    dedicated: int | None

    @property
    def fixed(self) -> list[int]:
        return [number for number in self.points if number != self.dedicated]

    @property
    def highest_tps(self) -> float:
        return max(point.output_tps for point in self.points.values())

    def region(self, number: int) -> str:
        """What point.yaml calls a point's region; a dedicated Offline point is in none."""
        lowest = self.c_min_override or min(self.fixed)
        if number == self.dedicated:
            return "submitters_choice"
        return Regions.of(self.c_max, lowest).declared_as(number)

    def offline(self, number: int) -> str:
        if self.dedicated is None:
            return "elected" if number == self.c_max else "none"
        return "dedicated" if number == self.dedicated else "none"


class PackageWriter:
    """Writes the files of one curve. `results`: the folder of its points."""

    def __init__(self, home: Path, facts: PackageFacts, curve: PackageCurve) -> None:
        self.root = home / facts.text("submission_id")
        self.system = folder_name(str(facts.table("system")["system_name"]))
        self.results = self.root / "results" / self.system / curve.model.id
        self.notes: list[str] = []
        self._facts, self._curve = facts, curve
        self._source = f"src/{facts.text('implementation')}"
        self._events: dict[int, PointEvents] = {}

    def write(self) -> None:
        self._write_texts()
        self._read_events()
        for number, point in self._curve.points.items():
            self._write_point(self.results / f"r{number}", number, point)
        if self._facts.needs_power:
            self._write_power(self.results.parent / SYSTEM_POWER)

    @property
    def client_events(self) -> dict[Path, Path]:
        """The client's events, by their places beside their points while the package is judged;
        they are no part of it."""
        return {
            self.results / f"r{number}" / "events.jsonl": point.events_file
            for number, point in self._curve.points.items()
            if point.events_file is not None
        }

    def _read_events(self) -> None:
        """Compute what follows from each point's events.jsonl, and note it."""
        folder = self._facts.text("tokenizer")
        counts = token_counts(self._facts.path.parent / folder) if folder else None
        for number, point in self._curve.points.items():
            events = read_point_events(point, self._curve.model.samples, number, counts)
            self._events[number] = events
            if (state := events.steady_state) is not None:
                self.notes.append(f"r{number}: {_state_in_words(state)}")
        fixed = [number for number in self._curve.fixed if not self._events[number].block]
        if fixed:
            names = ", ".join(f"r{number}" for number in fixed)
            self.notes.append(
                f"{names}: no steady-state window, the whole run's figures count; it needs "
                "events.jsonl and `tokenizer`, the folder of tokenizer.json, in "
                f"{self._facts.path.name}"
            )

    def _warmup(self, number: int) -> dict[str, Any]:
        """The warm-up's block: counts from the events, the rest from the facts."""
        point, given = self._curve.points[number], self._facts.table("warmup")
        counted = self._events[number].warmup
        if counted.get("requests_issued"):
            return {**given, **counted}
        none = NO_WARMUP if "data_source" in known_of_warmup(point) else {}
        return {**none, **counted, **given}

    def _write_texts(self) -> None:
        """src/ and docs/: what the facts name, or a README.md that says what ran."""
        for name, place, text in (
            ("source", self._source, self._source_text()),
            ("docs", "docs", self._docs_text()),
        ):
            folder = self.root / place
            if path := self._facts.text(name):
                origin = self._facts.path.parent / path
                shutil.copytree(
                    origin, folder, ignore=_NOT_COPIED, symlinks=True, dirs_exist_ok=True
                )
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "README.md").exists():
                write_whole(folder / "README.md", text)

    def _source_text(self) -> str:
        name = self._facts.text("implementation")
        return (
            f"# {name}\n\nWhat served {self._facts.text('benchmark')}. Put the changes that were "
            "made to it, and the code that is not public, into this folder.\n"
        )

    def _docs_text(self) -> str:
        versions = sorted({p.summary.version or "unknown" for p in self._curve.points.values()})
        return (
            f"# {self._facts.text('submission_id')}\n\nMeasured with the client inference-endpoint "
            f"{', '.join(versions)}; packaged with mlperf-suite {__version__}.\n"
        )

    def _write_point(self, folder: Path, number: int, point: OfficialClientPoint) -> None:
        folder.mkdir(parents=True)
        write_whole(folder / POINT_YAML, yaml_text(self._point(number, point)))
        write_json(folder / "system_desc.json", self._description(number, point))
        _copy_text(point.config_file, folder / "config.yaml")
        shutil.copyfile(point.summary_file, folder / OFFICIAL_CLIENT_SUMMARY)
        if point.accuracy_file is not None:
            shutil.copyfile(point.accuracy_file, folder / OFFICIAL_CLIENT_ACCURACY)

    def _point(self, number: int, point: OfficialClientPoint) -> dict[str, Any]:
        """point.yaml (§8.3)."""
        facts, load = self._facts, point.config.settings.load_pattern
        kinds = ("Accuracy", "Performance") if point.accuracy_file else ("Performance",)
        of_others = {*OF_A_POINT, ACCURACY_RUN}
        of_point = {n: v for n, v in facts.of_point(number).items() if n not in of_others}
        nodes = [
            {"system_node_ensemble_id": node["system_node_ensemble_id"], "nodes": count}
            for node, count in self._nodes()
        ]
        return {
            "concurrency": number,
            "region": self._curve.region(number),
            "offline": self._curve.offline(number),
            "division": facts.text("division"),
            "max_supported_concurrency": self._curve.c_max,
            "model_name": self._curve.model.id,
            **{name: facts.text(name) for name in ("model_precision", "link_to_model")},
            "dataset": facts.text("dataset_name"),
            "dataset_name": facts.text("dataset_name"),
            "dataset_type": " + ".join(kinds),
            "dataset_link": facts.text("dataset_link"),
            "target_cohort": facts.text("target_cohort"),
            **self._seeds(point),
            "warmup": self._warmup(number),
            **self._events[number].block,
            "nodes_used": nodes,
            "shared_src": self._source,
            "shared_docs": "docs",
            **of_point,
        } | {
            "runtime_settings": {
                "load_pattern": load.type,
                "min_duration_ms": point.config.settings.runtime.min_duration_ms
                or int(1000 * min_duration_s(number)),
                **self._runtime(point),
            }
        }

    def _seeds(self, point: OfficialClientPoint) -> dict[str, str]:
        """The set whose seeds the run had."""
        runtime = point.config.settings.runtime
        seeds = (runtime.scheduler_random_seed, runtime.dataloader_random_seed)
        for name, seed_set in SEED_SETS.items():
            ours = seed_set.seeds
            if seeds == (ours["scheduler_rng_seed"], ours["sample_index_rng_seed"]):
                return {"seed_set": name}
        return {"seed_set": "none"}

    def _runtime(self, point: OfficialClientPoint) -> dict[str, Any]:
        """The seeds as the run had them; that of the model is the set's."""
        runtime = point.config.settings.runtime
        seed_set = SEED_SETS.get(self._seeds(point)["seed_set"])
        return {
            "runtime": {
                "scheduler_rng_seed": runtime.scheduler_random_seed,
                "sample_index_rng_seed": runtime.dataloader_random_seed,
                "model_seed": seed_set.seeds["model_seed"] if seed_set else None,
            }
        }

    def _nodes(self) -> list[tuple[dict[str, Any], int]]:
        """Each kind of node, numbered, and how many of them there are."""
        numbered = [
            {"system_node_ensemble_id": number, "number_of_nodes": 1, **node}
            for number, node in enumerate(self._facts.nodes, 1)
        ]
        return [(node, int(node["number_of_nodes"])) for node in numbered]

    def _description(self, number: int, point: OfficialClientPoint) -> dict[str, Any]:
        """system_desc.json (§8.2)."""
        nodes = self._nodes()
        count = sum(count for _, count in nodes)
        of_point = self._facts.of_point(number)
        return {
            "division": self._facts.text("division"),
            "system_size": f"{count} node{'s' * (count != 1)}",
            "system_node_ensemble_count": len(nodes),
            "system_node_ensemble_total": count,
            "max_supported_concurrency": self._curve.c_max,
            **self._facts.table("system"),
            "node_types": [node for node, _ in nodes],
            "tps_utilization": round(point.output_tps / (self._curve.highest_tps or 1.0), 4),
            **{name: value for name, value in of_point.items() if name in OF_A_POINT},
        }

    def _write_power(self, path: Path) -> None:
        """Write system_power.json. Raises RefusedError if an earlier curve has another one."""
        power = self._power()
        if path.exists() and read_json(path).content != power:
            raise RefusedError([f"{path.name}: an earlier curve of {self.system} has another one"])
        write_json(path, power)

    def _node_set(self, node_set: Mapping[str, Any], number: int) -> dict[str, Any]:
        """One of the node sets, with what the description of its nodes says already."""
        node, count = self._nodes()[number - 1]
        members = {
            "node_set_id": number,
            "system_node_ensemble_id": node["system_node_ensemble_id"],
            "nodes_provisioned": count,
            "power_method": "component_sum",
            **node_set,
        }
        if isinstance(parts := members.get("components"), dict):
            devices = {"cpu": _cpu(node), "accelerator": _accelerator(node)}
            members["components"] = {
                **parts,
                **{
                    name: {**device, **parts[name]}
                    for name, device in devices.items()
                    if isinstance(parts.get(name), dict)
                },
            }
        return members

    def _power(self) -> dict[str, Any]:
        """system_power.json (appendix E) with the figures of E.5 computed."""
        given = self._facts.table("power")
        node_sets = [self._node_set(s, n) for n, s in enumerate(given["node_sets"], 1)]
        content = {"system_desc_id": self.system, **given, "node_sets": node_sets}
        try:
            power = strict_json.typed(content, SystemPower)
        except ValueError as error:
            raise RefusedError([f"{self._facts.path}: [power]: {error}"]) from error
        ids = {node["system_node_ensemble_id"]: node for node, _ in self._nodes()}
        cores = {
            e: int(node["host_processor_core_count"])
            for e, node in ids.items()
            if "host_processor_core_count" in node
        }
        provisioned = ProvisionedPower(power, cores)
        if provisioned.faults:
            raise RefusedError([f"{self._facts.path}: [power]: {f}" for f in provisioned.faults])
        total_w = sum(provisioned.sets) + provisioned.switches_w
        return {
            **content,
            "computed": {"total_system_power_w": total_w},
            "provisioned_power_kw": provisioned.kw,
        }


def _cpu(node: Mapping[str, Any]) -> dict[str, Any]:
    names = {"model": "host_processor_model_name", "count_per_node": "host_processors_per_node"}
    return {member: node[name] for member, name in names.items() if name in node}


def _accelerator(node: Mapping[str, Any]) -> dict[str, Any]:
    """Model and count, if a node has accelerators of one kind."""
    kinds = node.get("accelerator_info")
    kind = kinds[0] if isinstance(kinds, list) and len(kinds) == 1 else None
    if not isinstance(kind, dict):
        return {}
    names = {"model": "accelerator_model_name", "count_per_node": "accelerators_per_node"}
    return {member: kind[name] for member, name in names.items() if name in kind}


def _state_in_words(state: SteadyState) -> str:
    window = state.window
    if state.status != "windowable":
        return f"no steady-state window ({state.status}, {state.verdict}), the whole run counts"
    first, last, time_s = window.super_pass_start, window.super_pass_end, window.duration_s
    words = "" if state.verdict == "STEADY STATE" else f", {state.verdict}"
    return f"steady state from super-pass {first} to {last}, {time_s:,.1f} s{words}"


def _copy_text(source: Path, target: Path) -> None:
    """Copy a file of the client, with what looks like a token or a key redacted."""
    write_whole(target, redact(source.read_text(encoding="utf-8")))


WARMUP_COUNTS = ("duration_s", "requests_issued", "requests_completed", "concurrency")
NO_WARMUP = {**dict.fromkeys(WARMUP_COUNTS, 0), "data_source": "none, there was no warm-up"}


@dataclass(frozen=True, slots=True)
class PointEvents:
    """`warmup`: members of point.yaml's block. `steady_state`: its block; None without a tokenizer,
    which TPOT needs, and for a dedicated Offline run, to which it does not apply (§4.4)."""

    warmup: Mapping[str, Any] = field(default_factory=dict)
    steady_state: SteadyState | None = None

    @property
    def block(self) -> dict[str, Any]:
        """The members that the steady state adds to point.yaml."""
        if self.steady_state is None:
            return {}
        content = msgspec.to_builtins(self.steady_state)
        window = {n: v for n, v in content.pop("window").items() if v is not None}
        return {"steady_state": {**content, **({"window": window} if window else {})}}


def token_counts(folder: Path) -> TokenCounts:
    """How many tokens the tokenizer.json in a folder makes of texts. Raises UsageError."""
    try:
        return TextCodec(str(folder)).counts
    # The library raises Exception itself for a file that it cannot read.
    except Exception as error:
        raise UsageError(f"tokenizer {folder}: no tokenizer.json that can be read") from error


def read_point_events(
    point: OfficialClientPoint, samples: int, number: int, count_tokens: TokenCounts | None
) -> PointEvents:
    """What a point's events.jsonl says; nothing if there is none. Raises RefusedError.

    `samples`: of the data set; `number`: the point's concurrency.
    """
    if point.events_file is None:
        return PointEvents()
    fixed = point.concurrency is not None
    size = super_pass_size(samples, number)
    try:
        passes, warmup = read_super_passes(point.events_file, size, count_tokens if fixed else None)
    except (OSError, ValueError) as error:
        raise RefusedError([f"{point}: {error}"]) from error
    if not fixed or count_tokens is None:
        return PointEvents(_warmup_block(point, warmup))
    state = steady_state(passes, samples, size, min_duration_s(number))
    return PointEvents(_warmup_block(point, warmup), state)


def known_of_warmup(point: OfficialClientPoint) -> list[str]:
    """The members of a warm-up's block that follow from the client's files.

    Its end is not in the events; if the client waited for it (drain), all but the errors ended.
    """
    run = point.summary.run_config
    if run is not None and run.warmup.get("enabled") is False:
        return list(NO_WARMUP)
    if point.events_file is None:
        return []
    drained = run is not None and run.warmup.get("drain") is True
    return [name for name in WARMUP_COUNTS if drained or name != "requests_completed"]


def _warmup_block(point: OfficialClientPoint, warmup: WarmupEvents) -> dict[str, Any]:
    if not warmup.issued:
        return NO_WARMUP
    counts = {
        "duration_s": round(warmup.duration_s, 3),
        "requests_issued": warmup.issued,
        "requests_completed": warmup.issued - warmup.failed,
        # It has the load of the measurement.
        "concurrency": min(warmup.issued, point.concurrency or warmup.issued),
    }
    known = known_of_warmup(point)
    return {name: count for name, count in counts.items() if name in known}
