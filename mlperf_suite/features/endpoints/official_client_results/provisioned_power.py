"""system_power.json of MLPerf Endpoints: the power that a system is built to draw, computed again.

Source: endpoints_rules.md §4.5 and appendices D and E, and the models of endpoints-submission-cli.
Power is in W where nothing else is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mlperf_suite.features.endpoints.official_client_results.package_files import Positive, Text
from mlperf_suite.features.endpoints.official_client_results.result_files import Count, Figure

_OVERHEAD = {"liquid": 0.30, "air": 0.50}
"""What cooling and conversion add to a system's components (§4.5.2)."""
_TOLERANCE_W, _TOLERANCE_KW, _TOLERANCE_TBPS = 0.5, 0.005, 1e-6
_LEAST_W, _LEAST_SHARE = 10.0, 0.5
"""No server's processor or accelerator is built for less, nor one of appendix D for less than half
of its figure."""
_SUBSECTIONS = ("D.1", "D.2", "D.3", "D.4")


class Sourced(Struct, frozen=True, forbid_unknown_fields=True):
    """One figure, and where it stands (E.1)."""

    source_type: Literal["vendor_spec", "publication", "public_statement", "mlc_default"]
    source: Text
    value_w: Figure | None = None
    value_kw: Figure | None = None
    value_pj: Figure | None = None

    @property
    def fault(self) -> str:
        """What is wrong with it, or ""."""
        if [self.value_w, self.value_kw, self.value_pj].count(None) != 2:
            return "not one value"
        if self.source_type == "mlc_default":
            return "" if self.source in _SUBSECTIONS else f"no default {self.source}"
        return "" if self.source.startswith(("https://", "http://")) else "its source is no URL"


class Device(Struct, frozen=True):
    count_per_node: Count
    model: str | None = None
    tdp_per_unit: Sourced | None = None


class ScaleUp(Struct, frozen=True):
    """The network within a node (E.3.1)."""

    method: Literal["declared_tdp", "bandwidth_estimate", "none"]
    switch_count: Count | None = None
    tdp_per_switch: Sourced | None = None
    aggregate_bandwidth_tbps: Figure | None = None
    energy_per_bit_pj: Sourced | None = None


class Components(Struct, frozen=True):
    cpu: Device | None = None
    accelerator: Device | None = None
    combined_cpu_accelerator: Sourced | None = None
    scale_up_network: ScaleUp | None = None


class NodeSet(Struct, frozen=True):
    """Equal nodes (E.3)."""

    node_set_id: int
    system_node_ensemble_id: int
    nodes_provisioned: Positive
    power_method: Literal["component_sum", "published_system", "node_scaling"]
    published_power: Sourced | None = None
    nodes_in_published_rack: int | None = None
    components: Components | None = None


class Nics(Struct, frozen=True):
    count_per_node: Count
    bandwidth_per_nic_gbps: Figure
    counted: bool
    tdp_per_nic: Sourced | None = None
    excluded_from_published_power: str | None = None


class Switch(Struct, frozen=True):
    model: str
    count: Positive
    bandwidth_tbps: Figure
    power_per_switch: Sourced | None = None


class ScaleOut(Struct, frozen=True):
    """The network between nodes (E.4)."""

    present: bool
    cabling: Literal["passive", "active_optical"] | None = None
    required_bandwidth_tbps: Figure | None = None
    nics: Nics | None = None
    switches: tuple[Switch, ...] | None = None


class SystemPower(Struct, frozen=True):
    """system_power.json (E.2). `computed`: what the submitter computed, by E.5's names."""

    system_desc_id: Text
    cooling: Literal["liquid", "air"]
    node_sets: Annotated[tuple[NodeSet, ...], Meta(min_length=1)]
    scale_out: ScaleOut
    declared_provisioned_power: Sourced | None = None
    computed: dict[str, Figure | None] | None = None
    provisioned_power_kw: Figure | None = None


_ACCELERATORS = {
    **{"gb300": 1400.0, "gb200": 1200.0, "b300": 1100.0, "b200": 1000.0, "mi455x": 2500.0},
    **{"mi355x": 1400.0, "mi350x": 1000.0, "tpuv7": 1000.0, "tn3": 700.0},
}
_SWITCHES = {
    "sn6810ld": {"passive": 1960.0, "active_optical": 1960.0},
    "sn5610": {"passive": 900.0, "active_optical": 2080.0},
    "sn5400": {"passive": 670.0},
    "sn4700": {"passive": 630.0},
}
_NIC = 75.0
_ARM = re.compile(r"\b(grace|neoverse|arm|graviton|axion|ampere|altra|agi)\b")
_X86 = re.compile(r"\b(xeon|epyc|intel|amd|x86|x86_64)\b")


def _model_power(model: str | None, table: Mapping[str, float]) -> float | None:
    """The power of the first model in a table of appendix D that a name holds."""
    name = re.sub(r"[^a-z0-9]", "", (model or "").lower())
    return next((watts for key, watts in table.items() if key in name), None)


