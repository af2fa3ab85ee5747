"""The manifests in kubernetes/ against the schemas that Kubernetes, KubeRay and JobSet publish."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from evidence.from_elsewhere import KUBERNETES_SCHEMAS, needs_kubernetes_schemas
from evidence.kubernetes import kubernetes_schemas
from evidence.kubernetes.manifests import objects, pods

OBJECTS = objects()
BY_NAME = pytest.mark.parametrize("name", OBJECTS)


@needs_kubernetes_schemas
@BY_NAME
def test_the_published_schemas_take_it(name: str) -> None:
    assert kubernetes_schemas.errors(KUBERNETES_SCHEMAS, OBJECTS[name]) == []


def spoiled(manifest: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The object with an unknown field, or a value of another type, in one place after another."""
    damaged = copy.deepcopy(manifest)
    damaged["spec"]["colour"] = "blue"
    yield damaged
    damaged = copy.deepcopy(manifest)
    damaged["metadata"]["labels"] = ["blue"]
    yield damaged
    for count in range(len([*pods(manifest)])):
        damaged = copy.deepcopy(manifest)
        [*pods(damaged)][count]["spec"]["containers"][0]["resource"] = {}
        yield damaged
        damaged = copy.deepcopy(manifest)
        [*pods(damaged)][count]["spec"]["containers"][0]["image"] = 7
        yield damaged


@needs_kubernetes_schemas
@BY_NAME
def test_the_published_schemas_would_refuse_it_otherwise(name: str) -> None:
    for damaged in spoiled(OBJECTS[name], name):
        assert kubernetes_schemas.errors(KUBERNETES_SCHEMAS, damaged)


def test_a_schema_is_made_strict() -> None:
    schema = {
        "type": "object",
        "properties": {
            "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
            "free": {
                "type": "object",
                "properties": {},
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "format": {"type": "string", "nullable": True, "format": "date"},
        },
    }
    manifest = kubernetes_schemas.strict(schema)
    assert manifest["additionalProperties"] is False
    assert manifest["properties"]["port"] == {"type": ["string", "integer"]}
    assert "additionalProperties" not in manifest["properties"]["free"]
    assert manifest["properties"]["labels"]["additionalProperties"] == {"type": "string"}
    assert manifest["properties"]["format"] == {"type": ["string", "null"]}
