"""Which replicas the options ask for, and which options ask for none."""

from __future__ import annotations

from typing import Any

import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.features.replicas.options import OPTIONS
from mlperf_suite.settings import resolve_settings


def resolve(environment: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    return dict(resolve_settings(options, environment or {}).of_features)


def test_a_ray_cluster_is_asked_for_as_many_replicas_as_it_holds() -> None:
    assert resolve()["replicas"] is None
    assert resolve(replicas="2")["ray"] is None
    assert resolve(ray="head:1", replicas="3")["replicas"] == 3
    environment = {"MLPERF_NODES": "a:4,b"}
    settings = resolve_settings({"ray": "head:1"}, environment).as_json()
    assert (settings["replicas"], settings["replica_nodes"]) == ("auto", "a:4,b")


OF_REPLICAS = [name for name, spec in OPTIONS.items() if spec.only_with]


@pytest.mark.parametrize("name", OF_REPLICAS)
def test_an_option_of_replicas_is_refused_without_them(name: str) -> None:
    values: dict[str, Any] = {"replica_nodes": "a", "replica_routing": "tokens", "scaling": "true"}
    with pytest.raises(UsageError) as error:
        resolve(None, **{name: values.get(name, "1")})
    option = name.replace("_", "-")
    assert str(error.value) == f"--{option}: can only be used with --replicas or --ray"
    # A variable may be there for other runs.
    assert resolve({"MLPERF_NODES": "a,b"})["replicas"] is None
