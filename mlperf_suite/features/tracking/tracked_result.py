"""What is sent of a kept result: params, metrics and tags, from its summary.json and config.json.

The walk over the figures knows no feature: a figure that a feature adds is sent without a change
here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mlperf_suite.errors import SuiteError
from mlperf_suite.features.tracking.trackers import TrackedRun
from mlperf_suite.results.comparability import identity_of, value_text
from mlperf_suite.results.regression import has_figures
from mlperf_suite.results.run_folder import (
    CHECKSUMS_JSON,
    CONFIG_JSON,
    SUMMARY_JSON,
    read_config,
    read_object,
    read_summary,
    summary_fault,
)
from mlperf_suite.results.schema import Config, Summary
from mlperf_suite.untrusted_files import read_regular

NESTED = {"repeats": "repeat", "points": "point", "trials": "trial"}
"""By the names of figures of several runs in one, what each is."""
_SERIES = "blocks"
"""The name of figures of equal parts of a run."""
_LABELS = ("name", "kind", "node", "number")
"""What tells the entries of a list apart, best first."""
_MOST_CHARACTERS = 500
"""Of a param or tag: the most that every release of MLflow takes."""
_UNFIT = re.compile(r"[^\w ./-]", re.ASCII)
"""What MLflow takes in no name."""


@dataclass(slots=True)
class Figures:
    """The figures in a part of a summary, by their place in it."""

    metrics: dict[str, float] = field(default_factory=dict)
    series: dict[str, tuple[float, ...]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    parts: list[TrackedRun] = field(default_factory=list)

    def add(self, place: str, value: object) -> None:
        """Add what is in a value; texts are not figures."""
        if isinstance(value, bool):
            self.tags[place] = str(value).lower()
        elif isinstance(value, int | float):
            if math.isfinite(value):
                self.metrics[place] = float(value)
        elif isinstance(value, list | tuple):
            self._add_list(place, value)
        else:
            self._add_members(place, _members(value))

    def _add_members(self, place: str, members: Mapping[str, Any]) -> None:
        """Of a figure with a value and a unit, the value has the place itself, and a file store of
        MLflow keeps no other figures below it."""
        is_figure = "value" in members
        if is_figure and (unit := members.get("unit")):
            self.tags[f"unit/{place}"] = str(unit)
        for name, item in members.items():
            below = f"{place}{'.' if is_figure else '/'}{_name(name)}".lstrip("/")
            self.add(place if name == "value" else below, item)

    def _add_list(self, place: str, values: list[Any] | tuple[Any, ...]) -> None:
        last = place.rpartition("/")[2]
        if values and all(map(_is_number, values)):
            self.series[place] = tuple(map(float, values))
        elif last in NESTED:
            for number, value in enumerate(values, 1 + (last == "repeats")):
                self.parts.append(_part(f"{NESTED[last]} {number}", NESTED[last], value))
        elif last == _SERIES:
            self._add_blocks(place, [_members(value) for value in values])
        else:
            for value in values:
                members = _members(value)
                label = next((str(members[n]) for n in _LABELS if members.get(n)), "")
                if label:
                    self.add(f"{place}/{_name(label)}", value)

    def _add_blocks(self, place: str, blocks: list[Mapping[str, Any]]) -> None:
        for name in blocks[0] if blocks else ():
            values = [block.get(name) for block in blocks]
            if all(map(_is_number, values)):
                self.series[f"{place}/{_name(name)}"] = tuple(map(float, values))  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _members(value: object) -> Mapping[str, Any]:
    """The entries of an object, whatever it is; empty for a text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: getattr(value, part.name) for part in fields(value)}
    return value if isinstance(value, Mapping) else {}


def _name(text: object) -> str:
    return _UNFIT.sub("_", str(text))[:100]


def _part(name: str, kind: str, value: object) -> TrackedRun:
    """One of several runs in a result. Its texts and lists of texts are what tells it from the
    others."""
    figures = Figures()
    figures.add("", value)
    texts = {n: item for n, item in _members(value).items() if item and isinstance(item, str)}
    tags = {"mlperf.part": kind, **figures.tags, **_short(texts)}
    return TrackedRun(name, tags=tags, metrics=figures.metrics, series=figures.series)


def _short(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text[:_MOST_CHARACTERS] for name, text in texts.items()}


