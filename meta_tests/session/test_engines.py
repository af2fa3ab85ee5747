"""How the settings say to load vLLM, and what is known of an engine that is loaded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import MonkeyPatch

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import EngineDescription
from mlperf_suite.session import engines
from mlperf_suite.session.engine_source import EngineRequest
from mlperf_suite.session.engines import Engines, cpus_of, gpus_of, load_engine, vllm_config
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.settings import Settings, resolve_settings


def settings_of(environment: dict[str, str] | None = None, **options: Any) -> Settings:
    return resolve_settings(options, environment or {})


def inputs_of(settings: Settings) -> Inputs:
    return Inputs(settings, [LLAMA3_1_8B])


def test_an_own_model_may_take_an_hour_to_load(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(Inputs, "model_path", "folder")
    monkeypatch.setattr(Inputs, "context_needed", 2048)
    request = EngineRequest("runs", tmp_path / "engine.log")
    own, official = settings_of(model="a/70b"), settings_of(profile="official", model="a/8b")
    for settings, limit_s in ((settings_of(), 600), (own, 3600), (official, 3600)):
        assert vllm_config(inputs_of(settings), request).load_timeout_s == limit_s


H100 = "NVIDIA H100 80GB HBM3"


def described(**settings: object) -> EngineDescription:
    return EngineDescription("vLLM", "1", "model", False, 2048, settings)


@pytest.mark.parametrize(
    ("gpus_used", "machines", "here", "found"),
    [
        (16, [], [H100] * 8, {H100: 16}),
        (0, [], [H100] * 8, {}),
        (1, [], [H100, "NVIDIA L4"], None),
        (None, [], [H100] * 8, None),
        (9, [(H100, 8), ("", 1)], [], {H100: 8, "GPU": 1}),
        (0, [(None, 0)], [H100], {}),
    ],
)
def test_the_gpus_of_an_engine_are_those_that_it_computes_on(
    gpus_used: int | None, machines: Any, here: Any, found: Any, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "describe_system", lambda: {"gpus": here})
    rows = [{"gpu": gpu, "gpus": count} for gpu, count in machines]
    settings = {"gpus_used": gpus_used, "machines": rows or None}
    known = {name: value for name, value in settings.items() if value is not None}
    assert gpus_of(described(**known)) == found


@pytest.mark.parametrize(
    ("machines", "found"),
    [
        ([], ()),
        ([("a", True, 0)], ()),
        ([("a", True, 0), ("b", False, 0)], ("a", "b")),
        ([("b", False, 0)], ("b",)),
        ([("b", False, 8)], ()),
    ],
)
def test_the_cpus_of_machines_that_replicas_are_on(machines: Any, found: tuple[str, ...]) -> None:
    rows = [{"host": host, "here": here, "gpus": gpus} for host, here, gpus in machines]
    assert cpus_of(described(machines=rows)) == found


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"dtype": "bfloat16"}, "vLLM 1 bf16"),
        ({"dtype": "bfloat16", "quantization": "fp8"}, "vLLM 1 fp8"),
    ],
)
def test_an_engine_is_named_by_the_precision_of_its_weights(
    settings: dict[str, object], name: str
) -> None:
    loaded = Engines(inputs_of(settings_of()), load_engine, ProgressDisplay())
    loaded.descriptions["runs"] = described(**settings)
    assert loaded.name("runs") == name


def test_what_one_system_computes_on_is_kept_of_each_engine(monkeypatch: MonkeyPatch) -> None:
    """Of replicas, the driver's machine is not what was measured."""
    source = SimpleNamespace(is_one_system=True)
    monkeypatch.setattr("mlperf_suite.session.recorder.source_of", lambda _: source)
    inputs = inputs_of(settings_of())
    loaded = Engines(inputs, load_engine, ProgressDisplay())
    machines = [{"host": "b", "here": False, "gpu": H100, "gpus": 2}]
    loaded.descriptions["scoring"] = described(machines=machines)
    recorder = Recorder(inputs, SimpleNamespace(), {}, loaded)  # type: ignore[arg-type]
    assert recorder.about("scoring").meta.gpus == {H100: 2}
