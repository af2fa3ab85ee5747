"""What replicas are wanted, and of what engine."""

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

    `make`: how the engine of a replica of this number, with so many GPUs, is made in its process.
    `model`: a folder or hub id, which every node must have the same of; None is not looked at.
    `needs_vllm`: whether every node must have the same vLLM. `address`: of the Ray cluster, None
    for one of our own on this machine, which counts `own_cpus` cores (None: this process's).
    `replicas`, `tensor_parallel`, `cpus`, `nodes`: see `placement.Wanted`; `tensor_parallel` None
    is what the model needs. `core_variables`: of the environment, set to the cores of a replica
    without a GPU. `keep_to_cores`: False lets such replicas share cores. `near_gpus`: whether one
    with GPUs keeps to the cores of their NUMA nodes. `scores`: whether the engines can score.
    `expected`: asked, while the replicas load, for the settings that such an engine of so many GPUs
    has in this process, None where nobody can tell; it returns soon after the event is set. None
    asks nobody. `log_folder`: for the output of engines on this machine. `silence_s`: see
    `engines.watch.Watch`.
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
