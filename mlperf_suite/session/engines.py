"""The engines of a session: one at a time, loaded when a step needs it, tried once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mlperf_suite.engines.protocol import QUANTIZATION, REPLICAS, Engine, EngineDescription
from mlperf_suite.errors import SuiteError
from mlperf_suite.hardware import describe_system
from mlperf_suite.results.run_folder import PROFILE_FOLDER
from mlperf_suite.results.schema import STAND_IN_LABEL
from mlperf_suite.session.companion import profile_of
from mlperf_suite.session.engine_source import EngineRequest, source_of
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Role, kind_named

if TYPE_CHECKING:
    from mlperf_suite.engines.vllm_arguments import VllmConfig

LoadEngine = Callable[[Inputs, EngineRequest], Engine]

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class Engines:
    """Holds the engine of the current step.

    Runs and scores use separate engines: only the scoring engine keeps a prefix cache. Two
    engines at once would disturb each other's measurements, so loading one stops the other.
    """

    def __init__(self, inputs: Inputs, load: LoadEngine, display: ProgressDisplay) -> None:
        self._inputs = inputs
        self._load = load
        self._watch = display
        self._engine: Engine | None = None
        self._role: Role | None = None
        self._failures: dict[Role, SuiteError] = {}
        self.descriptions: dict[Role, EngineDescription] = {}
        """The description of each engine that was loaded."""

    def get(self, role: Role, log_file: Path, purpose: str = "") -> Engine:
        """The engine of this role, loaded now if needed; a failed load is not retried.

        `log_file`: where its output goes if it is loaded now. `purpose`: of the engine, in words
        for the user. Raises SuiteError.
        """
        if role in self._failures:
            raise self._failures[role]
        if self._engine is not None and self._role == role:
            return self._engine
        self.close()
        self._watch.begin(f"{source_of(self._inputs.settings).loading} {purpose}".rstrip())
        try:
            self._engine = self._load(self._inputs, EngineRequest(role, log_file, self._watch.say))
        except SuiteError as error:
            self._failures[role] = error
            raise
        self._role = role
        self.descriptions[role] = self._engine.description
        for line in engine_lines(self._engine.description):
            self._watch.say(line)
        return self._engine

    def loaded(self, role: Role) -> Engine:
        """The engine of this role, which is loaded."""
        assert self._engine is not None and self._role == role
        return self._engine

    def is_loaded(self, role: Role) -> bool:
        return self._engine is not None and self._role == role

    def label(self, role: Role) -> str:
        """The label of what this engine makes: the profile's, or the stand-in engine's."""
        description = self.descriptions.get(role)
        stand_in = description is not None and description.stand_in
        return STAND_IN_LABEL if stand_in else self._inputs.settings.label

    def name(self, role: Role) -> str | None:
        """The system under test: replicas, engine, version and precision; None before it is
        loaded."""
        description = self.descriptions.get(role)
        if description is None:
            return None
        settings = description.settings
        # What is not quantized is computed in the dtype, which alone would mislead.
        precision = settings.get(QUANTIZATION) or _SHORT.get(str(settings.get("dtype", "")), "")
        several = f"{settings[REPLICAS]} x " if REPLICAS in settings else ""
        return f"{several}{description.name} {description.version} {precision}".rstrip()

    def gpus(self, role: Role) -> dict[str, int] | None:
        """The GPUs that this engine computes on, how many of each name; None if not known."""
        description = self.descriptions.get(role)
        return gpus_of(description) if description else None

    def cpus_of(self, role: Role) -> tuple[str, ...]:
        """See `cpus_of`."""
        description = self.descriptions.get(role)
        return cpus_of(description) if description else ()

    @property
    def can_go_on(self) -> bool:
        """Whether no engine failed to load and the current one, if any, is alive."""
        return not self._failures and (self._engine is None or self._engine.alive)

    def close(self) -> None:
        """Stop the engine, if there is one."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def gpus_of(description: EngineDescription) -> dict[str, int] | None:
    """The GPUs that an engine computes on, how many of each name; None if that is not known.

    A machine may have more than the engine uses, or none where its replicas are on others.
    """
    machines, used = (description.settings.get(name) for name in ("machines", "gpus_used"))
    if isinstance(machines, list):
        of_machines = Counter[str]()
        for machine in machines:
            of_machines[machine["gpu"] or "GPU"] += machine["gpus"]
        return dict(+of_machines)
    here = describe_system()["gpus"]
    names = set(here) if isinstance(here, list) and here else {"unknown accelerator"}
    if not isinstance(used, int) or (used and len(names) != 1):
        return None
    return {names.pop(): used} if used else {}


def cpus_of(description: EngineDescription) -> tuple[str, ...]:
    """The names of the machines whose CPUs an engine computes on; empty if it is this one alone, or
    computes on GPUs."""
    machines = description.settings.get("machines")
    rows = machines if isinstance(machines, list) else []
    elsewhere = any(not machine["here"] for machine in rows)
    return tuple(str(machine["host"]) for machine in rows if elsewhere and not machine["gpus"])


def engine_lines(description: EngineDescription) -> list[str]:
    """The choices that the engine made for options left open, with its reasons, a line each."""
    settings = description.settings
    choices = (
        ("precision", "dtype", "dtype_why"),
        ("tensor parallel size", "tensor_parallel_size", "tensor_parallel_why"),
        ("tokens as", "tokens", "tokens_why"),
        ("requests go to", "addresses", "addresses_why"),
    )
    return [
        f"{description.name} {description.version}: {words} {settings[name]} ({settings[why]})"
        for words, name, why in choices
        if name in settings and why in settings
    ]


def load_engine(inputs: Inputs, request: EngineRequest) -> Engine:
    """The engine of the benchmarks' kind of runs, or else the one that the settings ask for."""
    for benchmark in inputs.benchmarks:
        engine: Engine | None = kind_named(benchmark.run_kind).engine(inputs, request)
        if engine is not None:
            return engine
    return source_of(inputs.settings).load(inputs, request)


def load_vllm(inputs: Inputs, request: EngineRequest) -> Engine:
    """Load vLLM in this process as the settings ask for it."""
    from mlperf_suite.engines.vllm_engine import VllmEngine

    return VllmEngine.load(vllm_config(inputs, request))


def vllm_config(inputs: Inputs, request: EngineRequest) -> VllmConfig:
    """How to load vLLM, from the settings."""
    from mlperf_suite.engines.vllm_arguments import VllmConfig

    settings = inputs.settings
    # Scoring is not a run and is never profiled.
    profile = profile_of(settings) if request.role == "runs" else None
    return VllmConfig(
        inputs.model_path,
        settings.precision,  # type: ignore[arg-type]
        settings.tensor_parallel_size,
        settings.max_model_len,
        settings.gpu_memory_utilization,
        settings.max_new_tokens,
        # A user's own model may have to be downloaded.
        600.0 if settings.has_carried_model else 3600.0,
        request.log_file,
        settings.token,
        dict(settings.engine_args),
        role=request.role,
        context_needed=inputs.context_needed,
        silence_s=settings.engine_silence,
        profiler=profile.profiler if profile else None,
        profile_folder=(request.log_file.parent / PROFILE_FOLDER).absolute(),
        media=inputs.media,
    )
