"""The values of vLLM's arguments that are worth a trial on this machine, for `tune`."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from mlperf_suite.engines.vllm_environment import import_failure, runs_on_cpu, visible_gpus

Value = str | int | float | bool
_ARGUMENTS: Mapping[str, tuple[Value, ...]] = {
    "max_num_seqs": (16, 32, 64, 128, 256, 512, 1024),
    "max_num_batched_tokens": (1024, 2048, 4096, 8192, 16384, 32768),
    "block_size": (16, 32, 64, 128),
    "kv_cache_dtype": ("fp8",),
    # float32 loses to both on every GPU that vLLM supports.
    "dtype": ("bfloat16", "float16"),
    "quantization": ("fp8",),
    "enable_chunked_prefill": (True, False),
    "enforce_eager": (True,),
    "max_cudagraph_capture_size": (64, 256, 1024),
    "async_scheduling": (True, False),
    "tensor_parallel_size": (1, 2, 4, 8),
    "data_parallel_size": (2, 4, 8),
}
_GPU_ONLY = {
    # vLLM's CPU platform sets these itself (vllm/platforms/cpu.py).
    *("quantization", "enforce_eager", "max_cudagraph_capture_size", "async_scheduling"),
    *("tensor_parallel_size", "data_parallel_size"),
    # The run's dtype is already the fastest that the CPU computes (hardware.cpu_computes_bf16). No
    # CPU computes fp8: each value of the cache is converted again for each token.
    *("dtype", "kv_cache_dtype"),
}
_CPU_BLOCK = 32
"""The CPU's attention computes blocks of a multiple of this (vllm/v1/attention/backends)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """The facts that decide which values vLLM can run with. `dtypes`: what its GPUs compute."""

    gpus: int
    dtypes: frozenset[str]
    has_fp8: bool


def vllm_choices(gpus: int | None = None) -> dict[str, tuple[Value, ...]]:
    """By argument of vLLM's engine, values to try beside its default.

    `gpus`: how many of this machine's an engine has, if not all. Only arguments that this vLLM has,
    values that its definition of the argument allows, and what this machine computes. Raises
    EngineError if vLLM is not installed or has no device.
    """
    types_of = _types()
    machine = _machine()
    if gpus is not None:
        machine = dataclasses.replace(machine, gpus=min(gpus, machine.gpus))
    return choices_for(machine, types_of)


def argument_names() -> frozenset[str]:
    """The arguments of vLLM's engine. Raises EngineError if vLLM is not installed."""
    return frozenset(_types())


def _types() -> dict[str, Any]:
    """By argument of vLLM's engine, its type."""
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
    except ImportError as error:
        raise import_failure(error) from error
    return {field.name: field.type for field in dataclasses.fields(AsyncEngineArgs)}


def choices_for(machine: Machine, arguments: Mapping[str, Any]) -> dict[str, tuple[Value, ...]]:
    """The same for a machine and the arguments' types."""
    found = {}
    for name, values in _ARGUMENTS.items():
        if name in arguments and (machine.gpus or name not in _GPU_ONLY):
            allowed = _literals(arguments[name])
            fitting = [
                v for v in values if (not allowed or v in allowed) and _fits(name, v, machine)
            ]
            found[name] = tuple(fitting)
    return {name: values for name, values in found.items() if values}


def _fits(name: str, value: Any, machine: Machine) -> bool:
    fits: dict[str, Callable[[], bool]] = {
        "block_size": lambda: machine.gpus > 0 or value % _CPU_BLOCK == 0,
        "dtype": lambda: value in machine.dtypes,
        "kv_cache_dtype": lambda: machine.has_fp8,
        "quantization": lambda: machine.has_fp8,
        "tensor_parallel_size": lambda: 1 < machine.gpus >= value,
        "data_parallel_size": lambda: value <= machine.gpus,
    }
    return fits[name]() if name in fits else True


def _literals(hint: Any) -> set[object]:
    """The values of a Literal in a type, such as Literal["a"] | None; none if it has no Literal."""
    if typing.get_origin(hint) is typing.Literal:
        return set(typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return {value for part in typing.get_args(hint) for value in _literals(part)}
    return set()


def _machine() -> Machine:
    from vllm.platforms import current_platform

    if runs_on_cpu():
        return Machine(0, frozenset(), has_fp8=False)
    dtypes = {str(dtype).removeprefix("torch.") for dtype in current_platform.supported_dtypes}
    return Machine(visible_gpus(), frozenset(dtypes), bool(current_platform.supports_fp8()))
