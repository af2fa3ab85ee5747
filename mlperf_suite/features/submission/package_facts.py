"""submission.toml: what a package of MLPerf Endpoints discloses and nobody can compute.

Source of the fields: endpoints_rules.md §4.5, §6.3, §8.2 and §8.3 of
github.com/mlcommons/endpoints_policies.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.features.endpoints.official_client_results.series import SERIES_MODELS
from mlperf_suite.option_specs import read_toml

ACCURACY_RUN = "accuracy"
"""In a point's table: the folder of its accuracy run, or false for none."""


@dataclass(frozen=True, slots=True)
class Disclosure:
    """One member that must be there. `example`: a value in TOML; `words`: what it is."""

    name: str
    example: str
    words: str


_TOP = (
    Disclosure("organization", '"Someone"', "your organization, the package's first folder"),
    Disclosure("submission_id", '"box-2026"', "the submission's name, the folder in it"),
    Disclosure("benchmark", '"llama3_1-8b"', f"one of {', '.join(SERIES_MODELS)}"),
    Disclosure("division", '"Standardized"', "Standardized, Serviced or RDI"),
    Disclosure("target_cohort", '"2026-11-C1"', "the cohort that the submission is for"),
    Disclosure("implementation", '"vllm"', "what serves the model, the folder in src/"),
    Disclosure("model_precision", '"fp8"', "the lowest precision of the weights"),
    Disclosure("link_to_model", '"https://..."', "where the submitted weights are"),
    Disclosure("dataset_name", '"cnn_dailymail"', "the data set's name"),
    Disclosure("dataset_link", '"https://..."', "where the data set is"),
)
_SYSTEM = (
    Disclosure("system_name", '"Box of eight"', "the system's name"),
    Disclosure("shortened_system_name", '"Box 8"', "the same in at most 20 characters"),
    Disclosure("system_availability_status", '"Available"', "Available, Preview or RDI"),
)
_OF_STATUS = {
    "available": Disclosure("availability_url", '"https://..."', "where it can be had"),
    "preview": Disclosure("target_availability_date", '"2027-01-31"', "when it can be had"),
}
_NODE = (
    Disclosure("host_memory_configuration", '"16 x 64 GB"', "the host's memory modules"),
    Disclosure("host_network_card_count", '"2"', "network cards of a node, as text"),
    Disclosure("host_processor_core_count", "64", "cores of a node, or host_processor_vcpu_count"),
    Disclosure("driver", '"580.82"', "the accelerators' driver"),
    Disclosure("filesystem", '"ext4"', "the file system of the weights"),
)
WARMUP = (
    Disclosure("duration_s", "0", "seconds from its first request to the measurement"),
    Disclosure("requests_issued", "0", "how many requests it sent"),
    Disclosure("requests_completed", "0", "how many of them were answered"),
    Disclosure("concurrency", "0", "how many were under way"),
)
DATA_SOURCE = Disclosure("data_source", '"none"', "what its requests were made from")
_POWER = (
    Disclosure("cooling", '"air"', "air or liquid"),
    Disclosure("scale_out.present", "false", "whether a network connects several nodes"),
)
_DEVICE_TABLES = "E.3 of the rules, as [power.node_sets.components.cpu]"
NODE_SETS = Disclosure("node_sets", "[[power.node_sets]]", f"each node's parts by {_DEVICE_TABLES}")


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """The content of submission.toml, with the names of what it lacks found by `missing`."""

    path: Path
    content: Mapping[str, Any]

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.content.get(name)
        return value if isinstance(value, dict) else {}

    def text(self, name: str) -> str:
        value = self.content.get(name)
        return "" if value is None else str(value).strip()

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return _tables(self.table("system").get("node_types"))

    @property
    def needs_power(self) -> bool:
        """Whether the system's power must be described: in the Standardized division."""
        return self.text("division").lower() == "standardized" or bool(self.table("power"))

    def of_point(self, concurrency: int) -> Mapping[str, Any]:
        """What [point.<concurrency>] adds to a point's files."""
        value = self.table("point").get(str(concurrency))
        return value if isinstance(value, dict) else {}

    def accuracy_of_point(self, concurrency: int) -> Path | bool:
        """The folder of a point's accuracy run, if it is not the point's own; else whether its own
        counts."""
        value = self.of_point(concurrency).get(ACCURACY_RUN, True)
        return self.path.parent / value if isinstance(value, str) else value is not False

    def missing(self) -> list[str]:
        """One line for each fact that is not there, all but the warm-up's."""
        return [f"{self.path} lacks {line}" for line in self._missing()]

    def _missing(self) -> Iterator[str]:
        yield from _lacking(self.content, _TOP)
        system = self.table("system")
        yield from _lacking(system, _SYSTEM, "system")
        status = str(system.get("system_availability_status") or "").lower()
        yield from _lacking(system, [_OF_STATUS[status]] if status in _OF_STATUS else [], "system")
        if not self.nodes:
            yield "[[system.node_types]]: one table for each kind of node"
        for number, node in enumerate(self.nodes or [{}], 1):
            facts = [f for f in _NODE if not _has_cores(f, node)]
            yield from _lacking(node, facts, f"system.node_types, no. {number}")
        if self.needs_power:
            power = self.table("power")
            yield from _lacking(power, _POWER, "power")
            if not _tables(power.get("node_sets")):
                yield f"{NODE_SETS.example}: {NODE_SETS.words}"


def lacking_warmup(facts: PackageFacts, names: Sequence[str]) -> list[str]:
    """One line for each member of a warm-up that is not in the file, but for those of these names,
    which are computed."""
    known = {**dict.fromkeys(names, 0), **facts.table("warmup")}
    return [
        f"{facts.path} lacks {line}" for line in _lacking(known, (*WARMUP, DATA_SOURCE), "warmup")
    ]


def read_facts(path: Path) -> PackageFacts:
    """The facts in a file, none if it does not exist. Raises UsageError if it is no TOML."""
    return PackageFacts(path, _plain(read_toml("--facts", path)) if path.exists() else {})


def _plain(value: Any) -> Any:
    """TOML's dates as texts, which JSON has for them."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value


def _tables(value: object) -> list[dict[str, Any]]:
    return [t for t in value if isinstance(t, dict)] if isinstance(value, list) else []


def _has_cores(fact: Disclosure, node: Mapping[str, Any]) -> bool:
    counts = ("host_processor_core_count", "host_processor_vcpu_count")
    return fact.name in counts and any(node.get(name) is not None for name in counts)


def _lacking(
    table: Mapping[str, Any], facts: tuple[Disclosure, ...] | list[Disclosure], name: str = ""
) -> Iterator[str]:
    """One line for each fact that a table does not have; a name may lead into a table of it."""
    for fact in facts:
        value: Any = table
        for part in fact.name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value in (None, "", [], {}):
            place = f"[{name}] " if name else ""
            yield f"{place}{fact.name} = {fact.example}: {fact.words}"
