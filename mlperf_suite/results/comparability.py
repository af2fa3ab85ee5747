"""Decides whether two runs are of the same system and the same measurement, and names the
differences.

Which options count is declared on each option (`identifies` in settings.py), which settings of an
engine's description on the description (engines/protocol.py). Everything that compares runs asks
`differences`: the regression gate, `compare`, `aggregate`, the submission, the rate that Server
takes from an earlier Offline run, and runs that go on with an earlier one. They differ only in the
aspects that matter to them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from mlperf_suite.engines.protocol import (
    CAPACITY_SETTINGS,
    INCIDENTAL_SETTINGS,
    REPLICAS,
    SERVER_MODEL,
)
from mlperf_suite.feature import features
from mlperf_suite.option_specs import Identifies
from mlperf_suite.results.schema import Config, EngineFacts, Meta, Summary
from mlperf_suite.rules.verdict import in_words
from mlperf_suite.secrets import redact
from mlperf_suite.settings import OPTION_OF_FIELD

Aspect = Literal["measurement", "engine", "capacity", "release", "surroundings"]
"""What a fact about a run belongs to:

- measurement: the work for the system: the data, the lengths, the rules;
- engine: what computes the answers, and how it was asked to;
- capacity: the hardware, and what the engine took from it: batch sizes, number of GPUs;
- release: the engine's version;
- surroundings: what changes from one day to another: other versions, memory, cores, a server's URL.
"""
EVERY_ASPECT: tuple[Aspect, ...] = get_args(Aspect)
HARDWARE = ("cpu", "cpu_count", "gpu_count", "gpus", "accelerator_platform")
"""The entries of `describe_system` that tell one machine's hardware from another's."""
SAMPLE_FACTS = ("benchmark", "samples", "data sha256", "prompts sha256", "dataset")
"""The facts that show whether two runs had the same samples."""
_OF_META = ("benchmark", "scenario", "label", "samples", "questions", "shots")
"""The entries of summary.json's `meta` that no option has under the same name."""
_ASPECT_OF: Mapping[Identifies, Aspect] = {
    "system": "engine",
    "place": "surroundings",
    "measurement": "measurement",
}
_NO_OPTION = ("hub_token", "api_key")
"""The entries of config.json's settings that are neither an option's nor the benchmark's."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that identifies a run. `reported_as`: what the run reports that it made of it.

    `if_known`: it counts only if both runs have it: a run reads only the data of its own modes.
    """

    aspect: Aspect
    value: object
    reported_as: str | None = None
    if_known: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a run, by the facts' names in messages, as far as it is known.

    `reports`: what the run made of settings, some of which may be auto.
    """

    facts: Mapping[str, Fact] = field(default_factory=dict)
    reports: Mapping[str, object] = field(default_factory=dict)

    def values(self, aspects: Collection[Aspect]) -> dict[str, object]:
        """The values of these aspects' facts."""
        return {name: fact.value for name, fact in self.facts.items() if fact.aspect in aspects}


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact in which two runs differ, with both values as text."""

    name: str
    first: str
    second: str


def identity_of(config: Config | None, summary: Summary | None = None) -> Identity:
    """The identity of a run, or of one that is planned, from what is known of it.

    `config`: its config.json, or as much of it as there is; None if there is none.
    """
    config, summary = config or Config(), summary or Summary()
    # As in the file: without secrets, and without Python's own types.
    settings = json.loads(redact(json.dumps(config.settings, default=str)))
    values = {name: getattr(summary.meta, name) for name in _OF_META}
    values |= {"data sha256": config.dataset.sha256, "prompts sha256": config.prompts_sha256}
    reports = {name: value for name, value in values.items() if value is not None}
    facts = {name: Fact("measurement", value) for name, value in reports.items()}
    facts |= dict(_settings_identity(settings, summary.meta))
    for mode, part in config.dataset.parts.items():
        if part.get("sha256") is not None:
            facts[f"{mode} data sha256"] = Fact("measurement", part["sha256"], if_known=True)
    if config.engine is not None:
        facts |= _engine_identity(config.engine)
        reports |= _reports_of(config.engine)
    facts |= _load_generator_identity(settings, summary.meta)
    if not summary.run.is_empty:
        place = "on servers elsewhere" if summary.run.remote else "in the suite's process"
        facts["place"] = Fact("engine", place)
    return Identity({**facts, **machine_of(summary.system or config.system).facts}, reports)


def _load_generator_identity(settings: Mapping[str, Any], meta: Meta) -> dict[str, Fact]:
    """What sent the requests: figures of two load generators are not of one measurement."""
    words = meta.load_generator or str(settings.get("client") or "loadgen")
    facts = {"load generator": Fact("measurement", words.partition(" ")[0])}
    if meta.load_generator:
        facts["load generator's version"] = Fact("release", words, if_known=True)
    return facts


def machine_of(system: Mapping[str, Any]) -> Identity:
    """The identity of a machine, from `describe_system`."""
    return Identity(
        {
            name: Fact("capacity" if name in HARDWARE else "surroundings", value)
            for name, value in system.items()
        }
    )


def _settings_identity(settings: Mapping[str, Any], meta: Meta) -> Iterator[tuple[str, Fact]]:
    """The facts of the options that identify something, and of the benchmark's own settings.

    The summary has some of them as the run resolved them.
    """
    is_of_feature = any(meta.benchmark in feature.results for feature in features())
    kinds = ("system", "place", meta.benchmark if is_of_feature else "measurement")
    for name, option in OPTION_OF_FIELD.items():
        in_meta = getattr(meta, name, None)
        if option.identifies is None or (in_meta is None and option.identifies not in kinds):
            continue
        if in_meta is not None or settings:
            value = settings.get(name) if in_meta is None else in_meta
            fact_name = name if hasattr(meta, name) else f"setting {name}"
            aspect = _ASPECT_OF.get(option.identifies, "measurement")
            yield fact_name, Fact(aspect, value, option.reported_as or name)
    for name, value in settings.items():
        if name not in OPTION_OF_FIELD and name not in _NO_OPTION:
            yield f"setting {name}", Fact("measurement", value)


def _engine_identity(engine: EngineFacts) -> dict[str, Fact]:
    facts = {
        "engine": Fact("engine", engine.name),
        "stand-in engine": Fact("engine", engine.stand_in),
        "engine version": Fact("release", engine.version),
    }
    for name, value in _reports_of(engine).items():
        aspect: Aspect = CAPACITY_SETTINGS.get(name, "engine")
        # Runs of earlier versions of the suite did not keep what a server loaded.
        facts[f"the engine's {name}"] = Fact(aspect, value, if_known=name == SERVER_MODEL)
    for name, value in engine.server_settings.items():
        facts[f"the server's {name}"] = Fact("surroundings", value, if_known=True)
    return facts


def _reports_of(engine: EngineFacts) -> dict[str, object]:
    """An engine's settings that identify it, by name."""
    settings = engine.settings
    reports = {n: value for n, value in settings.items() if n not in INCIDENTAL_SETTINGS}
    if engine.max_model_len is not None:
        reports["max_model_len"] = engine.max_model_len
    # A single engine does not report its number.
    reports.setdefault(REPLICAS, 1)
    if isinstance(machines := settings.get("machines"), list):
        reports["machines"] = [
            {name: value for name, value in machine.items() if name not in ("host", "here")}
            if isinstance(machine, dict)
            else machine
            for machine in machines
        ]
    # An engine in this process names a path, whose files' fingerprint is among its settings.
    if "endpoints" in settings:
        reports["served_model"] = engine.model
    return reports


