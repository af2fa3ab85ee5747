"""Settings: each option, who beats whom, and what an impossible value says."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.catalog import BENCHMARKS, default_benchmarks, runnable
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import EDGE, LLAMA3_1_8B, LLAMA3_1_8B_EDGE, OFFICIAL
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.errors import UsageError
from mlperf_suite.settings import (
    MODEL_ALIASES,
    OPTIONS,
    Settings,
    check_model_is_reachable,
    check_options_of_features,
    engine_arg_text,
    resolve_settings,
)
from mlperf_suite.untrusted_files import printable

SPECS = {spec.name: spec for spec in OPTIONS}
URL = "http://host:8000"
NO_URLS = ["host:8000", "ftp://host", "http://", "http://host:port", "http://host:0", " "]

# Option, a text, what it becomes, texts that it refuses, words that its refusal must hold.
CASES: dict[str, tuple[str, object, list[str], list[str]]] = {
    "profile": ("official", "official", ["smoky", "fast"], ["smoke", "official"]),
    "round": ("v5.1", ROUNDS["v5.1"], ["v5.0", "6.1"], ["v5.1", "v6.0", "v6.1"]),
    "model": ("owner/name", "owner/name", [" "], ["hub id", "folder"]),
    "benchmark": ("llama3.1-8b-edge", ["llama3.1-8b-edge"], ["llama2-70b"], ["llama3.1-8b"]),
    "category": ("edge", "edge", ["cloud"], ["datacenter", "edge"]),
    "scenario": ("Server", "Server", ["serve", "MultiStream"], ["Offline, Server"]),
    "mode": ("accuracy", "accuracy", ["fast"], ["accuracy", "performance", "both"]),
    "precision": ("fp16", "fp16", ["int8"], ["bf16", "fp16", "fp32", "auto"]),
    "tensor-parallel-size": ("4", 4, ["0", "-1", "two", "1.5"], ["whole number from 1", "auto"]),
    "max-new-tokens": ("16", 16, ["0", "auto"], ["whole number from 1"]),
    "total-sample-count": ("20", 20, ["0", "-5", "1e3"], ["whole number from 1", "auto"]),
    "server-target-qps": ("1.5", 1.5, ["0", "-1", "nan", "inf"], ["above 0", "auto"]),
    "offline-target-qps": ("20", 20.0, ["0", "fast"], ["above 0", "auto"]),
    "warmup": ("0", 0, ["-1", "some", "1.5"], ["whole number from 0", "auto"]),
    "dataset": ("cnn_eval.json", "cnn_eval.json", [" "], ["name", "file", "folder"]),
    "logs": ("old/results", Path("old/results"), [" "], ["folder"]),
    "logs-html": ("a.html", Path("a.html"), [" "], ["file"]),
    "logs-csv": ("a.csv", Path("a.csv"), [" "], ["file"]),
    "results-dir": ("out", Path("out"), [" "], ["folder"]),
    "keep-all": ("0", False, ["2", "yes"], ["0 or 1"]),
    "server-note": ("gpus=8 x H100", {"gpus": "8 x H100"}, ["gpus", "=8", "a=\x1b"], ["KEY=VALUE"]),
    "label": ("new kernel", "new kernel", [" ", "a\x1b[2J", "n" * 101], ["at most 100"]),
    "node-name": ("node-7", "node-7", [" ", "a\x1b[2J", "n" * 101], ["at most 100"]),
    "plan": ("true", True, ["maybe"], ["true or false"]),
    "baseline": ("old/run", ["old/run"], [" "], ["folder", "summary.json"]),
    "max-regression": ("2.5%", 0.025, ["-1", "100", "nan", "much"], ["from 0 to below 100"]),
    "baseline-allow-different": ("true", True, ["maybe"], ["true or false"]),
    "fail-on-cannot-tell": ("true", True, ["maybe"], ["true or false"]),
    "repeat": ("3", 3, ["0", "1.5"], ["whole number from 1"]),
    "max-model-len": ("2048", 2048, ["0"], ["whole number from 1"]),
    "gpu-memory-utilization": ("0.5", 0.5, ["0", "1.01", "nan"], ["above 0 and up to 1"]),
    "engine-arg": ("swap-space=4", {"swap_space": 4}, ["swap", "=4", "a b=1"], ["KEY=VALUE"]),
    "engine-silence": ("60", 60.0, ["0", "-1", "inf", "long"], ["above 0"]),
    "endpoint": (f"{URL}/v1/", [ANY], NO_URLS, ["URL like http://host:8000"]),
    "client": ("Inference-Endpoint", "inference-endpoint", ["aiperf", ""], ["loadgen"]),
    "series": ("Endpoints", "endpoints", ["v1.0", ""], ["endpoints"]),
    "endpoint-server": ("SGLang", "sglang", ["ollama", ""], ["auto", "vllm", "tensorrt-llm"]),
    "endpoint-routing": ("round-robin", "round-robin", ["auto"], ["fewest-tokens", "round-robin"]),
    "endpoint-ca": (__file__, Path(__file__), ["/nowhere/ca.pem", "/", " "], ["existing file"]),
    "endpoint-requests": ("30", 30, ["0", "-1", "many"], ["whole number from 1", "auto"]),
    "endpoint-clients": ("3", 3, ["0", "-1", "many"], ["whole number from 1", "auto"]),
    "served-model-name": ("owner/name", "owner/name", [" "], ["a name"]),
    "endpoint-header": ("X-Team=blue", {"X-Team": "blue"}, [], []),
    "energy": ("OFF", "off", ["on", "nvml"], ["auto", "off"]),
    "price-kwh": (".3 EUR", "0.3 EUR", ["0.3", "EUR", "-1 EUR", "1e3 EUR"], ["0.30 EUR"]),
    "price-hour": ("98.320EUR", "98.32 EUR", ["98,32 EUR", "nan EUR", "1 EUR/h"], ["98.32 USD"]),
    "track": ("MLflow:http://a", "mlflow:http://a", ["a b", "a:http://u:p@b"], ["mlflow", "off"]),
    "track-experiment": ("nightly", "nightly", [" "], ["name"]),
    "find-peak-qps": ("true", True, ["maybe"], ["true or false"]),
    "mmlu-data": ("questions", "questions", [" "], ["name", "folder"]),
    "mmlu-limit": ("300", 300, ["0", "-1", "0.5"], ["whole number from 1", "auto"]),
    "mmlu-subset": ("First", "first", ["last", " "], ["spread, first"]),
    "mmlu-shots": ("0", 0, ["6", "-1", "five"], ["0 to 5"]),
    "mmlu-min-accuracy": ("60.5", 60.5, ["-1", "101", "nan"], ["0 to 100"]),
    "mmlu-details": ("true", True, ["maybe"], ["true or false"]),
    "mmlu-resume": ("true", True, ["maybe"], ["true or false"]),
    "task": ("a,b@5", ["a", "b@5"], ["a,a@5", "a@b", "../a", "a b", ","], ["each once", "@SHOTS"]),
    "task-folder": ("/", "/", ["no such folder", " "], ["folder"]),
    "task-data": ("/", "/", ["no such folder", " "], ["folder"]),
    "task-chat-template": ("true", True, ["maybe"], ["true or false", "auto"]),
    "task-resume": ("true", True, ["maybe"], ["true or false"]),
    "limit": ("300", 300, ["0", "-1", "0.5"], ["whole number from 1", "auto"]),
    "profile-run": ("Torch", "torch", ["nsys", "true"], ["torch, cuda"]),
    "profile-seconds": ("2.5", 2.5, ["0", "-1", "long"], ["above 0"]),
    "high-accuracy": ("true", True, ["maybe"], ["true or false"]),
    "code-problems": (__file__, __file__, [" ", "no/such/file"], ["file", "folder"]),
    "allow-other-model": ("true", True, ["maybe"], ["true or false"]),
    "replicas": ("4", 4, ["0", "-1", "many"], ["whole number from 1", "auto"]),
    "ray": ("head:6379", "head:6379", ["head", "ray://head:1", "head:x", ":1"], ["HOST:PORT"]),
    "replica-nodes": ("a:4, b", "a:4,b", ["a:0", "a,a", ","], [":4,"]),
    "replica-routing": ("Round-Robin", "round-robin", ["random"], ["tokens, round-robin"]),
    "replica-cpus": ("3", 3, ["0", "few"], ["whole number from 1", "auto"]),
    "scaling": ("true", True, ["maybe"], ["true or false"]),
}
CASES = {n: case for n, case in CASES.items() if n in SPECS}  # of features that are here
ATTRIBUTES = {
    "baseline": "baselines",
    "benchmark": "named_benchmarks",
    "engine-arg": "engine_args",
    "endpoint": "endpoints",
    "endpoint-header": "endpoint_headers",
    "label": "run_name",
    "server-note": "server_notes",
}
TABLES = ("engine-arg", "endpoint-header")
OF_REPLICAS = {name for name, spec in SPECS.items() if "replicas" in spec.only_with}
OF_VLLM = {name for name, spec in SPECS.items() if spec.engine == "vllm"}
OF_ENDPOINT = {n for n, spec in SPECS.items() if spec.engine == "endpoint" and not spec.chooses}
CASES_OF = {
    "vllm": {n: case for n, case in CASES.items() if n not in OF_ENDPOINT | {"endpoint"}},
    "endpoint": {n: case for n, case in CASES.items() if n not in OF_VLLM},
}
"""By the kind of engine, the options that can be given together."""


def resolve(
    environment: Mapping[str, str] | None = None,
    config_file: Path | None = None,
    **options: str | list[str],
) -> Settings:
    if unknown := options.keys() - {spec.dest for spec in OPTIONS}:
        pytest.skip(f"of a feature that is not here: {unknown}")
    return resolve_settings(options, environment or {}, str(config_file) if config_file else None)


def given_as(name: str, text: str) -> dict[str, Any]:
    """An option as pytest's parser gives it, with the endpoint or replicas that it may need."""
    spec = SPECS[name]
    required_options: dict[str, Any] = {"endpoint": [URL]} if name in OF_ENDPOINT else {}
    required_options |= {"replicas": "auto"} if name in OF_REPLICAS else {}
    required_options |= {"logs": "old"} if "logs" in spec.only_with else {}
    return {**required_options, spec.dest: [text] if spec.repeatable else text}


