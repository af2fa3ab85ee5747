"""How fast a run was: LoadGen's figures, where the time went, projections, changes since a
baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import floor
from statistics import fmean, stdev

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.reports.feature_report import feature_reports
from mlperf_suite.reports.sections import (
    NOT_REPORTED,
    Block,
    Cell,
    Paragraph,
    Plot,
    Plots,
    Points,
    Row,
    Section,
    Table,
    Tiles,
    Words,
    columns,
    count,
    decimal,
    duration,
    figure_table,
    notes,
    paragraphs,
    record_table,
    time_cell,
)
from mlperf_suite.results.bottlenecks import Bottleneck, bottlenecks, percent
from mlperf_suite.results.schema import (
    ChangeFigures,
    Config,
    EarlyStopping,
    EngineFacts,
    Goodput,
    PartFigures,
    Percentiles,
    PerformanceFigures,
    RegressionFigures,
    Run,
    SlowRequest,
    Summary,
    TimeBreakdown,
)
from mlperf_suite.rules.verdict import time_words, times_in_unit

_TIMES = (("latency", "latency"), ("TTFT", "ttft"), ("TPOT", "tpot"))
RATES = (("tokens/s", "tokens_per_sec"), ("samples/s", "samples_per_sec"))
_BY_ENGINE = (
    "Those by the suite follow from when {}; where all requests are issued at once, TTFT is mostly "
    "the time in the queue."
)
_NOT_BY_ENGINE = "Nor are they known to the suite: the engine did not report every first token."


def speed_sections(summary: Summary, plots: Sequence[Plot] = ()) -> list[Section]:
    """The figures that readers look for first, and all that LoadGen reports."""
    performance = summary.run.performance
    first = [tile for report in feature_reports(summary) for tile in report.tiles(summary)]
    drawings = [Plots(plots)] if plots else []
    if performance is None:
        tiles = [Tiles(first)] if first else []
        return [Section("How fast?", [*tiles, *notes(["No performance result."]), *drawings])]
    blocks: list[Block] = [
        Tiles([*first, *_headline(summary, performance), *_gate(summary.run)]),
        *paragraphs(filter(None, [repeats_words(performance), _loadgen_line(performance)])),
        *times_table(
            [*reported_times(performance), *_suite_times(performance)],
            *early_estimates(performance),
        ),
        *notes(filter(None, [" ".join(_speed_notes(performance, bool(summary.run.remote)))])),
        *drawings,
        *projections(summary),
    ]
    return [Section("How fast?", blocks)]


def _headline(summary: Summary, performance: PerformanceFigures) -> list[Row]:
    unjudged = {v.rule for v in summary.verdicts if v.status == "not judged"}
    times = dict(reported_times(performance))
    shown_times: list[tuple[str, float | None]] = []
    if summary.meta.scenario == "SingleStream":
        shown_times.append(("latency p90", times.get("latency", {}).get("p90")))
        name, estimates = early_estimates(performance)
        shown_times.append((name, estimates.get("latency")))
    rates = [(rate, performance.mean(name)) for rate, name in RATES]
    names = ("TTFT", "TPOT") if times.keys() & {"TTFT", "TPOT"} else ("latency",)
    shown_times += [(f"{name} p99", times.get(name, {}).get("p99")) for name in names]
    own = performance.suite_times_ms
    shown_times += [(f"{n} p99 by the suite", own.get(k, {}).get("p99")) for n, k in _TIMES]
    tiles = [(name, decimal(value)) for name, value in rates if value is not None]
    if performance.goodput and performance.goodput.samples_per_sec is not None:
        tiles.append(("goodput, samples/s", decimal(performance.goodput.samples_per_sec)))
    for name, value in shown_times:
        if value is not None:
            is_unjudged = f"{name.split()[0].lower()}_limit" in unjudged
            tiles.append((name, time_words(value) + ", not judged" * is_unjudged))
    return tiles


def _gate(run: Run) -> list[Row]:
    """The first score that has a minimum."""
    gates = [s for s in run.accuracy.scores if s.low is not None] if run.accuracy else []
    return [(f"{s.name} (min {decimal(s.low)})", decimal(s.value)) for s in gates[:1]]


def _loadgen_line(performance: PerformanceFigures) -> str:
    """What LoadGen says, of how much and how long; the official client has no verdict."""
    target, length = performance.target_qps, performance.duration_s
    word = "VALID" if performance.valid else "INVALID"
    parts = ["" if performance.valid is None else f"LoadGen says {word}: "]
    parts.append(f"{decimal(performance.total_new_tokens, 0)} new tokens")
    parts.append("" if length is None else f" in {decimal(length)} s")
    parts.append("" if target is None else f", target rate {decimal(target, 3)} queries/s")
    return f"{''.join(parts)}."


def _speed_notes(performance: PerformanceFigures, is_remote: bool) -> list[str]:
    times = dict(reported_times(performance))
    absent = [name for name, _ in _TIMES if name not in times]
    lines = []
    if absent and performance.valid is not None:
        lines.append(f"LoadGen reports no {' and '.join(absent)} in this scenario.")
        arrived = "the first piece of each answer arrived from the server"
        moment = arrived if is_remote else "the engine made each answer's first token"
        by_engine = _BY_ENGINE.format(moment)
        lines.append(by_engine if performance.suite_times_ms else _NOT_BY_ENGINE)
    if performance.goodput:
        lines.append(f"Goodput: {goodput_words(performance.goodput)}.")
    if performance.invalid_reason:
        lines.append(f"LoadGen says INVALID: {performance.invalid_reason}")
    if performance.made_again:
        lines.append(f"Rerun: {performance.made_again}.")
    lines += early_lines(performance)
    early = performance.early_stopping
    if early and "latency" in early_estimates(performance)[1] and not early.says.get("latency"):
        lines.append(
            "LoadGen reports early stopping's estimates of TTFT and TPOT. That of the latency "
            "follows the same rule, from the requests' times at the system under test."
        )
    return lines


def repeats_words(performance: PerformanceFigures) -> str:
    """What a rate of several runs is the mean of; empty for a single run."""
    values = performance.each("tokens_per_sec")
    if len(values) < 2:
        return ""
    rates = ", ".join(map(decimal, values))
    spread = stdev(values) / fmean(values)
    words = f"Mean of {len(values)} runs, standard deviation {spread:.1%}: {rates} tokens/s"
    return f"{words}; times and plots are the first run's."


def goodput_words(goodput: Goodput) -> str:
    """The requests within the limits, their rate, and which limit the others broke."""
    rate = goodput.samples_per_sec
    # Rounded down: 98.96% is not the 99.0% that a rate by goodput demands.
    share = f"{floor(goodput.share * 1000) / 1000:.1%} of {goodput.requests:,} requests"
    beyond = [(name, getattr(goodput, f"beyond_{key}")) for name, key in _TIMES]
    words = ", ".join(f"{name} {number:,}" for name, number in beyond if number)
    speed = "" if rate is None else f"{rate:,.2f} samples/s: "
    return f"{speed}{share} within the limits{f'; beyond {words}' if words else ''}"


def times_words(values_ms: Mapping[str, float]) -> str:
    """Named times in words."""
    numbers, unit = times_in_unit(values_ms.values())
    return ", ".join(f"{key} {value} {unit}" for key, value in zip(values_ms, numbers, strict=True))


def reported_times(
    figures: object,
) -> list[tuple[str, Percentiles]]:
    """By name, the times in ms that LoadGen reports for this scenario: `latency_ms`, `ttft_ms` and
    `tpot_ms` of a run's figures, or of an aggregate's."""
    times = ((name, getattr(figures, f"{key}_ms")) for name, key in _TIMES)
    return [(name, percentiles) for name, percentiles in times if percentiles]


def _suite_times(performance: PerformanceFigures) -> list[tuple[str, Percentiles]]:
    """The times that LoadGen does not report in this scenario, named as the suite's."""
    own = performance.suite_times_ms
    return [(f"{name} by the suite", own[key]) for name, key in _TIMES if own.get(key)]


