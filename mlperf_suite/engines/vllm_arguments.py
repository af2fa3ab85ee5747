"""The arguments and settings of vLLM for a configuration, with the choices that were left open."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mlperf_suite.benchmarks.definition import OWN_HEAD
from mlperf_suite.engines.protocol import (
    DATA_PARALLEL,
    MEDIA_CHANGES,
    MODEL_CHANGES,
    QUANTIZATION,
    SILENCE_S,
    SPECULATIVE,
    Profiler,
    parallel_sets,
)
from mlperf_suite.engines.vllm_environment import import_failure, runs_on_cpu, visible_gpus
from mlperf_suite.errors import EngineError
from mlperf_suite.hardware import ChosenSetting, Precision, choose_precision

_MODALITIES = {"sound": "audio", "picture": "image"}
"""vLLM's names."""
VLLM_DTYPES: dict[Precision, str] = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "auto": "auto",
}


@dataclass(frozen=True, slots=True)
class VllmConfig:
    """How to load the engine.

    `precision`: auto means what the hardware computes (`choose_precision`). `tensor_parallel_size`:
    None means every accelerator that it can be split over. `context_needed`: the longest
    sequence needed, in tokens; if `max_model_len` is None, the smaller of that and the model's own
    maximum is used. `extra`: any of vLLM's AsyncEngineArgs, overriding all others. `token`: for the
    hub. `log_file`: where all of vLLM's output goes; None means this process's output. `role`: an
    engine for runs has no prefix cache, which would answer repeated samples; one for scoring has
    one, since few-shot prompts begin alike. `silence_s`: see `HangDetector`. `traced`: False makes
    the engine report nothing about its steps and requests, to measure what reporting costs.
    `profiler`: see `ProfilingEngine`; torch's writes its traces to `profile_folder`, an absolute
    path, from which `stop_profile` takes them. `media`: what a prompt carries beside its tokens.
    """

    model: str
    precision: Precision = "auto"
    tensor_parallel_size: int | None = 1
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    max_new_tokens: int = 128
    load_timeout_s: float = 600.0
    log_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    extra: dict[str, object] = field(default_factory=dict)
    role: Literal["runs", "scoring"] = "runs"
    context_needed: int | None = None
    silence_s: float = SILENCE_S
    traced: bool = True
    profiler: Profiler | None = None
    profile_folder: Path | None = None
    media: Literal["", "sound", "picture"] = ""


@dataclass(frozen=True, slots=True)
class ChosenArguments:
    """vLLM's arguments and the choices made for them. `gpus`: the accelerators that vLLM sees."""

    arguments: Any
    precision: ChosenSetting[Precision]
    tensor_parallel: ChosenSetting[int]
    gpus: int
    profiler: Profiler | None = None