def attribute(settings: Settings, name: str) -> object:
    field = ATTRIBUTES.get(name, SPECS[name].dest)
    own = settings.feature_options
    return own[field] if field in own else getattr(settings, field)


def refusal(**arguments: Any) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(**arguments)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# Each option


def test_every_option_has_a_case() -> None:
    assert CASES.keys() == SPECS.keys()


@pytest.mark.parametrize("name", CASES)
def test_an_option_is_taken(name: str) -> None:
    text, value, _, _ = CASES[name]
    assert attribute(resolve(), name) != value
    assert attribute(resolve(**given_as(name, text)), name) == value


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, case in CASES.items() for text in case[2]]
)
def test_an_impossible_value_names_option_value_and_what_is_allowed(name: str, text: str) -> None:
    message = refusal(**given_as(name, text))
    assert message.startswith(f"--{name} {printable(text)}: must be ")
    assert [words for words in CASES[name][3] if words not in message] == []


@pytest.mark.parametrize("name", [spec.name for spec in OPTIONS if "auto" in spec.values.allowed])
def test_auto_is_left_to_the_suite(name: str) -> None:
    if name not in ("precision", "replicas", "ray"):
        assert attribute(resolve(**given_as(name, "auto")), name) is None


@pytest.mark.parametrize(
    "name", ["profile", "round", "benchmark", "category", "scenario", "mode", "precision"]
)
def test_a_name_is_taken_in_any_case(name: str) -> None:
    text, value, _, _ = CASES[name]
    assert attribute(resolve(**given_as(name, text.swapcase())), name) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("true", True), ("none", None), ("8", 8), ("0.5", 0.5), ('"8"', "8")),
        *(("[1, 2]", [1, 2]), ("float16", "float16"), ("", ""), ("[" * 5000, "[" * 5000)),
        ('{method = "ngram"}', {"method": "ngram"}),
        ('{"method": "ngram", "n": [1, null]}', {"method": "ngram", "n": [1, None]}),
    ],
)
def test_an_engine_argument_keeps_its_type(text: str, value: object) -> None:
    assert resolve(engine_arg=[f"some-name={text}"]).engine_args == {"some_name": value}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(st.characters(codec="utf-8")),
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text("ab c", min_size=1), of),
    max_leaves=5,
)


