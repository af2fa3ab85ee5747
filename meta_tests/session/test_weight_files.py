"""Weight files that are not whole are named before an engine is loaded."""

import json
from pathlib import Path

import pytest

from mlperf_suite.session.weight_files import weight_fault

HEADER = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
WHOLE = len(HEADER).to_bytes(8, "little") + HEADER + bytes(8)
ONE, OTHER = "model-1-of-2.safetensors", "model-2-of-2.safetensors"
INDEX = json.dumps({"weight_map": {"a": ONE, "b": OTHER}}).encode()
INDEX_NAME = "model.safetensors.index.json"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
FOLDERS: dict[str, tuple[dict[str, bytes], str]] = {
    "whole": ({"model.safetensors": WHOLE}, ""),
    "indexed": ({INDEX_NAME: INDEX, ONE: WHOLE, OTHER: WHOLE}, ""),
    "no weights": ({"config.json": b"{}"}, "no weights: none of *.safetensors, "),
    "no shard": ({INDEX_NAME: INDEX, ONE: WHOLE}, f"names 2 files, and {OTHER} is missing"),
    "no index": ({INDEX_NAME: POINTER}, f"{INDEX_NAME}: a Git LFS pointer"),
    "pointer": ({"model.safetensors": POINTER}, "model.safetensors: a Git LFS pointer"),
    "a pickle's": ({"pytorch_model.bin": POINTER}, "pytorch_model.bin: a Git LFS pointer"),
    "one byte": ({"model.safetensors": WHOLE[:-1]}, f"says {len(WHOLE)}"),
    "header": ({"model.safetensors": WHOLE[:40]}, "ends before its header does"),
    "empty": ({"model.safetensors": b""}, "ends before its header does"),
    "no header": ({"model.safetensors": WHOLE.replace(b"{", b"[")}, "header cannot be read"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_wrong_with_a_folders_weights(tmp_path: Path, name: str) -> None:
    files, words = FOLDERS[name]
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    fault = weight_fault(tmp_path)
    assert words in fault and bool(words) == bool(fault)
