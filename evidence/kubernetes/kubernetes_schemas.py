"""Kubernetes objects against the published schemas, more strictly than an API server checks them.

A folder has Kubernetes' own OpenAPI document and the definitions of RayCluster and JobSet, under
the names that they are published by. Unknown fields are refused everywhere, which the schemas alone
leave open. What they say in CEL (`x-kubernetes-validations`) is not checked.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

OPENAPI = "swagger.json"
"""https://github.com/kubernetes/kubernetes, api/openapi-spec/swagger.json"""
DEFINITIONS = {"RayCluster": "ray.io_rayclusters.yaml", "JobSet": "jobset.x-k8s.io_jobsets.yaml"}
"""https://github.com/ray-project/kuberay, ray-operator/config/crd/bases, and
https://github.com/kubernetes-sigs/jobset, config/components/crd/bases."""
OWN = {
    ("batch/v1", "Job"): "io.k8s.api.batch.v1.Job",
    ("networking.k8s.io/v1", "NetworkPolicy"): "io.k8s.api.networking.v1.NetworkPolicy",
    ("v1", "PersistentVolumeClaim"): "io.k8s.api.core.v1.PersistentVolumeClaim",
}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_NUMBER_OR_TEXT = {"type": ["string", "number"]}
_FREE = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _NUMBER_OR_TEXT,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
}


def strict(schema: Any) -> Any:
    """An OpenAPI v3 or v2 schema of Kubernetes' as JSON Schema that refuses unknown fields."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    strict_schema = {
        key: {name: strict(item) for name, item in value.items()}
        if key == "properties"
        else strict(value)
        for key, value in schema.items()
        if not key.startswith("x-") and key not in ("description", "format", "default")
    }
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if (
        "properties" in strict_schema
        and "additionalProperties" not in strict_schema
        and not open_ended
    ):
        strict_schema["additionalProperties"] = False
    if strict_schema.pop("nullable", False) and isinstance(strict_schema.get("type"), str):
        strict_schema["type"] = [strict_schema["type"], "null"]
    return strict_schema


@cache
def _openapi(folder: Path) -> dict[str, Any]:
    definitions = json.loads((folder / OPENAPI).read_text())["definitions"]
    return {name: _FREE.get(name) or strict(schema) for name, schema in definitions.items()}


@cache
def _validator(folder: Path, version: str, kind: str) -> Draft202012Validator:
    definitions = _openapi(folder)
    if (version, kind) in OWN:
        schema: dict[str, Any] = {"$ref": f"#/definitions/{OWN[version, kind]}"}
    else:
        crd = yaml.safe_load((folder / DEFINITIONS[kind]).read_text())
        group, _, version_name = version.partition("/")
        assert crd["spec"]["group"] == group and crd["spec"]["names"]["kind"] == kind
        (of_version,) = [item for item in crd["spec"]["versions"] if item["name"] == version_name]
        assert of_version["served"]
        schema = strict(of_version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"$ref": f"#/definitions/{_META}"}
    return Draft202012Validator({**schema, "definitions": definitions})


def errors(folder: Path, strict_schema: dict[str, Any]) -> list[str]:
    """What the schemas of this folder have against an object, a line each."""
    validator = _validator(folder, strict_schema["apiVersion"], strict_schema["kind"])
    return [
        f"{'.'.join(map(str, item.absolute_path))}: {item.message[:300]}"
        for item in validator.iter_errors(strict_schema)
    ]
