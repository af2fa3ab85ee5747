"""How fast a run was: LoadGen's figures, where the time went, projections, changes since a
baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.reports.formats import count, decimal, duration
from mlperf_suite.reports.plots import Plot
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Column,
    Paragraph,
    Plots,
    Points,
    Row,
    Section,
    Table,
    Tiles,
    Words,
    columns,
    figure_table,
    notes,
    paragraphs,
    record_table,
)
from mlperf_suite.results.bottlenecks import Bottleneck, bottlenecks, percent
from mlperf_suite.results.schema import (
    ChangeFigures,
    Config,
    EarlyStopping,
    LifeFigures,
    Meta,
    PartFigures,
    PeakFigures,
    Percentiles,
    PerformanceFigures,
    RegressionFigures,
    SlowRequest,
    Summary,
)

_TIMES = (("latency", "latency"), ("TTFT", "ttft"), ("TPOT", "tpot"))
_CURVES_NOTE = (
    "Curves are of every request; a percentile named beside one is LoadGen's, as in the table "
    "above."
)


def speed_sections(summary: Summary, plots: Sequence[Plot] = ()) -> list[Section]:
    """The figures that readers look for first, and all that LoadGen reports."""
    performance, peak = summary.run.performance, _peak_rows(summary.peak)
    drawings = [Plots(plots, note=_CURVES_NOTE)] if plots else []
    if performance is None:
        blocks: list[Block] = [figure_table(peak)] if peak else []
        blocks += notes(["No performance result."])
        return [Section("How fast?", [*_tiles(peak), *blocks, *drawings])]
    blocks = [
        figure_table([*peak, *_speed_rows(performance)]),
        *_times_table(performance),
        *notes(_speed_notes(performance)),
        *drawings,
    ]
    brief = paragraphs(_speed_lines(performance))
    return [
        Section("How fast?", _tiles([*peak, *_headline(summary.meta, performance)])),
        Section("LoadGen's figures", blocks, 3, brief=brief),
    ]


def _tiles(rows: Sequence[Row]) -> list[Tiles]:
    return [Tiles(rows, page_only=True)] if rows else []


def _headline(meta: Meta, performance: PerformanceFigures) -> list[Row]:
    times = dict(reported_times(performance))
    tiles: list[tuple[str, float | None]] = []
    if meta.scenario == "SingleStream":
        tiles.append(("latency p90, ms", times.get("latency", {}).get("p90")))
        name, estimates = _early_estimates(performance)
        tiles.append((f"{name}, ms", estimates.get("latency")))
    tiles.append(("tokens/s", performance.tokens_per_sec))
    tiles.append(("samples/s", performance.samples_per_sec))
    tiles += [(f"{name} p99, ms", times.get(name, {}).get("p99")) for name in ("TTFT", "TPOT")]
    return [(name, decimal(value)) for name, value in tiles if value is not None]


def _speed_rows(performance: PerformanceFigures) -> list[Row]:
    rows = [
        ("LoadGen says", "VALID" if performance.valid else "INVALID"),
        ("tokens/s", decimal(performance.tokens_per_sec)),
        ("samples/s", decimal(performance.samples_per_sec)),
        ("new tokens", decimal(performance.total_new_tokens, 0)),
        ("duration, s", decimal(performance.duration_s)),
    ]
    target = performance.target_qps
    return rows if target is None else [*rows, ("target rate, queries/s", decimal(target, 3))]


def _speed_notes(performance: PerformanceFigures) -> list[str]:
    times = dict(reported_times(performance))
    absent = [name for name, _ in _TIMES if name not in times]
    lines = []
    if absent:
        lines.append(f"LoadGen reports no {' and '.join(absent)} in this scenario.")
    if performance.invalid_reason:
        lines.append(f"LoadGen says INVALID: {performance.invalid_reason}")
    lines += _early_lines(performance)
    early = performance.early_stopping
    if early and "latency" in _early_estimates(performance)[1] and not early.says.get("latency"):
        lines.append(
            "LoadGen reports early stopping's estimates of TTFT and TPOT; that of the latency "
            "follows the same rule, from the requests as the system under test saw them."
        )
    if performance.repeats:
        rates = ", ".join(decimal(repeat.tokens_per_sec) for repeat in performance.repeats)
        lines.append(f"Repeats, tokens/s: {rates}.")
    return lines


def _speed_lines(performance: PerformanceFigures) -> list[str]:
    rates = [
        f"{value:,.2f} {unit}"
        for value, unit in (
            (performance.tokens_per_sec, "tokens/s"),
            (performance.samples_per_sec, "samples/s"),
        )
        if value is not None
    ]
    valid = "VALID" if performance.valid else "INVALID"
    reason = f": {performance.invalid_reason}" if performance.invalid_reason else ""
    lines = [f"{', '.join(rates)}; LoadGen: {valid}{reason}"]
    lines += [times_line(name, times) for name, times in reported_times(performance)]
    name, estimates = _early_estimates(performance)
    if estimates:
        lines.append(times_line(f"{name},", estimates))
    return lines + _early_lines(performance)


def times_line(name: str, values_ms: Mapping[str, float]) -> str:
    """Times in one line, in ms, or in s if long; six percentiles fit 80 columns."""
    if max(values_ms.values()) >= 10_000:
        unit, times = "s", [f"{key} {value / 1000:,.4g}" for key, value in values_ms.items()]
    else:
        digits = 0 if max(values_ms.values()) >= 1000 else 1
        unit, times = "ms", [f"{key} {value:,.{digits}f}" for key, value in values_ms.items()]
    return f"{name} {unit}: {', '.join(times)}"


def reported_times(performance: PerformanceFigures) -> list[tuple[str, Percentiles]]:
    """By name, the times in ms that LoadGen reports for this scenario."""
    times = ((name, getattr(performance, f"{key}_ms")) for name, key in _TIMES)
    return [(name, percentiles) for name, percentiles in times if percentiles]


def _times_table(performance: PerformanceFigures) -> list[Table]:
    """Each time at LoadGen's percentiles; early stopping's estimate follows the percentile that it
    estimates."""
    times = reported_times(performance)
    if not times:
        return []
    percentiles = list(times[0][1])
    rows = [[name, *(decimal(values.get(p)) for p in percentiles)] for name, values in times]
    column, estimates = _early_estimates(performance)
    if estimates:
        places = (i for i, p in enumerate(percentiles, 1) if column.startswith(f"{p} "))
        place = next(places, len(percentiles))
        percentiles.insert(place, column)
        for row in rows:
            row.insert(place + 1, decimal(estimates.get(row[0])))
    header = (Column("ms", "unit"), *columns((), percentiles))
    return [Table(header, rows, style="wide broad times")]


def _early_estimates(performance: PerformanceFigures) -> tuple[str, dict[str, float]]:
    """The column name of early stopping's estimates, and the estimates in ms, by time."""
    early = performance.early_stopping or EarlyStopping()
    estimates = {name: early.estimates_ms.get(key) for name, key in _TIMES}
    values = {name: value for name, value in estimates.items() if value is not None}
    return f"{_percentile(early)} by early stopping", values


