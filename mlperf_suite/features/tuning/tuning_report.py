"""The answer of a tuning in words and files: the gain, its cost, each setting's part, what to
paste.

Its page shows also the trials over time and by setting, and what each setting does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mlperf_suite.features.tuning.space import (
    Choice,
    Settings,
    Space,
    run_arguments,
    serve_command,
    shell_line,
    space_text,
)
from mlperf_suite.features.tuning.target import trial_files
from mlperf_suite.features.tuning.trial_run import MeasuredTrial
from mlperf_suite.features.tuning.tuning_request import TuningRequest
from mlperf_suite.features.tuning.tuning_result import Contribution, TuningResult
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE
from mlperf_suite.reports.run_report import reproduction
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Paragraph,
    Plot,
    Plots,
    Quote,
    Quotes,
    Row,
    Section,
    Table,
    Words,
    columns,
    decimal,
    file_link,
    significant,
)
from mlperf_suite.results.run_folder import read_config, write_whole
from mlperf_suite.results.schema import Config
from mlperf_suite.session.typed_command import this_command

RESULT, WINNER, PAGE = "tuning.md", "winner.toml", "report.html"
_SPLIT = "tensor_parallel_size"


def write_tuning_report(
    request: TuningRequest,
    trials: Sequence[MeasuredTrial],
    claim: TuningResult,
    say: Callable[[str], None],
) -> None:
    """Write and say the answer: the text, the page, and a winner's settings as a file."""
    lines = [*tuning_lines(request, claim), *_failures_note(trials)]
    if claim.is_better:
        write_whole(request.out / WINNER, space_text(claim.best))
    else:
        # That of an earlier answer, with less time.
        (request.out / WINNER).unlink(missing_ok=True)
    write_whole(request.out / RESULT, "\n\n".join(lines) + "\n")
    texts = [*commands_of(request, claim), (WINNER, space_text(claim.best))]
    page = tuning_page(request, trials, claim, texts if claim.is_better else ())
    write_whole(request.out / PAGE, page)
    for line in [*lines, f"page: {request.out / PAGE}"]:
        say(line)


def tuning_lines(request: TuningRequest, claim: TuningResult) -> list[str]:
    """The answer in lines: the gain, its cost, each setting's part, the winner's commands."""
    if not claim.is_better:
        return [claim.words, *claim.failed]
    rows = [_contribution_line(row) for row in claim.contributions if row.measured]
    commands = (f"{name}: {text}" for name, text in commands_of(request, claim))
    return [claim.words, _cost_line(claim), *rows, *commands, *claim.failed]


def commands_of(request: TuningRequest, claim: TuningResult) -> list[tuple[str, str]]:
    """What to paste: the suite's command, unless it starts servers, and the server's."""
    best = claim.best
    if request.serve:
        return [("server", request.serve.line(best))]
    sessions = (
        shell_line(best, ["mlperf-suite", *own, *run_arguments(best), *request.options])
        for own in request.target.whole
    )
    server = serve_command({**best, **_split(request, claim)}, request.options)
    return [*(("command", session) for session in sessions), ("server", server)]


def _split(request: TuningRequest, claim: TuningResult) -> Settings:
    """The GPUs that the suite split the winner's model over: a server by itself takes one."""
    for pair in claim.pairs:
        for run in trial_files(request.out / "runs" / pair.best.folder):
            engine = Config.read(read_config(run.folder)).engine
            gpus = engine.settings.get(_SPLIT) if engine else None
            if isinstance(gpus, int) and gpus > 1:
                return {_SPLIT: gpus}
    return {}


def _failures_note(trials: Sequence[MeasuredTrial]) -> list[str]:
    """That no setting ran but the default's: then nothing was compared."""
    others = [run.trial for run in trials if run.trial.settings != trials[0].trial.settings]
    if not others or any(trial.rate is not None for trial in others):
        return []
    return [f"all {len(others)} trials of other settings failed; the last: {others[-1].reason}"]


def _cost_line(claim: TuningResult) -> str:
    costs = [f"{row.name} {row.change.interval}" for row in claim.costs]
    if not any("energy" in row.name for row in claim.costs):
        costs.append("energy not measured (no counter)")
    return f"what it costs: {', '.join(costs)}"


def _contribution_line(row: Contribution) -> str:
    assert row.measured is not None
    how = "measured" if row.measured.pairs > 1 else "one run each"
    was = choice_word(row.name, None)
    return f"{row.name} = {row.choice} instead of {was}: {row.measured.interval} ({how})"


