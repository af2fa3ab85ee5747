"""Reports an aggregate of nodes' runs as Markdown, as HTML and in the terminal.

Names, labels and reasons come from untrusted folders and are always treated as plain text.

Also the aggregate as JSON: its own file, and the file that users of the node script parse.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.features.aggregate.aggregate import (
    Aggregate,
    AggregateNode,
    Scaling,
    ScenarioFigures,
)
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.reports.performance_sections import named_values, reported_times, times_table
from mlperf_suite.reports.plots import BLUE, ORANGE, draw_bars
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
    decimal,
    efficiency_words,
    fact_table,
    notes,
    paragraphs,
    percentage,
    record_table,
    time_cell,
)
from mlperf_suite.results.node_files import TIME, scenario_json
from mlperf_suite.results.run_folder import write_json, write_whole

REPORT_MD, REPORT_HTML = "aggregate.md", "aggregate.html"
ALL = "all nodes"
_ALL_NOTE = (
    f"In the row {ALL!r}, rates, requests and tokens are sums, and times are percentiles over the "
    "requests of all nodes. The times of a node are LoadGen's own."
)
_RUN_COLUMNS = ("node", "scenario", "run", "started", "accuracy rules", "hardware")
_NARROW = ("node", "valid", "tokens/s", "share", "TTFT p99", "TPOT p99", "latency p99")
"""The columns that fit a terminal of 80."""
_MAX_BARS = 16


def write_aggregate_reports(out: Path, aggregate: Aggregate) -> list[Path]:
    """Write both reports to an existing folder and return their paths. Raises OSError."""
    sections = aggregate_sections(aggregate)
    title = f"{sections[0].title}: {aggregate.label}"
    texts = {
        REPORT_MD: markdown_text(sections),
        REPORT_HTML: html_page(sections, title=title, broad=True),
    }
    for name, text in texts.items():
        write_whole(out / name, text)
    return [out / name for name in texts]


def aggregate_sections(aggregate: Aggregate) -> list[Section]:
    """The report of an aggregate; nothing of it is marked as passed, since it is never a result."""
    plots = [plot for plot in map(_plot, aggregate.scenarios) if plot is not None]
    return [
        _head(aggregate),
        _validity(aggregate),
        *(section for figures in aggregate.scenarios for section in _scenario(figures)),
        *([Section("Nodes side by side", [Plots(plots)])] if plots else []),
        *_run_sections(aggregate),
    ]


def _head(aggregate: Aggregate) -> Section:
    title = f"{aggregate.benchmark} on {len(aggregate.nodes)} nodes"
    blocks = [
        Paragraph(aggregate.why, lead=f"{aggregate.label}.", style="bad"),
        *(Paragraph(lead=f"{mark}.") for mark in aggregate.marks),
    ]
    brief = [
        Paragraph(lead=aggregate.label),
        *(Paragraph(mark, style="open") for mark in aggregate.marks),
        Paragraph(f"{title}, model {aggregate.model}, round {aggregate.round}"),
    ]
    return Section(title, blocks, 1, brief=brief)


def _validity(aggregate: Aggregate) -> Section:
    invalid = [figures.scenario for figures in aggregate.scenarios if not figures.valid]
    if invalid:
        answer = f"No: in {', '.join(invalid)}, not every node's run is valid on its own."
        block = Paragraph(answer, style="bad")
        return Section("Is it valid?", [block], brief=[block])
    answer = (
        f"The run of each of the {len(aggregate.nodes)} nodes is a valid result on its own; "
        "together they are not an MLPerf result."
    )
    return Section("Is it valid?", [Paragraph(answer, style="open")], brief=[Paragraph(answer)])


# A scenario


def _scenario(figures: ScenarioFigures) -> list[Section]:
    lines = [*_slowest(figures), *_scaling(figures.scaling, len(figures.nodes)), *figures.notes]
    table = _node_table(figures)
    brief: list[Block] = [
        Paragraph(lead=f"\n{figures.scenario}"),
        _with_columns(table, _NARROW),
        *paragraphs(lines),
        *(Paragraph(reason, style="bad") for reason in figures.reasons),
    ]
    sections = [
        Section(figures.scenario, [Tiles(_headline(figures)), *paragraphs(lines)], brief=brief)
    ]
    if figures.reasons:
        sections.append(Section("Why it is not valid", [Points(figures.reasons)], 3))
    sections.append(Section("Every node", [table, *notes([_ALL_NOTE])], 3))
    if pooled := times_table(reported_times(figures)):
        sections.append(Section("Requests of all nodes together", pooled, 3))
    return sections


def _headline(figures: ScenarioFigures) -> list[Row]:
    rows = [("tokens/s, all nodes", decimal(figures.tokens_per_sec))]
    rows.append((f"{figures.rate_unit}, all nodes", decimal(figures.samples_per_sec)))
    for name, percentiles in (("TTFT", figures.ttft_ms), ("TPOT", figures.tpot_ms)):
        if percentiles and "p99" in percentiles:
            rows.append((f"{name} p99, pooled", time_cell(percentiles["p99"])))
    if figures.scaling:
        low, high = figures.scaling.low, figures.scaling.high
        ends = "no interval" if low is None else f"{percentage(low)} to {percentage(high)}"
        efficiency = f"{percentage(figures.scaling.efficiency)} ({ends})"
        rows.append(("scaling efficiency", efficiency))
    return rows


def _node_table(figures: ScenarioFigures) -> Table:
    """The table of nodes, without columns that are empty for all nodes."""
    unit = figures.rate_unit
    records = [
        {"node": node.node, "valid": "yes" if node.valid else "no"} | _rates(node, node.share, unit)
        for node in figures.nodes
    ]
    # An aggregate is not a result, whatever its nodes' runs are.
    records.append({"node": ALL, "valid": "not a result"} | _rates(figures, 1.0, unit))
    empty = {"", NOT_REPORTED}
    names = [name for name in records[0] if {record[name] for record in records} - empty]
    (table,) = record_table(records, kinds={"node": "label", "valid": "words"})
    return _with_columns(replace(table, total=True), names)


def _rates(
    figures: AggregateNode | ScenarioFigures, share: float | None, rate_unit: str
) -> dict[str, str]:
    return {
        "tokens/s": decimal(figures.tokens_per_sec),
        "share": percentage(share),
        rate_unit: decimal(figures.samples_per_sec),
        "target, queries/s": decimal(figures.target_qps),
        "TTFT p99": time_cell((figures.ttft_ms or {}).get("p99")),
        "TPOT p99": time_cell((figures.tpot_ms or {}).get("p99")),
        "latency p99": time_cell((figures.latency_ms or {}).get("p99")),
        "requests": f"{figures.requests:,}",
        "tokens": f"{figures.tokens:,}",
    }


def _with_columns(table: Table, names: Collection[str]) -> Table:
    places = [place for place, column in enumerate(table.columns) if column.name in names]
    return replace(
        table,
        columns=[table.columns[place] for place in places],
        rows=[[cells[place] for place in places] for cells in table.rows],
    )


def _slowest(figures: ScenarioFigures) -> list[str]:
    slowest = figures.slowest
    if slowest is None:
        return []
    rest = "the other's" if len(figures.nodes) == 2 else "the others' median"
    _, (value, others) = named_values(slowest.by, slowest.unit, (slowest.value, slowest.rest))
    return [f"Slowest node: {slowest.node}, {slowest.by} {value} against {rest} {others}."]


def _scaling(scaling: Scaling | None, nodes: int) -> list[str]:
    if scaling is None:
        return []
    source = f"from {scaling.noise_from}" if scaling.low else "since no run was repeated"
    words = efficiency_words(scaling.efficiency, scaling.low, scaling.high, source)
    return [
        f"Scaling efficiency {words}: tokens/s of all / ({nodes} x "
        f"{decimal(scaling.one_tokens_per_sec)} of one node alone)."
    ]


def _plot(figures: ScenarioFigures) -> Plot | None:
    """Each node's tokens/s as bars; None if a node has none or there are too many nodes."""
    values = [node.tokens_per_sec for node in figures.nodes]
    if None in values or len(values) > _MAX_BARS:
        return None
    slowest, caption = None, f"Tokens/s of each node in {figures.scenario}"
    if figures.slowest:
        slowest = figures.slowest.node
        caption += f", in orange the slowest by {figures.slowest.by}, {slowest}"
    caption += f"; their sum is {decimal(figures.tokens_per_sec)}."
    names = [f"{number}: {node.node}" for number, node in enumerate(figures.nodes, 1)]
    names = [name if len(name) <= 24 else f"{name[:23]}…" for name in names]
    colours = [ORANGE if node.node == slowest else BLUE for node in figures.nodes]
    draw = partial(draw_bars, dict(zip(names, values, strict=True)), "tokens/s", color=colours)
    return Plot(f"nodes_{figures.scenario.lower()}", caption, draw)


