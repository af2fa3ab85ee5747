"""Every setting of the suite: options, environment and a TOML file become one checked `Settings`.

An option overrides its environment variable, which overrides the file, which overrides the
profile's default. To add a setting, declare a field of `Settings`; nothing else changes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, ParamSpec

from mlperf_suite.benchmarks.catalog import BENCHMARKS, default_benchmarks, runnable
from mlperf_suite.benchmarks.definition import (
    CATEGORIES,
    SCENARIOS,
    Benchmark,
    Category,
    Generation,
    Workload,
)
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS, Round
from mlperf_suite.engines.protocol import SILENCE_S
from mlperf_suite.errors import UsageError
from mlperf_suite.feature import features
from mlperf_suite.loadgen.load_plan import MODES as LOADGEN_MODES
from mlperf_suite.option_specs import (
    COUNT,
    COUNT_OR_AUTO,
    COUNT_OR_NONE,
    HEADER_NAME,
    RATE,
    RATE_OR_AUTO,
    TRUE_OR_FALSE,
    EngineChoice,
    OptionSpec,
    Values,
    checked,
    choice,
    folder,
    name_or_path,
    named,
    or_auto,
    read_toml,
)
from mlperf_suite.random_models import RANDOM_MODELS
from mlperf_suite.secrets import remember, remember_named

Profile = Literal["smoke", "official"]
PROFILES: tuple[Profile, ...] = ("smoke", "official")
PRECISIONS = ("bf16", "fp16", "fp32", "auto")
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGINGFACE_HUB_TOKEN")
_Details = ParamSpec("_Details")
_OPTION = "option"
"""The metadata key that holds a field's option."""
_OF_A_MODEL = (("config.json",), ("tokenizer.json", "tokenizer.model", "tokenizer_config.json"))
"""A model folder has one file of each group."""
_MAX_NAME_LENGTH = 100


def _alias(model: str) -> str:
    """A model's name without its owner, in MLPerf's spelling: Llama-3.1-8B is llama3.1-8b."""
    return re.sub(r"^llama-(?=\d)", "llama", model.rpartition("/")[2].lower())


MODEL_ALIASES: dict[str, str] = {
    _alias(workload.model): workload.model
    for benchmark in runnable()
    for workload in (benchmark.workload, benchmark.smoke)
    if workload is not None
}
_FORMER_MODELS = dict.fromkeys(
    ("llama-3.1-8b-instruct", "llama31-8b", "llama3.1"), MODEL_ALIASES["llama3.1-8b-instruct"]
)
"""Other aliases that run.py accepted (docs/from-run-py.md)."""
_DATASETS = {"embedded": "embedded", "cnn_dailymail": "cnn_dailymail", "cnndm": "cnn_dailymail"}
"""Data set names (case does not matter); run.py called CNN/DailyMail cnndm."""


def _declares(spec_of: Callable[_Details, OptionSpec]) -> Callable[_Details, Any]:
    """A function that makes a field of `Settings` with the option that `spec_of` makes."""

    def declare(*details: _Details.args, **more_details: _Details.kwargs) -> Any:
        spec = spec_of(*details, **more_details)
        return field(metadata={_OPTION: spec}, repr=not spec.secret)

    return declare


def _engine_arg(text: str) -> tuple[str, object]:
    """The key and value in KEY=VALUE, where VALUE is TOML (true, 8, 0.5, "text"), JSON, in which
    `vllm serve` takes objects, or else plain text."""
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
        is_json = value.lstrip().startswith(("{", "[", '"'))
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(value) if is_json else value
    return value


def engine_arg_text(key: str, value: object) -> str:
    """KEY=VALUE text that --engine-arg parses back to this value."""
    plain = f"{key}={value}"
    return plain if _engine_arg(plain)[1] == value else f"{key}={json.dumps(value)}"