_TITLE = "Search for the best settings"
_IMPORTANCE_NOTE = (
    "Importance: how far apart the search's model expects the best and the worst choice of a "
    "setting, the others as the candidate has them. Expected: what it expects of the candidate's "
    "choice beside the default's. Both come from all trials and not from runs of these settings; "
    "what is below the noise of a run is uncertain. Measured: candidate and candidate with this "
    "one setting as in the default, in turn."
)
_COST_NOTE = "Medians of the pairs; lower is better. The interval is that of the pairs' ratios."
_LATENCIES = (
    *("TPOT p99 at the rate, ms", "latency p99 at the rate, ms", "TPOT p90 of one user, ms"),
    *("TPOT p50, ms", "TPOT p99, ms", "latency p50, ms"),
)
"""What throughput is drawn over: the first of them that trials have."""

_MAX_WORD_LENGTH = 24
"""Characters of a choice in the plot; the table has all of them."""


def tuning_page(
    request: TuningRequest,
    trials: Sequence[MeasuredTrial],
    claim: TuningResult,
    texts: Sequence[Row] = (),
) -> str:
    """The page as HTML. `texts`: what to paste of a winner, each with its name."""
    unit, space = request.target.unit, request.space
    answers: list[Block] = [Paragraph(claim.words, style="ok" if claim.is_better else "open")]
    answers += map(Paragraph, claim.failed)
    if texts:
        answers.append(Quotes([Quote("To paste", texts)]))
    plots = [Plot("trials", "Trials in order", partial(_over_time, trials, unit))]
    if latency := next((n for n in _LATENCIES if len(_points(trials, n)) > 1), ""):
        draw = partial(_front, trials, latency, unit, claim.best)
        plots.append(Plot("front", f"{unit} over {latency.partition(',')[0]}", draw))
    draw = partial(_parallel, trials, space, claim.best)
    plots.append(Plot("settings", "Trials by setting", draw))
    sections = [
        Section(_TITLE, answers, level=1),
        *([Section("The pairs", [_pairs(claim, unit), _costs(claim)])] if claim.pairs else []),
        Section("What each setting does", [_contributions(claim)]),
        Section("Trials", [Plots(plots), _trials(trials, space, unit)]),
        *reproduction(this_command()),
    ]
    return html_page(sections, title=_TITLE)


def choice_word(name: str, choice: Choice) -> str:
    """A choice for readers; the default's with the value that the environment gives it."""
    if choice is not None:
        return str(choice)
    own = os.environ.get(name) if name.isupper() else None
    return "default" if own is None else f"{own} (default)"


def _pairs(claim: TuningResult, unit: str) -> Table:
    rows = [
        [str(number), decimal(pair.default.trial.rate), decimal(pair.best.trial.rate)]
        for number, pair in enumerate(claim.pairs, 1)
    ]
    head = columns(["pair"], [f"default, {unit}", f"candidate, {unit}"])
    return Table(head, rows, style="broad")


def _costs(claim: TuningResult) -> Table:
    rows = [
        [row.name, significant(row.before), significant(row.after), row.change.interval]
        for row in claim.costs
    ]
    if not any("energy" in row.name for row in claim.costs):
        rows.append(["energy", "not measured", "not measured", ""])
    head = columns(["cost"], ["default", "candidate", "change"])
    return Table(head, rows, title="What it costs", style="broad", note=_COST_NOTE)


def _contributions(claim: TuningResult) -> Table:
    rows = [
        [
            row.name,
            choice_word(row.name, row.choice),
            choice_word(row.name, claim.default[row.name]),
            f"{row.importance * 100:.1f}%",
            f"{row.expected * 100:+.1f}%" if row.choice != claim.default[row.name] else "",
            row.measured.interval if row.measured else "",
        ]
        for row in claim.contributions
    ]
    head = columns(["setting", "candidate", "default"], ["importance", "expected", "measured"])
    return Table(head, rows, style="broad", note=_IMPORTANCE_NOTE)


def _trials(trials: Sequence[MeasuredTrial], space: Space, unit: str) -> Table:
    rows: list[list[Cell]] = [
        [
            Words(str(number), link=file_link(f"runs/{run.folder}")),
            *(choice_word(name, run.trial.settings[name]) for name in space),
            _end(run),
            decimal(run.trial.rate),
            f"{run.seconds:.0f}",
        ]
        for number, run in enumerate(trials, 1)
    ]
    head = columns(["trial", *space, "ended early"], [unit, "s"])
    return Table(head, rows, title="Every trial", style="broad", folded=True)