def _percentile(early: EarlyStopping) -> str:
    return "percentile" if early.percentile is None else f"p{early.percentile:g}"


def _early_lines(performance: PerformanceFigures) -> list[str]:
    """What LoadGen's early stopping says when it makes no estimate, a sentence each."""
    early = performance.early_stopping or EarlyStopping()
    return [
        f"Early stopping of {name} at {_percentile(early)}: {early.says[key]}"
        for name, key in _TIMES
        if early.says.get(key) and early.estimates_ms.get(key) is None
    ]


# The search for the highest valid rate


def _peak_rows(peak: PeakFigures | None) -> list[Row]:
    if peak is None:
        return []
    limit = peak.why_at_least
    value = decimal(peak.peak_qps)
    return [("highest valid rate, queries/s", f"at least {value}: {limit}" if limit else value)]


def peak_line(peak: PeakFigures) -> str:
    """The outcome of a search for the highest valid rate, in a sentence."""
    rate, runs = peak.peak_qps, count(peak.runs, "run")
    if rate is None:
        return f"No rate was VALID in {runs}: see peak_qps.json."
    if limit := peak.why_at_least:
        return (
            f"Highest valid rate: at least {rate:g} queries/s, confirmed at full length; {runs}: "
            f"{limit}."
        )
    return f"Highest valid rate: {rate:g} queries/s, confirmed at full length; {runs}."


# Where the time goes


def time_sections(summary: Summary, config: Config | None) -> list[Section]:
    """What limited the run, the parts of the requests' time, and the slowest requests."""
    performance = summary.run.performance
    if performance is None:
        return []
    engine = config.engine.settings if config and config.engine else None
    figures = bottlenecks(performance, summary.run.remote.get("performance"), engine)
    life = performance.life
    if life is None and not figures and not performance.untimed:
        return []
    blocks: list[Block] = [*_limits(figures)]
    if life:
        blocks += _life_blocks(life)
    elif performance.untimed:
        blocks += notes([f"Not known of this run: {performance.untimed}."])
    if rest := [figure for figure in figures if not figure.limits]:
        rows = [(figure.name, f"{percent(figure.share)} {figure.of}") for figure in rest]
        blocks.append(figure_table(rows, "Figures that limited nothing", folded=True))
    return [Section("Where the time goes", blocks, 3)]


