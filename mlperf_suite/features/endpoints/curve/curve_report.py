"""What reports say of a curve, and of several curves that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mlperf_suite.features.endpoints.curve.curve_area import Knee, StepCurve, common_points
from mlperf_suite.features.endpoints.curve.curve_figures import (
    NO_ENDPOINTS_RESULT,
    CurveFigures,
    CurvePoint,
    curve_of,
)
from mlperf_suite.features.endpoints.official_client_results.series import AGENTIC_TARGETS
from mlperf_suite.features.servers.report import server_view_cells
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Line,
    Paragraph,
    Plot,
    Plots,
    Points,
    Section,
    count,
    decimal,
    notes,
    record_table,
    significant,
    time_cell,
)
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.schema import Summary


class CurveReport(FeatureReport):
    def speed(self, summary: Summary) -> list[Section]:
        return curve_sections(curve_of(summary), summary.meta.benchmark)

    def plots(self, summary: Summary) -> list[Plot]:
        return curve_plots(curve_of(summary))

    def answer(self, summary: Summary) -> Paragraph | None:
        curve, status = curve_of(summary), summary.meta.status
        if curve is None:
            return None
        if status == "invalid":
            failed = [point for point in curve.points if point.outcome == "failed"]
            words = f"{count(len(failed), 'point')} failed of {len(curve.points)}"
            return Paragraph(words, style="bad")
        if summary.verdicts or status != "complete":
            return None
        package = "submission --series endpoints builds its package, which is judged"
        return Paragraph(summary.no_result or package, "no rule judges a curve:", "open")

    def scores(self, summary: Summary) -> str:
        curve = curve_of(summary)
        scored = curve is not None and any(point.accuracy for point in curve.points)
        return "The curve's table has the scores." if scored else ""

    def comparison(self, runs: Sequence[BaselineRun]) -> list[Section]:
        return _comparison(runs)

    def closing(self, summary: Summary) -> list[Line]:
        curve = curve_of(summary)
        return [] if curve is None else [Line("curve", curve_words(curve))]


REPORT = CurveReport()


def _curves(runs: Sequence[BaselineRun]) -> dict[str, CurveFigures]:
    """The first curves by their names in a legend, as many as can be distinguished."""
    rows = {
        ", ".join(filter(None, (f"{number}: {run.name}", run.summary.meta.engine))): curve
        for number, run in enumerate(runs, 1)
        if (curve := curve_of(run.summary))
    }
    return dict(list(rows.items())[:MAX_CURVES])


def _comparison(runs: Sequence[BaselineRun]) -> list[Section]:
    """All curves on one chart, and where each is above the first."""
    curves = _curves(runs)
    if not curves:
        return []
    lines = [line for run in runs[1:] for line in _which_is_above(runs[0], run)]
    rest = sum(curve_of(run.summary) is not None for run in runs) - len(curves)
    left_out = [f"{count(rest, 'more curve')} not drawn."] if rest else []
    caption = "The curves as step functions, with 95% intervals; below, TTFT p90."
    plot = Plot("compare_curves", caption, partial(draw_curves, curves), panels=2)
    return [Section("Curves", [Plots([plot]), Points(lines), *notes(left_out)])]


def _which_is_above(first: BaselineRun, run: BaselineRun) -> list[str]:
    before, now = curve_of(first.summary), curve_of(run.summary)
    if before is None or now is None:
        return []
    pair = common_points(before, now)
    if pair.refusal:
        return [f"{run.name} and {first.name}: {pair.refusal}"]
    return [stretch.words(first.name, run.name) for stretch in pair.stretches()]


MAX_CURVES = 6
"""On one chart; more cannot be distinguished."""
_LOOKS = (
    (BLUE, "o", "-"),
    (ORANGE, "s", "--"),
    (GREEN, "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#56B4E9", "v", "-"),
    ("#E69F00", "P", "--"),
)
"""The colour, the mark and the line of each curve."""
_ROOM = 1.3
"""How far the axes go, of the highest point."""
_REGION_MARKS = {"ultra-low": "o", "low": "s", "medium": "^", "high": "D"}
_STEPS = (
    "A step function, as in the Endpoints rules (§5.2): at x, the highest tokens/s of the points "
    "that give each user at least x."
)


def curve_sections(curve: CurveFigures | None, benchmark: str | None) -> list[Section]:
    """A curve of a benchmark: its plot, its knee, and each point with its outcome."""
    if curve is None:
        return []
    words = curve_words(curve)
    blocks: list[Block] = [Paragraph(f"{words}.")]
    blocks += [Plots(plots)] if (plots := curve_plots(curve)) else []
    blocks += record_table(
        _rows(curve), ("region", "outcome", "accuracy", "reason"), style="wide broad"
    )
    blocks += _turns_table(curve, benchmark)
    blocks += _server_tables(curve)
    users = f"Users' tokens/s are {_user_words([curve])}"
    blocks += notes([f"Load generator: {curve.client}. {users}."])
    return [Section("The curve", blocks)]


def _user_words(curves: Iterable[CurveFigures]) -> str:
    of_agents = any(p.interactivity is not None for curve in curves for p in curve.points)
    return "tokens of turns ÷ their time" if of_agents else "1000 / TPOT p90 in ms"


def _turns_table(curve: CurveFigures, benchmark: str | None) -> list[Block]:
    """The turns at each point of an agentic benchmark, and what the rules require of them."""
    records: list[Mapping[str, Cell]] = [
        {
            "concurrency": f"{point.concurrency:,}",
            "turns": f"{turns.turns:,}",
            "missing": f"{turns.missing:,}",
            "inline score, %": decimal(turns.inline_score),
            "tokens per turn": decimal(turns.tokens_a_turn, 1),
            "cached in later turns": decimal(turns.cached_within, 0),
            "cached in first turns": decimal(turns.cached_first, 0),
        }
        for point in curve.points
        if (turns := point.turns) is not None
    ]
    if (targets := AGENTIC_TARGETS.get(benchmark or "")) is None:
        return []
    low, high = targets.tokens
    gates = (
        f"At each point the rules require an inline score of at least {targets.inline:g}% and "
        f"{low:g} to {high:g} tokens per turn; only a curve of the official client is judged. The "
        "conversations of one pass may share cached system prompts, so first turns may find "
        "theirs cached."
    )
    return [*record_table(records, title="Turns, point by point", note=gates)]


def _server_tables(curve: CurveFigures) -> list[Block]:
    """What the servers said of themselves at each point, or that none did."""
    points = sorted(curve.points, key=lambda point: point.concurrency)
    rows = [
        {"concurrency": f"{point.concurrency:,}", **server_view_cells(view)}
        for point in points
        for view in point.servers
    ]
    if not rows:
        return [*notes(["No server metrics, or none read before a point ended."])]
    return [*record_table(rows, title="The server's own view, point by point", folded=True)]


def curve_plots(curve: CurveFigures | None) -> list[Plot]:
    """The curve's plot; none if nothing was measured."""
    if curve is None or not StepCurve(curve.measured).points:
        return []
    caption = f"{_STEPS} Crosses: 95% intervals from the points' blocks. Below: TTFT p90."
    return [Plot("curve", caption, partial(draw_curves, {"": curve}), panels=2)]


