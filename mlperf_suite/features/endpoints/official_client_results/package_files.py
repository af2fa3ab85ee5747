"""The files of a measurement point of the series MLPerf Endpoints that submitters write, as types.

Source of the fields: endpoints_rules.md §4.4, §6.3, §8.2 and §8.3, and the models of
endpoints-submission-cli. What nobody judges is ignored.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from mlperf_suite.features.endpoints.official_client_results.result_files import (
    Count,
    Figure,
    read_as,
)
from mlperf_suite.untrusted_files import printable

POINT_YAML, SYSTEM_POWER = "point.yaml", "system_power.json"
Text = Annotated[str, Meta(min_length=1)]
Positive = Annotated[int, Meta(ge=1, le=2**31)]
Division = Literal["Standardized", "Serviced", "RDI"]
_MAX_SHORT_NAME_LENGTH = 20


class Seeds(Struct, frozen=True):
    """runtime_settings.runtime."""

    scheduler_rng_seed: int | None = None
    sample_index_rng_seed: int | None = None
    model_seed: int | None = None


class RuntimeSettings(Struct, frozen=True):
    runtime: Seeds
    load_pattern: str = "concurrency"


class Warmup(Struct, frozen=True):
    """How the server was warmed up, all of it 0 if it was not (§6.3.3)."""

    duration_s: Annotated[float, Meta(ge=0, le=86400)]
    requests_issued: Count
    requests_completed: Count
    data_source: Text
    concurrency: Count
    logs_retained: bool | None = None


class Window(Struct, frozen=True):
    """The steady-state window, in super-passes counted by their numbers, both included."""

    super_pass_start: Count | None = None
    super_pass_end: Count | None = None
    super_pass_size: Count | None = None
    n_samples: Count | None = None
    duration_s: Figure | None = None

    @property
    def passes(self) -> int | None:
        if self.super_pass_start is None or self.super_pass_end is None:
            return None
        return self.super_pass_end - self.super_pass_start + 1


class SteadyState(Struct, frozen=True):
    """What the detector found (§4.4). `state`: of each metric that gates."""

    status: (
        Literal["windowable", "insufficient_duration", "insufficient_passes", "partial_dataset"]
        | None
    ) = None
    verdict: (
        Literal["STEADY STATE", "drifting_up", "drifting_down", "anomaly", "not found"] | None
    ) = None
    window: Window = field(default_factory=Window)
    state: dict[str, Literal["Plateau", "Drifting Up", "Drifting Down"]] = field(
        default_factory=dict
    )


class NodesUsed(Struct, frozen=True):
    system_node_ensemble_id: int
    nodes: Positive


class DpShortfall(Struct, frozen=True):
    """Why fewer replicas ran than fit (§4.5.3)."""

    dp_actual: Count
    dp_formula: Count
    reason: Text


class PointFile(Struct, frozen=True):
    """point.yaml: what a submitter discloses of a point (§8.3)."""

    concurrency: Positive
    runtime_settings: RuntimeSettings
    division: Division
    max_supported_concurrency: Positive
    model_name: Text
    model_precision: Text
    link_to_model: Text
    dataset_name: Text
    dataset_type: Text
    dataset_link: Text
    shared_src: Text
    shared_docs: Text
    seed_set: Text
    target_cohort: Text
    warmup: Warmup
    region: (
        Literal[
            "low_latency",
            "low_concurrency",
            "med_concurrency",
            "high_concurrency",
            "margin",
            "submitters_choice",
        ]
        | None
    ) = None
    dataset: str = ""
    offline: Literal["dedicated", "elected", "none"] | None = None
    steady_state: SteadyState | None = None
    speculative_decoding: dict[str, Any] | None = None
    nodes_used: tuple[NodesUsed, ...] | None = None
    dp_shortfall: DpShortfall | None = None


class NodeType(Struct, frozen=True):
    """Nodes of one kind. An accelerator's fields may stand in it (v0.7) or in a list of them."""

    host_memory_configuration: Text
    host_network_card_count: Text
    driver: Text
    filesystem: Text
    system_node_ensemble_id: int | str | None = None
    number_of_nodes: Count | None = None
    host_processor_core_count: Count | None = None
    host_processor_vcpu_count: Count | None = None
    accelerators_per_node: Count | None = None
    accelerator_info: tuple[dict[str, Any], ...] = ()
    cooling: str | None = None

    @property
    def ensemble(self) -> int | None:
        text = str(self.system_node_ensemble_id)
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None

    @property
    def accelerators(self) -> int | None:
        """Accelerators of a node; None if that is not said."""
        if not self.accelerator_info:
            return self.accelerators_per_node
        counts = [info.get("accelerators_per_node") for info in self.accelerator_info]
        numbers = [count for count in counts if type(count) is int]
        return sum(numbers) if numbers else None