_FRACTION = checked(float, lambda share: 0 < share <= 1, "must be a number above 0 and up to 1")
_PERCENT = checked(
    lambda text: float(text.removesuffix("%")) / 100,
    lambda share: 0 <= share < 1,
    "must be a number from 0 to below 100",
)
_FOLDER, _FILE = Values(folder, "must be a folder"), Values(folder, "must be a file")
# results.node_files removes what a file name may not contain.
_NAME = checked(
    str.strip,
    lambda name: 0 < len(name) <= _MAX_NAME_LENGTH and name.isprintable(),
    f"must be a name of at most {_MAX_NAME_LENGTH} printable characters",
)

option = _declares(OptionSpec)
"""A field of `Settings` that the user sets, with the details of its option."""
_of_vllm = partial(option, engine="vllm")
_switch = partial(option, values=TRUE_OR_FALSE, default="false", switch=True)
_MODULES_OF_FEATURES = [import_module(feature.options) for feature in features() if feature.options]
OPTIONS_OF_FEATURES: Mapping[str, OptionSpec] = {
    name: dataclasses.replace(spec, name=spec.name or name.replace("_", "-"))
    for module in _MODULES_OF_FEATURES
    for name, spec in module.OPTIONS.items()
}
"""The options that features add, by the names of their values."""
_ENGINES = {name: spec.chooses for name, spec in OPTIONS_OF_FEATURES.items() if spec.chooses}
_VLLM = "vllm"
_OTHER_SILENCES = "".join(
    f", or {engine.silence_s:g} with {OPTIONS_OF_FEATURES[name].flag}"
    for name, engine in _ENGINES.items()
)