@given(values)
@example("fp8")
@example("8")
@example(["\x7f"])
@example(None)
@example({"cudagraph mode": ["a", True]})
def test_an_engine_argument_can_be_given_again(value: object) -> None:
    text = engine_arg_text("some_name", value)
    assert resolve(engine_arg=[text]).engine_args == {"some_name": value}


def test_the_last_engine_argument_of_a_name_holds_and_the_model_is_none() -> None:
    assert resolve(engine_arg=["a=1", "b=2", "a=3"]).engine_args == {"a": 3, "b": 2}
    message = refusal(engine_arg=["model=meta-llama/Meta-Llama-3-8B-Instruct"])
    assert message.startswith("--engine-arg model: name the model with --model")


_VALUES = st.text() | st.sampled_from(
    ["1\n2", "\u2028", "9" * 5000, "x=[[[[", "x=1979-99-99", "~nobody/x", "\0", "a/../" * 2000]
)


@given(name=st.sampled_from(list(SPECS)), text=_VALUES)
@example(name="endpoint-ca", text="0" * 256)
@example(name="results-dir", text="0" * 256)
@example(name="dataset", text="~nobody/news.json")
def test_any_text_is_a_setting_or_a_usage_error_of_one_line(name: str, text: str) -> None:
    try:
        resolve(**given_as(name, text))
    except UsageError as error:
        assert len(str(error).splitlines()) == 1
        assert str(error).startswith((f"--{name} ", f"--{name}: "))


