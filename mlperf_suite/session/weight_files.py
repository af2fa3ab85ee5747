"""What a model's files show before an engine is loaded: that weights are missing or not whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
"""What transformers writes beside weights in several files."""
_PATTERNS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
"""Of weight files; an engine reads those of the first kind that is there."""
_POINTER = b"version https://git-lfs"
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
"""Of a safetensors file, as its library has it."""


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
    faults = ((name, _fault(folder / name)) for name in names)
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


def _fault(path: Path) -> str:
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