def _cpu_power(model: str | None, cores: int | None) -> float | None:
    """Appendix D.2."""
    name = (model or "").lower()
    if cores is None and (match := re.search(r"([0-9]{1,5})[\s-]*core", name)):
        cores = int(match[1])
    if cores is None:
        return None
    if _ARM.search(name):
        return 300.0 if cores <= 128 else None
    return (350.0 if cores <= 64 else 500.0) if _X86.search(name) else None


@dataclass(slots=True)
class ProvisionedPower:
    """What a system is built to draw. `sets`: the watts of each node set, in their order, without
    the switches between nodes. `faults`: why it cannot be computed, or is not what was computed."""

    power: SystemPower
    cores: Mapping[int, int]
    sets: list[float] = field(default_factory=list)
    switches_w: float = 0.0
    kw: float | None = None
    faults: list[str] = field(default_factory=list)
    _gaps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        nic_w = self._scale_out()
        major, published = [], []
        for nodes in self.power.node_sets:
            by_parts = nodes.power_method == "component_sum"
            part = self._components(nodes) if by_parts else 0.0
            major.append(nodes.nodes_provisioned * (part + nic_w * self._counts_nics(nodes)))
            published.append(0.0 if by_parts else self._published(nodes))
        overhead = _OVERHEAD[self.power.cooling]
        pairs = zip(major, published, strict=True)
        self.sets = [(1 + overhead) * own + rest for own, rest in pairs]
        ids = [nodes.node_set_id for nodes in self.power.node_sets]
        self.faults += ["a node_set_id twice"] if len(set(ids)) != len(ids) else []
        declared = self.power.declared_provisioned_power
        total_w = sum(self.sets) + self.switches_w
        if declared is not None:
            total_w = self._watts("declared_provisioned_power", declared)
        else:
            self.faults += self._gaps
        self.kw = round(total_w / 1000, 2)
        if not self._gaps and not self.faults:
            self._compare(sum(major), overhead, sum(published))
        if self.faults:
            self.kw = None

    def point_kw(self, nodes_used: Mapping[int, int]) -> float | None:
        """The power of a point that engages so many nodes of each ensemble; all of one that is not
        named (§4.5.3)."""
        sets = self.power.node_sets
        engaged = [nodes_used.get(s.system_node_ensemble_id, s.nodes_provisioned) for s in sets]
        shares = [n / s.nodes_provisioned for n, s in zip(engaged, sets, strict=True)]
        if self.kw is None or all(share == 1 for share in shares):
            return self.kw
        if self.power.declared_provisioned_power is not None:
            return round(self.kw * max(shares), 2)
        watts = sum(w * share for w, share in zip(self.sets, shares, strict=True))
        watts += self.switches_w * sum(engaged) / sum(s.nodes_provisioned for s in sets)
        return round(watts / 1000, 2)

    def _watts(self, label: str, value: Sourced | None, default: float | None = None) -> float:
        """A figure, or appendix D's where there is none."""
        if value is None:
            self._gaps += [f"no {label}"] if default is None else []
            return default or 0.0
        if value.fault or value.value_pj is not None:
            self.faults.append(f"{label}: {value.fault or 'pJ are not a power'}")
        return value.value_w if value.value_w is not None else 1000 * (value.value_kw or 0.0)

    def _components(self, nodes: NodeSet) -> float:
        parts = nodes.components
        if parts is None or parts.scale_up_network is None:
            self.faults.append("component_sum without components and their scale_up_network")
            return 0.0
        cpu, accelerator = parts.cpu, parts.accelerator
        network_w = self._scale_up(parts.scale_up_network)
        if parts.combined_cpu_accelerator is not None:
            if any(device and device.tdp_per_unit for device in (cpu, accelerator)):
                self.faults.append("combined_cpu_accelerator beside the TDP of one")
            combined = parts.combined_cpu_accelerator
            return network_w + self._watts("combined_cpu_accelerator", combined)
        if cpu is None or accelerator is None:
            self.faults.append("components without cpu and accelerator")
            return 0.0
        cores = self.cores.get(nodes.system_node_ensemble_id)
        cpu_w = self._watts("cpu", cpu.tdp_per_unit, _cpu_power(cpu.model, cores))
        default = _model_power(accelerator.model, _ACCELERATORS)
        accelerator_w = self._watts("accelerator", accelerator.tdp_per_unit, default)
        self._check_device("cpu", cpu, cpu_w, None)
        self._check_device("accelerator", accelerator, accelerator_w, default)
        devices_w = cpu.count_per_node * cpu_w + accelerator.count_per_node * accelerator_w
        return devices_w + network_w

    def _check_device(
        self, label: str, device: Device, watts: float, default: float | None
    ) -> None:
        """Adds a figure that no such device has: kW taken for W, for example."""
        least_w = max(_LEAST_W, _LEAST_SHARE * (default or 0.0))
        if device.count_per_node and device.tdp_per_unit is not None and watts < least_w:
            self.faults.append(f"{label} of {watts:g} W, not {least_w:g} W or more")

    def _scale_up(self, network: ScaleUp) -> float:
        if network.method == "none":
            return 0.0
        if network.method == "declared_tdp":
            self.faults += ["declared_tdp without switch_count"] * (network.switch_count is None)
            return (network.switch_count or 0) * self._watts("switch", network.tdp_per_switch)
        energy, tbps = network.energy_per_bit_pj, network.aggregate_bandwidth_tbps
        if tbps is None or energy is None or energy.fault or energy.value_pj is None:
            self.faults.append("bandwidth_estimate without bandwidth and energy_per_bit_pj in pJ")
            return 0.0
        return tbps * 8.0 * energy.value_pj

    def _published(self, nodes: NodeSet) -> float:
        """A set whose nodes' power, or that of a rack of them, was published."""
        if nodes.published_power is None:
            self.faults.append(f"{nodes.power_method} without published_power")
            return 0.0
        watts = self._watts("published_power", nodes.published_power)
        count = nodes.nodes_provisioned
        if nodes.power_method == "published_system":
            return count * watts
        rack = nodes.nodes_in_published_rack or 0
        if rack <= count:
            self.faults.append("node_scaling from a rack of no more nodes")
            return 0.0
        return watts * count / rack

    def _counts_nics(self, nodes: NodeSet) -> bool:
        nics = self.power.scale_out.nics
        if not self.power.scale_out.present or nics is None or not nics.counted:
            return False
        by_parts = nodes.power_method == "component_sum"
        return by_parts or bool(nics.excluded_from_published_power)

    def _scale_out(self) -> float:
        """Adds the switches; returns the network cards of a node."""
        network, sets = self.power.scale_out, self.power.node_sets
        count = sum(nodes.nodes_provisioned for nodes in sets)
        if not network.present:
            alone = all(_is_without_network(nodes) for nodes in sets)
            self.faults += ["several nodes without a network"] if count > 1 and alone else []
            return 0.0
        nics, switches = network.nics, network.switches
        bandwidth_tbps = network.required_bandwidth_tbps
        if nics is None or switches is None or bandwidth_tbps is None or network.cabling is None:
            self.faults.append("scale_out without cabling, bandwidth, nics or switches")
            return 0.0
        by_parts = any(nodes.power_method == "component_sum" for nodes in sets)
        if by_parts and not nics.counted:
            self.faults.append("nics not counted beside component_sum")
        if nics.counted and not by_parts and not nics.excluded_from_published_power:
            self.faults.append("nics counted that are in the published power")
        least_tbps = count * nics.count_per_node * nics.bandwidth_per_nic_gbps / 1000
        if bandwidth_tbps < least_tbps - _TOLERANCE_TBPS:
            self.faults.append(f"required bandwidth {bandwidth_tbps:g} Tb/s below {least_tbps:g}")
        if sum(s.count * s.bandwidth_tbps for s in switches) < bandwidth_tbps - _TOLERANCE_TBPS:
            self.faults.append("switches of less than the required bandwidth")
        for switch in switches:
            watts = {m: by[network.cabling] for m, by in _SWITCHES.items() if network.cabling in by}
            default = _model_power(switch.model, watts)
            self.switches_w += switch.count * self._watts(
                "switch", switch.power_per_switch, default
            )
        return nics.count_per_node * self._watts("nic", nics.tdp_per_nic, _NIC) * nics.counted

    def _compare(self, major: float, overhead: float, published: float) -> None:
        """Adds what the submitter computed otherwise."""
        figures = {
            "major_components_w": major,
            "other_components_w": overhead * major,
            "published_node_power_w": published,
            "scale_out_switch_power_w": self.switches_w,
            "total_system_power_w": sum(self.sets) + self.switches_w,
            "overhead_fraction": overhead,
        }
        stored_figures = self.power.computed or {}
        for name, value in figures.items():
            near = 1e-9 if name == "overhead_fraction" else _TOLERANCE_W
            if (figure := stored_figures.get(name)) is not None and abs(figure - value) > near:
                self.faults.append(f"computed {name} {figure:g} is {value:g}")
        power_kw = self.power.provisioned_power_kw
        if power_kw is not None and abs(power_kw - (self.kw or 0.0)) > _TOLERANCE_KW:
            self.faults.append(f"provisioned_power_kw {power_kw:g} is {self.kw:g}")


def _is_without_network(nodes: NodeSet) -> bool:
    network = nodes.components.scale_up_network if nodes.components else None
    by_parts = nodes.power_method == "component_sum"
    return by_parts and network is not None and network.method == "none"


def cooling_of(texts: Iterator[str | None]) -> str | None:
    """Which cooling a system's descriptions name: "air" where both; None where neither (§8.2)."""
    kinds = set()
    for text in texts:
        words = (text or "").lower()
        if any(word in words for word in ("liquid", "water", "immersion")):
            kinds.add("liquid")
        elif "air" in words:
            kinds.add("air")
    return min(kinds, default=None)
