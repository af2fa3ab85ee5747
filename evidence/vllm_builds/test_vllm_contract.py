"""What the package takes from vLLM is in one list, and the installed release has all of it.

Its sources are read, not imported: that takes seconds, and a build for GPUs cannot be imported
everywhere.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from meta_tests.module_imports import PACKAGE, files

IMPORTS = {
    "vllm": ("SamplingParams", "__version__"),
    "vllm.config": ("ProfilerConfig",),
    "vllm.engine.arg_utils": ("AsyncEngineArgs",),
    "vllm.entrypoints.openai.chat_completion.protocol": ("ChatCompletionRequest",),
    "vllm.inputs": ("TokensPrompt",),
    "vllm.logger": (),
    "vllm.platforms": ("current_platform",),
    "vllm.reasoning": ("ReasoningParserManager",),
    "vllm.sampling_params": ("RequestOutputKind",),
    "vllm.tool_parsers": ("ToolParserManager",),
    "vllm.usage.usage_lib": ("UsageContext",),
    "vllm.v1.engine": ("utils",),
    "vllm.v1.engine.async_llm": ("AsyncLLM",),
    "vllm.v1.engine.core": (),
    "vllm.v1.executor.multiproc_executor": (),
    "vllm.v1.metrics.loggers": ("StatLoggerBase",),
}
"""Modules, and the names that are used of them."""
MEMBERS = {
    "vllm.engine.arg_utils": (
        *("model", "dtype", "max_model_len", "trust_remote_code", "enable_prefix_caching"),
        *("disable_log_stats", "stream_interval", "enforce_eager", "gpu_memory_utilization"),
        *("hf_token", "profiler_config", "tensor_parallel_size", "limit_mm_per_prompt"),
        *("mm_processor_cache_gb", "create_model_config", "create_engine_config"),
    ),
    "vllm.sampling_params": (
        *("temperature", "top_p", "top_k", "seed", "max_tokens", "min_tokens", "detokenize"),
        *("stop", "include_stop_str_in_output", "output_kind", "logprobs", "prompt_logprobs"),
        *("DELTA", "FINAL_ONLY"),
    ),
    "vllm.v1.engine.async_llm": (
        *("from_engine_args", "generate", "shutdown", "errored", "start_profile", "stop_profile"),
        *("vllm_config", "stat_loggers", "usage_context"),
    ),
    "vllm.v1.engine.exceptions": ("EngineDeadError",),
    "vllm.v1.engine.utils": ("get_mp_context",),
    "vllm.v1.metrics.loggers": ("record", "log_engine_initialized"),
    "vllm.outputs": ("outputs", "token_ids", "num_cached_tokens", "prompt_logprobs", "metrics"),
    "vllm.v1.metrics.stats": (
        *("num_running_reqs", "num_waiting_reqs", "kv_cache_usage", "spec_decoding_stats"),
        *("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts"),
        *("num_generation_tokens", "num_prompt_tokens", "num_preempted_reqs", "finished_requests"),
    ),
    "vllm.v1.spec_decode.metrics": ("num_draft_tokens", "num_accepted_tokens"),
    "vllm.config.model": (
        "dtype",
        "enforce_eager",
        "quantization",
        "max_model_len",
        "hf_overrides",
    ),
    "vllm.config.cache": ("enable_prefix_caching", "cache_dtype"),
    "vllm.config.scheduler": ("max_num_seqs", "max_num_batched_tokens"),
    "vllm.config.parallel": ("data_parallel_size", "world_size"),
    "vllm.config.load": ("load_format",),
    "vllm.config.speculative": ("method", "num_speculative_tokens", "draft_model_config"),
    "vllm.platforms.interface": ("is_cpu", "device_type", "supported_dtypes", "supports_fp8"),
    "vllm.usage.usage_lib": ("OPENAI_API_SERVER",),
}
"""Names of arguments, attributes and exceptions, by the module that defines them. Many are read
with a default, so that nothing else would tell that one is gone."""
VARIABLES = (
    *("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "VLLM_LOGGING_LEVEL"),
    *("VLLM_NO_USAGE_STATS", "VLLM_NVTX_SCOPES_FOR_PROFILING", "VLLM_PROCESS_NAME_PREFIX"),
    *("VLLM_RPC_BASE_PATH", "VLLM_SERVER_DEV_MODE", "VLLM_WORKER_MULTIPROC_METHOD"),
)
METRICS = {
    "vllm.v1.metrics.loggers": (
        *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
        "vllm:cache_config_info",
        *("vllm:num_preemptions", "vllm:prefix_cache_queries", "vllm:prefix_cache_hits"),
        "vllm:request_queue_time_seconds",
    ),
    "vllm.v1.spec_decode.metrics": (
        *("vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens"),
        "vllm:spec_decode_num_accepted_tokens_per_pos",
    ),
}
"""By module, without the endings of Prometheus' format: _total of counters, _sum of histograms."""
PROCESS_TITLES = {
    "vllm.v1.engine.core": "EngineCore",
    "vllm.v1.executor.multiproc_executor": "Worker",
}
"""By module, how the title goes on after VLLM_PROCESS_NAME_PREFIX and two colons."""