def times_table(
    times: Sequence[tuple[str, Percentiles]], column: str = "", estimates: Percentiles | None = None
) -> list[Table]:
    """Each time at LoadGen's percentiles; early stopping's estimates, by time, in a `column` that
    follows the percentile that they estimate."""
    if not times:
        return []
    names = list(times[0][1])
    if estimates:
        places = (i for i, name in enumerate(names, 1) if column.startswith(f"{name} "))
        names.insert(next(places, len(names)), column)
    rows = []
    for time, values in times:
        own = {column: estimates[time]} if estimates and time in estimates else {}
        numbers, unit = times_in_unit((values | own).values())
        by_name = dict(zip(values | own, numbers, strict=True))
        rows.append([f"{time}, {unit}", *(by_name.get(name, NOT_REPORTED) for name in names)])
    header = columns(["time"], names)
    return [Table(header, rows, style="wide broad")]


def early_estimates(performance: PerformanceFigures) -> tuple[str, dict[str, float]]:
    """The column name of early stopping's estimates, and the estimates in ms, by time."""
    early = performance.early_stopping or EarlyStopping()
    estimates = ((name, early.estimates_ms.get(key)) for name, key in _TIMES)
    values = {name: value for name, value in estimates if value is not None}
    return f"{_percentile(early)} by early stopping", values


