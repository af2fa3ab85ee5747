"""Reports an aggregate of nodes' runs as Markdown, as HTML and in the terminal.

One view provides the words for all three, so that they cannot disagree. Names, labels and reasons
come from untrusted folders and are always treated as plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.reports.html import drawn, render
from mlperf_suite.reports.markdown import in_cell
from mlperf_suite.reports.plots import BLUE, ORANGE, Plot
from mlperf_suite.reports.view import NOT_REPORTED, Row, shown
from mlperf_suite.results.aggregate import Aggregate, NodeFigures, ScenarioFigures
from mlperf_suite.results.scaling import CONFIDENCE, Scaling

if TYPE_CHECKING:
    from rich.console import RenderableType

REPORT_MD, REPORT_HTML = "aggregate.md", "aggregate.html"
ALL = "all nodes"
ALL_NOTE = (
    f"In the row {ALL!r}, rates, requests and tokens are sums, and times are percentiles of the "
    "requests of all nodes together, computed from the requests themselves. Those of a node are "
    "LoadGen's own."
)
RUN_HEADER = ("node", "scenario", "run", "started", "accuracy rules", "hardware")
_MOST_BARS = 16


@dataclass(frozen=True, slots=True)
class ScenarioView:
    """A scenario's part. `headline`: name and value. `pooled`: times under `percentiles`. `nodes`:
    rows under `header`, with all nodes last. `problems`: why it is not a valid result. `notes`:
    sentences.
    """

    name: str
    headline: list[Row]
    percentiles: tuple[str, ...]
    pooled: list[tuple[str, ...]]
    header: tuple[str, ...]
    nodes: list[tuple[str, ...]]
    problems: list[str]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class AggregateView:
    """The parts of a report. `standing`: bad or open, for the colour; an aggregate is never a
    result, so never green. `runs`: rows under RUN_HEADER."""

    title: str
    label: str
    marks: list[str]
    why: str
    standing: str
    valid: str
    run: list[Row]
    scenarios: list[ScenarioView]
    runs: list[tuple[str, ...]]
    notes: list[str]


def view_of_aggregate(found: Aggregate) -> AggregateView:
    """What the reports say about an aggregate, in their order."""
    number = len(found.nodes)
    bad = [one.scenario for one in found.scenarios if not one.valid]
    if bad:
        valid = f"No: in {', '.join(bad)} not every node's run is a valid result of its own."
    else:
        valid = (
            f"The run of each of the {number} nodes is a valid result of its own; together they "
            "are no MLPerf result."
        )
    rows = {
        "benchmark": found.benchmark,
        "model": found.model,
        "dataset": found.dataset,
        "data sha256": found.data_sha256,
        "round": found.round,
        "profile": found.profile,
        "rules of each run": found.rules,
        "engine": found.engine,
        "nodes": ", ".join(found.nodes),
        "made": found.made,
    }
    return AggregateView(
        f"{found.benchmark} on {number} nodes",
        found.label,
        list(found.marks),
        found.why,
        "bad" if bad else "open",
        valid,
        [(name, value) for name, value in rows.items() if value],
        [_scenario(one) for one in found.scenarios],
        [
            (
                *(of.node, one.scenario, of.run, of.started or NOT_REPORTED),
                {True: "passed", False: "failed", None: "not run"}[of.accuracy_passed],
                of.hardware,
            )
            for one in found.scenarios
            for of in one.nodes
        ],
        list(found.notes),
    )


def _scenario(one: ScenarioFigures) -> ScenarioView:
    times = (("latency", one.latency_ms), ("TTFT", one.ttft_ms), ("TPOT", one.tpot_ms))
    places = tuple(one.latency_ms or {})
    header, rows = _nodes(one)
    return ScenarioView(
        one.scenario,
        _headline(one),
        places,
        [(name, *(shown(of.get(place)) for place in places)) for name, of in times if of],
        header,
        rows,
        list(one.reasons),
        [*_slowest(one), *_scaling_words(one.scaling, len(one.nodes)), *one.notes],
    )


def _headline(one: ScenarioFigures) -> list[Row]:
    rows = [("tokens/s, all nodes", shown(one.tokens_per_sec))]
    rows.append((f"{one.rate_unit}, all nodes", shown(one.samples_per_sec)))
    for name, of in (("TTFT p99, ms", one.ttft_ms), ("TPOT p99, ms", one.tpot_ms)):
        if of and "p99" in of:
            rows.append((f"{name}, pooled", shown(of["p99"])))
    if one.scaling:
        rows.append(("scaling efficiency", percent(one.scaling.efficiency)))
    return rows


def percent(share: float | None) -> str:
    """A share in percent with one decimal."""
    return NOT_REPORTED if share is None else f"{share * 100:,.1f}%"


def _nodes(one: ScenarioFigures) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The table of nodes, without columns that are empty for all nodes."""

    def p99(of: dict[str, float] | None) -> float | None:
        return (of or {}).get("p99")

    def row(of: NodeFigures | ScenarioFigures) -> list[str]:
        return [
            shown(of.tokens_per_sec),
            percent(of.share if isinstance(of, NodeFigures) else 1.0),
            shown(of.samples_per_sec),
            shown(of.target_qps),
            shown(p99(of.ttft_ms)),
            shown(p99(of.tpot_ms)),
            shown(p99(of.latency_ms)),
            f"{of.requests:,}",
            f"{of.tokens:,}",
        ]

    header = [
        *("node", "valid", "tokens/s", "share", one.rate_unit, "target, queries/s"),
        *("TTFT p99, ms", "TPOT p99, ms", "latency p99, ms", "requests", "tokens"),
    ]
    rows = [[of.node, "yes" if of.valid else "no", *row(of)] for of in one.nodes]
    # An aggregate is not a result, whatever its nodes' runs are.
    rows.append([ALL, "no result", *row(one)])
    kept = [
        place
        for place in range(len(header))
        if any(cells[place] not in ("", NOT_REPORTED) for cells in rows)
    ]
    return tuple(header[place] for place in kept), [
        tuple(cells[place] for place in kept) for cells in rows
    ]