def _limits(figures: Sequence[Bottleneck]) -> list[Block]:
    """A sentence for each limit, and the option that changes it."""
    lines = [
        Words(limit.sentence, (f"To change it: {limit.option}.",))
        for limit in figures
        if limit.limits
    ]
    if figures and not lines:
        return [Paragraph("No figure is so large that it limited the run.")]
    return [Points(lines)] if lines else []


def _life_blocks(life: LifeFigures) -> list[Block]:
    parts = [_part(part) for part in life.parts]
    slowest = [_slow(request) for request in life.slowest]
    return [
        *record_table(parts, ["part"], style="wide broad times"),
        *notes([_life_note(life)]),
        *record_table(
            slowest,
            kinds={"cause": "words"},
            style="wide broad slow",
            title="The slowest requests",
            folded=True,
        ),
    ]


def _part(part: PartFigures) -> dict[str, Cell]:
    return {
        "part": part.name,
        "share": percent(part.share),
        "mean, ms": decimal(part.mean_ms),
        "p50, ms": decimal(part.p50_ms),
        "p90, ms": decimal(part.p90_ms),
        "p99, ms": decimal(part.p99_ms),
        "most, ms": decimal(part.most_ms),
    }


def _slow(request: SlowRequest) -> dict[str, Cell]:
    return {
        "sample": f"{request.sample:,}",
        "issued, s": decimal(request.issued_s),
        "latency, ms": decimal(request.latency_ms),
        "prompt tokens": f"{request.prompt_tokens:,}",
        "tokens": f"{request.tokens:,}",
        "cause": request.cause,
    }


def _life_note(life: LifeFigures) -> str:
    if not life.from_loadgen:
        return "A life begins where LoadGen called the SUT: its log does not tell when it began."
    if life.differs_ms is None:
        return "A life begins where LoadGen begins to count its latency."
    return (
        "The parts of a request add up to LoadGen's latency: over these "
        f"{count(life.requests, 'request')} its least, mean, percentiles and most differ from "
        f"those of the sums by {life.differs_ms:.3f} ms at most."
    )


# Projections and changes


def projection_sections(summary: Summary) -> list[Section]:
    """Figures extrapolated from the measured rate; none if the run is no result."""
    performance = summary.run.performance
    rate = performance.samples_per_sec if performance else None
    if summary.no_result or performance is None or not rate:
        return []
    rows = [
        ("requests per hour", decimal(rate * 3600, 0)),
        ("requests per day", decimal(rate * 86_400, 0)),
    ]
    if performance.tokens_per_sec:
        rows.append(("tokens per day", decimal(performance.tokens_per_sec * 86_400, 0)))
    benchmark = BENCHMARKS.get(summary.meta.benchmark or "")
    if benchmark:
        name = f"the full data set, {benchmark.samples:,} samples"
        rows.append((name, duration(benchmark.samples / rate)))
    note = notes(["If the measured rate held. None of this was measured."])
    return [Section("Projections", [*note, figure_table(rows)], 3)]


def regression_sections(regression: RegressionFigures | None) -> list[Section]:
    """Each metric's change since the baseline, with its interval."""
    if regression is None:
        return []
    lines = [*filter(None, (regression.refused, regression.note)), *regression.different]
    table = _change_table([_change(change) for change in regression.metrics])
    title = f"against {regression.baseline}"
    brief: list[Block] = [
        Paragraph(lead=title),
        *_change_table([_brief_change(change) for change in regression.metrics]),
        *(Paragraph(line, style="open") for line in regression.different),
        *([Paragraph(regression.note, style="open")] if regression.note else []),
    ]
    if regression.refused:
        brief = [Paragraph(f"{title}: {regression.refused}", style="bad")]
    title = f"Against {regression.baseline or '?'}"
    return [Section(title, [*table, *notes(lines)], 3, brief=brief)]


def _change_table(records: Sequence[Mapping[str, Cell]]) -> list[Table]:
    texts = ("metric", "change (interval)", "noise from")
    return record_table(records, texts, kinds={"verdict": "badge"}, style="wide")


def _change(change: ChangeFigures) -> dict[str, Cell]:
    label = change.label
    return {
        "metric": label if change.unit in (label, "") else f"{label}, {change.unit}",
        "then": decimal(change.baseline),
        "now": decimal(change.current),
        "change (interval)": change.words,
        "verdict": change.outcome,
        "noise from": change.noise_from,
    }


def _brief_change(change: ChangeFigures) -> dict[str, Cell]:
    names = ("verdict", "change (interval)", "noise from")
    return {"metric": change.label} | {name: _change(change)[name] for name in names}