# What was run


def _run_sections(aggregate: Aggregate) -> list[Section]:
    facts = {
        "benchmark": aggregate.benchmark,
        "model": aggregate.model,
        "dataset": aggregate.dataset,
        "data sha256": aggregate.data_sha256,
        "round": aggregate.round,
        "profile": aggregate.profile,
        "rules of each run": aggregate.rules,
        "engine": aggregate.engine,
        "nodes": ", ".join(aggregate.nodes),
        "created": aggregate.made,
    }
    rows = [(name, value) for name, value in facts.items() if value]
    runs = [
        _run(figures.scenario, node) for figures in aggregate.scenarios for node in figures.nodes
    ]
    brief = [Paragraph(""), *(Paragraph(note, style="open") for note in aggregate.notes)]
    sections = [
        Section("What was run?", [fact_table(rows)], brief=brief),
        Section("Runs", record_table(runs, kinds=dict.fromkeys(_RUN_COLUMNS, "words")), 3),
    ]
    if aggregate.notes:
        sections.append(Section("Different, or not compared", [Points(aggregate.notes)], 3))
    return sections


def _run(scenario: str, node: AggregateNode) -> dict[str, Cell]:
    return {
        "node": node.node,
        "scenario": scenario,
        "run": node.run,
        "started": node.started or NOT_REPORTED,
        "accuracy rules": {True: "passed", False: "failed", None: "not run"}[node.accuracy_passed],
        "hardware": node.hardware,
    }