def choose_arguments(config: VllmConfig) -> ChosenArguments:
    """vLLM's arguments for a configuration.

    Raises EngineError if vLLM is not installed, an argument is unknown, or there is no device that
    this build of vLLM can use.
    """
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
    except ImportError as error:
        raise import_failure(error) from error
    names = AsyncEngineArgs.__dataclass_fields__
    for name in config.extra:
        if name not in names:
            raise EngineError(f"--engine-arg {name}: vLLM's engine has no such argument")
    on_cpu = runs_on_cpu()
    gpus = 0 if on_cpu else visible_gpus()
    by_hand = ChosenSetting(config.precision, "as asked with --engine-arg")
    precision = by_hand if "dtype" in config.extra else choose_precision(config.precision, on_cpu)
    arguments: dict[str, object] = {
        "model": config.model,
        "dtype": VLLM_DTYPES[precision.value],
        "max_model_len": config.max_model_len,
        "trust_remote_code": False,
        # Repeated samples would be answered from the cache, which would inflate throughput.
        "enable_prefix_caching": config.role == "scoring",
        "disable_log_stats": True,
        # A streamed request wakes this process twice: at its first token and at its end.
        "stream_interval": config.max_new_tokens,
        # On the CPU, compiling adds 35 s to every start for 10% of speed, and needs a compiler.
        "enforce_eager": on_cpu,
    }
    if config.media:
        arguments["limit_mm_per_prompt"] = {_MODALITIES[config.media]: 1}
        # Features of repeated samples would come from this cache, or be kept by their content.
        arguments["mm_processor_cache_gb"] = 0
    if config.gpu_memory_utilization is not None:
        arguments["gpu_memory_utilization"] = config.gpu_memory_utilization
    if config.token:
        arguments["hf_token"] = config.token
    if config.profiler is not None:
        arguments["profiler_config"] = _profiler_config(config, on_cpu)
    arguments |= config.extra
    if on_cpu and not arguments["enforce_eager"] and not shutil.which("g++"):
        raise EngineError(
            "--engine-arg enforce_eager=false: vLLM compiles the model with g++ on the CPU, "
            "and there is none: install g++ or leave the argument out"
        )
    present = {name: value for name, value in arguments.items() if value is not None}
    tensor_parallel_size = config.tensor_parallel_size
    if "tensor_parallel_size" in config.extra:
        tensor_parallel_size = int(str(config.extra["tensor_parallel_size"]))
    heads = kv_heads = 1
    fits_context = config.context_needed is None or "max_model_len" in present
    if not fits_context or (tensor_parallel_size is None and gpus > 1):
        model = AsyncEngineArgs(**present).create_model_config()
        heads = model.hf_text_config.num_attention_heads
        kv_heads = model.get_total_num_kv_heads()
        if not fits_context and config.context_needed is not None:
            present["max_model_len"] = min(model.max_model_len, config.context_needed)
    sets = parallel_sets(config.extra)
    tensor_parallel = choose_tensor_parallel(gpus, heads, kv_heads, tensor_parallel_size, sets)
    present["tensor_parallel_size"] = tensor_parallel.value
    arguments_of_vllm = AsyncEngineArgs(**present)
    return ChosenArguments(arguments_of_vllm, precision, tensor_parallel, gpus, config.profiler)


def _profiler_config(config: VllmConfig, on_cpu: bool) -> Any:
    """vLLM's ProfilerConfig, which replaced VLLM_TORCH_PROFILER_DIR in 0.13."""
    from vllm.config import ProfilerConfig

    if config.profiler == "cuda":
        if on_cpu:
            raise EngineError(
                "--profile-run cuda: vLLM's CPU build does not use CUDA: use --profile-run torch"
            )
        return ProfilerConfig(profiler="cuda")
    assert config.profile_folder is not None
    return ProfilerConfig(
        profiler="torch",
        torch_profiler_dir=str(config.profile_folder),
        # Python's stacks make the trace several times as large and the run slower.
        torch_profiler_with_stack=False,
        # Otherwise it also profiles this process, on whose threads LoadGen and the SUT work.
        ignore_frontend=True,
    )


def settings_of(config: VllmConfig) -> dict[str, object]:
    """What vLLM chooses for a configuration, as in the description of a loaded engine.

    Raises EngineError as `choose_arguments` does; vLLM itself raises many kinds of errors.
    """
    return engine_settings(choose_arguments(config).arguments.create_engine_config(usage_context()))


def engine_settings(config: Any) -> dict[str, object]:
    engines = getattr(getattr(config, "parallel_config", None), DATA_PARALLEL, 1)
    quantization = getattr(config.model_config, "quantization", None)
    return {
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "enable_prefix_caching": bool(config.cache_config.enable_prefix_caching),
        "enforce_eager": bool(config.model_config.enforce_eager),
        "kv_cache_dtype": str(config.cache_config.cache_dtype),
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        SPECULATIVE: _speculation(config),
        # Left out if there is none, as in runs of earlier versions.
        **({QUANTIZATION: str(quantization)} if quantization else {}),
        **_model_changes(config),
        **({DATA_PARALLEL: engines} if engines > 1 else {}),
    }