def _percentile(early: EarlyStopping) -> str:
    return "percentile" if early.percentile is None else f"p{early.percentile:g}"


def early_lines(performance: PerformanceFigures) -> list[str]:
    """What LoadGen's early stopping says when it makes no estimate, a sentence each."""
    early = performance.early_stopping or EarlyStopping()
    return [
        f"Early stopping of {name} at {_percentile(early)}: {early.says[key]}"
        for name, key in _TIMES
        if early.says.get(key) and early.estimates_ms.get(key) is None
    ]


# Where the time goes


def time_sections(summary: Summary, config: Config | None) -> list[Section]:
    """What limited the run, the parts of the requests' time, and the slowest requests."""
    performance = summary.run.performance
    if performance is None:
        return []
    engine = config.engine if config and config.engine else EngineFacts()
    remote, gpus = summary.run.remote.get("performance"), summary.system.get("gpu_count")
    if engine.machines:
        # The driver's machine need not be one of them.
        counts = [m.get(name) for m in engine.machines for name in ("gpus", "idle_gpus")]
        gpus = sum(count for count in counts if isinstance(count, int))
    figures = bottlenecks(performance, remote, engine.settings, gpus)
    life = performance.life
    if life is None and not figures and not performance.untimed:
        return []
    blocks = _limits(figures)
    if life:
        blocks += _life_blocks(life)
    elif performance.untimed:
        blocks += notes([f"Not known for this run: {performance.untimed}."])
    if rest := [figure for figure in figures if not figure.limits]:
        rows = [(figure.name, f"{percent(figure.share)} {figure.of}") for figure in rest]
        blocks.append(figure_table(rows, "Checked, not a bottleneck", folded=True))
    return [Section("Where the time goes", blocks, 3)]


def _limits(figures: Sequence[Bottleneck]) -> list[Block]:
    """A sentence for each limit, and the option that changes it."""
    lines = [Words(limit.sentence, (f"Try: {limit.option}.",)) for limit in figures if limit.limits]
    if figures and not lines:
        return [Paragraph("No figure is large enough to have limited the run.")]
    return [Points(lines)] if lines else []


