"""Decides which replica runs where, from the nodes' devices, before anything is loaded. Pure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.errors import EngineError
from mlperf_suite.hardware import ChosenSetting


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A node to use, by its name or address; `replicas` None means its share."""

    name: str
    replicas: int | None = None


def parse_nodes(text: str) -> tuple[NodeShare, ...]:
    """Parse NAME or NAME:REPLICAS, separated by commas. Raises ValueError."""
    shares = []
    for part in text.split(","):
        name, colon, count = part.strip().partition(":")
        number = int(count) if count.isascii() and count.isdigit() else 0
        if not name or (colon and not number):
            raise ValueError(text)
        shares.append(NodeShare(name, number or None))
    names = [share.name for share in shares]
    if len(set(names)) < len(names):
        raise ValueError(text)
    return tuple(shares)


def nodes_text(shares: Sequence[NodeShare]) -> str:
    """The text that `parse_nodes` reads as these shares."""
    return ",".join(s.name + (f":{s.replicas}" if s.replicas else "") for s in shares)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster. `gpus` and `cpus`: the accelerators and cores that Ray counts there.
    `gpu`: the accelerators' name. `device`: their kind, as Ray calls it."""

    id: str
    name: str
    address: str
    gpus: int = 0
    cpus: int = 0
    gpu: str = ""
    device: str = "GPU"

    def __str__(self) -> str:
        return self.name if self.name == self.address else f"{self.name} ({self.address})"

    def is_called(self, name: str) -> bool:
        short = self.name.partition(".")[0]
        return name in (self.name, short, self.address, self.id)


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What the user asked for. `replicas` None: as many as fit; on CPUs, one per node unless `cpus`
    is set. `tensor_parallel`: GPUs of each. `cpus`: cores of each without GPUs; None means an equal
    share of its node's. `nodes`: empty means all."""

    replicas: int | None = None
    tensor_parallel: int = 1
    cpus: int | None = None
    nodes: tuple[NodeShare, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaSlot:
    """Where a replica runs: `gpus` or `cpus` of a node."""

    number: int
    node: Node
    gpus: int
    cpus: int

    def __str__(self) -> str:
        return f"replica {self.number} on node {self.node}"


def place_replicas(nodes: Sequence[Node], request: PlacementRequest) -> tuple[ReplicaSlot, ...]:
    """A seat for each replica, numbered node by node.

    Raises EngineError if a node does not exist or has no room.
    """
    on_gpus = any(node.gpus for node in nodes)
    node_counts = _node_counts(nodes, request.nodes)
    gpus_each, cpus_each = request.tensor_parallel, request.cpus or 1
    rooms = [n.gpus // gpus_each if on_gpus else n.cpus // cpus_each for n, _ in node_counts]
    counts = _counts(node_counts, rooms, request, on_gpus=on_gpus)
    numbers = itertools.count()
    slots = []
    for (node, _), count in zip(node_counts, counts, strict=True):
        cpus = 0 if on_gpus else (request.cpus or node.cpus // max(count, 1))
        gpus = gpus_each if on_gpus else 0
        slots += [ReplicaSlot(next(numbers), node, gpus, cpus) for _ in range(count)]
    return tuple(slots)


def _node_counts(
    nodes: Sequence[Node], shares: Sequence[NodeShare]
) -> list[tuple[Node, int | None]]:
    """The nodes to use, in order, and the number of replicas on each if it was given."""
    if not shares:
        return [(node, None) for node in nodes]
    node_counts: list[tuple[Node, int | None]] = []
    for share in shares:
        matches = [node for node in nodes if node.is_called(share.name)]
        if not matches:
            names = ", ".join(map(str, nodes))
            raise EngineError(
                f"replica nodes: no node {share.name} in the Ray cluster: it has {names}"
            )
        if len(matches) > 1:
            raise EngineError(
                f"replica nodes: {share.name} is the name of {len(matches)} nodes: "
                f"give their ids: {', '.join(node.id for node in matches)}"
            )
        node_counts.append((matches[0], share.replicas))
    return node_counts


def _counts(
    node_counts: Sequence[tuple[Node, int | None]],
    rooms: Sequence[int],
    request: PlacementRequest,
    *,
    on_gpus: bool,
) -> list[int]:
    """The replicas on each node. Raises EngineError."""
    fixed = [count for _, count in node_counts]
    if all(count is not None for count in fixed):
        counts = [count or 0 for count in fixed]
        if request.replicas not in (None, sum(counts)):
            raise EngineError(
                f"--replicas {request.replicas}: the replica nodes ask for {sum(counts)}"
            )
    else:
        spread = [room if count is None else 0 for room, count in zip(rooms, fixed, strict=True)]
        if request.replicas is None and not on_gpus and request.cpus is None:
            spread = [min(room, 1) for room in spread]
        rest = None
        if request.replicas is not None:
            rest = request.replicas - sum(count or 0 for count in fixed)
        shared = spread if rest is None else _spread(spread, rest)
        counts = [share if n is None else n for n, share in zip(fixed, shared, strict=True)]
    total = sum(counts) if request.replicas is None else request.replicas
    fits = all(count <= room for count, room in zip(counts, rooms, strict=True))
    if not fits or sum(counts) != total or not total:
        raise EngineError(_no_room(node_counts, counts, rooms, request, total, on_gpus=on_gpus))
    return counts


def _device(node_counts: Sequence[tuple[Node, int | None]]) -> str:
    return next(node.device for node, _ in node_counts if node.gpus)


def _spread(rooms: Sequence[int], count: int) -> list[int]:
    """Spread replicas over rooms, one each in turn; fewer if there is no more room."""
    counts = [0] * len(rooms)
    while count > 0:
        free = [i for i, room in enumerate(rooms) if counts[i] < room]
        if not free:
            break
        for index in free[:count]:
            counts[index] += 1
        count -= len(free[:count])
    return counts


def _no_room(
    node_counts: Sequence[tuple[Node, int | None]],
    counts: Sequence[int],
    rooms: Sequence[int],
    request: PlacementRequest,
    total: int,
    *,
    on_gpus: bool,
) -> str:
    devices_each = (
        _quantity(request.tensor_parallel, _device(node_counts))
        if on_gpus
        else _quantity(request.cpus or 1, "core")
    )
    places = []
    for (node, fixed), count, room in zip(node_counts, counts, rooms, strict=True):
        has = _quantity(node.gpus, node.device) if on_gpus else _quantity(node.cpus, "core")
        asks = f", asked for {count}" if fixed is not None and count > room else ""
        places.append(f"node {node} {room} ({has}{asks})")
    replicas = _quantity(total, "replica") if total else "--replicas auto: any replica"
    return (
        f"{replicas} of {devices_each} each: the Ray cluster has no room: there is room on "
        f"{', '.join(places) or 'no node'}"
    )


_FREE_SHARE = 0.9 / 1.2
"""The share of a GPU's memory that weights may take: vLLM uses nine tenths of it by default, and
without room for a KV cache it can serve nothing."""


def choose_gpus_each(
    request: int | None, weights: int, memory: int, most: int, device: str = "GPU"
) -> ChosenSetting[int]:
    """The accelerators of each: `request`, or the smallest power of two that holds the weights.

    `weights` and `memory` (of one) in bytes, 0 if not known; `most`: how many a node has; `device`:
    as in `Node`. Raises EngineError if the weights fit no node.
    """
    if request is not None:
        return ChosenSetting(request, "as asked")
    if not memory:
        return ChosenSetting(1, "auto: no accelerator")
    if not weights:
        return ChosenSetting(1, "auto: one engine each; the size of the weights is not known")
    gpus = 1
    while weights > gpus * memory * _FREE_SHARE:
        gpus *= 2
        if gpus > most:
            raise EngineError(
                f"--replicas: weights of {weights / 1e9:,.0f} GB do not fit "
                f"{_quantity(most, device)} of {memory / 1e9:,.0f} GB, which is the most of "
                "any node: give a smaller or quantized model, or --tensor-parallel-size with "
                "--engine-arg for what it needs"
            )
    fits = f"fit {_quantity(gpus, device)} of {memory / 1e9:,.0f} GB"
    return ChosenSetting(gpus, f"auto: weights of {weights / 1e9:,.1f} GB {fits}")


def placement_table(
    slots: Sequence[ReplicaSlot], nodes: Sequence[Node], why: str = ""
) -> list[str]:
    """The placement in lines of at most 80 columns. `why`: the reason for the GPUs of each."""
    node_ids = {slot.node.id for slot in slots}
    head = f"placement: {_quantity(len(slots), 'replica')} on {_quantity(len(node_ids), 'node')}"
    lines = textwrap.wrap(head + (f" ({why})" if why else ""), 80, subsequent_indent="  ")
    wide = max(len(_cut(str(slot.node))) for slot in slots)
    lines.append(f"  replica  {'node':<{wide}}  devices")
    for slot in slots:
        line = f"  {slot.number:>7}  {_cut(str(slot.node)):<{wide}}  {devices(slot)}"
        lines.append(line if len(line) <= 80 else f"{line[:79]}…")
    idle = []
    for node in nodes:
        seated = [slot for slot in slots if slot.node.id == node.id]
        gpus = node.gpus - sum(slot.gpus for slot in seated)
        cores = node.cpus - sum(slot.cpus for slot in seated)
        if gpus:
            idle.append(f"{_quantity(gpus, node.device)} of {node}")
        elif cores and not any(slot.gpus for slot in slots):
            idle.append(f"{_quantity(cores, 'core')} of {node}")
    lines += textwrap.wrap(
        f"idle: {', '.join(idle) or 'none'}", 80, initial_indent="  ", subsequent_indent="    "
    )
    return lines


def devices(slot: ReplicaSlot) -> str:
    """A replica's devices, in words."""
    if slot.gpus:
        kind = f" {slot.node.gpu}" if slot.node.gpu else ""
        return f"{_quantity(slot.gpus, slot.node.device)}{kind}, TP {slot.gpus}"
    return _quantity(slot.cpus, "core")


def _cut(text: str) -> str:
    return text if len(text) <= 32 else f"{text[:31]}…"


def _quantity(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"