NOT_ITS_OWN = {"VLLM_CHAT", "VLLM_DTYPES", "VLLM_TORCH_PROFILER_DIR", "vllm:spec_decode"}
"""Names of the package's, a variable of earlier releases in a comment, the beginning of others."""
_ENDING = re.compile("_(?:total|sum)$")


@cache
def source(module: str) -> str:
    """The source text of a module of the installed vLLM."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).parent.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def missing(names: tuple[str, ...], module: str, *, quoted: bool = False) -> list[str]:
    words = [rf'"{re.escape(name)}"' if quoted else rf"\b{re.escape(name)}\b" for name in names]
    text = source(module)
    return [name for name, word in zip(names, words, strict=True) if not re.search(word, text)]


@pytest.mark.parametrize("module", IMPORTS)
def test_a_module_is_there_with_what_is_imported_of_it(module: str) -> None:
    assert source(module)
    submodules = [name for name in IMPORTS[module] if source(f"{module}.{name}")]
    names = tuple(name for name in IMPORTS[module] if name not in submodules)
    assert missing(names, module) == []


@pytest.mark.parametrize("module", MEMBERS)
def test_arguments_attributes_and_exceptions_are_there(module: str) -> None:
    assert missing(MEMBERS[module], module) == []


def test_its_variables_metrics_and_process_titles_are_there() -> None:
    assert missing(VARIABLES, "vllm.envs") == []
    for module, names in METRICS.items():
        assert missing(names, module, quoted=True) == []
    for module, title in PROCESS_TITLES.items():
        assert missing((title,), module) == []


def test_the_list_names_all_that_the_package_uses() -> None:
    imports: dict[str, set[str]] = defaultdict(set)
    words: set[str] = set()
    for path in files(PACKAGE.name):
        text = path.read_text(encoding="utf-8")
        words.update(re.findall(r"\bVLLM_[A-Z_]+\b|\bvllm:[a-z_]+[a-z]\b", text))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vllm":
                imports[str(node.module)] |= {name.name for name in node.names}
            elif isinstance(node, ast.Import):
                for name in node.names:
                    if name.name.split(".")[0] == "vllm":
                        _ = imports[name.name]
    imports["vllm"].add("__version__")
    assert imports == {module: set(names) for module, names in IMPORTS.items()}
    words -= NOT_ITS_OWN
    metrics = {_ENDING.sub("", word) for word in words if word.startswith("vllm:")}
    assert metrics == {name for names in METRICS.values() for name in names}
    assert {word for word in words if word.startswith("VLLM_")} == {*VARIABLES}