def _model_changes(config: Any) -> dict[str, str]:
    """`MODEL_CHANGES`: other weights or another architecture than the model's files hold."""
    model, weights = config.model_config, getattr(config, "load_config", None)
    load_format = str(getattr(weights, "load_format", "auto"))
    media = getattr(model, "multimodal_config", None)
    changes = {
        "hf_overrides": bool(getattr(model, "hf_overrides", None)),
        "hf_config_path": getattr(model, "hf_config_path", None) not in (None, model.model),
        f"load_format={load_format}": "dummy" in load_format.casefold(),
        **{name: bool(getattr(media, name, None)) for name in MEDIA_CHANGES},
    }
    names = ", ".join(name for name, is_used in changes.items() if is_used)
    return {MODEL_CHANGES: names} if names else {}


def _speculation(config: Any) -> dict[str, object] | None:
    """vLLM's SpeculativeConfig as `SPECULATIVE` describes it."""
    speculation = getattr(config, "speculative_config", None)
    if speculation is None:
        return None

    def value(name: str) -> Any:
        return getattr(speculation, name, None)

    draft = value("draft_model_config")
    head = getattr(draft, "model", None) or value("model")
    by_batch = value("num_speculative_tokens_per_batch_size")
    # Earlier versions could propose a tree; a chain's places are all 0.
    is_chain = not re.search("[1-9]", str(value("speculative_token_tree") or ""))
    facts: dict[str, object] = {
        "method": str(value("method")) + (", in parallel" if value("parallel_drafting") else ""),
        "steps": "by batch size" if by_batch else value("num_speculative_tokens"),
        "topk": 1 if is_chain else "a tree",
        "head": OWN_HEAD if head == config.model_config.model else head,
        "quantization": getattr(draft, "quantization", None) or "none",
    }
    if value("rejection_sample_method") == "synthetic":
        facts["acceptance"] = "synthetic acceptance"
    return facts


def usage_context() -> Any:
    """vLLM uses it to choose max_num_seqs and max_num_batched_tokens: as for its server, 1,024 and
    8,192 on an H100; without a context it knows, it takes 128 and 2,048 on any device."""
    from vllm.usage.usage_lib import UsageContext

    return UsageContext.OPENAI_API_SERVER


def choose_tensor_parallel(
    gpus: int, heads: int, kv_heads: int, request: int | None, sets: int = 1
) -> ChosenSetting[int]:
    """The number of accelerators to split a model over: `request`, or the largest possible.

    vLLM gives each the same number of attention heads, and either the same number of KV heads
    or a copy of one (QKVParallelLinear). `gpus`: the available ones, 0 on a CPU. `sets`: how
    many times the engine has that number. The reason names idle ones.
    """
    if request is not None:
        return ChosenSetting(request, "as asked" + _idle(gpus, request * sets))
    if gpus <= 1:
        return ChosenSetting(1, "auto: the only accelerator" if gpus else "auto: no accelerator")
    each, sets_words = gpus // sets, "" if sets == 1 else f" for each of {sets} sets"
    if each <= 1:
        return ChosenSetting(1, f"auto: one accelerator{sets_words}" + _idle(gpus, sets))
    divisors = [n for n in range(1, each + 1) if heads % n == 0]
    count = max(n for n in divisors if kv_heads % n == 0 or n % kv_heads == 0)
    if count == each:
        why = f"auto: {each if sets > 1 else f'all {gpus}'} accelerators{sets_words}"
        return ChosenSetting(count, why + _idle(gpus, count * sets))
    over = " or ".join(map(str, range(count + 1, each + 1)))
    why = f"auto: {heads} attention heads and {kv_heads} KV heads cannot be split over {over}"
    return ChosenSetting(count, why + _idle(gpus, count * sets))


def _idle(gpus: int, count: int) -> str:
    """Names the accelerators that vLLM does not use: it takes the first."""
    idle = [str(index) for index in range(count, gpus)]
    return f"; idle accelerators: {len(idle)} ({', '.join(idle)})" if idle else ""
