"""The configuration of replicas and their engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from mlperf_suite.engines.protocol import SILENCE_S
from mlperf_suite.engines.replicas.actor import Make
from mlperf_suite.engines.replicas.placement import NodeShare
from mlperf_suite.engines.replicas.routing import Routing


@dataclass(frozen=True, slots=True)
class ReplicasConfig:
    """How to load replicas.

    `make`: returns how to make the engine of a replica, given its number and its number of GPUs;
    the result is called in the replica's process. `model`: a folder or hub id that must be the same
    on every node; None skips the check. `needs_vllm`: whether every node must have the same vLLM.
    `address`: of the Ray cluster; None starts one on this machine, which counts `own_cpus` cores
    (None: this process's). `replicas`, `tensor_parallel`, `cpus`, `nodes`: see `placement.Wanted`;
    `tensor_parallel` None means what the model needs. `core_variables`: environment variables set
    to the cores of a replica without a GPU. `keep_to_cores`: False lets such replicas share cores.
    `near_gpus`: whether a replica with GPUs is bound to the cores of their NUMA nodes. `scores`:
    whether the engines can score. `expected`: called, while the replicas load, with the GPUs of a
    replica and an event; returns the settings that such an engine has in this process, None if
    unknown, and returns soon after the event is set. None skips the comparison. `log_folder`: for
    the output of engines on this machine. `silence_s`: see `engines.watch.Watch`.
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
    routing: Routing = "tokens"
    core_variables: tuple[str, ...] = field(default=("VLLM_CPU_OMP_THREADS_BIND",))
    keep_to_cores: bool = True
    near_gpus: bool = True
    scores: bool = False
    expected: Callable[[int, Event], Mapping[str, object] | None] | None = None
    log_folder: Path | None = None
    load_timeout_s: float = 600.0
    silence_s: float = SILENCE_S
