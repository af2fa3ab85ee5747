"""Every setting of the suite: from options, environment and a TOML file to one checked `Settings`.

An option beats its environment variable, which beats the file, which beats the profile's default.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from mlperf_suite.benchmarks.definition import CATEGORIES, SCENARIOS, Category
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS, Round
from mlperf_suite.benchmarks.workload import EMBEDDED, OFFICIAL, Task
from mlperf_suite.datasets.mmlu_subjects import HUB_REPOSITORY, STANDARD_SHOTS
from mlperf_suite.errors import UsageError
from mlperf_suite.secrets import remember_named

Profile = Literal["smoke", "official"]
PROFILES: tuple[Profile, ...] = ("smoke", "official")
PRECISIONS = ("bf16", "fp16", "fp32", "auto")
MODEL_ALIASES = {"llama3.1-8b-instruct": OFFICIAL.model, "embedded": EMBEDDED.model}
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGINGFACE_HUB_TOKEN")
_NOT_IN_JSON = ("token", "round", "task", "results_dir", "logs", "round_given")
_OF_A_MODEL = (
    ("config.json",),
    ("tokenizer.json", "tokenizer.model", "tokenizer_config.json"),
)
"""What every folder of a model has: one of each."""
_GATED_OWNERS = ("meta-llama/",)
_OFFICIAL_MAX_MODEL_LEN = 8192
"""The longest official prompt, 8,000 tokens, and its 128 new ones fit."""


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option: its name without dashes, its help, how a text becomes its value.

    `parse` takes the text and returns the value, or raises ValueError. `allowed` is said to the
    user when it does. `variable` is the environment variable with the same meaning. A `switch`
    takes no value on the command line.
    """

    name: str
    help: str
    parse: Callable[[str], Any]
    allowed: str
    default: Any = None
    variable: str | None = None
    repeatable: bool = False
    switch: bool = False

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _rate(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def _shots(text: str) -> int:
    value = int(text)
    if not 0 <= value <= STANDARD_SHOTS:
        raise ValueError(text)
    return value


def _score(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise ValueError(text)
    return value


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError(text)
    return value


def _percent(text: str) -> float:
    value = float(text.removesuffix("%")) / 100
    if not 0 <= value < 1:
        raise ValueError(text)
    return value


def _flag(text: str) -> bool:
    return {"0": False, "1": True, "false": False, "true": True}[text.lower()]


def _or_auto(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text == "auto" else parse(text)


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text


def _engine_arg(text: str) -> tuple[str, object]:
    """KEY=VALUE, where VALUE is TOML (true, 8, 0.5, "text") or, failing that, plain text."""
    key, equals, value = text.partition("=")
    key = key.strip().replace("-", "_")
    if not equals or not key.isidentifier():
        raise ValueError(text)
    return key, _engine_value(value)


def _engine_value(value: str) -> object:
    literals: dict[str, object] = {"true": True, "false": False, "none": None}
    if value.lower() in literals:
        return literals[value.lower()]
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return value


def engine_arg_text(key: str, value: object) -> str:
    """KEY=VALUE, from which --engine-arg takes this value again."""
    plain = f"{key}={value}"
    return plain if _engine_arg(plain)[1] == value else f"{key}={_as_toml(value)}"


def _as_toml(value: object) -> str:
    """A value of TOML that JSON holds too, in one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_as_toml(k)} = {_as_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    # The one control character that JSON takes as it is and TOML does not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _joined(choices: tuple[str, ...]) -> str:
    return "allowed are " + ", ".join(choices)


_COUNT, _COUNT_OR_AUTO = (
    "allowed is a whole number from 1",
    "allowed is a whole number from 1, or auto",
)
_RATE_OR_AUTO = "allowed is a number above 0, or auto"

OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "profile",
        "smoke: a small real model, shortened rules, any machine; official: MLPerf's own rules",
        _one_of(*PROFILES),
        _joined(PROFILES),
        "smoke",
    ),
    OptionSpec(
        "round",
        "the round of MLPerf Inference whose rules and seeds hold",
        _one_of(*ROUNDS),
        _joined(tuple(ROUNDS)),
        DEFAULT_ROUND,
    ),
    OptionSpec(
        "model",
        "hub id, the alias llama3.1-8b-instruct, or a folder",
        _text,
        "allowed is a hub id, an alias or a folder",
    ),
    OptionSpec("category", "only this category", _one_of(*CATEGORIES), _joined(CATEGORIES)),
    OptionSpec("scenario", "only this scenario", _one_of(*SCENARIOS), _joined(SCENARIOS)),
    OptionSpec(
        "mode",
        "the accuracy run, the performance run, or both",
        _one_of("accuracy", "performance", "both"),
        "allowed are accuracy, performance, both",
        "both",
    ),
    OptionSpec(
        "precision", "the engine's data type", _one_of(*PRECISIONS), _joined(PRECISIONS), "auto"
    ),
    OptionSpec(
        "tensor-parallel-size",
        "GPUs that share the model; auto is all of them",
        _or_auto(_count),
        _COUNT_OR_AUTO,
        "auto",
    ),
    OptionSpec(
        "max-new-tokens", "the longest answer, in tokens", _count, _COUNT, variable="MAX_TOKENS"
    ),
    OptionSpec(
        "total-sample-count",
        "samples of the data set to use; auto is all",
        _or_auto(_count),
        _COUNT_OR_AUTO,
        "auto",
    ),
    OptionSpec(
        "server-target-qps",
        "queries/s that Server is sent; auto takes it from the last Offline run",
        _or_auto(_rate),
        _RATE_OR_AUTO,
        "auto",
        "SERVER_TARGET_QPS",
    ),
    OptionSpec(
        "offline-target-qps",
        "samples/s that Offline is expected to reach; auto takes it from the accuracy run",
        _or_auto(_rate),
        _RATE_OR_AUTO,
        "auto",
        "OFFLINE_TARGET_QPS",
    ),
    OptionSpec(
        "dataset",
        "embedded, cnn_dailymail, or a JSON, JSONL or parquet file or folder",
        _text,
        "allowed is a name, a file or a folder",
    ),
    OptionSpec(
        "logs",
        "judge the LoadGen logs or the submission tree in this folder, and run nothing",
        _text,
        "allowed is a folder",
    ),
    OptionSpec("results-dir", "where results go", _text, "allowed is a folder", "results"),
    OptionSpec(
        "keep-all", "1 keeps every run, 0 the latest of its kind", _flag, "allowed are 0, 1", "1"
    ),
    OptionSpec(
        "baseline",
        "judge this session against this earlier run; may be given again for another scenario",
        _text,
        "allowed is a run's folder or its summary.json",
        repeatable=True,
    ),
    OptionSpec(
        "max-regression",
        "the loss against --baseline that passes, in percent; a loss within the noise passes too",
        _percent,
        "allowed is a number from 0 to below 100",
        "5",
    ),
    OptionSpec(
        "baseline-allow-different",
        "compare with a baseline of another model, hardware, profile or round all the same",
        _flag,
        "allowed are true, false",
        "false",
        switch=True,
    ),
    OptionSpec(
        "repeat",
        "make each performance run this often, to measure the noise; the first is judged",
        _count,
        _COUNT,
        "1",
    ),
    OptionSpec("max-model-len", "the engine's longest context, in tokens", _count, _COUNT),
    OptionSpec(
        "gpu-memory-utilization",
        "the share of each GPU's memory that the engine takes",
        _fraction,
        "allowed is a number above 0 and up to 1",
    ),
    OptionSpec(
        "engine-arg",
        "KEY=VALUE, anything vLLM's engine takes; may be given again",
        _engine_arg,
        "allowed is KEY=VALUE",
        repeatable=True,
    ),
    OptionSpec(
        "find-peak-qps",
        "search for the highest rate whose Server or Interactive run is VALID",
        _flag,
        "allowed are true, false",
        "false",
        switch=True,
    ),
    OptionSpec(
        "high-accuracy",
        "gate ROUGE at 99.9% of its baseline",
        _flag,
        "allowed are true, false",
        "false",
        switch=True,
    ),
    OptionSpec(
        "mmlu-data",
        "MMLU's questions: embedded, cais/mmlu (the hub's), or a folder of CSV or parquet files",
        _text,
        "allowed is a name or a folder",
    ),
    OptionSpec(
        "mmlu-limit",
        "MMLU questions in all, spread evenly over the subjects; auto is all",
        _or_auto(_count),
        _COUNT_OR_AUTO,
        "auto",
    ),
    OptionSpec(
        "mmlu-shots",
        f"worked examples before each MMLU question; {STANDARD_SHOTS} is the standard, "
        "the embedded questions have 1",
        _shots,
        f"allowed is a whole number from 0 to {STANDARD_SHOTS}",
    ),
    OptionSpec(
        "mmlu-min-accuracy",
        "the least MMLU score that passes, in percent",
        _score,
        "allowed is a number from 0 to 100",
    ),
    OptionSpec(
        "mmlu-details",
        "keep each MMLU question's text, choices and log-probabilities in details.jsonl",
        _flag,
        "allowed are true, false",
        "false",
        switch=True,
    ),
    OptionSpec(
        "mmlu-resume",
        "go on with the newest MMLU run that did not come to its end",
        _flag,
        "allowed are true, false",
        "false",
        switch=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting as used. Durations in ms, rates in samples/s or queries/s; None is auto.

    `logs`: the folder to judge, None where the suite makes its own runs. `round_given`: whether
    the user chose the round; logs are else judged by their own. `baselines`: the runs that the
    regression gate compares with; `max_regression`: the loss that it lets pass (0.05 is 5%).
    """

    profile: Profile
    round: Round
    model: str
    task: Task
    dataset: str
    category: Category | None
    scenario: str | None
    mode: str
    precision: str
    tensor_parallel_size: int | None
    max_new_tokens: int
    total_sample_count: int | None
    server_target_qps: float | None
    offline_target_qps: float | None
    results_dir: Path
    keep_all: bool
    high_accuracy: bool
    find_peak_qps: bool
    max_model_len: int | None
    gpu_memory_utilization: float | None
    mmlu_data: str
    mmlu_limit: int | None = None
    mmlu_shots: int | None = None
    mmlu_min_accuracy: float | None = None
    mmlu_details: bool = False
    mmlu_resume: bool = False
    engine_args: dict[str, object] = field(default_factory=dict)
    baselines: list[str] = field(default_factory=list)
    max_regression: float = 0.05
    baseline_allow_different: bool = False
    repeat: int = 1
    logs: Path | None = None
    round_given: bool = False
    node_name: str | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def smoke(self) -> bool:
        return self.profile == "smoke"

    @property
    def label(self) -> str:
        """What stands on every output."""
        if self.smoke:
            return "smoke: not an MLPerf result"
        return f"official rules of round {self.round.name}"

    @property
    def departures(self) -> tuple[str, ...]:
        """How answers are generated otherwise than the benchmark says, a few words each."""
        return self.task.departures(self.max_new_tokens, self.engine_args)

    def as_json(self) -> dict[str, object]:
        """The settings for config.json; the token is not among them."""
        return {
            **{
                name: getattr(self, name)
                for name in self.__dataclass_fields__
                if name not in _NOT_IN_JSON
            },
            "round": self.round.name,
            "results_dir": str(self.results_dir),
            "prompt": self.task.prompt,
            "chat_template": self.task.chat,
            "generation": asdict(self.task.generation) | {"max_new_tokens": self.max_new_tokens},
            "hub_token": "set" if self.token else "not set",
        }


def resolve_settings(
    options: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    config_file: str | None = None,
) -> Settings:
    """Check every setting and put the profile's defaults under it.

    `options`: by option name, the texts given on the command line; None or absent is not given.
    Raises UsageError that names the option (or the variable or file), the value and what is
    allowed.
    """
    environment = os.environ if environment is None else environment
    remember_named(environment)
    _remember_engine_args(options.get("engine_arg"))
    in_file = _read_config_file(config_file)
    _remember_engine_args(in_file.get("engine_arg"))
    value = {spec.dest: _value(spec, options, environment, in_file) for spec in OPTIONS}
    profile = cast(Profile, value["profile"])
    engine_args = dict(value["engine_arg"] or [])
    tokens = (engine_args.pop("hf_token", None), *map(environment.get, TOKEN_VARIABLES))
    token = next((str(token) for token in tokens if token), None)
    base = EMBEDDED if profile == "smoke" else OFFICIAL
    model = value["model"] or base.model
    model = MODEL_ALIASES.get(model, model)
    official_model = model.casefold() == OFFICIAL.model.casefold()
    task = base
    if profile == "smoke" and official_model:
        # The official model keeps its own prompt, whatever the profile.
        task = OFFICIAL
    return Settings(
        profile=profile,
        round=ROUNDS[value["round"]],
        model=model,
        task=task,
        dataset=value["dataset"] or base.dataset,
        category=value["category"],
        scenario=value["scenario"],
        mode=value["mode"],
        precision=value["precision"],
        tensor_parallel_size=value["tensor_parallel_size"],
        max_new_tokens=value["max_new_tokens"] or task.generation.max_new_tokens,
        total_sample_count=value["total_sample_count"],
        server_target_qps=value["server_target_qps"],
        offline_target_qps=value["offline_target_qps"],
        results_dir=Path(value["results_dir"]).expanduser(),
        keep_all=value["keep_all"],
        high_accuracy=value["high_accuracy"],
        find_peak_qps=value["find_peak_qps"],
        max_model_len=value["max_model_len"]
        or (None if profile == "smoke" else _OFFICIAL_MAX_MODEL_LEN),
        gpu_memory_utilization=value["gpu_memory_utilization"],
        mmlu_data=value["mmlu_data"] or ("embedded" if profile == "smoke" else HUB_REPOSITORY),
        mmlu_limit=value["mmlu_limit"],
        mmlu_shots=value["mmlu_shots"],
        mmlu_min_accuracy=value["mmlu_min_accuracy"],
        mmlu_details=value["mmlu_details"],
        mmlu_resume=value["mmlu_resume"],
        engine_args=engine_args,
        logs=Path(value["logs"]).expanduser() if value["logs"] else None,
        baselines=list(value["baseline"] or []),
        max_regression=value["max_regression"],
        baseline_allow_different=value["baseline_allow_different"],
        repeat=value["repeat"],
        round_given=options.get("round") is not None or "round" in in_file,
        node_name=environment.get("NODE_NAME"),
        token=token,
    )


def _remember_engine_args(given: Any) -> None:
    """Before anything of them is checked, and could stand in an error: as written, and as read."""
    if isinstance(given, Mapping):
        remember_named(given)
        given = [f"{key}={value}" for key, value in given.items()]
    for text in [given] if isinstance(given, str) else given or []:
        key, _, value = str(text).partition("=")
        # Quotes are none of the secret's, and would be missed where it stands without them.
        remember_named({key: value.strip().strip("\"'")})
        remember_named({key: _engine_value(value)})


def check_model_is_reachable(settings: Settings) -> None:
    """Raise UsageError for a model that cannot be loaded.

    That is no such folder, one without a model in it, or a gated model and no token.
    """
    model = settings.model
    if model == EMBEDDED.model:
        return
    if Path(model).is_dir():
        missing = [
            names[0]
            for names in _OF_A_MODEL
            if not any((Path(model) / name).is_file() for name in names)
        ]
        if missing:
            raise UsageError(f"--model {model}: no model: there is no {missing[0]} in this folder")
        return
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise UsageError(
            f"--model {model}: no such folder, and not a hub id (OWNER/NAME) or one of the "
            f"aliases {', '.join(MODEL_ALIASES)}"
        )
    if model.startswith(_GATED_OWNERS) and not settings.token and not _in_hub_cache(model):
        raise UsageError(
            f"--model {model}: the model is gated and no token is set: set HF_TOKEN, "
            "or give a local copy with --model FOLDER"
        )


def _in_hub_cache(model: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(model, "config.json"), str)


def _read_config_file(config_file: str | None) -> dict[str, Any]:
    if config_file is None:
        return {}
    try:
        with Path(config_file).open("rb") as file:
            in_file = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"--suite-config {config_file}: {error.strerror}") from error
    # ValueError: not TOML, not UTF-8, or a number of more digits than Python takes.
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--suite-config {config_file}: not TOML: {error}") from error
    known = {spec.dest for spec in OPTIONS}
    named = {name.replace("-", "_"): value for name, value in in_file.items()}
    for name in named:
        if name not in known:
            raise UsageError(
                f"--suite-config {config_file}: unknown setting '{name}'; "
                f"allowed are {', '.join(sorted(known))}"
            )
    return named


def _value(
    spec: OptionSpec,
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    in_file: Mapping[str, Any],
) -> Any:
    if options.get(spec.dest) not in (None, []):
        return _parsed(spec, spec.flag, options[spec.dest])
    if spec.variable and environment.get(spec.variable):
        return _parsed(spec, f"{spec.variable}", environment[spec.variable])
    if spec.dest in in_file:
        return _parsed(spec, f"--suite-config: {spec.dest} =", _as_texts(spec, in_file[spec.dest]))
    return None if spec.default is None else spec.parse(spec.default)


def _as_texts(spec: OptionSpec, value: Any) -> Any:
    """A TOML value as the text that the command line would have."""
    if spec.repeatable and isinstance(value, Mapping):
        return [f"{key}={_as_texts(spec, item)}" for key, item in value.items()]
    if spec.repeatable and isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, Mapping | list):
        raise UsageError(f"--suite-config: {spec.dest} = {value}: one value; {spec.allowed}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(spec: OptionSpec, where: str, given: Any) -> Any:
    texts = given if isinstance(given, list) else [given]
    values = []
    for text in texts:
        try:
            values.append(spec.parse(str(text)))
        except (ValueError, KeyError) as error:
            raise UsageError(f"{where} {text}: {spec.allowed}") from error
    return values if spec.repeatable else values[-1]
