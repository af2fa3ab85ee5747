"""The options of replicas."""

from __future__ import annotations

from functools import partial

from mlperf_suite.engines.routing import REPLICA_ROUTINGS
from mlperf_suite.features.replicas.placement import nodes_text, parse_nodes
from mlperf_suite.option_specs import (
    COUNT,
    COUNT_OR_AUTO,
    TRUE_OR_FALSE,
    OptionSpec,
    Values,
    choice,
    or_auto,
)


def _ray_address(text: str) -> str:
    """Either auto, or HOST:PORT of a Ray cluster's head."""
    host, _, port = text.rpartition(":")
    if text != "auto" and not (host and "/" not in host and 0 < int(port) < 1 << 16):
        raise ValueError(text)
    return text


_option = partial(OptionSpec, engine="vllm", section="Replicas")
_of_replicas = partial(_option, only_with=("replicas", "ray"))

OPTIONS = {
    "replicas": _option(
        "measure several engines as one system, each with its own accelerators or cores; auto is "
        "as many as the accelerators hold, or one per node without any",
        or_auto(COUNT, "auto"),
        identifies="system",
        not_with=("profile-run", "client"),
    ),
    "ray": _option(
        "place the replicas on the nodes of the Ray cluster at this address, which this machine "
        "has joined; auto is the cluster of this machine; by default they run on this machine only",
        Values(_ray_address, "must be HOST:PORT, or auto"),
        identifies="system",
        reported_as="machines",
        implies=("replicas", "auto"),
    ),
    "replica_nodes": _of_replicas(
        "the nodes of the Ray cluster to use, in this order, and how many replicas are on each",
        Values(
            lambda text: nodes_text(parse_nodes(text)),
            "must be different nodes, by name or address, as in node-a:4,node-b:2 or node-a,node-b",
        ),
        identifies="system",
        reported_as="machines",
        variable="MLPERF_NODES",
    ),
    "replica_routing": _of_replicas(
        "how requests are distributed over the replicas: to the one with the fewest outstanding "
        "tokens for its speed, or to each in turn",
        choice(*REPLICA_ROUTINGS),
        "tokens",
        identifies="system",
        reported_as="routing",
    ),
    "replica_cpus": _of_replicas(
        "number of cores per replica on nodes without accelerators; auto is an equal share of the "
        "node's cores",
        COUNT_OR_AUTO,
        "auto",
        identifies="system",
        reported_as="replica_devices",
    ),
    "scaling": _of_replicas(
        "measure one replica and all replicas in turn before the runs, and report the scaling "
        "efficiency",
        TRUE_OR_FALSE,
        "false",
        identifies=None,
        switch=True,
    ),
}