# Who beats whom


@pytest.mark.parametrize("name", [spec.name for spec in OPTIONS if spec.variable])
def test_option_beats_variable_beats_file_beats_default(tmp_path: Path, name: str) -> None:
    spec = SPECS[name]
    assert spec.variable is not None
    texts = [f"http://host-{n}" for n in "123"] if name == "endpoint" else ["1", "2", "3"]
    own: dict[str, Any] = {"replicas": "auto"} if name in OF_REPLICAS else {}
    from_option, two, three = (attribute(resolve(**given_as(name, text)), name) for text in texts)
    file = tmp_path / "suite.toml"
    file.write_text(f"{name} = '{texts[2]}'")
    variable = {spec.variable: texts[1]}
    assert attribute(resolve(), name) not in (from_option, two, three)
    assert attribute(resolve(config_file=file, **own), name) == three
    assert attribute(resolve(variable, file, **own), name) == two
    assert attribute(resolve(variable, file, **given_as(name, texts[0])), name) == from_option
    assert attribute(resolve({spec.variable: ""}, file, **own), name) == three


def test_a_variable_with_an_impossible_value_is_named() -> None:
    assert refusal(environment={"MAX_TOKENS": "many"}).startswith("MAX_TOKENS many: must be ")


@pytest.mark.parametrize("engine", CASES_OF)
def test_a_file_may_set_everything(tmp_path: Path, engine: str) -> None:
    cases = CASES_OF[engine]
    file = tmp_path / "suite.toml"
    lines = [f'{name} = "{case[0]}"' for name, case in cases.items() if name not in TABLES]
    for name in [name for name in TABLES if name in cases]:
        key, _, value = cases[name][0].partition("=")
        lines += [f"[{name}]", f"{key} = {value if value.isdigit() else repr(value)}"]
    file.write_text("\n".join(lines))
    settings = resolve(config_file=file)
    assert {name: attribute(settings, name) for name in cases} == {
        name: case[1] for name, case in cases.items()
    }


