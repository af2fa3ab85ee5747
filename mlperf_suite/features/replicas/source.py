"""Several vLLM engines on the nodes of a Ray cluster, which --replicas and --ray choose."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mlperf_suite.features.replicas.figures import RUNS, SCALING, ReplicasRun, ReplicasRuns
from mlperf_suite.features.replicas.placement import parse_nodes
from mlperf_suite.session.companion import Companion, RunAtHand
from mlperf_suite.session.engine_source import EngineFigures, EngineRequest, EngineSource
from mlperf_suite.session.run_kind import Step

if TYPE_CHECKING:
    from pathlib import Path

    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.engines.vllm_arguments import VllmConfig
    from mlperf_suite.features.replicas.actor import Make
    from mlperf_suite.features.replicas.loading import ReplicasConfig
    from mlperf_suite.session.inputs import Inputs
    from mlperf_suite.session.preparation import Preparation
    from mlperf_suite.settings import Settings

_SCALING = Step("scaling", None, "pairs of one replica alone and all of them")


class ReplicasSource(EngineSource):
    option = "--replicas"
    loading = "loading the replicas"
    is_one_system = True
    one_by_one = False

    def takes(self, media: str) -> bool:
        return False

    def engines(self, settings: Settings) -> int:
        replicas = settings.feature_options["replicas"]
        return replicas if isinstance(replicas, int) else 1

    def check(self, inputs: Inputs) -> int | None:
        from mlperf_suite.features.replicas.cluster import check_ray

        check_ray()
        return None

    def placement(self, inputs: Inputs) -> list[str]:
        from mlperf_suite.features.replicas.loading import show_placement
        from mlperf_suite.results.run_folder import ENGINE_LOG

        lines: list[str] = []
        request = EngineRequest("runs", inputs.settings.results_dir / ENGINE_LOG)
        show_placement(_config(inputs, request), lines.append)
        return lines

    def load(self, inputs: Inputs, request: EngineRequest) -> Engine:
        from mlperf_suite.features.replicas.engine import ReplicaEngine

        return ReplicaEngine.load(_config(inputs, request), request.say)

    def steps(self, settings: Settings) -> tuple[Step, ...]:
        return (_SCALING,) if settings.feature_options["scaling"] else ()

    def make(self, step: Step, preparation: Preparation) -> EngineFigures:
        from mlperf_suite.features.replicas.scaling import SMOKE_PROMPTS, measure_scaling
        from mlperf_suite.session.preparation import warm_up_prompts

        preparation.display.begin("measuring one replica alone, and all")
        engine: Any = preparation.engine
        inputs, settings = preparation.inputs, preparation.settings
        benchmark = inputs.benchmarks[0]
        full_batches = 2 * (engine.description.at_once or 128)
        count = SMOKE_PROMPTS if settings.smoke else full_batches
        figures = measure_scaling(
            engine,
            warm_up_prompts(inputs.prompts(benchmark), count),
            inputs.generation(benchmark),
            settings.engine_silence,
            preparation.display.say,
        )
        return EngineFigures({SCALING: figures})


ENGINE = ReplicasSource()


def _load_replica(config: VllmConfig, number: int, folder: Path) -> Engine:
    """Load the engine of a replica, in its process; its output goes to `folder`."""
    from mlperf_suite.engines.vllm_engine import VllmEngine

    return VllmEngine.load(replace(config, log_file=folder / f"engine-{number}.log"))


def _config(inputs: Inputs, request: EngineRequest) -> ReplicasConfig:
    """How to load the engines, from the settings."""
    from mlperf_suite.features.replicas.loading import ReplicasConfig
    from mlperf_suite.features.replicas.settings_search import SettingsSearch
    from mlperf_suite.session.engines import vllm_config

    settings, config = inputs.settings, vllm_config(inputs, request)
    options = settings.feature_options

    def gpu_config(gpus: int) -> VllmConfig:
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
        return partial(_load_replica, gpu_config(gpus), number)

    def search_on(gpus: int) -> Callable[[], SettingsSearch]:
        return partial(SettingsSearch, gpu_config(gpus))

    return ReplicasConfig(
        make,
        inputs.model_path,
        address=options["ray"],
        replicas=None if options["replicas"] == "auto" else options["replicas"],
        tensor_parallel=settings.tensor_parallel_size,
        cpus=options["replica_cpus"],
        nodes=parse_nodes(options["replica_nodes"]) if options["replica_nodes"] else (),
        routing=options["replica_routing"],
        # vLLM finds the NUMA node by the cores that it may use, so it must see all of them.
        near_gpus=not config.extra.get("numa_bind"),
        scores=True,
        expected=search_on,
        log_folder=request.log_file.parent,
        load_timeout_s=config.load_timeout_s,
        silence_s=settings.engine_silence,
    )


@runtime_checkable
class ReplicatedEngine(Protocol):
    """An engine made of several replicas."""

    def take_replicas_run(self) -> ReplicasRun:
        """The figures since the last call."""


class ReplicasCompanion(Companion):
    def around(self, run: RunAtHand) -> contextlib.AbstractContextManager[None]:
        if run.number > 1 or not isinstance(run.engine, ReplicatedEngine):
            return contextlib.nullcontext()
        return _kept(run, run.engine)


SESSION = ReplicasCompanion


@contextlib.contextmanager
def _kept(run: RunAtHand, engine: ReplicatedEngine) -> Iterator[None]:
    """Keep what the replicas did in the block, also if it fails."""
    # What was counted before, such as a warm-up, is discarded.
    engine.take_replicas_run()
    try:
        yield
    finally:
        of_modes: ReplicasRuns = {}
        for record in run.result.runs.values():
            part = record.parts.get(RUNS)
            of_modes |= part if isinstance(part, dict) else {}
        run.record.parts[RUNS] = of_modes | {str(run.key.mode): engine.take_replicas_run()}
