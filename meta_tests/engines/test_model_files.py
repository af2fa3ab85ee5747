"""The fingerprint of a model's files: of the same files the same, of others another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_tests.engines.model_folder import SIZE, model
from mlperf_suite.engines.model_files import model_files_sha256, weights_bytes

Change = Callable[[Path], object]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return model(tmp_path / "a"), model(tmp_path / "b")


def test_the_same_files_elsewhere_are_the_same(two: tuple[Path, Path]) -> None:
    model_a, model_b = two
    (model_b / "README.md").write_text("of no matter")
    (model_b / "original").mkdir()
    (model_b / "original" / "model.bin").write_text("the same in another format")
    fingerprint = model_files_sha256(str(model_a))
    assert fingerprint is not None and len(fingerprint) == 64
    assert model_files_sha256(str(model_b)) == fingerprint


def flip(name: str, place: int) -> Change:
    """Another byte at this place of a file."""

    def change(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[place] ^= 1
        (folder / name).write_bytes(content)

    return change


@pytest.mark.parametrize(
    "change",
    [
        flip("config.json", 2),
        flip("model.safetensors", 0),
        flip("model.safetensors", -1),
        # Weights of another size, and those that were trained further.
        lambda folder: (folder / "model.safetensors").write_bytes(bytes(SIZE - 1)),
        lambda folder: (folder / "model.safetensors").write_bytes(bytes(SIZE + 1)),
        lambda folder: (folder / "model.safetensors").write_bytes(b""),
        lambda folder: (folder / "model.safetensors").write_bytes(os.urandom(SIZE)),
        lambda folder: (folder / "tokenizer.json").rename(folder / "special.json"),
    ],
)
def test_any_change_makes_another_model(two: tuple[Path, Path], change: Change) -> None:
    model_a, model_b = two
    change(model_b)
    assert model_files_sha256(str(model_a)) != model_files_sha256(str(model_b))


def test_what_is_not_here_has_neither_fingerprint_nor_weights(tmp_path: Path) -> None:
    names = [str(tmp_path), str(tmp_path / "nowhere"), "nobody/nothing-7b", "plain", "a/b/c"]
    for name in [*names, "no repository at all!"]:
        assert model_files_sha256(name) is weights_bytes(name) is None