def test_a_file_may_use_tomls_own_types_and_underscores(tmp_path: Path) -> None:
    file = tmp_path / "suite.toml"
    file.write_text(
        "high_accuracy = true\nkeep-all = 0\nserver-target-qps = 2.5\n"
        'engine-arg = ["enforce-eager=true", "seed=1"]'
    )
    settings = resolve(config_file=file)
    assert settings.high_accuracy is True
    assert settings.keep_all is False
    assert settings.server_target_qps == 2.5
    assert settings.engine_args == {"enforce_eager": True, "seed": 1}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"profile = ", ["not TOML", "end of document"]),
        (b"profile = '\xff'", ["not TOML"]),
        *((b"x = " + character * 5000, ["not TOML"]) for character in (b"9", b"[")),
        (b"proflie = 'smoke'", ["unknown setting 'proflie'", "profile", "total_sample_count"]),
        (b"profile = 'fast'", ["profile", "fast", "must be one of smoke, official"]),
        (b"total-sample-count = 10.5", ["total_sample_count", "10.5", "whole number from 1"]),
        (b"model = ['a', 'b']", ["model", "['a', 'b']", "hub id"]),
        (b"[results-dir]\na = 1", ["results_dir", "must be a folder"]),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(
    tmp_path: Path, content: bytes, parts: list[str]
) -> None:
    file = tmp_path / "suite.toml"
    file.write_bytes(content)
    message = refusal(config_file=file)
    assert message.startswith("--suite-config")
    assert [words for words in parts if words not in message] == []


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "suite.toml"
    assert refusal(config_file=file) == f"--suite-config {file}: No such file or directory"


# What a profile sets


def test_smoke_is_the_embedded_model_on_the_embedded_news_and_official_llama() -> None:
    smoke, official = resolve(), resolve(profile="official")
    assert (smoke.smoke, smoke.model, smoke.dataset) == (True, "embedded", "embedded")
    assert smoke.benchmarks == default_benchmarks() == [LLAMA3_1_8B, LLAMA3_1_8B_EDGE]
    assert [smoke.workload(benchmark) for benchmark in smoke.benchmarks] == [EMBEDDED] * 2
    assert (smoke.round.name, smoke.max_new_tokens) == ("v6.1", 128)
    assert smoke.label == "smoke: not an MLPerf result"
    assert (official.smoke, official.dataset) == (False, "cnn_dailymail")
    assert official.label == "official rules of round v6.1"
    # The official model keeps its raw prompt in smoke.
    in_smoke = resolve(model="llama3.1-8b-instruct")
    assert (in_smoke.smoke, in_smoke.dataset) == (True, "embedded")
    for settings in (official, in_smoke):
        assert settings.model == OFFICIAL.model
        assert settings.workload(LLAMA3_1_8B) is OFFICIAL
        assert settings.workload(LLAMA3_1_8B_EDGE) is EDGE
    assert resolve(model="owner/name").workload(LLAMA3_1_8B) is EMBEDDED


def test_the_context_is_the_longest_that_is_needed() -> None:
    short, unknown = (made_benchmark(context=context) for context in (100, None))
    settings = resolve(profile="official")
    assert settings.context_needed([]) == 8192  # MMLU alone has that of the benchmarks
    assert settings.context_needed([short]) == 100
    assert settings.context_needed([short, LLAMA3_1_8B]) == 8192
    assert settings.context_needed([short, unknown]) is None


