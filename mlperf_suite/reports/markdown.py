"""Writes report.md, a report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from mlperf_suite.reports.energy import COST_HEAD, ENERGY_HEADER
from mlperf_suite.reports.replicas import NODE_HEADER, REPLICA_HEADER
from mlperf_suite.reports.view import (
    CACHING_HEAD,
    CLIENT_HEADER,
    ENDPOINT_HEADER,
    NO_LIMIT,
    PART_HEADER,
    PROFILE_HEADER,
    REMOTE_NOTE,
    SLOW_HEAD,
    SLOW_HEADER,
    TIME_HEAD,
    Row,
    View,
    WhereTimeGoes,
    view_of,
)
from mlperf_suite.results.schema import Config, Summary


def report_markdown(summary: Summary, config: Config | None = None) -> str:
    """The report of a run from its summary.json and config.json."""
    view = view_of(summary, config)
    lines = [
        f"# {in_cell(view.title)}: {in_cell(view.status)}",
        "",
        f"**{in_cell(view.label)}.**",
        "",
        "## Is it valid?",
        "",
        in_cell(view.valid),
        *_performance(view),
        *_profile(view),
        *_accuracy(view),
        *_caching(view),
        *_endpoints(view),
        *_replicas(view),
        "",
        "## What was run?",
        "",
        *_table(("", ""), view.run),
        *_titled("The engine", _table(("", ""), view.engine), view.engine),
        *_titled(view.system_head, _table(("", ""), view.system), view.system),
        *_titled(
            "The plan", _table(("step", "estimated", "took"), view.plan, right=True), view.plan
        ),
        "",
        "## Problems",
        "",
        *([f"- {in_cell(line)}" for line in view.problems] or ["No problems found."]),
        "",
        "## Every rule",
        "",
        *_rules(view),
        "",
        "## Files",
        "",
        *[f"- [{in_cell(name)}]({quote(name)})" for name in view.files],
    ]
    return "\n".join(lines) + "\n"


def in_cell(value: object) -> str:
    """A value for a Markdown table or sentence, with all markup in it escaped."""
    text = " ".join(str(value).split())
    for mark in "\\`*_{}[]<>|#":
        text = text.replace(mark, "\\" + mark)
    return text


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], right: bool = False) -> list[str]:
    dashes = "|---|" + ("---:|" if right else "---|") * (len(header) - 1)
    lines = ["| " + " | ".join(header) + " |", dashes]
    return lines + ["| " + " | ".join(map(in_cell, row)) + " |" for row in rows]


def _titled(head: str, lines: Sequence[str], rows: Sequence[object]) -> list[str]:
    """A part under its own head; empty if it has no rows."""
    return ["", f"### {head}", "", *lines] if rows else []


def _figures(rows: Iterable[Row], name: str = "", value: str = "") -> list[str]:
    return _table((name, value), rows, right=True)


def _performance(view: View) -> list[str]:
    lines = ["", "## How fast?", ""]
    if view.speed:
        lines += _figures(view.speed)
    if view.times:
        lines += ["", *_table(("ms", *view.percentiles), view.times, right=True)]
    lines += [line for note in view.speed_notes for line in ("", in_cell(note))]
    lines += _time(view.time)
    lines += _energy(view)
    if view.projections:
        lines += ["", "Projections at the measured rate. None of this was measured.", ""]
        lines += _figures(view.projections)
    if view.regression:
        lines += ["", f"### Against {in_cell(view.regression.baseline)}", ""]
        header = ("metric", "then", "now", "change (interval)", "verdict", "noise from")
        lines += _table(header, view.regression.rows)
        lines += [line for note in view.regression.notes for line in ("", in_cell(note))]
    return lines


def _energy(view: View) -> list[str]:
    found = view.energy
    if found is None:
        return []
    lines = ["", "### Energy and cost"]
    if found.rows:
        lines += ["", *_table(ENERGY_HEADER, found.rows, right=True)]
    lines += [line for note in found.notes for line in ("", in_cell(note))]
    if found.cost:
        lines += ["", f"{COST_HEAD}:", "", *_figures(found.cost)]
    return lines


def _time(time: WhereTimeGoes | None) -> list[str]:
    if time is None:
        return []
    lines = ["", f"### {TIME_HEAD}", ""]
    lines += [f"- {in_cell(said)} To change it: {in_cell(option)}." for said, option in time.limits]
    lines += [NO_LIMIT] if time.figures and not time.limits else []
    if time.figures:
        lines += ["", "Figures that limited nothing:", "", *_figures(time.figures)]
    if time.parts:
        lines += ["", *_table(PART_HEADER, time.parts, right=True)]
    lines += [line for note in time.notes for line in ("", in_cell(note))]
    if time.slowest:
        lines += ["", f"{SLOW_HEAD}:", "", *_table(SLOW_HEADER, time.slowest)]
    return lines


def _profile(view: View) -> list[str]:
    if view.profile is None:
        return []
    lines = ["", "## Profile"]
    lines += [line for note in view.profile.notes for line in ("", in_cell(note))]
    rows = _table(PROFILE_HEADER, view.profile.rows, right=True)
    return [*lines, "", *rows] if view.profile.rows else lines


def _accuracy(view: View) -> list[str]:
    lines = ["", "## How accurate?", ""]
    if view.accuracy:
        lines += _table(("score", "found", "unit", "required"), view.accuracy)
    if view.accuracy and view.accuracy_note:
        lines.append("")
    return [*lines, in_cell(view.accuracy_note)] if view.accuracy_note else lines


def _caching(view: View) -> list[str]:
    return ["", f"## {CACHING_HEAD}", "", *_figures(view.caching)] if view.caching else []


def _endpoints(view: View) -> list[str]:
    if not view.remote:
        return []
    lines = ["", "## Endpoints", "", REMOTE_NOTE]
    if view.endpoints:
        lines += ["", *_table(ENDPOINT_HEADER, view.endpoints, right=True)]
    rows = _table(CLIENT_HEADER, view.clients, right=True)
    return [*lines, *_titled("The client", rows, view.clients)]


def _replicas(view: View) -> list[str]:
    if not view.replicas:
        return []
    lines = [
        "",
        "## Replicas and nodes",
        "",
        *(f"- {in_cell(note)}" for note in view.replica_notes),
    ]
    lines += ["", *_table(REPLICA_HEADER, view.replicas, right=True)]
    return [*lines, "", *_table(NODE_HEADER, view.nodes, right=True)] if view.nodes else lines


def _rules(view: View) -> list[str]:
    if not view.rules:
        return ["No rule was judged."]
    rows = [[r.rule, r.status, r.found, r.required, r.why] for r in view.rules]
    return _table(("rule", "status", "found", "required", "why"), rows)
