"""Check whether this machine fits a build of the suite, before anything is installed.

    python scripts/check_machine.py cpu|gpu|present

Prints one line for each thing that does not fit, and what to do. The set-up stops at a line that
begins with "does not fit" (exit status 1), not at a note. Only the standard library is available.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DRIVER = 580
"""CUDA 13's minimum driver (NVIDIA, "CUDA Toolkit Release Notes", table of driver versions)."""
CAPABILITY = 7.5
"""CUDA 13's minimum compute capability: Turing (the same notes, "Deprecated architectures")."""
GLIBC = (2, 28)
"""The minimum glibc of the wheels: manylinux_2_28."""
MODEL_GIB = 20
"""Llama-3.1-8B in bf16 takes 15 GiB of a GPU, before any KV cache."""


@dataclass(frozen=True)
class Needs:
    """What a build needs, in GB: disk, pip's cache, and memory while it runs."""

    disk: float
    cache: float
    memory: float


NEEDS = {
    "cpu": Needs(5.0, 1.0, 4.0),
    "gpu": Needs(14.0, 4.0, 16.0),
    "present": Needs(1.0, 0.5, 4.0),
}
"""Of an environment that has vLLM, what the suite adds."""
OTHERS = {
    "/dev/kfd": "an AMD GPU",
    "/dev/davinci_manager": "an Ascend NPU",
    "/sys/module/habanalabs": "a Gaudi",
    "/dev/rbln0": "a Rebellions NPU",
}
"""What the driver of an accelerator that neither build runs on leaves on a machine."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi lists it. None for what it does not report: the capability if the driver
    is too old, the memory if the GPU shares the machine's, anything if the GPU has a fault."""

    name: str
    driver: str | None
    memory_gib: float | None
    capability: float | None


@dataclass(frozen=True)
class Machine:
    """What was found. `asked`: why no GPUs were found, if none were."""

    architecture: str
    glibc: tuple[int, ...] | None
    disk_free: float
    cache_free: float | None
    memory: float
    gpus: tuple[Gpu, ...] = ()
    gpu_answer: str = ""
    kernel_driver: str | None = None
    compiler: bool = True
    python_headers: bool = True
    numa: bool = True
    others: tuple[str, ...] = ()


def look(folder: Path) -> Machine:
    """Examine this machine. `cache_free` is None if pip's cache is on the disk of `folder`, and
    infinite if pip keeps no cache."""
    cards, gpu_answer = _gpus()
    glibc = platform.libc_ver()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = _existing(Path(os.environ.get("PIP_CACHE_DIR") or caches / "pip"))
    same = cache.stat().st_dev == folder.stat().st_dev
    unused = os.environ.get("PIP_NO_CACHE_DIR", "").lower() in ("1", "true", "yes", "on")
    return Machine(
        platform.machine(),
        tuple(int(part) for part in glibc[1].split(".")) if glibc[0] == "glibc" else None,
        shutil.disk_usage(folder).free / 1e9,
        math.inf if unused else None if same else shutil.disk_usage(cache).free / 1e9,
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        cards,
        gpu_answer,
        _kernel_driver(),
        any(shutil.which(name) for name in ("cc", "gcc", "clang")),
        (Path(sysconfig.get_path("include")) / "Python.h").is_file(),
        _has_library("libnuma.so.1"),
        tuple(name for path, name in OTHERS.items() if Path(path).exists()),
    )


def _has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.is_dir())