def _life_blocks(life: TimeBreakdown) -> list[Block]:
    return [
        *record_table(
            [_part(part) for part in life.parts],
            ["part"],
            style="wide broad",
            title="The parts of a request's time",
            folded=True,
            note=_life_note(life),
        ),
        *record_table(
            [_slow(request) for request in life.slowest],
            kinds={"cause": "words"},
            style="wide broad slow",
            title="The slowest requests",
            folded=True,
        ),
    ]


def _part(part: PartFigures) -> dict[str, Cell]:
    times = (part.mean_ms, part.p50_ms, part.p90_ms, part.p99_ms, part.most_ms)
    names = ("mean", "p50", "p90", "p99", "max")
    numbers, unit = times_in_unit(times)
    figures: dict[str, Cell] = dict(zip(names, numbers, strict=True))
    return {"part": f"{part.name}, {unit}", "share": percent(part.share)} | figures


def _slow(request: SlowRequest) -> dict[str, Cell]:
    return {
        "sample": f"{request.sample:,}",
        "issued, s": decimal(request.issued_s),
        "latency": time_words(request.latency_ms),
        "prompt tokens": f"{request.prompt_tokens:,}",
        "tokens": f"{request.tokens:,}",
        "cause": request.cause,
    }


def _life_note(life: TimeBreakdown) -> str:
    if not life.from_loadgen:
        return "A request's time starts when LoadGen calls the SUT: the log has no issue times."
    if life.differs_ms is None:
        return "A request's time starts when LoadGen starts to count its latency."
    return (
        "The parts of a request add up to LoadGen's latency: over these "
        f"{count(life.requests, 'request')} its minimum, mean, percentiles and maximum differ from "
        f"those of the sums by at most {life.differs_ms:.3f} ms."
    )


# Projections and changes


def projections(summary: Summary) -> list[Table]:
    """Figures extrapolated from the measured rate; none if the run is no result."""
    performance = summary.run.performance
    rate = performance.mean("samples_per_sec") if performance else None
    if summary.no_result or performance is None or not rate:
        return []
    rows = [
        ("requests per hour", decimal(rate * 3600, 0)),
        ("requests per day", decimal(rate * 86_400, 0)),
    ]
    if tokens := performance.mean("tokens_per_sec"):
        rows.append(("tokens per day", decimal(tokens * 86_400, 0)))
    benchmark = BENCHMARKS.get(summary.meta.benchmark or "")
    if benchmark:
        name = f"the full data set, {benchmark.samples:,} samples"
        rows.append((name, duration(benchmark.samples / rate)))
    note = "Extrapolated from the measured rate, not measured."
    return [replace(figure_table(rows, "Projections", folded=True), note=note)]


def regression_sections(regression: RegressionFigures | None) -> list[Section]:
    """Each metric's change since the baseline, with its interval."""
    if regression is None:
        return []
    lines = filter(None, [regression.refused, *regression.different])
    changes = [_change(change) for change in regression.metrics]
    title = f"Compared with {regression.baseline or '?'}"
    texts = ("metric", "change (interval)", "noise from")
    table = record_table(changes, texts, kinds={"verdict": "badge"}, style="wide")
    return [Section(title, [*table, *notes(lines)], 3)]


def named_values(label: str, unit: str, values: Sequence[float | None]) -> tuple[str, list[str]]:
    """A figure's name, with its unit unless it is the name or stands beside each time, and its
    values."""
    if unit == "ms":
        return label, list(map(time_cell, values))
    name = label if unit in (label, "") else f"{label}, {unit}"
    return name, list(map(decimal, values))


def _change(change: ChangeFigures) -> dict[str, Cell]:
    sides = (change.baseline, change.current)
    name, (baseline, candidate) = named_values(change.label, change.unit, sides)
    return {
        "metric": name,
        "baseline": baseline,
        "candidate": candidate,
        "change (interval)": change.words,
        "verdict": change.outcome,
        "noise from": change.noise_from,
    }
