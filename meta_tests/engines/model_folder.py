"""A folder with the files of a model, of no use as one."""

from pathlib import Path

SIZE = 10_000_000
"""Of its weights, in bytes."""


def model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"hidden_size": 576}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(SIZE))
    return folder
