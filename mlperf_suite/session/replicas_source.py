"""Several vLLM engines on the nodes of a Ray cluster, which --replicas and --ray choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mlperf_suite.results.run_folder import ENGINE_LOG
from mlperf_suite.session.engine_source import EngineRequest, EngineSource

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.engines.replicas.actor import Make
    from mlperf_suite.engines.replicas.loading import ReplicasConfig
    from mlperf_suite.engines.vllm_arguments import VllmConfig
    from mlperf_suite.session.inputs import Inputs
    from mlperf_suite.settings import Settings


class ReplicasSource(EngineSource):
    option = "--replicas"
    loading = "loading the replicas"
    is_one_system = True
    one_by_one = False

    def is_chosen(self, settings: Settings) -> bool:
        return settings.replicas is not None

    def takes(self, media: str) -> bool:
        return False

    def engines(self, settings: Settings) -> int:
        return settings.replicas if isinstance(settings.replicas, int) else 1

    def check(self, inputs: Inputs) -> None:
        from mlperf_suite.engines.replicas.cluster import check_ray

        check_ray()

    def placement(self, inputs: Inputs) -> list[str]:
        from mlperf_suite.engines.replicas.loading import show_placement

        lines: list[str] = []
        request = EngineRequest("runs", inputs.settings.results_dir / ENGINE_LOG)
        show_placement(_config(inputs, request), lines.append)
        return lines

    def load(self, inputs: Inputs, request: EngineRequest) -> Engine:
        from mlperf_suite.engines.replicas.engine import ReplicaEngine

        return ReplicaEngine.load(_config(inputs, request), request.say)


ENGINE = ReplicasSource()


def _config(inputs: Inputs, request: EngineRequest) -> ReplicasConfig:
    """How to load the engines, from the settings."""
    from mlperf_suite.engines.replicas.loading import ReplicasConfig
    from mlperf_suite.engines.vllm_arguments import SettingsSearch
    from mlperf_suite.engines.vllm_engine import load_replica
    from mlperf_suite.session.engines import vllm_config

    settings, config = inputs.settings, vllm_config(inputs, request)

    def of_gpus(gpus: int) -> VllmConfig:
        extra = config.extra
        if gpus > 1:
            # As in a process of its own: in Ray's placement group, vLLM would ask Ray for workers.
            extra = {"distributed_executor_backend": "mp", **extra}
        return replace(
            config,
            tensor_parallel_size=gpus or config.tensor_parallel_size or 1,
            extra=extra,
            log_file=None,
            profile_folder=None,
        )

    def make(number: int, gpus: int) -> Make:
        return partial(load_replica, of_gpus(gpus), number)

    def search_on(gpus: int) -> Callable[[], SettingsSearch]:
        return partial(SettingsSearch, of_gpus(gpus))

    return ReplicasConfig(
        make,
        inputs.model_path,
        address=settings.ray,
        replicas=None if settings.replicas == "auto" else settings.replicas,  # type: ignore[arg-type]
        tensor_parallel=settings.tensor_parallel_size,
        cpus=settings.replica_cpus,
        nodes=settings.replica_nodes,
        routing=settings.replica_routing,
        # vLLM finds the NUMA node by the cores that it may use, so it must see all of them.
        near_gpus=not config.extra.get("numa_bind"),
        scores=True,
        expected=search_on,
        log_folder=request.log_file.parent,
        load_timeout_s=config.load_timeout_s,
        silence_s=settings.engine_silence,
    )
