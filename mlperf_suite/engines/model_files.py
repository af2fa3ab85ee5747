"""A fingerprint of a model's files, which shows whether two machines have the same weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

MODEL_FILES = "model_files_sha256"
"""Its key among the settings of an engine's description."""
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_DESCRIBED = (".json", ".model", ".jinja")
_BLOCKS, _BLOCK = 64, 64 * 1024


def model_files_sha256(model: str) -> str | None:
    """The SHA-256 of a model's settings and tokenizer, read whole, and of 64 blocks of 64 KiB of
    each file of weights, with its name and size; None if its files are not on this machine.

    It takes a second for hundreds of gigabytes, and weights that were trained further differ in
    every block. `model`: a folder, or a hub id, whose files are in the hub's cache.
    """
    folder = _folder_of(model)
    if folder is None:
        return None
    digest, any_file = hashlib.sha256(), False
    try:
        # Only the folder itself: some repositories repeat the weights in another format below it.
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            if path.suffix in (*_WEIGHTS, *_DESCRIBED):
                any_file = True
                digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
                for block in _read(path, whole=path.suffix in _DESCRIBED):
                    digest.update(block)
    except OSError:
        return None
    return digest.hexdigest() if any_file else None


def weights_bytes(model: str) -> int | None:
    """The size of a model's files of weights in bytes; None if its files are not on this machine.
    `model`: as above."""
    folder = _folder_of(model)
    if folder is None:
        return None
    files = [path for path in folder.iterdir() if path.is_file()]
    if not any(path.suffix in (*_WEIGHTS, *_DESCRIBED) for path in files):
        return None
    return sum(path.stat().st_size for path in files if path.suffix in _WEIGHTS)


def _read(path: Path, *, whole: bool) -> Iterator[bytes]:
    size = path.stat().st_size
    # The last block is at the end of the file, where a file that grew differs.
    last = max(size - _BLOCK, 0)
    with path.open("rb") as file:
        if whole or size <= _BLOCKS * _BLOCK:
            yield file.read()
            return
        for number in range(_BLOCKS):
            file.seek(last * number // (_BLOCKS - 1))
            yield file.read(_BLOCK)


def _folder_of(model: str) -> Path | None:
    if model and Path(model).is_dir():
        return Path(model)
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        return None
    from huggingface_hub import try_to_load_from_cache

    try:
        path = try_to_load_from_cache(model, "config.json")
    except ValueError:
        # Not the name of a repository.
        return None
    return Path(path).parent if isinstance(path, str) else None