def curve_words(curve: CurveFigures) -> str:
    """The highest throughput and the knee, in a line."""
    steps = StepCurve(curve.measured)
    points = steps.points
    if not points:
        return "no point was measured"
    best = max(points, key=lambda point: point.system_tps)
    words = [f"{len(points)} of {len(curve.points)} points", f"highest {_place(best)}"]
    if curve.c_max is not None:
        words.append(f"C_max {curve.c_max:,}")
    return "; ".join([*words, _knee_words(steps.knee())])


def _knee_words(knee: Knee | None) -> str:
    if knee is None:
        return "no knee"
    if not knee.concurrencies:
        return f"knee {_place(knee.point)}, noise not measured"
    low, high = knee.concurrencies[0], knee.concurrencies[-1]
    if not knee.certain:
        return f"knee: cannot tell, from concurrency {low:,} to {high:,}"
    return f"knee {_place(knee.point)} (95%: {low:,} to {high:,})"


def _place(point: CurvePoint) -> str:
    system, user = significant(point.system_tps), significant(point.tps_per_user)
    return f"{system} tokens/s at concurrency {point.concurrency:,}, {user} per user"


def _rows(curve: CurveFigures) -> list[dict[str, Cell]]:
    steps = StepCurve(curve.measured)
    intervals = {p.concurrency: steps.intervals(n) for n, p in enumerate(steps.points)}
    rows: list[dict[str, Cell]] = []
    for point in sorted(curve.points, key=lambda point: point.concurrency):
        users, system = intervals.get(point.concurrency) or (None, None)
        has_figures = point.outcome == "measured"
        rows.append(
            {
                "concurrency": f"{point.concurrency:,}",
                "region": ", ".join(point.regions),
                "outcome": point.outcome,
                "tokens/s": _with_interval(point.system_tps, system) if has_figures else "",
                "tokens/s per user": _with_interval(point.tps_per_user, users)
                if has_figures
                else "",
                "TTFT p90": time_cell(point.ttft_p90_ms) if has_figures else "",
                "requests": f"{point.completed:,}" if has_figures else "",
                "failed": f"{point.failed:,}" if has_figures else "",
                "accuracy": point.accuracy.words if point.accuracy else "",
                "reason": point.reason,
            }
        )
    for name in ("region", "accuracy", "reason"):
        if not any(row[name] for row in rows):
            for row in rows:
                del row[name]
    return rows


