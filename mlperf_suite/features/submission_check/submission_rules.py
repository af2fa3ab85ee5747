"""The rules of a submission that no single log can show: files, layout, systems.

Sources: the submission rules of MLPerf Inference, and constants.py and checks/ of the official
submission checker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mlperf_suite.benchmarks.catalog import judged_in_trees
from mlperf_suite.benchmarks.definition import Benchmark, Category, Scenario
from mlperf_suite.benchmarks.rounds import Layout, Round
from mlperf_suite.loadgen.logs import DETAIL, RunLogs
from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.registry import SERVER, rule
from mlperf_suite.rules.verdict import Verdict, in_words, no_demand, not_judged, verdict
from mlperf_suite.strict_json import JsonFile

MEASUREMENT_FIELDS = (
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
)
"""The required fields of the measurements' JSON file (SYSTEM_IMP_REQUIRED_FILES of the checker)."""
SYSTEM_FIELDS_FILLED = (
    "division",
    "submitter",
    "system_type",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "host_memory_capacity",
    "host_memory_configuration",
    "host_storage_capacity",
    "host_storage_type",
    "host_networking",
    "host_network_card_count",
    "host_networking_topology",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "accelerator_host_interconnect",
    "accelerator_memory_configuration",
    "accelerator_interconnect",
    "cooling",
    "framework",
    "operating_system",
    "other_software_stack",
)
"""The fields of a system's JSON file that must be filled in
(SYSTEM_DESC_MEANINGFUL_RESPONSE_REQUIRED_FIELDS)."""
SYSTEM_FIELDS_PRESENT = (
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "accelerator_frequency",
    "accelerator_interconnect_topology",
    "accelerator_on-chip_memories",
    "hw_notes",
    "sw_notes",
    "system_type_detail",
)
"""The fields that must also be present, even if empty (SYSTEM_DESC_REQUIRED_FIELDS of the
checker)."""
SYSTEM_FIELDS_OF_A_NETWORK = (
    "network_type",
    "network_media",
    "network_rate",
    "nic_loadgen",
    "number_nic_loadgen",
    "net_software_stack_loadgen",
    "network_protocol",
    "number_connections",
    "nic_sut",
    "number_nic_sut",
    "net_software_stack_sut",
    "network_topology",
)
"""The fields that must also be present if is_network has any value, even "false"
(SYSTEM_DESC_REQUIRED_FIELDS_NETWORK_MODE of the checker, which treats any text as true)."""
COUNTS = {"number_of_nodes": 1, "accelerators_per_node": 0}
"""The fields that the checker multiplies to count accelerators, with the least that each may be."""
NOTES = ("hw_notes", "sw_notes")
"""The fields that the checker joins as texts."""
STATUSES = ("available", "preview", "rdi")
_NETWORK, _CAPACITY = "is_network", "system_power_capacity"
_OF_BOTH_TYPES = {("deepseek-r1", "v5.1"): "SingleStream"}
"""What a benchmark needs in a round, beside its scenarios here, on a system of both types
(required-scenarios-datacenter-edge): no other one differs."""
_EVERY_ROUND = ("v5.1", "v6.0", "v6.1")
OTHER_BENCHMARKS = {
    **dict.fromkeys(("resnet", "bert-99", "bert-99.9", "3d-unet-99", "3d-unet-99.9"), _EVERY_ROUND),
    **dict.fromkeys(("stable-diffusion-xl", "rgat", "whisper"), _EVERY_ROUND),
    **dict.fromkeys(("dlrm-v2-99", "dlrm-v2-99.9"), ("v5.1",)),
    **dict.fromkeys(("retinanet", "pointpainting"), ("v5.1", "v6.0")),
    **dict.fromkeys(("dlrm-v3", "yolo-95", "yolo-99", "wan-2.2-t2v-a14b"), ("v6.0", "v6.1")),
    "qwen3-vl-235b-a22b": ("v6.0", "v6.1"),
    **dict.fromkeys(("qwen3.6-27b", "e2e-rag-qna", "e2e-rag-db"), ("v6.1",)),
}
"""MLPerf's benchmarks that this suite does not judge, with the rounds that offer them
(MODEL_CONFIG: models)."""
SYSTEM_TYPES = ("datacenter", "edge", "datacenter,edge", "edge,datacenter")


