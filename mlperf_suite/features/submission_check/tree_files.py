"""Reads the folders and YAML files of a submission's tree; no content makes it raise."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mlperf_suite.judging.reading import read_bytes
from mlperf_suite.untrusted_files import AnyPath

MALFORMED: tuple[type[Exception], ...] = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What content of other types than expected causes."""


def names_in(folder: AnyPath) -> list[str]:
    """The names in a folder, in order; empty if it cannot be read."""
    try:
        return sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []


def folder_names(folder: AnyPath) -> list[str]:
    """The names of the folders in a folder; empty if it cannot be read."""
    try:
        return [entry.name for entry in os.scandir(folder) if _is_folder(entry)]
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    # A link may lead to itself, for which an entry raises OSError.
    return Path(entry.path).is_dir() if entry.is_symlink() else entry.is_dir()


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder; empty if it cannot be read."""
    return [folder / name for name in folder_names(folder)]


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


def is_utf8(path: AnyPath) -> bool:
    """Whether the file, if it can be read, is UTF-8; the official checker ends at any other."""
    raw = read_bytes(path)
    return raw is None or text_of(raw) is not None


_MAX_YAML_BYTES, _MAX_MEMBERS = 2**18, 10_000


_MAX_DEPTH = 100
"""libyaml's loader descends on the C stack, which ends the process at some thousands."""


class _FewMembers:
    def flatten_mapping(self, node: Any) -> None:
        """Raises ValueError for more members than anybody writes: merged members double in a
        line."""
        super().flatten_mapping(node)  # type: ignore[misc]  # of yaml's constructor
        if len(node.value) > _MAX_MEMBERS:
            raise ValueError(f"more than {_MAX_MEMBERS:,} members")


class _YamlLoader(_FewMembers, yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    """As the official checker reads YAML."""


class _QuickLoader(_FewMembers, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """By libyaml, where PyYAML was built with it."""


def _yaml_content(text: str) -> Any:
    """Raises whatever PyYAML raises."""
    # libyaml takes tabs that PyYAML refuses; what it refuses itself, PyYAML may take.
    if "\t" not in text:
        with contextlib.suppress(yaml.YAMLError, *MALFORMED):
            if _depth(text) <= _MAX_DEPTH:
                return yaml.load(text, _QuickLoader)  # noqa: S506 - a SafeLoader
    return yaml.load(text, _YamlLoader)  # noqa: S506 - a SafeLoader


def _depth(text: str) -> int:
    """How deep its lists and mappings are nested, at most one deeper than `_MAX_DEPTH`."""
    depth = deepest = 0
    for event in yaml.parse(text, _QuickLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        deepest = max(deepest, depth)
        if deepest > _MAX_DEPTH:
            break
    return deepest


def read_yaml(path: Path) -> tuple[Any, str]:
    """The content of a YAML file and "", or None and why it cannot be read."""
    text = text_of(read_bytes(path))
    if text is None or len(text) > _MAX_YAML_BYTES:
        return None, f"{path.name} is not text in UTF-8 of at most {_MAX_YAML_BYTES:,} characters"
    try:
        # PyYAML raises most kinds of errors for tags whose value does not fit.
        return _yaml_content(text), ""
    except (yaml.YAMLError, *MALFORMED):
        return None, f"{path.name} is not YAML"


def yaml_text(content: Mapping[str, Any]) -> str:
    """The content as YAML, with its members in their order."""
    text: str = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    return text


def size_of(path: AnyPath) -> int:
    """The file's size in bytes; 0 if there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a path's own takes twice as long
    # ValueError: as in `read_bytes`.
    except (OSError, ValueError):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