def _with_interval(value: float, interval: tuple[float, float] | None) -> str:
    if interval is None:
        return decimal(value)
    low, high = interval
    return f"{decimal(value)} [{significant(low)}, {significant(high)}]"


def draw_curves(curves: Mapping[str, CurveFigures], panels: Any, ink: str) -> None:
    """Each curve's step function with crosses for the intervals, and TTFT p90 below.

    `curves`: by their names in the legend; the only one, without a name, has its regions and
    concurrencies at its points.
    """
    above, below = panels
    steps = {name: StepCurve(curve.measured) for name, curve in curves.items()}
    step_curves = {name: curve for name, curve in steps.items() if curve.points}
    for (name, curve), look in zip(step_curves.items(), _LOOKS, strict=False):
        _draw_steps(name, curve, look, above)
        colour, mark, line = look
        points = sorted(curve.points, key=lambda point: point.tps_per_user)
        users, times = zip(*((p.tps_per_user, p.ttft_p90_ms) for p in points), strict=True)
        style = {"color": colour, "linestyle": line, "linewidth": 0.8, "markersize": 4}
        below.plot(users, [np.nan if t is None else t for t in times], mark, **style)
    if list(step_curves) == [""]:
        _name_points(step_curves[""], above, ink)
    label = f" ({NO_ENDPOINTS_RESULT})" if any(c.rehearsal for c in curves.values()) else ""
    above.set_title(f"The curve{label}", fontsize=9, loc="left")
    points = [point for curve in step_curves.values() for point in curve.points]
    # An interval from few blocks may be many times as wide as the curve: it is cut there.
    ends = {
        "xlim": (0, _ROOM * max((point.tps_per_user for point in points), default=1.0)),
        "ylim": (0, _ROOM * max((point.system_tps for point in points), default=1.0)),
    }
    above.set(ylabel="system tokens/s", **ends)
    above.legend(loc="best", fontsize=8)
    label = f"tokens/s per user ({_user_words(curves.values())})"
    below.set(xlabel=label, ylabel="TTFT p90, ms", ylim=(0, None))


def _draw_steps(name: str, steps: StepCurve, look: tuple[str, str, str], axes: Any) -> None:
    colour, mark, line = look
    ends, heights = steps.steps()
    axes.stairs(
        *(heights, [0.0, *ends]), color=colour, linestyle=line, baseline=None, label=name or "curve"
    )
    # The step function ends at the fastest point: no point gives users more.
    axes.vlines(ends[-1], 0, heights[-1], color=colour, linestyle=line)
    for number, point in enumerate(steps.points):
        regions = [_REGION_MARKS[r] for r in point.regions if r in _REGION_MARKS]
        place = [point.tps_per_user], [point.system_tps]
        shape = mark if name or not regions else regions[-1]
        axes.plot(*place, shape, color=colour, markersize=4)
        if intervals := steps.intervals(number):
            users, system = intervals
            width = {"color": colour, "linewidth": 1, "alpha": 0.7}
            axes.plot(users, place[1] * 2, **width)
            axes.plot(place[0] * 2, system, **width)


def _name_points(curve: StepCurve, axes: Any, ink: str) -> None:
    for point in curve.points:
        axes.annotate(
            f"{point.concurrency:,}",
            (point.tps_per_user, point.system_tps),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=8,
            color=ink,
        )
    regions = dict.fromkeys(region for p in curve.points for region in p.regions)
    for region in regions:
        if mark := _REGION_MARKS.get(region):
            axes.plot([], [], mark, color=BLUE, markersize=4, label=region)