def _slowest(one: ScenarioFigures) -> list[str]:
    found = one.slowest
    if found is None:
        return []
    others = "the other's" if len(one.nodes) == 2 else "the others' median"
    return [
        f"Slowest node: {found.node}, {found.by} {shown(found.value)} {_unit(found.unit)}against "
        f"{others} {shown(found.rest)}."
    ]


def _unit(unit: str) -> str:
    return "" if unit == "tokens/s" else f"{unit} "


def _scaling_words(scaling: Scaling | None, nodes: int) -> list[str]:
    if scaling is None:
        return []
    ends = "no interval, since no run was repeated"
    if scaling.low is not None and scaling.high is not None:
        ends = (
            f"{percent(scaling.low)} to {percent(scaling.high)} at {CONFIDENCE * 100:g}%, from "
            f"{scaling.noise_from}"
        )
    return [
        f"Scaling efficiency {percent(scaling.efficiency)} ({ends}): tokens/s of all / ({nodes} x "
        f"{shown(scaling.one_tokens_per_sec)} of one node alone)."
    ]


# Markdown


def aggregate_markdown(found: Aggregate) -> str:
    """The text of aggregate.md."""
    view = view_of_aggregate(found)
    lines = [
        f"# {in_cell(view.title)}",
        "",
        f"**{in_cell(view.label)}.**",
        *(line for mark in view.marks for line in ("", f"**{in_cell(mark)}.**")),
        "",
        view.why,
        "",
        "## Is it valid?",
        "",
        in_cell(view.valid),
        "",
        in_cell(ALL_NOTE),
    ]
    for one in view.scenarios:
        lines += ["", f"## {in_cell(one.name)}", "", *_table(("", ""), one.headline)]
        if one.pooled:
            lines += ["", *_table(("pooled, ms", *one.percentiles), one.pooled)]
        lines += ["", *_table(one.header, one.nodes)]
        lines += [line for note in one.notes for line in ("", in_cell(note))]
        lines += _points("Why it is not valid:", one.problems)
    lines += ["", "## What was run?", "", *_table(("", ""), view.run)]
    lines += ["", *_table(RUN_HEADER, view.runs)]
    lines += _points("Not alike, or not compared:", view.notes)
    return "\n".join(lines) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(map(in_cell, header)) + " |", "|---" * len(header) + "|"]
    return lines + ["| " + " | ".join(map(in_cell, row)) + " |" for row in rows]


