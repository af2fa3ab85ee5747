"""The manifests in kubernetes/: their objects and the pods in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from meta_tests.suite_runs import ROOT

FOLDER = ROOT / "kubernetes"


def objects() -> dict[str, dict[str, Any]]:
    """Every object, by its kind and name."""
    manifests = [
        manifest
        for path in sorted(FOLDER.glob("*.yaml"))
        for manifest in yaml.safe_load_all(path.open())
    ]
    by_name = {
        f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in manifests
    }
    assert len(by_name) == len(manifests)
    return by_name


def pods(node: Any) -> Iterator[dict[str, Any]]:
    """Every pod's template (metadata and spec) within an object."""
    if isinstance(node, dict):
        if "containers" in node.get("spec", {}):
            yield node
        for value in node.values():
            yield from pods(value)
    elif isinstance(node, list):
        for value in node:
            yield from pods(value)
