"""Which facts about two runs make them comparable, and to whom."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.results.comparability import EVERY_ASPECT, differences, identity_of, machine_of
from mlperf_suite.results.schema import Config, DataFacts, EngineFacts, Meta, Summary
from mlperf_suite.settings import OPTIONS, resolve_settings

META = Meta(benchmark=LLAMA3_1_8B.id, scenario="Offline", model="embedded", samples=84)
ENGINE: dict[str, object] = {
    "dtype": "bfloat16",
    "kv_cache_dtype": "auto",
    "speculative": None,
    "tensor_parallel_size": 1,
    "load_s": 60.1,
}


def config_of(engine: dict[str, object] | None = None, **options: Any) -> Config:
    """The settings of a run with these options, and its engine's own ones."""
    facts = EngineFacts("vLLM", "1", "model", False, 2048, {**ENGINE, **(engine or {})})
    return Config(settings=resolve_settings(options, {}).as_json(), engine=facts)


def different(first: Config, second: Config, **meta: Any) -> set[str]:
    summary = Summary(meta=replace(META, **meta))
    return {
        fact.name for fact in differences(identity_of(first, summary), identity_of(second, summary))
    }


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"engine_arg": ["kv_cache_dtype=fp8"]}, {"setting engine_args"}),
        ({"gpu_memory_utilization": "0.5"}, {"setting gpu_memory_utilization"}),
        ({"high_accuracy": "true"}, {"setting high_accuracy"}),
        ({"mode": "accuracy", "keep_all": "0", "repeat": "3"}, set()),
    ],
)
def test_an_option_counts_as_it_is_declared(options: dict[str, Any], facts: set[str]) -> None:
    assert different(config_of(), config_of(**options)) == facts


@pytest.mark.parametrize(
    ("engine", "facts"),
    [
        ({"kv_cache_dtype": "fp8"}, {"the engine's kv_cache_dtype"}),
        ({"quantization": "fp8"}, {"the engine's quantization"}),
        ({"speculative": "mtp"}, {"the engine's speculative"}),
        ({"max_num_seqs": 64}, {"the engine's max_num_seqs"}),
        ({"load_s": 3.0, "dtype_why": "asked for", "clients": 4, "replica_cores": ["0-1"]}, set()),
        ({"key": "set"}, set()),
    ],
)
def test_what_an_engine_reports_identifies_it(engine: dict[str, object], facts: set[str]) -> None:
    assert different(config_of(), config_of(engine)) == facts


def test_a_setting_of_which_both_runs_made_the_same_is_no_difference() -> None:
    assert different(config_of(), config_of(precision="bf16")) == set()
    halved = config_of({"dtype": "float16"}, precision="fp16")
    assert different(config_of(), halved) == {"setting precision", "the engine's dtype"}
    unloaded = replace(config_of(precision="bf16"), engine=None)
    before = differences(identity_of(config_of()), identity_of(unloaded), known_to_both=True)
    assert [fact.name for fact in before] == ["setting precision"]
    # What the engine makes of bf16 is seen once it is loaded.
    plans: tuple[dict[str, Any], ...] = ({"tensor_parallel_size": "2"}, {"engine_arg": ["seed=1"]})
    for options, count in (({"precision": "bf16"}, 0), (plans[0], 1), (plans[1], 1)):
        sides = identity_of(config_of()), identity_of(replace(config_of(**options), engine=None))
        assert len(differences(*sides, known_to_both=True, planned=True)) == count


def test_what_one_of_two_runs_does_not_tell_is_a_difference() -> None:
    assert "engine version" in different(config_of(), replace(config_of(), engine=None))


def test_data_is_compared_by_its_sum_wherever_it_lies() -> None:
    """That of one mode counts where both runs read it."""

    def run(dataset: str, sha256: str, **parts: str) -> Config:
        sums = {mode: {"sha256": of_mode} for mode, of_mode in parts.items()}
        return replace(config_of(dataset=dataset), dataset=DataFacts(sha256=sha256, parts=sums))

    first = run("/a/cnn.json", "d1", accuracy="a")
    assert different(first, run("/b/cnn.json", "d1")) == set()
    assert different(first, run("/a/cnn.json", "d2")) == {"data sha256"}
    assert different(first, run("/a/cnn.json", "d1", accuracy="b")) == {"accuracy data sha256"}


def test_a_server_is_the_same_system_at_another_url() -> None:
    """Its model is what it serves, and not the path of one here."""
    first, second = (
        identity_of(config_of({"endpoints": [url]})) for url in ("http://a:8001", "http://b:8002")
    )
    assert [fact.name for fact in differences(first, second)] == ["the engine's endpoints"]
    assert not differences(first, second, ("measurement", "engine", "capacity", "release"))

    def run(model: str, **engine: Any) -> Config:
        config = config_of(engine)
        assert config.engine is not None
        return replace(config, engine=replace(config.engine, model=model))

    assert different(run("/a/model"), run("/b/model")) == set()
    served = [run(model, endpoints=["http://a:8001"]) for model in ("a", "b")]
    assert different(*served) == {"the engine's served_model"}


def test_figures_of_two_load_generators_are_not_of_one_measurement() -> None:
    """Their versions differ where both are known."""
    known, newer, unknown = (
        identity_of(config_of(), Summary(meta=replace(META, load_generator=words)))
        for words in ("loadgen 5.0", "loadgen 6.0", None)
    )
    assert [fact.name for fact in differences(known, newer)] == ["load generator's version"]
    assert differences(known, unknown) == differences(unknown, known) == []


def test_machines_that_differ_in_name_alone_are_the_same_capacity() -> None:
    def run(host: str, gpu: str) -> Config:
        machine = {"host": host, "here": False, "replicas": 2, "gpus": 2, "gpu": gpu}
        return config_of({"replicas": 2, "replica_nodes": {host: 2}, "machines": [machine]})

    assert different(run("a", "H100"), run("b", "H100")) == set()
    assert different(run("a", "H100"), run("a", "H200")) == {"the engine's machines"}
    assert "the engine's replicas" in different(config_of(), run("a", "H100"))


def test_the_gate_may_judge_other_versions_and_memory_but_no_other_gpu() -> None:
    here = {"gpus": ["H100"], "memory_gib": 64.0, "vllm_version": "1"}
    for name, value, aspect in (
        ("gpus", ["H200"], "capacity"),
        ("memory_gib", 32.0, "surroundings"),
        ("vllm_version", "2", "surroundings"),
    ):
        pair = machine_of(here), machine_of({**here, name: value})
        for candidate in EVERY_ASPECT:
            assert bool(differences(*pair, (candidate,))) is (candidate == aspect)


def test_a_secret_engine_argument_is_compared_as_the_file_has_it() -> None:
    secret = config_of(engine_arg=["some_token=hunter2hunter2"])
    from_file = Config.read(json.loads(json.dumps({"settings": secret.settings})))
    assert "hunter2" not in str(identity_of(secret))
    assert "hunter2" not in str(identity_of(from_file))


def test_the_page_on_the_gate_names_every_option_that_identifies_a_run() -> None:
    page = (Path(__file__).parents[2] / "docs/regression.md").read_text(encoding="utf-8")
    section = page.split("## Which runs are compared")[1].split("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    assert {spec.flag for spec in OPTIONS if f"`{spec.flag}`" in table} == {
        spec.flag for spec in OPTIONS if spec.identifies is not None
    }