def _points(head: str, points: Sequence[str]) -> list[str]:
    return ["", head, "", *(f"- {in_cell(point)}" for point in points)] if points else []


# The page


def aggregate_html(found: Aggregate) -> str:
    """The text of aggregate.html, a self-contained page."""
    plots = [plot for plot in map(_plot, found.scenarios) if plot is not None]
    return render(
        "aggregate.html.j2",
        view=view_of_aggregate(found),
        plots=drawn(plots),
        all_note=ALL_NOTE,
        run_header=RUN_HEADER,
    )


def _plot(one: ScenarioFigures) -> Plot | None:
    """Each node's tokens/s as bars; None if a node has none or there are too many nodes."""
    values = [(row.node, row.tokens_per_sec) for row in one.nodes]
    known = [(name, value) for name, value in values if value is not None]
    if len(known) < len(values) or len(values) > _MOST_BARS:
        return None
    slow, caption = None, f"Tokens/s of each node in {one.scenario}"
    if one.slowest:
        slow = one.slowest.node
        caption += f", in orange the slowest by {one.slowest.by}, {slow}"
    caption += f"; their sum is {shown(one.tokens_per_sec)}."
    return Plot(f"nodes_{one.scenario.lower()}", caption, partial(_draw, known, slow))


def _draw(values: Sequence[tuple[str, float]], slow: str | None, axes: Any, ink: str) -> None:
    # A dollar sign would start a formula.
    names = [f"{number}: {name}".replace("$", r"\$") for number, (name, _) in enumerate(values, 1)]
    names = [name if len(name) <= 24 else f"{name[:23]}…" for name in names]
    colours = [ORANGE if name == slow else BLUE for name, _ in values]
    bars = axes.barh(names, [value for _, value in values], color=colours)
    axes.bar_label(bars, labels=[shown(value) for _, value in values], padding=3, color=ink)
    axes.set_xlabel("tokens/s", fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.grid(visible=False, axis="y")


def write_reports(out: Path, found: Aggregate) -> list[Path]:
    """Write both reports to an existing folder and return their paths. Raises OSError."""
    texts = {REPORT_MD: aggregate_markdown(found), REPORT_HTML: aggregate_html(found)}
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in texts]


# The terminal

_NARROW = ("node", "valid", "tokens/s", "share", "TTFT p99, ms", "TPOT p99, ms", "latency p99, ms")


def aggregate_table(found: Aggregate) -> RenderableType:
    """An aggregate as a terminal table of at most 80 columns."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    view = view_of_aggregate(found)
    parts: list[RenderableType] = [Text(view.label, "bold")]
    parts += [Text(mark, "yellow") for mark in view.marks]
    parts.append(Text(f"{view.title}, model {found.model}, round {found.round}"))
    parts.append(Text(view.valid, "bold red" if view.standing == "bad" else ""))
    for one in view.scenarios:
        parts.append(Text(f"\n{one.name}", "bold"))
        table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
        shown_at = [one.header.index(name) for name in _NARROW if name in one.header]
        for place in shown_at:
            right = place > 1
            table.add_column(
                Text(one.header[place]), justify="right" if right else "left", overflow="fold"
            )
        for cells in one.nodes:
            style = "bold" if cells[0] == ALL else ""
            table.add_row(*(Text(cells[place], style) for place in shown_at))
        parts.append(table)
        parts += [Text(note) for note in one.notes]
        parts += [Text(problem, "red") for problem in one.problems]
    parts += [Text(""), *(Text(note, "yellow") for note in view.notes)]
    return Group(*parts)
