"""The fingerprint of a model's files: of the same files the same, of others another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlperf_suite.engines.model_files import model_files_sha256


def model(folder: Path, *, size: int = 10_000_000) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"hidden_size": 576}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(size))
    return folder


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


@pytest.mark.parametrize(
    ("name", "place"), [("config.json", 2), ("model.safetensors", 0), ("model.safetensors", -1)]
)
def test_another_byte_is_another_model(two: tuple[Path, Path], name: str, place: int) -> None:
    model_a, model_b = two
    content = bytearray((model_b / name).read_bytes())
    content[place] ^= 1
    (model_b / name).write_bytes(content)
    assert model_files_sha256(str(model_a)) != model_files_sha256(str(model_b))


@pytest.mark.parametrize("size", [9_999_999, 10_000_001, 0])
def test_another_size_is_another_model(tmp_path: Path, size: int) -> None:
    model_a, model_b = model(tmp_path / "a"), model(tmp_path / "b", size=size)
    assert model_files_sha256(str(model_a)) != model_files_sha256(str(model_b))


def test_weights_that_were_trained_further_differ(two: tuple[Path, Path]) -> None:
    model_a, model_b = two
    (model_b / "model.safetensors").write_bytes(os.urandom(10_000_000))
    assert model_files_sha256(str(model_a)) != model_files_sha256(str(model_b))


def test_a_file_under_another_name_is_another_model(two: tuple[Path, Path]) -> None:
    model_a, model_b = two
    (model_b / "tokenizer.json").rename(model_b / "special.json")
    assert model_files_sha256(str(model_a)) != model_files_sha256(str(model_b))


def test_what_is_not_here_has_none(tmp_path: Path) -> None:
    for name in (str(tmp_path), str(tmp_path / "nowhere"), "nobody/nothing-7b", "plain", "a/b/c"):
        assert model_files_sha256(name) is None
