"""What a report says, in its order: valid? how fast? how accurate? what was run? why not?

One model of words for report.md and report.html, so that the two cannot disagree. Figures are
summary.json's; what it lacks, as an older or foreign one may, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlperf_suite.benchmarks.definition import BENCHMARKS, Scenario
from mlperf_suite.results.reading import items, number, part
from mlperf_suite.session.peak_search import UNBOUNDED

Row = tuple[str, str]
_TIMES = (("latency", "latency_ms"), ("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"))
_EARLY = (("latency", "latency"), ("TTFT", "ttft"), ("TPOT", "tpot"))
_SCORES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@dataclass(frozen=True, slots=True)
class View:
    """The parts of a report. `standing`: ok, bad or open, for colour; the words say it too."""

    title: str
    label: str
    status: str
    standing: str
    valid: str
    headline: list[Row] = field(default_factory=list)
    speed: list[Row] = field(default_factory=list)
    percentiles: tuple[str, ...] = ()
    times: list[tuple[str, ...]] = field(default_factory=list)
    speed_notes: list[str] = field(default_factory=list)
    projections: list[Row] = field(default_factory=list)
    accuracy: list[tuple[str, str, str]] = field(default_factory=list)
    accuracy_note: str = ""
    regression: Regression | None = None
    run: list[Row] = field(default_factory=list)
    system: list[Row] = field(default_factory=list)
    why_not: list[str] = field(default_factory=list)
    rules: list[dict[str, str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Regression:
    """The gate's part. `rows`: metric, then, now, change with interval, verdict, noise from."""

    baseline: str
    rows: list[tuple[str, ...]]
    notes: list[str]


def shown(value: float | None, digits: int = 2) -> str:
    """A figure as every report shows it."""
    return "not reported" if value is None else f"{value:,.{digits}f}"


def scenario_of(summary: Mapping[str, Any]) -> Scenario | None:
    """The scenario that a summary is of, with its limits; None where it is not known."""
    meta = part(summary, "meta")
    benchmark = BENCHMARKS.get(str(meta.get("benchmark")))
    scenarios = benchmark.scenarios if benchmark else ()
    return next((s for s in scenarios if s.name == meta.get("scenario")), None)


