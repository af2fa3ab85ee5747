"""vLLM's surroundings: environment variables, devices, its output, and the errors in its log."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mlperf_suite import IS_CLONE
from mlperf_suite.engines.protocol import Profiler
from mlperf_suite.errors import EngineError, one_line
from mlperf_suite.hardware import accelerators
from mlperf_suite.secrets import redact

_CPU_KV_CACHE_GIB = "2"
"""The CPU build's KV cache holds 93,000 tokens of the embedded model and fits a laptop."""
_ERROR_LINE = re.compile(r"\b[A-Za-z_.]*(?:Error|Exception): \S.*")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NO_DEVICE = re.compile(r"Device string must not be empty|Failed to infer device type")
"""The words in which vLLM's GPU build reports that there is no GPU."""
_LSCPU = ("lscpu", "--json", "--extended=CPU,CORE,NODE", "--online")
"""The query that vLLM's CPU worker makes when it starts (vllm/utils/cpu_resource_utils.py)."""

_MAX_FOLDER_LENGTH = 107 - len("/00000000-0000-0000-0000-000000000000")
"""Of a socket named as vLLM does; 107: the longest path of a socket, in bytes (unix(7))."""


@contextlib.contextmanager
def vllm_environment(
    model: str, profiler: Profiler | None = None, sockets: str = ""
) -> Iterator[None]:
    """Set the variables that vLLM reads while it loads; restore them and the signal handlers.

    `model`: a hub id or a folder. `sockets`: a folder for its processes' sockets, which vLLM leaves
    behind; "" is vLLM's own, the system's folder for temporary files.
    """
    # Late: forecasts ask this file for vLLM's build, and need no psutil.
    from mlperf_suite.engines.hang_detector import handlers_kept

    variables = vllm_variables(model, profiler)
    if "VLLM_RPC_BASE_PATH" not in os.environ and 0 < len(sockets) <= _MAX_FOLDER_LENGTH:
        variables["VLLM_RPC_BASE_PATH"] = sockets
    logging.getLogger("vllm").setLevel(os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"))
    os.environ.update(variables)
    try:
        with handlers_kept():
            yield
    finally:
        for name in variables:
            os.environ.pop(name, None)


def vllm_variables(model: str, profiler: Profiler | None = None) -> dict[str, str]:
    """The environment variables that vLLM reads while it loads, without variables that the user has
    set.

    `model`: a hub id or a folder.
    """
    defaults = {
        # By default, vLLM leaves every second core of this kind of machine idle.
        "VLLM_CPU_OMP_THREADS_BIND": allowed_cpus(),
        "VLLM_CPU_KVCACHE_SPACE": _CPU_KV_CACHE_GIB,
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        # This process has threads, so its children must not be forked.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if Path(model).is_dir():
        defaults["HF_HUB_OFFLINE"] = "1"
    if profiler == "cuda":
        # vLLM's own ranges, in addition to the suite's.
        defaults["VLLM_NVTX_SCOPES_FOR_PROFILING"] = "1"
    if not shutil.which("g++") and is_cpu_build():
        # Even in eager mode, vLLM compiles the code that counts log-probabilities, which needs a
        # compiler here.
        defaults["TORCHDYNAMO_DISABLE"] = "1"
    return {name: value for name, value in defaults.items() if name not in os.environ}


def allowed_cpus() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


@contextlib.contextmanager
def cpu_list() -> Iterator[None]:
    """Provide a program `lscpu` that answers vLLM's CPU worker, if the system has none.

    It is missing on a system without util-linux and fails without /sys (a sandbox, a chroot); the
    worker would end with its error. The replacement lists each CPU as a core of its own on the
    first memory node, as vLLM does if lscpu knows no more.
    """
    if not runs_on_cpu() or _lists_cpus():
        yield
        return
    before = os.environ.get("PATH", os.defpath)
    cpus = [{"cpu": n, "core": n, "node": 0} for n in sorted(os.sched_getaffinity(0))]
    with tempfile.TemporaryDirectory(prefix="lscpu-") as folder:
        program = Path(folder) / "lscpu"
        program.write_text(f"#!/bin/sh\necho '{json.dumps({'cpus': cpus})}'\n")
        program.chmod(0o755)
        os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
        try:
            yield
        finally:
            os.environ["PATH"] = before


def _lists_cpus() -> bool:
    try:
        subprocess.run(_LSCPU, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@contextlib.contextmanager
def output_to(log_file: Path | None) -> Iterator[None]:
    """Send the output of vLLM's processes, which inherit it, to a file."""
    if log_file is None:
        yield
        return
    log_file.parent.mkdir(parents=True, exist_ok=True)
    file = log_file.open("a")
    copies = [(number, os.dup(number)) for number in (1, 2)]
    for number, _ in copies:
        os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, copy in copies:
            os.dup2(copy, number)
            os.close(copy)
        file.close()


@contextlib.contextmanager
def loggers_to(log_file: Path | None) -> Iterator[None]:
    """Send what vLLM's loggers in this process say to a file, now and later."""
    if log_file is None:
        yield
        return
    try:
        import vllm.logger  # noqa: F401 - sets up the loggers that are redirected below
    except ImportError as error:
        raise import_failure(error) from error
    handler = logging.FileHandler(log_file)
    _log_only_to(handler)
    try:
        yield
    finally:
        # vLLM sets up its loggers again while it loads.
        _log_only_to(handler)


def _log_only_to(handler: logging.Handler) -> None:
    logger = logging.getLogger("vllm")
    logger.propagate = False
    logger.handlers = [handler]


def is_cpu_build() -> bool:
    """Whether vLLM is its CPU build, as it tells its builds apart (vllm/platforms/__init__.py), but
    without importing it; False if it is not installed."""
    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            return "cpu" in f"{name} {version(name)}"
    return False


def runs_on_cpu() -> bool:
    try:
        from vllm.platforms import current_platform
    except ImportError as error:
        raise import_failure(error) from error
    return bool(current_platform.is_cpu())


def visible_gpus() -> int:
    """The accelerators that vLLM can use. Raises EngineError if there are none."""
    import torch
    from vllm.platforms import current_platform

    count = torch.accelerator.device_count() if current_platform.device_type else 0
    # torch may not know what a plugin of vLLM runs on.
    count = count or sum(bool(device.platform) for device in accelerators())
    if not count:
        raise EngineError(no_usable_gpu())
    return count


def no_usable_gpu() -> str:
    """One line saying that the GPU build of vLLM finds no GPU, the checks and what to do."""
    import torch

    cuda = f"CUDA {torch.version.cuda}" if torch.version.cuda else "its runtime"
    gpus = accelerators()
    if gpus:
        names = ", ".join(sorted({gpu.name for gpu in gpus}))
        state = f"the driver lists {names} (driver {gpus[0].driver}) and {cuda} can use none"
    else:
        state = f"neither the driver (NVML, libnvidia-ml.so.1) nor {cuda} lists one"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        state += f", with CUDA_VISIBLE_DEVICES={hidden}"
    check = "nvidia-smi lists the GPU and a driver that is new enough (CUDA 13: 580)"
    devices = "--gpus all"
    if getattr(torch.version, "hip", None) or getattr(torch.version, "xpu", None):
        check, devices = "amd-smi or xpu-smi lists the GPU", "its devices (docs/accelerators.md)"
    return (
        f"no usable GPU: this is the GPU build of vLLM, and {state}; check that {check}, start a "
        f"container with {devices}, or install the CPU build with `BUILD=cpu make setup`"
    )


def import_failure(error: ImportError) -> EngineError:
    remedy = "run `make clean` and `make setup`"
    if not IS_CLONE:
        remedy = "install vllm into this environment, or measure a server with --endpoint"
    return EngineError(f"vLLM cannot be imported ({one_line(error)}): {remedy}")


def last_error(log_file: Path) -> str | None:
    """The last error in a log of vLLM, as one line; None if there is none."""
    try:
        lines = log_file.read_text(errors="replace").splitlines()
    except OSError:
        return None
    error = ""
    for number, line in enumerate(lines):
        match = _ERROR_LINE.search(_COLOURS.sub("", line))
        # vLLM's last error often only points to the first one.
        if match and not _only_points(line):
            # pydantic puts the error on its own line, and the reason on the indented line after it.
            rest = itertools.takewhile(lambda text: text[:1].isspace(), lines[number + 1 :])
            error = " ".join([match[0], *map(str.strip, rest)])
    if _NO_DEVICE.search(error):
        return no_usable_gpu()
    # Redact before cutting: part of a key would no longer be recognized.
    return redact(error)[:300] or None


def root_cause(error: BaseException, log_file: Path | None) -> str:
    """The error in one line; the log's last one if vLLM only refers to an earlier error."""
    text = one_line(error)
    if _NO_DEVICE.search(text):
        return no_usable_gpu()
    if not _only_points(text) or log_file is None:
        return text
    return last_error(log_file) or text


def _only_points(text: str) -> bool:
    """Whether an error of vLLM only refers to an error written before it."""
    return "root cause" in text or "EngineCore encountered an issue" in text
