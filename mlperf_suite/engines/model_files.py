"""What a model's files show before an engine is loaded: whether the weights are there and whole,
and a fingerprint, by which two machines have the same or not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

MODEL_FILES = "model_files_sha256"
"""Its key among the settings of an engine's description."""
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_DESCRIBED = (".json", ".model", ".jinja")
_BLOCKS, _BLOCK = 64, 64 * 1024
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
"""What transformers writes beside weights in several files."""
_PATTERNS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
"""Of weight files; an engine reads those of the first kind that is there."""
_POINTER = b"version https://git-lfs"
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
"""Of a safetensors file, as its library has it."""


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


def weight_fault(folder: Path) -> str:
    """Why the weights in a model's folder cannot be loaded, in a few words; "" if nothing shows it.

    Reads the index and the files' headers, not the weights.
    """
    names, index = _weight_files(folder)
    if not names:
        return f"no weights: none of {', '.join(_PATTERNS)}"
    absent = [name for name in names if not (folder / name).is_file()]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        return f"{index} names {len(names)} files, and {absent[0]}{more} is missing"
    faults = ((name, _file_fault(folder / name)) for name in names)
    return next((f"{name}: {fault}" for name, fault in faults if fault), "")


def _weight_files(folder: Path) -> tuple[Sequence[str], str]:
    """The names of the weight files, and the index that has them, empty if none does."""
    for index in _INDEXES:
        try:
            files = json.loads((folder / index).read_bytes())["weight_map"].values()
            return sorted({str(name) for name in files}), index
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return [index], index
    found = (sorted(path.name for path in folder.glob(pattern)) for pattern in _PATTERNS)
    return next(filter(None, found), []), ""


def _file_fault(path: Path) -> str:
    """Why a weight file is not whole; "" if it is."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(len(_POINTER))
        if start == _POINTER:
            return "a Git LFS pointer, not the weights: git lfs pull fetches them"
        if path.suffix == ".json":
            return "not an index of weight files"
        if path.suffix != ".safetensors":
            return "" if size else "empty"
        length = int.from_bytes(start[:_LENGTH_BYTES], "little")
        if size < _LENGTH_BYTES or length > min(size - _LENGTH_BYTES, _MAX_HEADER_BYTES):
            return "not a whole safetensors file: it ends before its header does"
        file.seek(_LENGTH_BYTES)
        header = file.read(length)
    try:
        tensors = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        whole = _LENGTH_BYTES + length + max((t["data_offsets"][1] for t in tensors), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return "not a safetensors file: its header cannot be read"
    return "" if size == whole else f"{size:,} bytes, and its header says {whole:,}"