def made_benchmark(context: int | None) -> Benchmark:
    """A benchmark of its own model that needs this context and has nothing for smoke."""
    workload = replace(OFFICIAL, model="owner/other", context=context)
    return replace(LLAMA3_1_8B, id="other", workload=workload, smoke=None)


def test_a_benchmark_that_smoke_has_nothing_of_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    different = made_benchmark(context=100)
    monkeypatch.setitem(BENCHMARKS, "llama3.1-8b-edge", different)
    message = refusal(benchmark=["llama3.1-8b-edge"])
    assert message.startswith("--benchmark other: ")
    assert "smoke" in message and "--profile official" in message
    settings = resolve(benchmark=["llama3.1-8b-edge"], profile="official")
    assert (settings.model, settings.workload(different)) == ("owner/other", different.workload)


def test_every_model_that_can_be_run_has_a_short_name() -> None:
    assert MODEL_ALIASES["llama3.1-405b-instruct"] == "meta-llama/Llama-3.1-405B-Instruct"
    assert set(MODEL_ALIASES.values()) == {
        w.model for b in runnable() for w in (b.workload, b.smoke) if w
    }


# The model and its token


@pytest.mark.parametrize("variable", ["HF_TOKEN", "HUGGINGFACE_HUB_TOKEN"])
def test_a_gated_model_needs_a_token(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        check_model_is_reachable(resolve(profile="official"))
    message = str(caught.value)
    assert message.startswith("--model meta-llama/Llama-3.1-8B-Instruct: ")
    assert "gated" in message
    assert "HF_TOKEN" in message
    check_model_is_reachable(resolve({variable: "hf_x"}, profile="official"))


def test_a_folder_an_open_model_and_the_embedded_one_need_no_token(tmp_path: Path) -> None:
    for model in ("./nowhere", "/nowhere/model", "llama", "a/b/c"):
        with pytest.raises(UsageError, match=r"no such folder, and not a hub id") as caught:
            check_model_is_reachable(resolve(model=model))
        assert str(caught.value).startswith(f"--model {model}: ")
    for name in ("config.json", "tokenizer.json"):
        with pytest.raises(UsageError, match=f"not a model's folder: it has no {name}"):
            check_model_is_reachable(resolve(model=str(tmp_path)))
        (tmp_path / name).touch()
    for model in (str(tmp_path), "owner/open-model", "embedded"):
        check_model_is_reachable(resolve(model=model))


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({"HF_TOKEN": "hf_secret"}, {}),
        ({"HUGGINGFACE_HUB_TOKEN": "hf_secret"}, {}),
        ({}, {"engine_arg": ["hf_token=hf_secret"]}),
        ({"HF_TOKEN": "hf_other"}, {"engine_arg": ["hf-token=hf_secret"]}),
    ],
)
def test_the_token_is_never_shown(environment: dict[str, str], options: dict[str, Any]) -> None:
    secret = "hf_secret"
    settings = resolve(environment, **options)
    assert settings.token == secret
    assert secret not in repr(settings)
    as_text = settings.as_json()
    assert secret not in json.dumps(as_text)
    assert as_text["hub_token"] == "set"
    assert resolve().as_json()["hub_token"] == "not set"


@pytest.mark.parametrize("engine", CASES_OF)
def test_the_settings_as_json_name_every_setting_as_used(engine: str) -> None:
    cases = CASES_OF[engine]
    as_text = resolve(**{SPECS[n].dest: given_as(n, c[0])[SPECS[n].dest] for n, c in cases.items()})
    as_json = as_text.as_json()
    assert json.loads(json.dumps(as_json)) == as_json
    other_words = {
        "round": "v5.1",
        "results-dir": "out",
        "code-problems": __file__,
        "endpoint": [URL],
        "endpoint-ca": __file__,
        "endpoint-header": ["X-Team"],
    }
    for name in cases.keys() - {"logs", "logs-html", "logs-csv", "plan"}:
        value = other_words.get(name, cases[name][1])
        assert as_json[ATTRIBUTES.get(name, SPECS[name].dest)] == value
    left_out = CASES.keys() - cases.keys()
    assert not {ATTRIBUTES.get(name, SPECS[name].dest) for name in left_out} & as_json.keys()