@dataclass(frozen=True, slots=True)
class PowerSupplyRating:
    """What systems/<system>_power.yaml has; `problem` says why nothing. `counts`: the result has a
    power measurement beside which it counts."""

    content: Any
    problem: str
    counts: bool


class SubmittedBenchmark(Protocol):
    """The requirements on a benchmark, of any load generator."""

    @property
    def id(self) -> str: ...
    @property
    def category(self) -> Category: ...
    @property
    def also(self) -> Category | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedFacts(Facts):
    """What the result of any load generator has, apart from what its runs' own rules judge.

    `missing_files`: required files that are absent. `copies`: other results of the tree that have
    the same logs.
    """

    division: str = "closed"
    submitter: str = ""
    benchmark: SubmittedBenchmark
    round: Round
    missing_files: tuple[str, ...] = ()
    system: JsonFile = field(default_factory=JsonFile)
    measurements: JsonFile = field(default_factory=JsonFile)
    copies: tuple[str, ...] = ()
    nameplate: PowerSupplyRating | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFacts(SubmittedFacts):
    """One scenario's result of LoadGen. `layouts`: what it has of each layout. `audits`: the logs
    of those that have a detail log. `offline`: the performance run of the same system's
    Offline, None if there is none."""

    benchmark: Benchmark
    scenario: Scenario
    layouts: Mapping[Layout, list[str]]
    accuracy: RunLogs
    performance: RunLogs
    user_conf: str = ""
    audits: tuple[RunLogs, ...] = ()
    offline: RunLogs | None = None

    @property
    def subject(self) -> Subject:
        return "result"


@dataclass(frozen=True, slots=True)
class SystemFacts(Facts):
    """A system that a submission describes, by the name of its JSON file."""

    name: str
    has_results: bool

    @property
    def subject(self) -> Subject:
        return "system"


# Of one scenario's result


_LAYOUTS: Mapping[Layout, str] = {
    "v5": "code/, measurements/ and compliance/ beside results/ (v5.x)",
    "v6": "src/, and everything else under results/ (v6)",
}


@rule(
    "result",
    source="submission checker, PERFORMANCE_LOG_PATH, MEASUREMENTS_PATH, COMPLIANCE_PATH, SRC_PATH",
    fix="Build the tree for its round with python -m mlperf_suite submission.",
)
def layout(result: ResultFacts) -> Verdict:
    """Files follow the round's layout: v5.x beside results/ with code/, from v6.0 all under
    results/ with src/."""
    expected = result.round.layout
    foreign = [
        f"{name} of {of}"
        for of, names in result.layouts.items()
        if of != expected
        for name in names
    ]
    neither = "" if result.layouts[expected] else "neither layout"
    found = ", ".join(foreign) or neither or _LAYOUTS[expected]
    fits = not foreign and not neither
    return verdict(fits, found, _LAYOUTS[expected], f"round {result.round.name}")


@rule(
    "result",
    "client",
    source="submission checker, REQUIRED_PERF_FILES, REQUIRED_ACC_FILES, REQUIRED_MEASURE_FILES",
    fix="Add the named files; python -m mlperf_suite submission writes all of them.",
)
def required_files(result: SubmittedFacts) -> Verdict:
    """Every required file of a result exists and is not empty."""
    files = result.missing_files
    return verdict(not files, ", ".join(files) + " missing" if files else "all", "all")


@rule(
    "result",
    "client",
    source="submission checker, system_check.py: availability, system type, submitter and division",
    fix="Correct the named fields of systems/<system>.json.",
)
def system_description(result: SubmittedFacts) -> Verdict:
    """The system's JSON file fits the submitter, the division and the benchmark's category.

    A file of its power supplies beside it is YAML, and beside a power measurement has their watts.
    """
    if result.system.problem:
        return verdict(False, result.system.problem, "a system description")
    says = result.system.content
    wrong = [
        f"{key} {says.get(key)!r}"
        for key, fits in (
            ("submitter", _same(says.get("submitter"), result.submitter)),
            ("division", _same(says.get("division"), result.division)),
            ("status", str(says.get("status")).lower() in STATUSES),
            ("system_type", _covers(says.get("system_type"), result)),
            ("is_network", result.division != "closed" or not _same(says.get(_NETWORK), "true")),
        )
        if not fits
    ]
    watts, fault = _design_power(result.nameplate, says)
    wrong += [fault] if fault else []
    expectation = f"{result.submitter}, {result.division}, {result.benchmark.category}, status"
    fields = ", ".join(wrong) or f"{expectation} {says.get('status')}"
    design = "" if watts is None else f"design power {watts:,} W"
    return verdict(not wrong, fields, f"{expectation} {' or '.join(STATUSES)}", design)


