"""The engines of a session: one at a time, loaded when a step needs it, tried once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_suite.engines.endpoint.config import EndpointConfig
from mlperf_suite.engines.protocol import Engine, EngineDescription
from mlperf_suite.errors import SuiteError
from mlperf_suite.results.run_folder import PROFILE_FOLDER
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import Role
from mlperf_suite.session.watcher import Watcher


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """What an engine is loaded for, and the file that takes its output."""

    role: Role
    log_file: Path


LoadEngine = Callable[[Inputs, EngineRequest], Engine]


class Engines:
    """Holds the engine of the step under way.

    The engine of runs and the one that scores MMLU are two: only the second keeps a prefix cache.
    Two engines at once would measure each other, so loading one stops the other.
    """

    def __init__(self, inputs: Inputs, load: LoadEngine, watcher: Watcher) -> None:
        self._inputs = inputs
        self._load = load
        self._watch = watcher
        self._engine: Engine | None = None
        self._role: Role | None = None
        self._failures: dict[Role, SuiteError] = {}
        self.descriptions: dict[Role, EngineDescription] = {}
        """Of each engine that was loaded."""

    def get(self, role: Role, log_file: Path) -> Engine:
        """The engine of this role; one that failed to load is not tried again.

        `log_file`: where its output goes if it is loaded now. Raises SuiteError.
        """
        if role in self._failures:
            raise self._failures[role]
        if self._engine is not None and self._role == role:
            return self._engine
        self.close()
        remote = self._inputs.settings.engine_kind == "endpoint"
        what = "connecting to the endpoint" if remote else "loading the engine"
        self._watch.begin(what + (" for MMLU" if role == "scoring" else ""))
        try:
            self._engine = self._load(self._inputs, EngineRequest(role, log_file))
        except SuiteError as error:
            self._failures[role] = error
            raise
        self._role = role
        self.descriptions[role] = self._engine.description
        for line in engine_lines(self._engine.description):
            self._watch.say(line)
        return self._engine

    def is_loaded(self, role: Role) -> bool:
        """Whether the engine of this role is there now."""
        return self._engine is not None and self._role == role

    @property
    def can_go_on(self) -> bool:
        """Whether there is an engine that can answer, or none was needed so far."""
        return not self._failures and (self._engine is None or self._engine.alive)

    def close(self) -> None:
        """Stop the engine, if there is one."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def engine_lines(description: EngineDescription) -> list[str]:
    """What the engine chose where the user left it open, with its reasons, a line each."""
    settings = description.settings
    chosen = (
        ("precision", "dtype", "dtype_why"),
        ("tensor parallel size", "tensor_parallel_size", "tensor_parallel_why"),
        ("tokens as", "tokens", "tokens_why"),
    )
    return [
        f"{description.name} {description.version}: {words} {settings[name]} ({settings[why]})"
        for words, name, why in chosen
        if name in settings and why in settings
    ]


def load_engine(inputs: Inputs, request: EngineRequest) -> Engine:
    """The engine that the settings ask for: servers that run already, or vLLM in this process."""
    if inputs.settings.engine_kind == "endpoint":
        from mlperf_suite.engines.endpoint.engine import EndpointEngine

        # Not before: it takes the tokenizer, and who only asks whether a server is there waits for
        # that.
        end_ids = tuple(end for end in inputs.eos_token_ids if end is not None)
        return EndpointEngine.load(
            replace(endpoint_config(inputs, request.log_file), end_ids=end_ids)
        )
    return load_vllm(inputs, request)


def endpoint_config(inputs: Inputs, log_file: Path | None = None) -> EndpointConfig:
    """How the settings say to reach the endpoints. Raises UsageError without a tokenizer."""
    settings = inputs.settings
    return EndpointConfig(
        tuple(settings.endpoints),
        inputs.model_path,
        inputs.tokenizer_folder,
        inputs.vocabulary,
        served_model=settings.served_model_name,
        kind=settings.endpoint_server,
        routing=settings.endpoint_routing,
        key=settings.api_key,
        headers=dict(settings.endpoint_headers),
        ca_file=settings.endpoint_ca,
        clients=settings.endpoint_clients,
        context_needed=inputs.context_needed,
        silence_s=settings.engine_silence,
        log_file=log_file,
    )


def load_vllm(inputs: Inputs, request: EngineRequest) -> Engine:
    """vLLM in this process, as the settings ask for it."""
    from mlperf_suite.engines.vllm_engine import VllmConfig, VllmEngine

    settings = inputs.settings
    # Scores are no runs, and nothing of them is profiled.
    profiler = settings.profile_run if request.role == "runs" else None
    return VllmEngine.load(
        VllmConfig(
            inputs.model_path,
            settings.precision,  # type: ignore[arg-type]
            settings.tensor_parallel_size,
            settings.max_model_len,
            settings.gpu_memory_utilization,
            settings.max_new_tokens,
            600.0 if settings.smoke else 3600.0,
            request.log_file,
            settings.token,
            dict(settings.engine_args),
            role=request.role,
            context_needed=inputs.context_needed,
            silence_s=settings.engine_silence,
            profiler=profiler,
            profile_folder=(request.log_file.parent / PROFILE_FOLDER).absolute(),
        )
    )