def _end(run: MeasuredTrial) -> str:
    trial = run.trial
    return f"cut: {trial.cut}" if trial.cut else f"failed: {trial.reason}" if trial.reason else ""


def _over_time(trials: Sequence[MeasuredTrial], unit: str, axes: Any, ink: str) -> None:
    whole = _rates(trials, cut=False)
    axes.plot(*zip(*whole, strict=True), "o", color=BLUE, markersize=4, label="ran")
    if cut := _rates(trials, cut=True):
        axes.plot(*zip(*cut, strict=True), "v", color=ORANGE, markersize=4, label="cut, estimate")
    if failed := [n for n, run in enumerate(trials, 1) if run.trial.rate is None]:
        axes.plot(failed, [0] * len(failed), "x", color=ORANGE, markersize=5, label="failed")
    axes.axhline(whole[0][1], color=ink, linestyle=":", linewidth=1, label="first run, default")
    axes.set(xlabel="trial", ylabel=unit, ylim=(0, None))
    axes.legend(fontsize=8, loc="lower right")


def _rates(trials: Sequence[MeasuredTrial], *, cut: bool) -> list[tuple[int, float]]:
    return [
        (number, run.trial.rate)
        for number, run in enumerate(trials, 1)
        if run.trial.rate is not None and bool(run.trial.cut) == cut
    ]


def _points(trials: Sequence[MeasuredTrial], latency: str) -> list[tuple[float, float, Settings]]:
    return [
        (run.costs[latency], run.trial.rate, run.trial.settings)
        for run in trials
        if run.trial.rate is not None and latency in run.costs
    ]


def _front(
    trials: Sequence[MeasuredTrial], latency: str, unit: str, best: Settings, axes: Any, ink: str
) -> None:
    """Every trial by latency and rate; the line joins those that no other beats in both."""
    points = sorted(_points(trials, latency), key=lambda point: (point[0], -point[1]))
    front: list[tuple[float, float]] = []
    for x, y, _ in points:
        if not front or y > front[-1][1]:
            front.append((x, y))
    axes.plot(*zip(*((x, y) for x, y, _ in points), strict=True), "o", color=BLUE, markersize=4)
    axes.step(*zip(*front, strict=True), where="post", color=ink, linewidth=1, label="front")
    chosen = [(x, y) for x, y, settings in points if settings == best]
    if chosen:
        axes.plot(*zip(*chosen, strict=True), "s", color=GREEN, markersize=6, label="candidate")
    axes.set(xlabel=latency.replace(",", " in"), ylabel=unit, ylim=(0, None), xlim=(0, None))
    axes.legend(fontsize=8, loc="lower right")


def _parallel(
    trials: Sequence[MeasuredTrial], space: Space, best: Settings, axes: Any, ink: str
) -> None:
    """A line for each trial that ran, from setting to setting; the darker, the faster."""
    rates = sorted(run.trial.rate for run in trials if run.trial.rate is not None)
    for run in trials:
        if run.trial.rate is not None:
            share = rates.index(run.trial.rate) / len(rates)
            _line(axes, run.trial.settings, space, color=BLUE, alpha=0.05 + 0.5 * share**2)
    _line(axes, best, space, color=GREEN, linewidth=2.5, label="candidate")
    axes.set_xticks(range(len(space)), list(space), rotation=20, ha="right", fontsize=7)
    axes.set_yticks([])
    axes.set_ylim(-0.08, 1.08)
    for place, (name, choices) in enumerate(space.items()):
        for height, choice in zip(_heights(choices), choices, strict=True):
            word = choice_word(name, choice)
            word = word if len(word) <= _MAX_WORD_LENGTH else f"{word[: _MAX_WORD_LENGTH - 1]}…"
            # A dollar is no formula's.
            style = {"fontsize": 6, "color": ink, "va": "center", "parse_math": False}
            axes.text(place, height, f" {word}", **style)
    axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))


def _line(axes: Any, settings: Settings, space: Space, **style: Any) -> None:
    heights = [
        _heights(choices)[list(choices).index(settings[name])] for name, choices in space.items()
    ]
    axes.plot(range(len(space)), heights, marker="o", markersize=3, **style)


def _heights(choices: Sequence[Choice]) -> list[float]:
    """Where each choice stands; the only one of a fixed setting in the middle."""
    steps = len(choices) - 1
    return [place / steps for place in range(len(choices))] if steps else [0.5]