def _design_power(
    nameplate: PowerSupplyRating | None, says: Mapping[str, Any]
) -> tuple[float | None, str]:
    """The watts that the checker sums up (system_check.py: nameplate_power_check), and what ends or
    fails it there, or ""."""
    if nameplate is None or nameplate.problem:
        return None, nameplate.problem if nameplate else ""
    if not nameplate.counts or _CAPACITY in says:
        return None, ""
    if nameplate.content is None:
        return None, "an empty file of power supplies"
    try:
        return _watts(nameplate.content, {}), ""
    except (AttributeError, LookupError, TypeError, ArithmeticError, RecursionError):
        return None, "power supplies that name no PSUs, Min PSUs Needed and watts"


def _watts(part: Any, known: dict[int, float]) -> float:
    """The watts of as many of a component's power supplies as it needs, the largest; else those of
    its parts. `known`: by the identity of a part, of which YAML may name one many times."""
    if id(part) in known:
        return known[id(part)]
    parts = part
    if isinstance(part, dict):
        names = {name.lower(): name for name in part}
        if {"psus", "min psus needed"} <= names.keys():
            supplies = [psu.get("PowerCapacityWatts", 0) for psu in part[names["psus"]]]
            needed = sorted(supplies, reverse=True)[: part[names["min psus needed"]]]
            return float(sum(needed))
        parts = part.values()
    elif not isinstance(part, list):
        return 0.0
    known[id(part)] = sum(_watts(each, known) for each in parts)
    return known[id(part)]


@rule(
    "result",
    "client",
    source="submission checker, SYSTEM_DESC_REQUIRED_FIELDS, "
    "SYSTEM_DESC_MEANINGFUL_RESPONSE_REQUIRED_FIELDS",
    fix="Fill in the named fields of systems/<system>.json.",
)
def system_fields(result: SubmittedFacts) -> Verdict:
    """The system's JSON file has every field that the checker requires, filled in where
    necessary."""
    required = "every field, filled in"
    if result.system.problem:
        return verdict(False, result.system.problem, required)
    wrong = missing_system_fields(result.system.content)
    return verdict(not wrong, ", ".join(wrong) or required, required)


def missing_system_fields(says: Mapping[str, Any]) -> list[str]:
    """The fields that a system's JSON file still needs, each with its fault."""
    absent = [name for name in SYSTEM_FIELDS_PRESENT if name not in says]
    empty = [name for name in SYSTEM_FIELDS_FILLED if not says.get(name)]
    wrong = [f"{name} empty" for name in empty] + [f"{name} missing" for name in absent]
    wrong += [
        f"{name} {in_words(says[name])}, not a whole number of {least} or more"
        for name, least in COUNTS.items()
        if says.get(name) and not _counts(says[name], least)
    ]
    wrong += [
        f"{in_words(name)} with a line break"
        for name, value in says.items()
        if isinstance(value, str) and len(value.splitlines()) > 1
    ]
    unsaid = [
        name
        for name in SYSTEM_FIELDS_FILLED
        if str(says.get(name)).strip(" .?<>[]").lower() in _PLACEHOLDERS
    ]
    wrong += [f"{name} {says[name]}" for name in unsaid if len(unsaid) > _MAX_UNSAID]
    notes = [name for name in NOTES if says.get(name) and not isinstance(says[name], str)]
    return [*wrong, *(f"{name} is not text" for name in notes), *_wrong_network(says)]


_PLACEHOLDERS = ("todo", "tbd", "fixme", "xxx", "fill in")
_MAX_UNSAID = 2
"""So many fields of one public system say TODO."""


