"""Reads the folders and YAML files of a submission's tree; no content makes it raise."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mlperf_suite.judging.reading import read_bytes

MALFORMED: tuple[type[Exception], ...] = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What content of other types than expected causes."""


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder; empty if it cannot be read."""
    try:
        return [path for path in folder.iterdir() if path.is_dir()]
    except OSError:
        return []


def file_names(folder: Path) -> frozenset[str] | None:
    """The names of the files in a folder; None if it cannot be read."""
    try:
        return frozenset(path.name for path in folder.iterdir() if path.is_file())
    except OSError:
        return None


def text_of(content: bytes | None) -> str | None:
    """The text, if there is one in UTF-8."""
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def is_utf8(path: Path) -> bool:
    """Whether the file, if it can be read, is UTF-8; the official checker ends at any other."""
    raw = read_bytes(path)
    return raw is None or text_of(raw) is not None


_MAX_YAML_BYTES, _MAX_MEMBERS = 2**18, 10_000


class _YamlLoader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    def flatten_mapping(self, node: Any) -> None:
        """Raises ValueError for more members than anybody writes: merged members double in a
        line."""
        super().flatten_mapping(node)
        if len(node.value) > _MAX_MEMBERS:
            raise ValueError(f"more than {_MAX_MEMBERS:,} members")


def read_yaml(path: Path) -> tuple[Any, str]:
    """The content of a YAML file and "", or None and why it cannot be read."""
    text = text_of(read_bytes(path))
    if text is None or len(text) > _MAX_YAML_BYTES:
        return None, f"{path.name} is not text in UTF-8 of at most {_MAX_YAML_BYTES:,} characters"
    try:
        # PyYAML raises most kinds of errors for tags whose value does not fit.
        return yaml.load(text, _YamlLoader), ""  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, *MALFORMED):
        return None, f"{path.name} is not YAML"


def yaml_text(content: Mapping[str, Any]) -> str:
    """The content as YAML, with its members in their order."""
    text: str = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    return text


def size_of(path: Path) -> int:
    """The file's size in bytes; 0 if there is no file."""
    try:
        status = path.stat()
    # ValueError: as in `read_bytes`.
    except (OSError, ValueError):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