def test_the_settings_as_json_say_what_a_benchmark_is_asked() -> None:
    as_json = resolve(max_new_tokens="16").as_json(LLAMA3_1_8B)
    assert json.loads(json.dumps(as_json)) == as_json
    assert as_json["chat_template"] is True and "{input}" in str(as_json["prompt"])
    generation = as_json["generation"]
    assert isinstance(generation, dict) and generation["max_new_tokens"] == 16
    assert "prompt" not in resolve().as_json()


# Options that exclude each other


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"mode": "accuracy"}, "--mode accuracy"),
        ({"find_peak_qps": "true"}, "--find-peak-qps"),
        ({"baseline": ["old"]}, "--baseline"),
        ({"repeat": "2"}, "--repeat"),
        ({"logs": "old"}, "--logs"),
        ({"replicas": "2"}, "--replicas"),
        ({"engine_arg": ["profiler-config={}"]}, "--engine-arg profiler_config"),
    ],
)
def test_what_a_profile_cannot_be_made_with_is_refused(
    options: dict[str, Any], option: str
) -> None:
    check_options_of_features(resolve(**options))
    check_options_of_features(resolve(profile_run="torch", mode="performance"))
    with pytest.raises(UsageError) as error:
        check_options_of_features(resolve(profile_run="torch", **options))
    assert str(error.value).startswith(f"{option}: cannot be used with --profile-run torch")


@pytest.mark.parametrize("name", sorted(OF_VLLM | OF_ENDPOINT))
def test_an_option_of_another_kind_of_engine_is_refused(tmp_path: Path, name: str) -> None:
    text = CASES[name][0]
    key, _, value = text.partition("=")
    file = tmp_path / "suite.toml"
    file.write_text(f"[{name}]\n{key} = '{value}'" if name in TABLES else f"{name} = '{text}'")
    dest = SPECS[name].dest
    given_alone = {dest: given_as(name, text)[dest]}
    if name in OF_VLLM:
        message = refusal(endpoint=[URL], **given_alone)
        assert message.startswith(f"--{name}: an option of vLLM") and URL in message
        message = refusal(environment={"ENDPOINT": URL}, config_file=file)
        assert message.startswith(f"--suite-config: {dest}: an option of vLLM")
    else:
        words = "can only be used with --endpoint URL"
        assert refusal(**given_alone) == f"--{name}: {words}"
        assert refusal(config_file=file) == f"--suite-config: {dest}: {words}"


# Several benchmarks in one session


def test_benchmarks_of_one_model_share_a_session() -> None:
    ids = ["llama2-70b-99", "llama2-70b-99.9"]
    settings = resolve(benchmark=ids, profile="official")
    assert [b.id for b in settings.benchmarks] == ids
    assert settings.model == "meta-llama/Llama-2-70b-chat-hf"
    with pytest.raises(UsageError, match=r"--benchmark llama3\.1-8b: uses a different model"):
        resolve(benchmark=["llama2-70b-99", "llama3.1-8b"], profile="official")


def test_a_search_is_not_made_by_the_official_client() -> None:
    options: dict[str, Any] = {"endpoint": ["http://127.0.0.1:9"], "client": "inference-endpoint"}
    with pytest.raises(UsageError, match="--find-peak-qps: cannot be used with --client"):
        check_options_of_features(resolve(find_peak_qps="true", **options))


def test_prices_of_two_currencies_are_refused() -> None:
    words = "--price-kwh 0.3 EUR: --price-hour 98 USD has a different currency"
    with pytest.raises(UsageError, match=words):
        check_options_of_features(resolve(price_kwh="0.3 EUR", price_hour="98 USD"))