def _counts(value: object, least: int) -> bool:
    """Whether it is a whole number, as such or as text, of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return False
    return number >= least and (isinstance(value, str) or number == value)


def _wrong_network(says: Mapping[str, Any]) -> list[str]:
    """The faults of is_network, which only a system of the network division needs.

    If it is not text, even for JSON's false, the checker fails with an exception.
    """
    value = says.get(_NETWORK)
    if value is None or value == "":
        return []
    words = f"{_NETWORK} {in_words(value)}"
    if not isinstance(value, str):
        return [f"{words} is not text: leave it out"]
    absent = [name for name in SYSTEM_FIELDS_OF_A_NETWORK if name not in says]
    return [f"{words} without {', '.join(absent)}: leave it out"] if absent else []


def _same(value: object, name: str) -> bool:
    return str(value).lower() == name.lower()


def _covers(system_type: object, result: SubmittedFacts) -> bool:
    types = str(system_type).split(",") if system_type in SYSTEM_TYPES else []
    has_more = len(types) > 1 and (result.benchmark.id, result.round.name) in _OF_BOTH_TYPES
    categories = {result.benchmark.category, result.benchmark.also}
    return bool(categories & set(types)) and not has_more


@rule(
    "result",
    "client",
    source="submission checker, measurements_checks.py: SYSTEM_IMP_REQUIRED_FILES",
    fix="Fill in the named fields of the measurements' JSON file.",
)
def measurements(result: SubmittedFacts) -> Verdict:
    """The measurements' JSON file describes the weights and their transformations, which are not
    retrained in the closed division; the official checker does not read what it says."""
    required = "every field filled in"
    if result.measurements.problem:
        return verdict(False, result.measurements.problem, required)
    empty = [name for name in MEASUREMENT_FIELDS if not result.measurements.content.get(name)]
    retraining = str(result.measurements.content.get("retraining"))
    if result.division == "closed" and retraining.strip().lower() in ("yes", "y", "true"):
        return verdict(False, f"retraining {retraining}", "none in the closed division")
    return verdict(not empty, f"{', '.join(empty)} empty" if empty else required, required)


@rule(
    "result",
    required="settings of this benchmark, and no seed",
    official=False,
    source="Inference rules, LoadGen Operation; LoadGen's FromConfig: model.scenario.key",
    fix="Submit the user.conf that the runs were made with, and leave the seeds to mlperf.conf.",
)
def user_conf(result: ResultFacts) -> Verdict:
    """user.conf sets no seed, and not only what is another benchmark's; no public one of 491 does.

    Its rates and durations may be those of another run: 139 public ones are not their log's.
    """
    keys = [
        parts
        for line in result.user_conf.splitlines()
        if len(parts := line.partition("#")[0].partition("=")[0].strip().rsplit(".", 2)) == 3
    ]
    faults = [key for _, _, key in keys if key.endswith("_rng_seed")]
    models = {model for model, _, _ in keys}
    if models and all(_is_anothers(model, result.benchmark) for model in models):
        faults.append(f"only settings of {in_words(', '.join(sorted(models)))}")
    return verdict(not faults, in_words(", ".join(faults)) or f"{len(keys)} settings")


_OF_ONE_MODEL = re.compile(r"-(?:99(?:\.9)?|interactive|edge)$")


def _model(name: str) -> str:
    """The model of a benchmark's name."""
    return _OF_ONE_MODEL.sub("", name).replace("_", ".")


def _is_anothers(model: str, benchmark: Benchmark) -> bool:
    """Whether user.conf's name of a model is that of another of MLPerf's benchmarks."""
    known = {_model(name) for name in (*(b.id for b in judged_in_trees()), *OTHER_BENCHMARKS)}
    return _model(model) in known - {_model(benchmark.id)}