def differences(
    first: Identity,
    second: Identity,
    aspects: Collection[Aspect] = EVERY_ASPECT,
    *,
    known_to_both: bool = False,
    planned: bool = False,
) -> list[Difference]:
    """The facts of these aspects in which two runs differ; empty if they can be compared.

    A setting is no difference if both runs report that they made the same of it. `known_to_both`:
    ignore facts that only one of the two has, because the other is not made yet or is older.
    `planned`: the second is not made yet, and may still make of a setting what the first did.
    """
    facts = []
    for name in dict.fromkeys((*first.facts, *second.facts)):
        pair = (first.facts.get(name), second.facts.get(name))
        fact = pair[0] or pair[1]
        if fact is None or fact.aspect not in aspects:
            continue
        if None in pair and (known_to_both or fact.if_known):
            continue
        before, after = (side.value if side else None for side in pair)
        if before != after and not _resolved_alike(name, fact, (first, second), planned=planned):
            facts.append(Difference(name, value_text(before), value_text(after)))
    return facts


def _resolved_alike(
    name: str, fact: Fact, sides: tuple[Identity, Identity], *, planned: bool
) -> bool:
    """Whether both runs report that they made the same of a setting, or a planned one may: what
    auto becomes is not known before the engine is loaded, nor a value in other words than the
    report's."""
    first, second = (side.reports for side in sides)
    report = fact.reported_as
    if report is None or report not in first:
        return False
    if not planned or report in second:
        return report in second and first[report] == second[report]
    before, after = (side.facts[name].value for side in sides)
    is_other_word = name.removeprefix("setting ") != report
    is_auto = after in (None, "auto") or (before in (None, "auto") and is_other_word)
    return is_auto or after == first[report]


def value_text(value: object) -> str:
    """A fact's value on one printable line."""
    if value is None:
        return "none"
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return in_words(", ".join(map(str, value))) or "none"
    if isinstance(value, dict | list):
        return in_words(json.dumps(value, sort_keys=True))
    return in_words(value)