def _gpus(
    run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run,
) -> tuple[tuple[Gpu, ...], str]:
    """The GPUs and, if there are none, what nvidia-smi said in a few words."""
    if not shutil.which("nvidia-smi"):
        return (), "nvidia-smi is not installed"
    for fields in (
        "name,driver_version,memory.total,compute_cap",
        "name,driver_version,memory.total",
    ):
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
        try:
            process = run(command, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return (), f"nvidia-smi failed: {error}"
        if process.returncode == 0:
            return tuple(
                filter(None, map(_gpu, process.stdout.splitlines()))
            ), "nvidia-smi lists none"
    lines = (process.stdout + process.stderr).strip().splitlines()
    return (), f"nvidia-smi says: {lines[0] if lines else 'nothing'}"


def _gpu(line: str) -> Gpu | None:
    """Parse a line. nvidia-smi writes "[N/A]", "[Unknown Error]" etc. for unknown values."""
    name, *fields = (part.strip() for part in line.split(","))
    if len(fields) < 2:
        return None
    driver, memory, *capability = fields
    memory_mib = _number(r"\d+", memory)
    return Gpu(
        name,
        driver if re.fullmatch(r"\d+(\.\d+)*", driver) else None,
        memory_mib / 1024 if memory_mib is not None else None,
        _number(r"\d+\.\d+", capability[0]) if capability else None,
    )


def _number(pattern: str, text: str) -> float | None:
    return float(text) if re.fullmatch(pattern, text) else None


def _kernel_driver() -> str | None:
    """The version of the loaded driver, which is known even without nvidia-smi."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    match = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    return match[0] if match else None


def problems(machine: Machine, build: str) -> list[str]:
    """What prevents the build on this machine, a line each."""
    needs, messages = NEEDS[build], []
    if machine.architecture != "x86_64" and build != "present":
        messages.append(
            f"the locks are for x86-64, and this machine is {machine.architecture}: "
            "run the suite on another machine and measure this one's server with --endpoint"
        )
    if build != "present" and (machine.glibc is None or machine.glibc < GLIBC):
        has = "another C library" if machine.glibc is None else "glibc " + _dotted(machine.glibc)
        messages.append(
            f"the wheels need glibc {_dotted(GLIBC)} or newer, and this system has {has}: "
            "use a newer distribution or the image (docs/docker.md)"
        )
    disk = needs.disk + (needs.cache if machine.cache_free is None else 0.0)
    if machine.disk_free < disk:
        messages.append(
            f"the {build} build needs {disk:.0f} GB of disk while it installs, and this folder's "
            f"has {machine.disk_free:.1f} GB free: free some, or clone to a larger disk"
        )
    if machine.cache_free is not None and machine.cache_free < needs.cache:
        messages.append(
            f"pip's cache takes {needs.cache:.0f} GB, and its disk has {machine.cache_free:.1f} GB "
            "free: free some, or set PIP_CACHE_DIR, or PIP_NO_CACHE_DIR=1"
        )
    if build == "gpu":
        messages.extend(_gpu_problems(machine))
    elif build == "cpu" and not machine.numa:
        messages.append("vLLM's CPU build needs libnuma.so.1: apt-get install libnuma1")
    return messages


def _gpu_problems(machine: Machine) -> list[str]:
    messages = []
    drivers = [gpu.driver for gpu in machine.gpus if gpu.driver]
    driver = drivers[0] if drivers else machine.kernel_driver
    if driver and int(driver.split(".")[0]) < DRIVER:
        messages.append(
            f"the gpu build needs CUDA 13 and with it driver {DRIVER} or newer, and this machine "
            f"has {driver}: update the driver, or install cuda-compat-13-0 on a data-center GPU"
        )
    for gpu in machine.gpus:
        if gpu.capability is not None and gpu.capability < CAPABILITY:
            messages.append(
                f"{gpu.name} has compute capability {gpu.capability}, and CUDA 13 needs "
                f"{CAPABILITY} (Turing) or newer: use a newer GPU, or BUILD=cpu"
            )
    return messages


def notes(machine: Machine, build: str) -> list[str]:
    """What does not stop the set-up but affects runs, a line each."""
    messages = []
    if machine.memory < NEEDS[build].memory:
        messages.append(
            f"{machine.memory:.0f} GB of memory: a run of the {build} build needs "
            f"{NEEDS[build].memory:.0f} GB"
        )
    if build == "present":
        return messages
    if machine.others:
        messages.append(
            f"there is {' and '.join(machine.others)}, and the {build} build does not use it: take "
            "vLLM for it, such as its vendor's image, and VLLM=present make setup "
            "(docs/accelerators.md)"
        )
    if build == "cpu":
        if machine.gpus:
            messages.append(
                f"there is a GPU, {machine.gpus[0].name}, and the cpu build does not use it: "
                "BUILD=gpu make setup"
            )
        return messages
    if not machine.gpus:
        messages.append(
            f"no GPU of NVIDIA's was found ({machine.gpu_answer}): the gpu build installs here and "
            "runs where there is one; without one use BUILD=cpu"
        )
    sizes = {gpu.memory_gib: gpu.name for gpu in machine.gpus if gpu.memory_gib is not None}
    if sizes and max(sizes) < MODEL_GIB:
        messages.append(
            f"{sizes[max(sizes)]} has {max(sizes):.0f} GiB: llama3.1-8b in bf16 needs "
            f"{MODEL_GIB} or several GPUs that share it (--tensor-parallel-size)"
        )
    if not (machine.compiler and machine.python_headers):
        part = "C compiler" if not machine.compiler else "Python.h"
        messages.append(
            f"no {part}, which Triton and FlashInfer need when vLLM starts: "
            f"apt-get install gcc g++ python{sys.version_info[0]}.{sys.version_info[1]}-dev"
        )
    return messages


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def main(arguments: list[str]) -> int:
    """Print the lines; return 1 if there is a problem."""
    build = arguments[0]
    machine = look(Path.cwd())
    bad = problems(machine, build)
    for line in bad:
        print(f"set-up: does not fit: {line}", file=sys.stderr)
    for line in notes(machine, build):
        print(f"set-up: note: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