@rule(
    "result",
    source="Inference rules, System and framework must be consistent",
    fix="Make the accuracy run, the performance run and the audits with one SUT and one data set.",
)
def same_system(result: ResultFacts) -> Verdict:
    """Accuracy, performance and audits ran on the same SUT and data, at plausible speeds.

    In 398 public results an accuracy run answers at most 1.02 times as many samples/s.
    """
    keys = ["sut_name", "qsl_name"]
    if result.benchmark.samples_of("accuracy") == result.benchmark.samples:
        keys.append("qsl_reported_total_count")
    accuracy, performance = result.accuracy.detail, result.performance.detail
    required = "the same in accuracy, performance and audits"
    for logs in (result.accuracy, result.performance):
        if DETAIL not in logs.files:
            path = "/".join((*logs.folder.parts[-2:], DETAIL))
            return not_judged("nothing", required, f"no {path} that can be read")
    differences = [
        f"{key} {accuracy[key]} and {performance[key]}"
        for key in keys
        if accuracy[key] is None or accuracy[key] != performance[key]
    ]
    differences += [
        f"{key} {audit.detail[key]} in an audit and {performance[key]}"
        for audit in result.audits
        for key in ("sut_name", "qsl_name")
        if audit.detail[key] != performance[key]
    ]
    rates = [_answers_per_s(logs) for logs in (result.accuracy, result.performance)]
    if rates[0] > _MAX_PLAUSIBLE_RATIO * rates[1] > 0:
        differences.append(f"{rates[0]:,.4g} and {rates[1]:,.4g} answers/s")
    return verdict(not differences, "; ".join(differences) or "the same", required)


_MAX_PLAUSIBLE_RATIO = 1000.0
"""Far more than any system: replays of prepared answers, which prove the form, have hundreds."""
_MIN_LATENCY_S = 1e-3


def _answers_per_s(logs: RunLogs) -> float:
    """The answers of a run for each second of its timestamps; 0 if the log does not say."""
    queries, samples = (
        logs.detail.number(f"generated_{name}") or 0
        for name in ("query_count", "samples_per_query")
    )
    begin, end = (logs.detail.stamp(key) or 0.0 for key in ("generated_query_count", "power_end"))
    return queries * samples / max((end - begin) / 1e3, _MIN_LATENCY_S)


_MAX_OF_OFFLINE = 1.5
"""In 232 public pairs at most 1.264, and 1.023 without the highest."""


@rule(
    "result",
    official=False,
    source="Inference rules, System and framework must be consistent",
    fix="Measure both scenarios again on one system, Offline at its full rate.",
)
def rate_of_offline(result: ResultFacts) -> Verdict:
    """A Server or Interactive rate is at most 1.5 times that of the same system's Offline, which
    has every sample at once."""
    if result.scenario.name not in SERVER or result.offline is None:
        return no_demand("no two rates to compare")
    required = f"at most {_MAX_OF_OFFLINE:g} times Offline's rate"
    key, unit = result.scenario.metric, result.scenario.metric_unit
    at_once = result.benchmark.scenario("Offline")
    rate, most = result.performance.detail.number(key), result.offline.detail.number(at_once.metric)
    if rate is None or not most or unit != at_once.metric_unit:
        return not_judged("no two rates", required, "a log has no rate, or they have two units")
    found = f"{rate:,.6g} {unit}, {rate / most:.3f} times {most:,.6g} in Offline"
    return verdict(rate <= _MAX_OF_OFFLINE * most, found, required)


@rule(
    "result",
    "client",
    official=False,
    source="Inference rules, Replicability is mandatory",
    fix="Submit each result with the logs of its own run.",
)
def logs_of_its_own(result: SubmittedFacts) -> Verdict:
    """No other result of the tree, of any submitter and division, has the logs of the same run, or
    the same hash.

    Benchmarks of one model at two accuracy targets may share a run, in one scenario of one system.
    Deterministic systems may give the same answers in Offline and in TEST06, not in the order of a
    Server or Interactive run.
    """
    run = f"the run of {', '.join(result.copies)}" if result.copies else "its own"
    return verdict(not result.copies, run, "a run of its own")


# Of a system


@rule(
    "system",
    required="results of every system described",
    official=False,
    source="Inference rules, Replicability is mandatory",
    fix="Add the results, or remove the folder, or the system's JSON file from systems/.",
)
def has_results(system: SystemFacts) -> Verdict:
    """Every submitter, and every system in systems/ or results/, has results."""
    folder = f"results/{system.name}"
    return verdict(system.has_results, folder if system.has_results else f"no {folder}")