AGGREGATE_JSON = "aggregate.json"
OLD_JSON = "aggregated_datacenter_results.json"


def old_json(aggregate: Aggregate) -> dict[str, Any]:
    """The content of aggregated_datacenter_results.json. `node_results`, which its coordinator
    wrote, and `nodes` have the scenarios of each node as in its own file. No node is among
    `failed_nodes`: a run that failed is part of no aggregate."""
    timestamp = datetime.fromisoformat(aggregate.made) if aggregate.made else None
    of_nodes: dict[str, dict[str, Any]] = {node: {"scenarios": {}} for node in aggregate.nodes}
    for scenario in aggregate.scenarios:
        for row in scenario.nodes:
            of_nodes[row.node]["scenarios"][scenario.scenario] = {
                **scenario_json(scenario.scenario, row, row.reasons, row.issued, row.requests),
                "accuracy_passed": row.accuracy_passed,
                "run": row.run,
            }
    return {
        "benchmark_info": {
            "benchmark": aggregate.benchmark,
            "model": aggregate.model,
            "timestamp": f"{timestamp:{TIME}}" if timestamp else None,
            "round": aggregate.round,
            "profile": aggregate.profile,
            "label": "; ".join((aggregate.label, *aggregate.marks)),
            "total_time_seconds": aggregate.span_s,
            "successful_nodes": aggregate.nodes,
            "failed_nodes": [],
            "total_nodes": len(aggregate.nodes),
        },
        "scenarios": {
            of.scenario: {
                **scenario_json(of.scenario, of, of.reasons, of.issued, of.requests),
                "label": aggregate.label,
            }
            for of in aggregate.scenarios
        },
        "node_results": of_nodes,
        "nodes": of_nodes,
    }


def write_aggregate(out: Path, aggregate: Aggregate) -> list[Path]:
    """Write both JSON files into an existing folder; returns their paths. Raises OSError."""
    write_json(out / AGGREGATE_JSON, aggregate.as_json())
    write_json(out / OLD_JSON, old_json(aggregate))
    return [out / AGGREGATE_JSON, out / OLD_JSON]