class SystemDescription(Struct, frozen=True):
    """system_desc.json (§8.2)."""

    system_name: Text
    system_availability_status: Literal["Available", "Preview", "RDI"]
    max_supported_concurrency: Positive
    system_size: Text
    system_node_ensemble_count: Positive
    system_node_ensemble_total: Positive
    shortened_system_name: Annotated[str, Meta(min_length=1, max_length=_MAX_SHORT_NAME_LENGTH)]
    division: Division
    node_types: Annotated[tuple[NodeType, ...], Meta(min_length=1)]
    availability_url: str | None = None
    target_availability_date: str | None = None
    cooling: str | None = None
    c_min_override: Annotated[int, Meta(ge=1, le=32)] | UnsetType = UNSET
    tps_utilization: Figure | None = None
    tensor_parallel: Positive | None = None
    pipeline_parallel: Positive | None = None
    expert_parallel: Positive | None = None
    data_parallel: Positive | None = None
    disaggregated: bool | int | None = None

    @property
    def faults(self) -> Iterator[str]:
        """What it lacks, where one member demands another."""
        status = self.system_availability_status
        if status == "Available" and not (self.availability_url or "").strip():
            yield "Available without availability_url"
        date = self.target_availability_date or ""
        if (status == "Preview" or date.strip()) and not _is_date(date):
            yield f"target_availability_date {printable(date) or 'missing'} is not YYYY-MM-DD"
        counts = [node.number_of_nodes for node in self.node_types]
        total = sum(count or 0 for count in counts)
        if None not in counts and total != self.system_node_ensemble_total:
            yield f"{total:,} nodes, system_node_ensemble_total {self.system_node_ensemble_total:,}"
        for number, node in enumerate(self.node_types):
            if node.host_processor_core_count is None and node.host_processor_vcpu_count is None:
                yield f"node_types[{number}] has neither core count nor vCPU count"


OF_A_POINT = frozenset(
    {
        *("tps_utilization", "tensor_parallel", "pipeline_parallel", "expert_parallel"),
        *("data_parallel", "disaggregated", "batch", "config_summary", "config_summary_notes"),
    }
)
"""The members of system_desc.json that may differ between the points of a curve."""


def _is_date(text: str) -> bool:
    try:
        return len(text) == len("2026-01-31") and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


_STATUS = "system_availability_status"
_SPELLINGS = (_STATUS, "publication_status", "availability_status")
_WORDS = {w.lower(): w for w in ("Standardized", "Serviced", "RDI", "Available", "Preview")}


def _normalized(content: Mapping[str, Any]) -> dict[str, Any]:
    """With division and status in the rules' spelling, under the status's name of today."""
    statuses = [content[name] for name in _SPELLINGS if content.get(name)]
    # Two names with two values: neither is taken.
    values = {str(status).strip().lower() for status in statuses}
    status = statuses[0] if len(values) == 1 else None
    members = {"division": content.get("division"), _STATUS: status}
    return {**content} | {n: _WORDS.get(str(v).strip().lower(), v) for n, v in members.items()}


def description_of(content: Mapping[str, Any]) -> tuple[SystemDescription | None, str]:
    """The content of system_desc.json as a type and "", or None and in one line what is wrong."""
    return read_as(_normalized(content), SystemDescription, "system_desc.json")
