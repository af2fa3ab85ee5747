"""What is said of logs that were judged: in the terminal, on a page, in a table as CSV."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.text import Text

from mlperf_suite.judging.verdict_group import JudgedFigures, VerdictGroup, scenario_of
from mlperf_suite.reports.csv_table import csv_text
from mlperf_suite.reports.run_report import verdict_table
from mlperf_suite.reports.sections import (
    Cell,
    ColumnKind,
    Paragraph,
    Points,
    Section,
    Style,
    Table,
    Words,
    count,
    record_table,
    significant,
)
from mlperf_suite.reports.terminal import terminal_view
from mlperf_suite.results.schema import Percentiles
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.verdict import in_words, time_words
from mlperf_suite.untrusted_files import printable

_PERCENTILES = ("p50", "p90", "p99")
_NAME = 24
"""The width of a result's name, and of what it may claim, in the terminal's table."""
_MAX_NAMED = 8
"""The most results that the terminal names for one failure."""
_Failures = Mapping[str, Mapping[tuple[str, str, str], list[str]]]
"""By rule, then by what was found, what is required and why: the names of the results."""


def judged_view(groups: Sequence[VerdictGroup], folder: Path) -> RenderableType:
    """The terminal's: a line and a row of figures for each result, why rules were not judged, each
    failure once, and what to run next."""
    parts: list[RenderableType] = [*map(_line, groups)]
    if table := figure_table_of(groups):
        parts += ["", terminal_view(map(_with_short_lines, table)), ""]
    for why, rules in _not_judged(groups).items():
        head = ("not judged:", "yellow")
        parts.append(Text.assemble(head, f" {printable(why)} ({', '.join(rules)})"))
    failures = _failures(groups)
    for rule, found in failures.items():
        parts += _failure(rule, found)
    # Not folded: a command is to be copied.
    steps = Text.assemble(("next: ", "bold"), _next(folder, list(failures)), no_wrap=True)
    return Group(*parts, steps)


def _with_short_lines(table: Table) -> Table:
    """A table whose columns of words break at hyphens rather than anywhere."""
    wrapped = ([*("\n".join(wrap(str(c), _NAME)) for c in row[:2]), *row[2:]] for row in table.rows)
    return replace(table, rows=list(wrapped))


def _line(group: VerdictGroup) -> Text:
    """What it may claim, how many of its rules ended in which way, and the names of those that
    failed."""
    failures = group.failed_rules
    others = {status: group.count(status) for status in ("shortened", "not judged")}
    counts = f"{group.count('passed')} passed"
    counts += "".join(f", {number} {status}" for status, number in others.items() if number)
    counts += f", {len(failures)} FAILED" if failures else ""
    colour = "bold red" if failures else "green"
    claim = f"{printable(group.claim)}; " if group.claim else ""
    line = Text.assemble(f"{printable(group.name)} {group.round.name}: {claim}", (counts, colour))
    return line + Text(f": {', '.join(failures)}" if failures else "")


def _failure(rule: str, found: Mapping[tuple[str, str, str], list[str]]) -> Iterator[Text]:
    """A rule that failed, with what was found in which results."""
    results = sum(map(len, found.values()))
    spec = rule_named(rule)
    sentence = f": {spec.sentence} ({spec.attribution})" if spec else ""
    yield Text.assemble((f"{rule}: FAILED in {count(results, 'result')}", "bold red"), sentence)
    for (value, required, why), names in found.items():
        reason = f" ({why})" if why else ""
        yield Text(f"  found {value}, required {required}{reason}")
        yield from (Text(f"    {printable(name)}") for name in names[:_MAX_NAMED])
        if len(names) > _MAX_NAMED:
            yield Text(f"    and {len(names) - _MAX_NAMED} more")
    if spec:
        yield Text(f"  usual fix: {spec.fix}")


def _next(folder: Path, failed: Sequence[str]) -> str:
    command = f"pytest --logs {shlex.quote(printable(str(folder)))}"
    if failed:
        return f'after the fix, only these rules: {command} -k "{" or ".join(failed)}"'
    return f"a page to forward, a table: {command} --logs-html logs.html --logs-csv logs.csv"


def _failures(groups: Sequence[VerdictGroup]) -> _Failures:
    failures: dict[str, dict[tuple[str, str, str], list[str]]] = defaultdict(dict)
    for group in groups:
        for v in group.verdicts:
            if v.status == "failed":
                key = in_words(v.found), in_words(v.required), in_words(v.why)
                failures[v.rule].setdefault(key, []).append(group.name)
    return failures


def _not_judged(groups: Sequence[VerdictGroup]) -> dict[str, dict[str, None]]:
    """By reason, the rules; a dict for its order."""
    unjudged: dict[str, dict[str, None]] = {}
    for verdict in (v for group in groups for v in group.verdicts if v.status == "not judged"):
        unjudged.setdefault(verdict.why, {})[verdict.rule] = None
    return unjudged


# The figures


def figure_table_of(groups: Sequence[VerdictGroup]) -> list[Table]:
    """A row for each result that measured something, with the figures that at least one has, the
    best first."""
    records = [_figures(group) for group in sorted(groups, key=_place)]
    names = [name for name in records[0] if any(r[name] for r in records)] if records else []
    shown: list[dict[str, Cell]] = [
        {name: record[name] for name in names}
        for record in records
        if any(record[name] for name in names if name not in ("result", "may claim"))
    ]
    return record_table(shown, ["result", "may claim", "scores"])


def _place(group: VerdictGroup) -> tuple[object, ...]:
    """Where a result stands among others: by benchmark and scenario, then by what it may claim, so
    that no figure of a run that is not valid stands above one that is, then by its figure."""
    performance = (group.figures or JudgedFigures()).performance
    scenario = scenario_of(group.benchmark, group.scenario or "")
    merit = performance.tokens_per_sec or performance.samples_per_sec or 0.0
    if scenario and "latency" in scenario.metric:
        merit = -(performance.latency_ms or {}).get("p90", math.inf)
    claims = not group.claim.startswith("valid"), bool(group.failed_rules)
    benchmark = group.benchmark.id if group.benchmark else ""
    return benchmark, group.scenario or "", claims, -merit, group.name


def _figures(group: VerdictGroup) -> dict[str, str]:
    """What is compared of a result, in words; empty where it has none. Samples/s and latency stand
    for those that have no tokens/s, and no TTFT; Offline's latency is the run's length."""
    figures = group.figures or JudgedFigures()
    performance = figures.performance
    tokens, samples = performance.tokens_per_sec, performance.samples_per_sec
    latency = {} if performance.ttft_ms or group.scenario == "Offline" else performance.latency_ms
    times = {"latency": latency, "TTFT": performance.ttft_ms, "TPOT": performance.tpot_ms}
    return {
        "result": group.name,
        "may claim": group.claim,
        "tokens/s": "" if tokens is None else significant(tokens),
        "samples/s": "" if samples is None or tokens is not None else significant(samples),
        **{f"{name} p99": _p99(of) for name, of in times.items()},
        "scores": ", ".join(f"{in_words(n)} {v:,.2f}" for n, v in _qualities(group, figures)),
    }


def _p99(times: Percentiles | None) -> str:
    value = (times or {}).get("p99")
    return "" if value is None else time_words(value)


def _qualities(group: VerdictGroup, figures: JudgedFigures) -> list[tuple[str, float]]:
    """The scores that its benchmark has a target for in percent; all if it has none."""
    reference = group.benchmark.reference if group.benchmark else None
    targets = {score.name for score in reference.scores if score.unit == "%"} if reference else ()
    return [(n, v) for n, v in figures.scores.items() if n in targets or not targets]


_STATUSES = ("passed", "failed", "shortened", "not judged")


def judged_csv(groups: Sequence[VerdictGroup]) -> str:
    """A row for each result, the best first: its verdicts, its figures and its scores."""
    records = [_record(group) for group in sorted(groups, key=_place)]
    return csv_text(list(dict.fromkeys(name for record in records for name in record)), records)


def _record(group: VerdictGroup) -> dict[str, object]:
    record: dict[str, object] = {
        "result": group.name,
        "benchmark": group.benchmark.id if group.benchmark else None,
        "scenario": group.scenario,
        "round": group.round.name,
        "claim": group.claim,
        **{status.replace(" ", "_"): group.count(status) for status in _STATUSES},
        "failed_rules": " ".join(group.failed_rules),
    }
    figures = group.figures or JudgedFigures()
    performance = figures.performance
    record["tokens_per_sec"] = performance.tokens_per_sec
    record["samples_per_sec"] = performance.samples_per_sec
    times = {"latency": performance.latency_ms}
    times |= {"ttft": performance.ttft_ms, "tpot": performance.tpot_ms}
    for name, of in times.items():
        record |= {f"{name}_{p}_ms": (of or {}).get(p) for p in _PERCENTILES}
    return record | {f"score_{in_words(name)}": v for name, v in figures.scores.items()}


# The page


def judged_sections(groups: Sequence[VerdictGroup], folder: Path) -> list[Section]:
    """The page to forward: the answer, the figures, what failed and why, and every verdict."""
    failures, unjudged = _failures(groups), _not_judged(groups)
    failed = sum(bool(group.failed_rules) for group in groups)
    passes = sum(group.count("passed") for group in groups)
    total = sum(len(group.verdicts) for group in groups)
    answer = f"{passes:,} of {count(total, 'verdict')} passed"
    answer += f"; {count(len(failures), 'rule')} failed in {failed} of {len(groups)} results."
    style: Style = "bad" if failures else "open" if unjudged else "ok"
    head = Section(f"Logs in {printable(str(folder))}", [Paragraph(answer, style=style)], 1)
    sections = [head, Section("Results", [_result_table(groups), *figure_table_of(groups)])]
    if failures:
        rows = [row for rule, found in failures.items() for row in _failure_rows(rule, found)]
        kinds: dict[str, ColumnKind] = {"rule": "rule"}
        table = record_table(rows, ["found", "required", "results"], kinds=kinds, style="wide")
        sections.append(Section("What failed", table))
    if unjudged:
        lines = [f"{why}: {', '.join(rules)}" for why, rules in unjudged.items()]
        sections.append(Section("What was not judged", [Points(lines)]))
    tables = [t for g in groups for t in verdict_table(g.verdicts, title=g.name, folded=True)]
    return [*sections, Section("Every verdict", tables)]


def _result_table(groups: Sequence[VerdictGroup]) -> Table:
    rows: list[dict[str, Cell]] = []
    for group in groups:
        row: dict[str, Cell] = {"result": group.name, "round": group.round.name}
        row["claim"] = group.claim
        rows.append(row | {status: f"{group.count(status):,}" for status in _STATUSES})
    (table,) = record_table(rows, ["result", "round", "claim"])
    return table


def _failure_rows(
    rule: str, found: Mapping[tuple[str, str, str], list[str]]
) -> Iterator[dict[str, Cell]]:
    spec = rule_named(rule)
    for (value, required, why), names in found.items():
        asides = (spec.sentence, f"Usual fix: {spec.fix}") if spec else ()
        cell = Words(required, tuple(filter(None, (why, *asides))))
        yield {"rule": rule, "found": value, "required": cell, "results": ", ".join(names)}
