"""Loads replicas: inspects nodes, places and starts the replicas, and compares their engines."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlperf_suite.engines.framed_socket import FramedSocket
from mlperf_suite.engines.protocol import SILENCE_S, EngineDescription
from mlperf_suite.engines.routing import ReplicaRouting
from mlperf_suite.errors import EngineError
from mlperf_suite.features.replicas.actor import LoadedReplica, Make, ReferenceSearch
from mlperf_suite.features.replicas.cluster import Cluster, PlacedReplica
from mlperf_suite.features.replicas.handshake import connect, new_key
from mlperf_suite.features.replicas.nodes import NodeFacts, node_facts
from mlperf_suite.features.replicas.placement import (
    Node,
    NodeShare,
    PlacementRequest,
    ReplicaSlot,
    choose_gpus_each,
    place_replicas,
    placement_table,
)

_OPEN_S = 60.0
_LATE_S = 60.0
"""How long a replica may take in addition to its engine's load timeout, in s."""
_PROMPTS_S = 300.0
"""How long sending prompts to all nodes may take, in s."""
_OWN = frozenset({"load_s", "omp_threads_bind", "dtype_why", "tensor_parallel_why", "idle_gpus"})
"""Settings in an engine's description that may differ between replicas that are alike."""


@dataclass(frozen=True, slots=True)
class ReplicasConfig:
    """How to load replicas.

    `make`: returns how to make the engine of a replica, given its number and its number of GPUs;
    the result is called in the replica's process. `model`: a folder or hub id that must be the same
    on every node; None skips the check. `needs_vllm`: whether every node must have the same vLLM.
    `address`: of the Ray cluster; None starts one on this machine, which counts `own_cpus` cores
    (None: this process's). `replicas`, `tensor_parallel`, `cpus`, `nodes`: see
    `placement.PlacementRequest`; `tensor_parallel` None means what the model needs.
    `core_variables`: environment variables set to the cores of a replica without a GPU.
    `keep_to_cores`: False lets such replicas share cores. `near_gpus`: whether a replica with GPUs
    is bound to the cores of their NUMA nodes. `scores`: whether the engines can score. `expected`:
    returns how to start, on the first replica's node, the search for the settings that an engine
    with that many GPUs has in a process of its own; None skips the comparison. `log_folder`: for
    the output of engines on this machine. `silence_s`: see `engines.hang_detector.HangDetector`.
    """

    make: Callable[[int, int], Make]
    model: str | None = None
    needs_vllm: bool = True
    address: str | None = None
    own_cpus: int | None = None
    replicas: int | None = None
    tensor_parallel: int | None = None
    cpus: int | None = None
    nodes: tuple[NodeShare, ...] = ()
    routing: ReplicaRouting = "tokens"
    core_variables: tuple[str, ...] = field(default=("VLLM_CPU_OMP_THREADS_BIND",))
    keep_to_cores: bool = True
    near_gpus: bool = True
    scores: bool = False
    expected: Callable[[int], Callable[[], ReferenceSearch]] | None = None
    log_folder: Path | None = None
    load_timeout_s: float = 600.0
    silence_s: float = SILENCE_S


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the replicas are to be, in order.

    `cores`: the cores that each is bound to; empty means any. `same_clock`: whether each is on this
    machine. `machines`: the machines they are on, as a submission describes them.
    """

    slots: Sequence[ReplicaSlot]
    cores: Sequence[tuple[int, ...]]
    same_clock: Sequence[bool]
    machines: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class PreparedReplicas:
    """Replicas whose processes run and are connected, in order, but have no engine yet."""

    cluster: Cluster
    layout: Layout
    placed: Sequence[PlacedReplica]
    framed_sockets: Sequence[FramedSocket]


def prepare(config: ReplicasConfig, say: Callable[[str], None]) -> PreparedReplicas:
    """Inspect the nodes, place the replicas, start their processes and connect to them.

    `say`: called with the placement, line by line. Raises EngineError naming the node, after ending
    everything that was started.
    """
    cluster = _join(config)
    try:
        layout = _lay_out(cluster, config, say)
        placed = [cluster.place(slot, config.silence_s) for slot in layout.slots]
        framed_sockets = _open(cluster, placed)
    except BaseException:
        cluster.close()
        raise
    return PreparedReplicas(cluster, layout, placed, framed_sockets)


def show_placement(config: ReplicasConfig, say: Callable[[str], None]) -> None:
    """Call `say` with where the replicas would be, line by line, and start none of them.

    Raises EngineError as `prepare` does.
    """
    cluster = _join(config)
    try:
        _lay_out(cluster, config, say)
    finally:
        cluster.close()


def _join(config: ReplicasConfig) -> Cluster:
    if config.address is None:
        return Cluster.start(config.own_cpus)
    return Cluster.connect(config.address)


def _lay_out(cluster: Cluster, config: ReplicasConfig, say: Callable[[str], None]) -> Layout:
    """Inspect the nodes and place the replicas; `say` is called with the placement."""
    nodes = _candidates(cluster.nodes(), config)
    all_facts = cluster.node_facts(nodes, config.model or "")
    facts = {node.id: node_facts for node, node_facts in zip(nodes, all_facts, strict=True)}
    nodes = [replace(node, gpu=next(iter(facts[node.id].gpus), "")) for node in nodes]
    here = node_facts("")
    check_alike(nodes, facts, config, here.suite)
    slots, why = _seats(nodes, facts, config)
    cores = cores_of(slots, facts) if config.keep_to_cores else [()] * len(slots)
    for line in placement_table(slots, nodes, why):
        say(line)
    same_clock = [facts[slot.node.id].boot == here.boot for slot in slots]
    return Layout(slots, cores, same_clock, machines_of(slots, nodes, facts, here.boot))


def machines_of(
    slots: Sequence[ReplicaSlot], nodes: Sequence[Node], facts: Mapping[str, NodeFacts], here: str
) -> list[dict[str, object]]:
    """The machines that replicas are on; several nodes may be one machine.

    Each has its `host` name, the number of `replicas` on it, the `gpus` they use, its `idle_gpus`,
    and the GPUs' name `gpu` and memory `gpu_memory` in bytes, None if no GPUs are used; `here`:
    whether it is this machine.
    """
    machines: dict[str, dict[str, object]] = {}
    for slot in slots:
        node = facts[slot.node.id]
        neighbours = [s for s in slots if facts[s.node.id].boot == node.boot]
        there = sum(n.gpus for n in nodes if facts[n.id].boot == node.boot)
        gpus = sum(s.gpus for s in neighbours)
        machines[node.boot] = {
            "host": node.host,
            "here": node.boot == here,
            "replicas": len(neighbours),
            "gpus": gpus,
            "idle_gpus": there - gpus,
            "gpu": slot.node.gpu if slot.gpus else None,
            "gpu_memory": node.gpu_memory if slot.gpus else None,
        }
    return list(machines.values())


def _candidates(nodes: Sequence[Node], config: ReplicasConfig) -> list[Node]:
    """The nodes that replicas may be on: the named ones, or all that have devices."""
    if config.nodes:
        # The placement reports named nodes that do not exist.
        matches = [n for n in nodes if any(n.is_called(share.name) for share in config.nodes)]
        return matches or list(nodes)
    on_gpus = any(node.gpus for node in nodes)
    return [node for node in nodes if (node.gpus if on_gpus else node.cpus)]


def check_alike(
    nodes: Sequence[Node], facts: Mapping[str, NodeFacts], config: ReplicasConfig, suite: str
) -> None:
    """Raise EngineError if a node's software or model differs from the others'.

    `suite`: this process's version of the suite.
    """
    for node in nodes:
        node_facts = facts[node.id]
        if node_facts.suite != suite:
            raise EngineError(
                f"node {node}: the suite there is {node_facts.suite}, here it is {suite}: install "
                "the same there"
            )
        if config.needs_vllm and node_facts.vllm is None:
            raise EngineError(f"node {node}: vLLM is not installed there")
    if config.needs_vllm:
        _check_same([(node, facts[node.id].vllm) for node in nodes], "vLLM")
    if config.model is None:
        return
    is_folder = config.model.startswith(("/", ".", "~")) or os.path.isdir(config.model)  # noqa: PTH112 - a hub id is not a path
    for node in nodes:
        if is_folder and facts[node.id].model is None:
            raise EngineError(f"node {node}: the model does not exist: {config.model}")
    models = [(node, facts[node.id].model) for node in nodes]
    _check_same([pair for pair in models if pair[1]], f"{config.model} is of revision")


def _check_same(values: Sequence[tuple[Node, str | None]], subject: str) -> None:
    """Raise EngineError naming the first node that differs from most others."""
    usual = statistics.mode(value for _, value in values) if values else None
    peers = [node for node, value in values if value == usual]
    for node, value in values:
        if value != usual:
            raise EngineError(
                f"node {node}: {subject} {value} there, and {usual} on node {peers[0]}: "
                "replicas of one system must be alike"
            )


def _seats(
    nodes: Sequence[Node], facts: Mapping[str, NodeFacts], config: ReplicasConfig
) -> tuple[tuple[ReplicaSlot, ...], str]:
    """The seat of each replica, and the reason for the number of GPUs each."""
    memories = [facts[n.id].gpu_memory or 0 for n in nodes if n.gpus]
    weights = [node_facts.weights or 0 for node_facts in facts.values()]
    gpus_each = choose_gpus_each(
        config.tensor_parallel,
        max(weights, default=0),
        min(filter(None, memories), default=0),
        max((node.gpus for node in nodes), default=0),
        next((node.device for node in nodes if node.gpus), "GPU"),
    )
    request = PlacementRequest(config.replicas, gpus_each.value, config.cpus, config.nodes)
    on_gpus = any(node.gpus for node in nodes)
    return place_replicas(nodes, request), gpus_each.why if on_gpus else ""


def cores_of(slots: Sequence[ReplicaSlot], facts: Mapping[str, NodeFacts]) -> list[tuple[int, ...]]:
    """The cores of each replica; none if it has GPUs, as it finds the cores near them itself.

    No two replicas on a machine share a core, even on several nodes of it. Raises EngineError if
    there are too few.
    """
    cores_in_use: dict[str, set[int]] = {}
    cores = []
    for slot in slots:
        node = facts[slot.node.id]
        in_use = cores_in_use.setdefault(node.boot, set())
        free = [core for core in node.cores if core not in in_use]
        if len(free) < slot.cpus:
            raise EngineError(
                f"{slot}: it has {len(free)} free of its machine's {len(node.cores)} cores, and "
                f"{slot.cpus} are wanted for each replica: give fewer replicas, or --replica-cpus"
            )
        cores.append(tuple(free[: slot.cpus]))
        in_use.update(cores[-1])
    return cores


def _open(cluster: Cluster, placed: Sequence[PlacedReplica]) -> list[FramedSocket]:
    """Connect to each replica. Raises EngineError."""
    key = new_key()
    names = [str(replica.slot) for replica in placed]
    calls = [replica.actor.open.remote(replica.slot.node.address, key) for replica in placed]
    ports = cluster.wait(calls, names, _OPEN_S)
    framed_sockets: list[FramedSocket] = []
    for replica, port in zip(placed, ports, strict=True):
        address = replica.slot.node.address
        try:
            framed_sockets.append(FramedSocket(connect(address, port, key)))
        except OSError as error:
            for framed_socket in framed_sockets:
                framed_socket.close()
            raise EngineError(
                f"{replica.slot}: no connection to {address} port {port}: {error}: its port must "
                "be open to this machine, as Ray's own are"
            ) from error
    return framed_sockets


def load_engines(
    prepared: PreparedReplicas, config: ReplicasConfig, look: Callable[[], None]
) -> list[LoadedReplica]:
    """Load all engines at the same time. Raises EngineError for the first that does not load.

    `look` is called regularly; an exception in it ends the wait.
    """
    cluster, folder = prepared.cluster, None
    if cluster.is_own and config.log_folder is not None:
        folder = str(config.log_folder.absolute())
    calls: list[Any] = []
    for replica, cores in zip(prepared.placed, prepared.layout.cores, strict=True):
        # Ray sets it for what it starts; an engine in this process would have this process's value.
        variables: dict[str, str | None] = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS")}
        if cores:
            variables |= dict.fromkeys(config.core_variables, ",".join(map(str, cores)))
        make = config.make(replica.slot.number, replica.slot.gpus)
        # The others are compared with the first.
        search = config.expected(replica.slot.gpus) if config.expected and not calls else None
        load = replica.actor.load.remote
        near = config.near_gpus
        calls.append(load(make, variables, cores, folder, near_gpus=near, search=search))
    names = [str(replica.slot) for replica in prepared.placed]
    patience_s = config.load_timeout_s + _LATE_S
    return cluster.wait(calls, names, patience_s, look)


def check_descriptions(
    slots: Sequence[ReplicaSlot],
    descriptions: Sequence[EngineDescription],
    reference: Mapping[str, object],
) -> EngineDescription:
    """The description of all replicas. Raises EngineError naming a setting in which one differs.

    `reference`: the settings of such an engine in a process of its own, as far as it has any.
    """
    first = descriptions[0]
    for slot, description in zip(slots, descriptions, strict=True):
        for name, value in reference.items():
            if description.settings.get(name) != value:
                raise EngineError(
                    f"{slot}: its engine's {name} is {description.settings.get(name)}, and {value} "
                    f"for an engine in a process of its own: --engine-arg {name}=VALUE sets it"
                )
    for slot, description in zip(slots, descriptions, strict=True):
        settings = _comparable(description)
        for name, value in _comparable(first).items():
            if settings.get(name) != value:
                raise EngineError(
                    f"{slot}: its engine's {name} is {settings.get(name)}, and {value} on "
                    f"{slots[0]}: replicas of one system must be alike "
                    f"(--engine-arg {name}=VALUE sets it for all)"
                )
    return first


def _comparable(description: EngineDescription) -> dict[str, object]:
    names = ("name", "version", "max_model_len")
    settings = {name: value for name, value in description.settings.items() if name not in _OWN}
    return {name: getattr(description, name) for name in names} | settings


class PromptSets:
    """The prompts that the nodes have, as numbered lists: a node gets each list once, even for
    several runs."""

    def __init__(self, cluster: Cluster, placed: Sequence[PlacedReplica]) -> None:
        self._cluster = cluster
        self._placed = placed
        self._lists: list[Sequence[Sequence[int]]] = []

    def take(self, prompts: Sequence[Sequence[int]]) -> int:
        """Send these prompts, unless they begin a list sent before. Returns their list's number.

        Raises EngineError if a replica does not take them.
        """
        for number, earlier in enumerate(self._lists):
            if len(prompts) <= len(earlier) and all(map(_same, prompts, earlier)):
                return number
        number = len(self._lists)
        self._send(number, prompts)
        self._lists.append(prompts)
        return number

    def _send(self, number: int, prompts: Sequence[Sequence[int]]) -> None:
        import numpy as np

        begins = np.zeros(len(prompts) + 1, np.int64)
        np.cumsum([len(prompt) for prompt in prompts], out=begins[1:])
        tokens = np.empty(int(begins[-1]), np.int32)
        for prompt, begin in zip(prompts, begins, strict=False):
            tokens[begin : begin + len(prompt)] = prompt
        # Ray sends each node one copy, which all its replicas map.
        copies = self._cluster.put(tokens), self._cluster.put(begins)
        calls = [placed.actor.take_prompts.remote(number, *copies) for placed in self._placed]
        self._cluster.wait(calls, [str(placed.slot) for placed in self._placed], _PROMPTS_S)


def _same(a: Sequence[int], b: Sequence[int]) -> bool:
    return a is b or (len(a) == len(b) and list(a) == list(b))
