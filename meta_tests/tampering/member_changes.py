"""Changes of members in a file of JSON or YAML, by their paths, which may be taken back."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

GONE = object()
"""Stands for a member, or a file, that is not there."""
FileChange = Mapping[str, Any] | Callable[[str], str] | str | object
"""By paths of members, their new values or functions of the old; or a file's text, a function of
the old text, or GONE. A path is of names with dots between them, or slashes if a name has dots."""


def change_file(path: Path, change: FileChange) -> None:
    if change is GONE:
        path.unlink()
    elif isinstance(change, str):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(change)
    elif callable(change):
        path.write_text(change(path.read_text()))
    else:
        assert isinstance(change, Mapping)
        is_yaml = path.suffix == ".yaml"
        content = yaml.safe_load(path.read_text()) if is_yaml else json.loads(path.read_text())
        for name, new in change.items():
            _set(content, name, new)
        path.write_text(yaml.safe_dump(content) if is_yaml else json.dumps(content))


def _set(content: Any, name: str, new: Any) -> None:
    *parents, last = name.split("/") if "/" in name else name.split(".")
    for parent in parents:
        content = content[int(parent) if isinstance(content, list) else parent]
    if new is GONE:
        del content[last]
    else:
        content[last] = new(content[last]) if callable(new) else new


@contextmanager
def kept(*paths: Path) -> Iterator[None]:
    """Put files back as they were, or take them away if they were not there."""
    texts = {path: path.read_bytes() if path.exists() else None for path in paths}
    try:
        yield
    finally:
        for path, text in texts.items():
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(text)


def times(factor: float) -> Callable[[Any], Any]:
    return lambda value: type(value)(value * factor)


def scaled(factor: float) -> Callable[[Any], Any]:
    """Every figure of a series but counts, in all of its members."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {n: v if n == "counts" else change(v) for n, v in value.items()}
        if isinstance(value, list):
            return [change(v) for v in value]
        return None if value is None else value * factor

    return change
