"""The fingerprint of a model's files: of the same files the same, of others another."""

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


def write(content: bytes) -> Change:
    return lambda folder: (folder / "model.safetensors").write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "config.json").write_text('{"hidden_size": 577}'),
        # One byte at the first and at the last place, another size, and all trained further.
        write(b"\1" + bytes(SIZE - 1)),
        write(bytes(SIZE - 1) + b"\1"),
        write(bytes(SIZE - 1)),
        write(b""),
        write(os.urandom(SIZE)),
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