def system_key(
    system: Mapping[str, Any], urls: Iterator[str] | set[str], model: str | None, *rules: str | None
) -> str:
    """The same for results of one kind of machine (or of the same servers) and one model, under
    the same rules. The number of GPUs is none of it: a session knows only which there are.

    `system`: as from `describe_system`; `rules`: profile and round.
    """
    named = Summary.read({"meta": {"model": model}}).model
    gpus = system.get("gpus")
    hardware = sorted({*map(str, gpus)}) if isinstance(gpus, list) and gpus else [system.get("cpu")]
    facts = [sorted(urls) or hardware, named, *rules]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def checksum_of(folder: Path, summary: Summary) -> str:
    """The SHA-256 that tells a result from others. Reports may be written again, and summary.json
    with them: only a result without a record of its files' checksums is told by that."""
    evidence = folder / CHECKSUMS_JSON
    content = read_regular(evidence if evidence.is_file() else folder / SUMMARY_JSON)
    kind = json.dumps([*summary.meta.kind, summary.meta.started, summary.meta.node_name])
    return hashlib.sha256(kind.encode() + content).hexdigest()


def tracked_result(folder: Path) -> TrackedRun:
    """What is sent of a result. Raises SuiteError if the folder has none, OSError."""
    summary = read_summary(folder)
    if summary is None:
        raise SuiteError(f"{folder}: {summary_fault(folder)}")
    config = Config.read(read_config(folder))
    figures = Figures()
    figures.add("", summary.run)
    for name, part in summary.parts.items():
        figures.add(name.rpartition(".")[2], part)
    for file in sorted(folder.glob("*.json")):
        if file.name not in (SUMMARY_JSON, CONFIG_JSON, CHECKSUMS_JSON):
            trials = (read_object(file) or {}).get("trials")
            figures.add("trials", trials if isinstance(trials, list) else [])
    checksum = checksum_of(folder, summary)
    started = _milliseconds(summary.meta.started)
    return TrackedRun(
        folder.name,
        checksum,
        params=_params(config, summary),
        tags={**_short(_tags(config, summary)), "mlperf.checksum": checksum, **figures.tags},
        metrics={**figures.metrics, **{f"rules/{s}": n for s, n in summary.counts.items()}},
        series=figures.series,
        status="FINISHED" if summary.meta.status in ("complete", "invalid") else "FAILED",
        started_ms=started,
        ended_ms=max(started, _milliseconds(summary.meta.ended)),
        parts=tuple(figures.parts),
    )


def _milliseconds(time: str | None) -> int:
    """Since 1970; 0 if it is not known."""
    try:
        return int(datetime.fromisoformat(time or "").timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def _params(config: Config, summary: Summary) -> dict[str, str]:
    """What identifies system and measurement, by the names that messages have for it."""
    facts = identity_of(config, summary).facts
    texts = {
        _name(name.replace("the engine's ", "engine/").replace("setting ", "setting/")): fact.value
        for name, fact in facts.items()
    }
    return _short({name: value_text(value) for name, value in texts.items() if value is not None})


def is_good(summary: Summary) -> bool:
    """Whether later runs may be held to it: whole, no rule failed, and no loss against its own
    baseline."""
    whole = summary.meta.status == "complete" and has_figures(summary)
    return whole and not summary.no_result and not summary.regressed


def _tags(config: Config, summary: Summary) -> dict[str, str]:
    meta = summary.meta
    urls = {e.url for remote in summary.run.remote.values() for e in remote.endpoints}
    by_status = {
        status: ", ".join(v.rule for v in summary.verdicts if v.status == status)
        for status in ("failed", "shortened", "not judged")
    }
    texts = {
        "verdict": summary.verdict,
        "status": meta.status,
        "kind": meta.title,
        "rules": meta.rules,
        "machine": ", ".join(summary.machines),
        "model": summary.model,
        "node": meta.node_name,
        "started": meta.started,
        "reason": meta.reason,
        "no_result": summary.no_result,
        "regressed": summary.regressed,
        "suite_version": config.suite_version,
        "good": str(is_good(summary)).lower(),
        "system": system_key(summary.system, urls, meta.model, meta.profile, meta.round),
        **{f"rules_{status.replace(' ', '_')}": rules for status, rules in by_status.items()},
    }
    note = f"**{summary.verdict}**: {meta.title}, {summary.measured}; {meta.rules}"
    tags = {f"mlperf.{name}": text for name, text in texts.items() if text}
    return {**tags, "mlflow.note.content": note}