def view_of(summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> View:
    """The report of a summary.json's content, and of config.json's where there is one."""
    meta = part(summary, "meta")
    performance, accuracy = part(summary, "run", "performance"), part(summary, "run", "accuracy")
    rules = [_rule(one) for one in items(summary, "verdicts") if isinstance(one, dict)]
    standing, valid = _valid(meta, rules)
    words = [str(meta.get(name, "?")) for name in ("benchmark", "category", "scenario")]
    percentiles, times = _times(performance)
    return View(
        title=" ".join(words),
        label=str(meta.get("label", "")),
        status=str(meta.get("status", "unknown")),
        standing=standing,
        valid=valid,
        headline=[*_peak(part(summary, "peak")), *_headline(meta, performance)],
        speed=[*_peak(part(summary, "peak")), *_speed(performance)],
        percentiles=percentiles,
        times=times,
        speed_notes=_speed_notes(performance),
        projections=_projections(meta, performance),
        accuracy=_accuracy(accuracy, rules),
        accuracy_note=_accuracy_note(accuracy),
        regression=_regression(part(summary, "regression")),
        run=_run(meta, config or {}),
        system=_rows(part(summary, "system")),
        why_not=[*_why_not(meta, rules), *_lost(part(summary, "regression"))],
        rules=rules,
        files=[str(name) for name in (*items(summary, "logs"), *items(summary, "plots"))],
    )


def _rule(verdict: Mapping[str, Any]) -> dict[str, str]:
    names = ("rule", "status", "found", "required", "why")
    return {name: str(verdict.get(name, "")) for name in names}


def _of_status(rules: list[dict[str, str]], status: str) -> list[dict[str, str]]:
    return [rule for rule in rules if rule["status"] == status]


def _valid(meta: Mapping[str, Any], rules: list[dict[str, str]]) -> tuple[str, str]:
    status, failed = meta.get("status"), _of_status(rules, "failed")
    if status == "failed":
        return "bad", f"No: the run failed. {meta.get('reason') or ''}".strip()
    if failed:
        return "bad", f"No: {_count(len(failed), 'rule')} failed of {len(rules)}."
    if status == "running" or not rules:
        return "open", "Not known: the run is not over, or no rule was judged."
    return _nothing_failed(meta, rules)


def _nothing_failed(meta: Mapping[str, Any], rules: list[dict[str, str]]) -> tuple[str, str]:
    held, unjudged = len(_of_status(rules, "passed")), len(_of_status(rules, "not judged"))
    shortened = len(_of_status(rules, "shortened"))
    if not (shortened or unjudged) and meta.get("profile") != "smoke":
        return "ok", f"Yes: every one of {len(rules)} rules holds."
    words = f"Nothing failed: {_count(held, 'rule')} of {len(rules)} passed"
    words += f", {unjudged} could not be judged" if unjudged else ""
    words += f", {shortened} of MLPerf's are shortened" if shortened else ""
    return "open", words + (
        ". A smoke run is no MLPerf result." if meta.get("profile") == "smoke" else "."
    )


def _count(number_: int, noun: str) -> str:
    return f"{number_} {noun}{'' if number_ == 1 else 's'}"


def _peak(peak: Mapping[str, Any]) -> list[Row]:
    if not peak:
        return []
    rate = number(peak, "peak_qps")
    least = rate is not None and _is_least(peak)
    value = f"at least {shown(rate)}: {UNBOUNDED}" if least else shown(rate)
    return [("highest valid rate, queries/s", value)]


def _is_least(peak: Mapping[str, Any]) -> bool:
    """Whether no rate above the peak failed; older summaries do not say."""
    return peak.get("bounded") is False


def peak_line(peak: Mapping[str, Any]) -> str:
    """What a search for the highest valid rate found, in a sentence; of summary.json's peak."""
    rate, runs = number(peak, "peak_qps"), _count(int(number(peak, "runs") or 0), "run")
    if rate is None:
        return f"No rate was VALID in {runs}: see peak_qps.json."
    if _is_least(peak):
        return (
            f"Highest valid rate: at least {rate:g} queries/s, confirmed at full length; {runs}: "
            f"{UNBOUNDED}."
        )
    return f"Highest valid rate: {rate:g} queries/s, confirmed at full length; {runs}."


def _headline(meta: Mapping[str, Any], performance: Mapping[str, Any]) -> list[Row]:
    """The few figures that a reader looks for first."""
    tiles: list[Row] = []
    if meta.get("scenario") == "SingleStream":
        tiles.append(("latency p90, ms", shown(number(performance, "latency_ms", "p90"))))
        name, estimates = early_stopping_estimates(performance)
        tiles.append((f"{name}, ms", shown(estimates.get("latency"))))
    tiles.append(("tokens/s", shown(number(performance, "tokens_per_sec"))))
    tiles.append(("samples/s", shown(number(performance, "samples_per_sec"))))
    for name, key in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms")):
        tiles.append((f"{name} p99, ms", shown(number(performance, key, "p99"))))
    return [(name, value) for name, value in tiles if value != "not reported"]


def _speed(performance: Mapping[str, Any]) -> list[Row]:
    if not performance:
        return []
    rows = [
        ("LoadGen says", "VALID" if performance.get("valid") else "INVALID"),
        ("tokens/s", shown(number(performance, "tokens_per_sec"))),
        ("samples/s", shown(number(performance, "samples_per_sec"))),
        ("new tokens", shown(number(performance, "total_new_tokens"), 0)),
        ("duration, s", shown(number(performance, "duration_s"))),
    ]
    target = number(performance, "target_qps")
    return rows if target is None else [*rows, ("target rate, queries/s", shown(target, 3))]


def _speed_notes(performance: Mapping[str, Any]) -> list[str]:
    if not performance:
        return ["No performance result."]
    missing = [name for name, key in _TIMES if not part(performance, key)]
    notes = []
    if missing:
        notes.append(f"LoadGen reports no {' and '.join(missing)} in this scenario.")
    if performance.get("invalid_reason"):
        notes.append(f"LoadGen says INVALID: {performance['invalid_reason']}")
    notes += early_stopping_lines(performance)
    early = part(performance, "early_stopping")
    if "latency" in early_stopping_estimates(performance)[1] and not part(early, "says").get(
        "latency"
    ):
        notes.append(
            "LoadGen tells early stopping's estimate of TTFT and TPOT; that of the latency is by "
            "the same rule, from the requests as the system under test saw them."
        )
    repeats = [number(again, "tokens_per_sec") for again in items(performance, "repeats")]
    if repeats:
        notes.append(f"Made again, tokens/s: {', '.join(map(shown, repeats))}.")
    return notes


def _times(performance: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The names of the columns, and of each figure its values in ms at those percentiles.

    Early stopping's estimate stands beside the percentile that it is an estimate of.
    """
    found = [(name, part(performance, key)) for name, key in _TIMES if part(performance, key)]
    if not found:
        return (), []
    names = list(found[0][1])
    rows = [[name, *(shown(number(values, p)) for p in names)] for name, values in found]
    column, estimates = early_stopping_estimates(performance)
    if estimates:
        place = next((i for i, p in enumerate(names, 1) if column.startswith(f"{p} ")), len(names))
        names.insert(place, column)
        for row in rows:
            row.insert(place + 1, shown(estimates.get(row[0])))
    return tuple(names), [tuple(row) for row in rows]


def early_stopping_estimates(performance: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    """What early stopping's estimates are called, and those that there are, in ms, by figure."""
    early = part(performance, "early_stopping")
    found = {name: number(early, "estimates_ms", key) for name, key in _EARLY}
    known = {name: value for name, value in found.items() if value is not None}
    return f"{_percentile(early)} by early stopping", known


def _percentile(early: Mapping[str, Any]) -> str:
    percent = number(early, "percentile")
    return "percentile" if percent is None else f"p{percent:g}"


def early_stopping_lines(performance: Mapping[str, Any]) -> list[str]:
    """What LoadGen's early stopping says where it makes no estimate, a sentence each."""
    early = part(performance, "early_stopping")
    lines = []
    for name, key in _EARLY:
        words = part(early, "says").get(key)
        if words and number(early, "estimates_ms", key) is None:
            lines.append(f"Early stopping of {name} at {_percentile(early)}: {words}")
    return lines


def _projections(meta: Mapping[str, Any], performance: Mapping[str, Any]) -> list[Row]:
    """What the measured rate would come to if it held: nothing of it was measured."""
    rate, tokens = number(performance, "samples_per_sec"), number(performance, "tokens_per_sec")
    if not rate:
        return []
    rows = [
        ("requests an hour", shown(rate * 3600, 0)),
        ("requests a day", shown(rate * 86_400, 0)),
    ]
    if tokens:
        rows.append(("tokens a day", shown(tokens * 86_400, 0)))
    benchmark = BENCHMARKS.get(str(meta.get("benchmark")))
    if benchmark:
        name = f"the full data set, {benchmark.samples:,} samples"
        rows.append((name, _duration(benchmark.samples / rate)))
    return rows


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def _accuracy(
    accuracy: Mapping[str, Any], rules: list[dict[str, str]]
) -> list[tuple[str, str, str]]:
    required = {rule["rule"]: rule["required"] for rule in rules}
    return [
        (name, shown(number(accuracy, "rouge", name), 4), required.get(rule, "not judged"))
        for name in _SCORES
        if accuracy
        for rule in (f"accuracy_{name.lower()}",)
    ]


def _accuracy_note(accuracy: Mapping[str, Any]) -> str:
    if not accuracy:
        return "No accuracy result."
    answers = shown(number(accuracy, "run_gen_num"), 0)
    return f"{answers} answers, {shown(number(accuracy, 'run_gen_len'), 0)} characters."


def _regression(found: Mapping[str, Any]) -> Regression | None:
    if not found:
        return None
    rows = []
    for one in items(found, "metrics"):
        if not isinstance(one, dict):
            continue
        ends = [shown(number(one, side)) for side in ("baseline", "current")]
        unit = str(one.get("unit", ""))
        name = str(one.get("label", ""))
        label = name if unit in (name, "") else f"{name}, {unit}"
        words = (str(one.get(key, "")) for key in ("words", "outcome", "noise_from"))
        rows.append((label, *ends, *words))
    notes = [str(found[key]) for key in ("refused", "note") if found.get(key)]
    return Regression(
        str(found.get("baseline")), rows, [*notes, *map(str, items(found, "different"))]
    )


def _lost(found: Mapping[str, Any]) -> list[str]:
    return [
        f"{one.get('label')} regressed against the baseline: {one.get('words')}"
        for one in items(found, "metrics")
        if isinstance(one, dict) and one.get("outcome") == "regressed"
    ]


def _run(meta: Mapping[str, Any], config: Mapping[str, Any]) -> list[Row]:
    engine, settings = part(config, "engine"), part(config, "settings")
    rows = {name: meta.get(name) for name in ("model", "dataset", "round", "profile", "started")}
    rows["node"] = meta.get("node_name")
    rows["engine"] = f"{engine.get('name')} {engine.get('version')}" if engine else None
    rows |= {f"engine {key}": value for key, value in part(engine, "settings").items()}
    rows["longest answer, tokens"] = settings.get("max_new_tokens")
    rows["samples of the data"] = part(config, "dataset").get("samples")
    rows["data sha256"] = part(config, "dataset").get("sha256")
    rows["suite"] = config.get("suite_version")
    return _rows({name: value for name, value in rows.items() if value is not None})


def _rows(found: Mapping[str, Any]) -> list[Row]:
    rows = []
    for name, value in found.items():
        words = ", ".join(map(str, value)) if isinstance(value, list) else value
        rows.append((str(name).replace("_", " "), "none" if words in (None, "") else str(words)))
    return rows


def _why_not(meta: Mapping[str, Any], rules: list[dict[str, str]]) -> list[str]:
    found = [f"The run failed: {meta['reason']}"] if meta.get("reason") else []
    for rule in _of_status(rules, "failed"):
        why = f" ({rule['why']})" if rule["why"] else ""
        found.append(f"{rule['rule']}: found {rule['found']}, required {rule['required']}{why}")
    shortened = [rule["rule"] for rule in _of_status(rules, "shortened")]
    if shortened:
        found.append(f"Shortened for smoke, and so not met: {', '.join(shortened)}.")
    unjudged = [rule["rule"] for rule in _of_status(rules, "not judged")]
    if unjudged:
        found.append(f"Not judged: {', '.join(unjudged)}.")
    return found