def _chosen_engine(value: Mapping[str, Any]) -> EngineChoice | None:
    """The kind of engine that these values choose; None for vLLM in this process."""
    return next((engine for name, engine in _ENGINES.items() if value[name]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings in effect. Rates are in samples/s or queries/s; None means auto, or not given.

    A session has one model, one data set and one answer length: those of its benchmarks unless
    given. `max_regression`: a share of the baseline's figure (0.05 is 5%).
    """

    profile: Profile = option(
        "smoke runs a small real model under shortened rules on any machine; official applies "
        "MLPerf's own rules",
        choice(*PROFILES),
        "smoke",
        identifies="measurement",
    )
    round: Round = option(
        "the MLPerf Inference round whose rules and seeds apply",
        named(ROUNDS),
        DEFAULT_ROUND,
        identifies="measurement",
    )
    model: str = option(
        "the model: a Hugging Face id, an alias such as llama3.1-8b-instruct, or a local folder; "
        "by default the embedded model in smoke and the benchmark's own in official",
        Values(name_or_path, "must be a hub id, an alias or a folder"),
        identifies="system",
    )
    named_benchmarks: list[str] = option(
        "run only this benchmark; may be repeated for benchmarks of the same model",
        choice(*(benchmark.id for benchmark in runnable())),
        name="benchmark",
        identifies=None,
        repeatable=True,
    )
    category: Category | None = option(
        "run only this category", choice(*CATEGORIES), identifies=None
    )
    scenario: str | None = option("run only this scenario", choice(*SCENARIOS), identifies=None)
    mode: str = option(
        "run only the accuracy runs or only the performance runs; both also runs the audits",
        choice("accuracy", "performance", "both"),
        "both",
        identifies=None,
    )
    precision: str = _of_vllm(
        "the engine's data type; auto uses the model's own, and on a CPU bf16 if the CPU supports "
        "it in hardware, otherwise fp32",
        choice(*PRECISIONS),
        "auto",
        identifies="system",
        reported_as="dtype",
    )
    tensor_parallel_size: int | None = _of_vllm(
        "number of accelerators that the model is split over; auto uses as many as its attention "
        "heads allow",
        COUNT_OR_AUTO,
        "auto",
        identifies="system",
    )
    max_new_tokens: int = option(
        "maximum number of tokens per answer; by default the benchmark's own",
        COUNT,
        identifies="measurement",
        variable="MAX_TOKENS",
    )
    total_sample_count: int | None = option(
        "use only the first N samples of the data set; auto uses all, or in smoke as many as fit "
        "the time of a run",
        COUNT_OR_AUTO,
        "auto",
        identifies="measurement",
        reported_as="samples",
    )
    server_target_qps: float | None = option(
        "target rate of Server and Interactive in queries/s; auto is 0.8 times the samples/s of "
        "the last Offline run",
        RATE_OR_AUTO,
        "auto",
        identifies=None,
        variable="SERVER_TARGET_QPS",
    )
    offline_target_qps: float | None = option(
        "expected rate of Offline in samples/s, which sizes its query; auto takes it from the "
        "accuracy run",
        RATE_OR_AUTO,
        "auto",
        identifies=None,
        variable="OFFLINE_TARGET_QPS",
    )
    warmup: int | None = option(
        "number of untimed warm-up requests before each LoadGen run; 0 disables the warm-up; auto "
        "warms up before each run, in smoke before the first of each scenario",
        or_auto(COUNT_OR_NONE),
        "auto",
        identifies="measurement",
    )
    dataset: str = option(
        "the data set: embedded, cnn_dailymail, or a JSON, JSONL or parquet file or a folder of "
        "them; by default embedded in smoke and the benchmark's own in official",
        Values(name_or_path, "must be a name, a file or a folder"),
        identifies="measurement",
        reported_as="data sha256",
    )
    allow_other_model: bool = _switch(
        "allow a model other than the benchmark's own in the official profile; its scores have no "
        "reference accuracy",
        identifies=None,
    )
    logs: Path | None = option(
        "judge the LoadGen logs or the submission tree in this folder instead of running anything; "
        "smoke results fail the official rules unless --profile smoke is given",
        _FOLDER,
        identifies=None,
    )
    logs_html: Path | None = option(
        "with --logs, also write a page to forward: figures, failures and every verdict",
        _FILE,
        identifies=None,
        only_with=("logs",),
    )
    logs_csv: Path | None = option(
        "with --logs, also write a row for each result: its verdicts, figures and scores",
        _FILE,
        identifies=None,
        only_with=("logs",),
    )
    results_dir: Path = option("directory for results", _FOLDER, "results", identifies=None)
    keep_all: bool = option(
        "1 keeps every run, 0 deletes older runs of the same kind",
        Values(TRUE_OR_FALSE.parse, "must be 0 or 1"),
        "1",
        identifies=None,
    )
    node_name: str | None = option(
        "name of this machine in its results, which `aggregate` uses to identify nodes; also "
        "writes mlperf_datacenter_<node>_<time>.json and summary_<node>_<time>.txt",
        _NAME,
        identifies=None,
        variable="NODE_NAME",
        legacy_flags=("--node",),
    )
    run_name: str | None = option(
        "name of this session's runs in reports, the index, comparisons and summary.json",
        _NAME,
        name="label",
        identifies=None,
    )
    plan: bool = _switch(
        "print the steps of the session with their estimated times and the placement of "
        "replicas; check model, data and folders as a run would; then exit",
        identifies=None,
    )
    baselines: list[str] = option(
        "compare with this earlier run; may be repeated, once per scenario",
        Values(name_or_path, "must be a run's folder or its summary.json"),
        name="baseline",
        identifies=None,
        repeatable=True,
    )
    max_regression: float = option(
        "largest loss against --baseline that passes, in percent; a loss within the noise always "
        "passes",
        _PERCENT,
        "5",
        identifies=None,
    )
    fail_on_cannot_tell: bool = _switch(
        "fail a test against --baseline that cannot tell, since the noise could hide a loss",
        identifies=None,
    )
    baseline_allow_different: bool = _switch(
        "compare even if the baseline has a different model, hardware, profile or round",
        identifies=None,
    )
    repeat: int = option(
        "repeat each performance run this many times to measure the noise; the rules judge the "
        "first",
        COUNT,
        "1",
        identifies=None,
    )
    max_model_len: int | None = _of_vllm(
        "maximum context length of the engine in tokens; by default what the benchmark needs",
        COUNT,
        identifies="system",
    )
    gpu_memory_utilization: float | None = _of_vllm(
        "fraction of each accelerator's memory that the engine may use; by default vLLM's own",
        _FRACTION,
        identifies="system",
    )
    engine_args: dict[str, object] = _of_vllm(
        "any other argument of vLLM's engine, as KEY=VALUE; may be repeated",
        Values(_engine_arg, "must be KEY=VALUE"),
        name="engine-arg",
        identifies="system",
        repeatable=True,
    )
    engine_silence: float = option(
        "seconds without an answer or an engine step after which a busy engine is considered hung; "
        f"by default {SILENCE_S:g}{_OTHER_SILENCES}",
        RATE,
        identifies=None,
    )
    high_accuracy: bool = _switch(
        "require 99.9% of the reference accuracy instead of 99%", identifies="measurement"
    )
    feature_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The values of the options that features add, by their names with underscores, and the
    settings that follow from them."""
    max_new_tokens_given: bool = False
    """Whether the user set the answer length limit; otherwise each benchmark has its own."""
    round_given: bool = False
    """Whether the user chose the round; otherwise logs are judged by their own."""
    profile_given: bool = False
    """Whether the user chose the profile; otherwise logs are judged by the official rules."""
    token: str | None = field(default=None, repr=False)

    @property
    def has_carried_model(self) -> bool:
        """Whether the model is a small one that the set-up installs or makes."""
        return self.model in (EMBEDDED.model, *RANDOM_MODELS)

    @property
    def smoke(self) -> bool:
        return self.profile == "smoke"

    @property
    def engine_kind(self) -> str:
        """The kind of engine, whose options apply."""
        chosen = _chosen_engine(self.feature_options)
        return chosen.kind if chosen else _VLLM

    @property
    def own_runs(self) -> str:
        """Which option of a feature leaves out all but its own runs; empty if none does."""
        for name, spec in OPTIONS_OF_FEATURES.items():
            if spec.own_runs and (value := self.feature_options[name]) in spec.own_runs:
                return f"{spec.flag} {value} {spec.own_runs[value]}".rstrip()
        return ""

    def implied_flags(self, other: str) -> dict[str, bool]:
        """Which options of features that cannot be combined with another one are set."""
        return {
            spec.flag: bool(self.feature_options[name])
            for name, spec in OPTIONS_OF_FEATURES.items()
            if other in spec.not_with
        }

    @property
    def label(self) -> str:
        """The label on every output."""
        if self.smoke:
            return "smoke: not an MLPerf result"
        return f"official rules of round {self.round.name}"

    @property
    def benchmarks(self) -> list[Benchmark]:
        """The benchmarks that a session may run: the named ones, or else the default ones."""
        return _benchmarks(self.named_benchmarks, self.profile)

    def workload(self, benchmark: Benchmark) -> Workload:
        """The workload of a benchmark: its own, or the smoke profile's substitute.

        The official model keeps its own prompt under every profile. Raises UsageError if the
        profile has no form of the benchmark.
        """
        workload = _workload(benchmark, self.profile, self.model)
        as_in_round = benchmark.by_round.get(self.round.name)
        return workload if as_in_round is None else as_in_round(workload)

    def generation(self, benchmark: Benchmark, mode: str = "performance") -> Generation:
        own = self.workload(benchmark).part(mode).generation
        if not self.max_new_tokens_given:
            return own
        return dataclasses.replace(own, max_new_tokens=self.max_new_tokens)

    def context_needed(self, benchmarks: Iterable[Benchmark]) -> int | None:
        """The longest sequence that these benchmarks need, in tokens; None for the model's own
        limit.

        Without benchmarks, it is what the session's benchmarks need.
        """
        of_session = list(benchmarks) or self.benchmarks
        lengths = [self.workload(benchmark).context for benchmark in of_session]
        limits = [length for length in lengths if length is not None]
        return max(limits) if limits and len(limits) == len(lengths) else None

    def as_json(self, benchmark: Benchmark | None = None) -> dict[str, object]:
        """The settings for config.json, with the prompt and generation of a benchmark.

        Options of the other kind of engine and all secrets are left out.
        """
        content = {
            name: self.feature_options[name]
            if name in self.feature_options
            else getattr(self, name)
            for name, spec in OPTION_OF_FIELD.items()
            if name not in _OF_NO_RUN and spec.engine in (None, self.engine_kind)
        }
        content |= {
            "round": self.round.name,
            "results_dir": str(self.results_dir),
            "hub_token": "set" if self.token else "not set",
        }
        for module in _MODULES_OF_FEATURES:
            if hasattr(module, "recorded"):
                content |= module.recorded(self)
        if benchmark is not None:
            content |= self.workload(benchmark).prompt.as_json()
            generation = self.generation(benchmark)
            content["max_new_tokens"] = generation.max_new_tokens
            content["generation"] = generation.as_json()
        return content


_OF_NO_RUN = ("logs", "logs_html", "logs_csv", "plan")
"""The settings of sessions that run nothing."""
_NAMES_OF_MODELS = ("model", "served_model_name")
_IN_EVERY_RESULT = {
    *(*PROFILES, *CATEGORIES, *SCENARIOS, *BENCHMARKS, *MODEL_ALIASES, *MODEL_ALIASES.values()),
    *LOADGEN_MODES,
}
OPTION_OF_FIELD: Mapping[str, OptionSpec] = {
    **{
        setting.name: dataclasses.replace(spec, name=spec.name or setting.name.replace("_", "-"))
        for setting in dataclasses.fields(Settings)
        if (spec := setting.metadata.get(_OPTION))
    },
    **OPTIONS_OF_FEATURES,
}
"""The options by the names of their fields, which are the names of the settings in config.json."""
OPTIONS: tuple[OptionSpec, ...] = tuple(OPTION_OF_FIELD.values())


def resolve_settings(
    options: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    config_file: str | None = None,
) -> Settings:
    """Check every setting and fill in the profile's defaults.

    `options`: the command line texts by option name; None or absent means not given. Raises
    UsageError that names the option (or the variable or file), the value and what is allowed.
    """
    environment = os.environ if environment is None else environment
    remember_named(environment)
    _remember_engine_args(options.get("engine_arg"))
    in_file = _read_config_file(config_file)
    _remember_engine_args(in_file.get("engine_arg"))
    names = [place.get(name) for place in (options, in_file) for name in _NAMES_OF_MODELS]
    for secret in (spec.dest for spec in OPTIONS if spec.secret):
        for headers in (options.get(secret), in_file.get(secret)):
            _remember_headers(headers, {str(name) for name in names if name})
    sources = {spec: _source(spec, options, environment, in_file) for spec in OPTIONS}
    value = {name: _value(spec, sources[spec]) for name, spec in OPTION_OF_FIELD.items()}
    chosen = _chosen_engine(value)
    places = {spec: source[0] for spec, source in sources.items() if source}
    _check_engine(places, chosen, value)
    _check_needs(places)
    for name, spec in OPTION_OF_FIELD.items():
        if spec.implies and value[name] is not None:
            other, implied = spec.implies
            value[other] = implied if value[other] is None else value[other]
    profile: Profile = value["profile"]
    feature_options = {
        name: _in_profile(spec, value.pop(name), profile)
        for name, spec in OPTIONS_OF_FEATURES.items()
    }
    for module in _MODULES_OF_FEATURES:
        if hasattr(module, "completed"):
            feature_options |= module.completed(feature_options, environment)
    names_of_benchmarks = list(dict.fromkeys(value["named_benchmarks"] or []))
    first, *rest = _benchmarks(names_of_benchmarks, profile)
    model = value["model"] or _workload(first, profile, None).model
    model = (MODEL_ALIASES | _FORMER_MODELS).get(model.casefold(), model)
    dataset = value["dataset"] or _workload(first, profile, None).dataset
    for benchmark in rest if value["model"] is None else ():
        if _workload(benchmark, profile, None).model != model:
            raise UsageError(
                f"--benchmark {benchmark.id}: uses a different model from {first.id}, and a "
                "session loads one model: run each benchmark in its own session"
            )
    answer_lengths = [
        _workload(benchmark, profile, model).generation.max_new_tokens
        for benchmark in (first, *rest)
    ]
    engine_args = dict(value["engine_args"] or [])
    if "model" in engine_args:
        raise UsageError("--engine-arg model: name the model with --model")
    tokens = (engine_args.pop("hf_token", None), *map(environment.get, TOKEN_VARIABLES))
    given_longest = value["max_new_tokens"]
    value |= {
        "model": model,
        "dataset": _DATASETS.get(dataset.casefold(), dataset),
        "named_benchmarks": names_of_benchmarks,
        "max_new_tokens": given_longest or max(answer_lengths),
        "engine_args": engine_args,
        "baselines": list(value["baselines"] or []),
        "engine_silence": value["engine_silence"] or (chosen.silence_s if chosen else SILENCE_S),
    }
    return Settings(
        **value,
        feature_options=feature_options,
        max_new_tokens_given=bool(given_longest),
        round_given=options.get("round") is not None or "round" in in_file,
        profile_given=options.get("profile") is not None or "profile" in in_file,
        token=next((str(token) for token in tokens if token), None),
    )


def _check_engine(
    places: Mapping[OptionSpec, str], chosen: EngineChoice | None, value: Mapping[str, Any]
) -> None:
    """Raise UsageError for an option of another kind of engine than the chosen one."""
    for spec, place in places.items():
        where = place.removesuffix(" =")
        if chosen and spec.engine not in (None, chosen.kind):
            raise UsageError(f"{where}: {chosen.refusal(value)}")
        if not chosen and spec.engine not in (None, _VLLM):
            (words,) = (e.words for e in _ENGINES.values() if e.kind == spec.engine)
            raise UsageError(f"{where}: can only be used with {words}")


def _check_needs(places: Mapping[OptionSpec, str]) -> None:
    """Raise UsageError for an option without any of the options that it needs."""
    given = {spec.name for spec in places}
    for spec, place in places.items():
        if spec.only_with and place != spec.variable and given.isdisjoint(spec.only_with):
            where, needed = place.removesuffix(" ="), " or --".join(spec.only_with)
            raise UsageError(f"{where}: can only be used with --{needed}")


def check_options_of_features(settings: Settings) -> None:
    """Raise UsageError for options of features that cannot be combined with others."""
    for feature in features():
        if feature.options and hasattr(module := import_module(feature.options), "check"):
            module.check(settings)


def _benchmarks(ids: Sequence[str], profile: Profile) -> list[Benchmark]:
    """The named benchmarks, or else the default ones that the profile can run."""
    if ids:
        return [BENCHMARKS[name] for name in ids]
    return [b for b in default_benchmarks() if profile != "smoke" or b.smoke is not None]


def _workload(benchmark: Benchmark, profile: Profile, model: str | None) -> Workload:
    """The workload of a benchmark under a profile; `model` None means the profile's own."""
    own, smoke = benchmark.workload, benchmark.smoke
    assert own is not None  # --benchmark accepts only those that can be run
    if profile == "official":
        return own
    if smoke is None:
        raise UsageError(
            f"--benchmark {benchmark.id}: cannot run in the smoke profile: add --profile official"
        )
    is_own_model = model is not None and model.casefold() == own.model.casefold()
    return own if is_own_model else smoke


def _remember_engine_args(arguments: Any) -> None:
    """Remember the secrets among the engine arguments, as written and as parsed.

    Called before any check, since an error message could quote them.
    """
    if isinstance(arguments, Mapping):
        remember_named(arguments)
        arguments = [f"{key}={value}" for key, value in arguments.items()]
    for text in [arguments] if isinstance(arguments, str) else arguments or []:
        key, _, value = str(text).partition("=")
        # Without quotes: the secret may appear elsewhere unquoted.
        remember_named({key: value.strip().strip("\"'")})
        remember_named({key: _engine_value(value)})


def _remember_headers(headers: Any, models: set[str]) -> None:
    """Remember the values of headers, whole and without a leading scheme name.

    Called before any check, since an error message could quote them. A value that is one of these
    models, or a word that every result contains, is not a secret: a gateway may route by it.
    """
    if isinstance(headers, Mapping):
        headers = [f"={value}" for value in headers.values()]
    for text in [headers] if isinstance(headers, str) else headers or []:
        value = str(text).partition("=")[2].strip()
        if value not in models | _IN_EVERY_RESULT:
            remember(value)
            remember(value.rpartition(" ")[2])


def check_model_is_reachable(settings: Settings, hint: str = "") -> None:
    """Raise UsageError for a model that cannot be loaded.

    Either the folder does not exist or holds no model, or the model is gated and there is no token.
    `hint`: what else the message says of a name that is none.
    """
    model = settings.model
    if settings.has_carried_model:
        return
    if Path(model).is_dir():
        absent = [
            names[0]
            for names in _OF_A_MODEL
            if not any((Path(model) / name).is_file() for name in names)
        ]
        if absent:
            raise UsageError(f"--model {model}: not a model's folder: it has no {absent[0]}")
        return
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise UsageError(
            f"--model {model}: no such folder, and not a hub id (OWNER/NAME) or one of the "
            f"aliases {', '.join(MODEL_ALIASES)}{hint}"
        )
    if model.startswith("meta-llama/") and not settings.token and not _in_hub_cache(model):
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
    in_file = read_toml("--suite-config", Path(config_file))
    dests = {spec.dest for spec in OPTIONS}
    settings = {name.replace("-", "_"): value for name, value in in_file.items()}
    for name in settings:
        if name not in dests:
            raise UsageError(
                f"--suite-config {config_file}: unknown setting '{name}'; "
                f"must be one of {', '.join(sorted(dests))}"
            )
    return settings


def _source(
    spec: OptionSpec,
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    in_file: Mapping[str, Any],
) -> tuple[str, Any] | None:
    """Where a setting was given, in words, and its text or texts; None if it was not given."""
    if options.get(spec.dest) not in (None, []):
        return spec.flag, options[spec.dest]
    if spec.variable and environment.get(spec.variable):
        return spec.variable, environment[spec.variable]
    if spec.dest in in_file:
        return f"--suite-config: {spec.dest} =", _as_texts(spec, in_file[spec.dest])
    return None


def _value(spec: OptionSpec, source: tuple[str, Any] | None) -> Any:
    if source is None:
        return None if spec.default is None else spec.values.parse(spec.default)
    where, content = source
    values = [
        _parse(spec, where, str(t)) for t in (content if isinstance(content, list) else [content])
    ]
    return values if spec.repeatable else values[-1]


def _in_profile(spec: OptionSpec, value: Any, profile: Profile) -> Any:
    """An option's value, or else its default in a profile."""
    default = spec.by_profile.get(profile)
    return value if value is not None or default is None else spec.values.parse(default)


def _as_texts(spec: OptionSpec, value: Any) -> Any:
    """A TOML value as command line text."""
    if spec.secret and isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(item, Mapping | list):
                raise UsageError(f"--suite-config: {spec.dest} {name}: {spec.values.allowed}")
    if spec.repeatable and isinstance(value, Mapping):
        return [f"{key}={_as_texts(spec, item)}" for key, item in value.items()]
    if spec.repeatable and isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, Mapping | list):
        raise UsageError(
            f"--suite-config: {spec.dest} = {value}: expected one value, {spec.values.allowed}"
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(spec: OptionSpec, where: str, text: str) -> Any:
    try:
        return spec.values.parse(text)
    except OSError as error:
        raise UsageError(f"{where} {text}: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        quoted = _name_of_header(text) if spec.secret else f" {text}"
        # For a secret, no exception chain either: it would quote the value.
        raise UsageError(f"{where}{quoted}: {spec.values.allowed}") from (
            None if spec.secret else error
        )


def _name_of_header(text: str) -> str:
    name, equals, _ = text.partition("=")
    name = name.strip(" ")
    return f" {name}" if equals and HEADER_NAME.fullmatch(name) else ""
