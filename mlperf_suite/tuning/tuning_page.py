"""The page of a tuning: the answer, the trials over time and by setting, what each setting does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE
from mlperf_suite.reports.sections import (
    Block,
    Paragraph,
    Plot,
    Plots,
    Section,
    Table,
    columns,
    decimal,
)
from mlperf_suite.tuning.search import TuningSearch
from mlperf_suite.tuning.space import Choice, Settings, Space, Trial

_AROUND_NOTE = (
    "Expected by the model of the search from all trials, not measured one by one; a difference "
    "below the noise of a run is uncertain."
)


def tuning_page(search: TuningSearch, space: Space, best: Settings, answer: Sequence[str]) -> str:
    """The page as HTML. `answer`: the claim, then the winner's commands."""
    answers: list[Block] = [Paragraph(line) for line in answer]
    plots = [
        Plot("trials", "Trials in order", partial(_over_time, search.trials)),
        Plot("settings", "Trials by setting", partial(_parallel, search.trials, space, best)),
    ]
    sections = [
        Section("Search for the best settings", answers, level=1),
        Section("Trials", [Plots(plots), _trials(search.trials, space)]),
        Section("One setting changed", [_around(search, best)]),
    ]
    return html_page(sections, title="Search for the best settings")


def _word(choice: Choice) -> str:
    return "default" if choice is None else str(choice)


def _trials(trials: Sequence[Trial], space: Space) -> Table:
    rows = [
        [
            str(number),
            *(_word(trial.settings[name]) for name in space),
            trial.reason,
            decimal(trial.rate),
        ]
        for number, trial in enumerate(trials, 1)
    ]
    head = columns(["trial", *space, "failed"], ["tokens/s"])
    return Table(head, rows, title="Every trial", style="broad", folded=True)


def _around(search: TuningSearch, best: Settings) -> Table:
    rows = [
        [name, _word(best[name]), _word(choice), f"{change * 100:+.1f}%"]
        for name, choice, change in search.around(best)
    ]
    head = columns(["setting", "best", "instead"], ["tokens/s"])
    return Table(head, rows, note=_AROUND_NOTE)


def _over_time(trials: Sequence[Trial], axes: Any, ink: str) -> None:
    done = [(n, trial.rate) for n, trial in enumerate(trials, 1) if trial.rate is not None]
    failed = [n for n, trial in enumerate(trials, 1) if trial.rate is None]
    axes.plot(*zip(*done, strict=True), "o", color=BLUE, markersize=4, label="ran")
    if failed:
        axes.plot(failed, [0] * len(failed), "x", color=ORANGE, markersize=5, label="failed")
    axes.axhline(done[0][1], color=ink, linestyle=":", linewidth=1, label="first run, default")
    axes.set(xlabel="trial", ylabel="tokens/s", ylim=(0, None))
    axes.legend(fontsize=8, loc="lower right")


def _parallel(trials: Sequence[Trial], space: Space, best: Settings, axes: Any, ink: str) -> None:
    """A line for each trial that ran, from setting to setting; the darker, the faster."""
    rates = sorted(trial.rate for trial in trials if trial.rate is not None)
    for trial in trials:
        if trial.rate is not None:
            share = rates.index(trial.rate) / len(rates)
            _line(axes, trial.settings, space, color=BLUE, alpha=0.05 + 0.5 * share**2)
    _line(axes, best, space, color=GREEN, linewidth=2.5, label="best")
    axes.set_xticks(range(len(space)), list(space), rotation=20, ha="right", fontsize=7)
    axes.set_yticks([])
    axes.set_ylim(-0.08, 1.08)
    for place, choices in enumerate(space.values()):
        for height, choice in _heights(choices).items():
            axes.text(place, height, f" {_word(choice)}", fontsize=6, color=ink, va="center")
    axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))


def _line(axes: Any, settings: Settings, space: Space, **style: Any) -> None:
    heights = [
        list(choices).index(settings[name]) / (len(choices) - 1) for name, choices in space.items()
    ]
    axes.plot(range(len(space)), heights, marker="o", markersize=3, **style)


def _heights(choices: Sequence[Choice]) -> dict[float, Choice]:
    return {place / (len(choices) - 1): choice for place, choice in enumerate(choices)}
