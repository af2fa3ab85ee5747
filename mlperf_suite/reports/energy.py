"""Energy and cost in reports: the same words for report.md, report.html and the terminal.

Each figure has the label of the meter that it was read with, which says that it is not MLPerf
Power.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mlperf_suite.energy.cost import CostFigures
from mlperf_suite.energy.counters import SIMULATED_LABEL
from mlperf_suite.energy.figures import Curve, EnergyFigures, KindFigures
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE, Plot
from mlperf_suite.results.schema import Run

ENERGY_HEADER = (
    *("energy", "J/token", "tokens/J", "J/token above idle", "mean W", "peak W", "idle W"),
    "J in all",
)
COST_HEAD = "Cost of a million output tokens"
UNMEASURED = "not measured"
_LINES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, ":"))
_RATE = "tokens_per_s"


@dataclass(frozen=True, slots=True)
class EnergyView:
    """Energy in a report. `rows`: under ENERGY_HEADER. `cost`: name and amount. `notes`: a sentence
    each."""

    rows: tuple[tuple[str, ...], ...] = ()
    cost: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def energy_view(run: Run) -> EnergyView | None:
    """What a report says about a run's energy and cost; None if there is nothing to say."""
    energy = run.energy
    if energy is None and run.cost is None:
        return None
    simulated = energy is not None and energy.simulated
    return EnergyView(
        tuple(_row(one) for one in energy.measured) if energy else (),
        tuple(_cost(run.cost, simulated=simulated)) if run.cost else (),
        tuple(_notes(energy)) if energy else (),
    )


def digits(value: float | None) -> str:
    """A figure in four significant digits, large ones whole: a token can take 0.0001 J or 100 J."""
    if value is None:
        return "not known"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _row(one: KindFigures) -> tuple[str, ...]:
    values = (
        *(one.joules_per_token, one.tokens_per_joule, one.above_idle_joules_per_token),
        *(one.mean_watts, one.peak_watts, one.idle_watts, one.joules),
    )
    return (_named(one), *map(digits, values))


def _named(one: KindFigures) -> str:
    """The label, preceded by the kind of device unless the label begins with it."""
    return one.label if one.label.startswith(one.kind) else f"{one.kind}, {one.label}".strip(", ")


def _unmeasured(energy: EnergyFigures) -> list[str]:
    return [
        f"{_named(one) or 'energy'}: {UNMEASURED}: {one.why}"
        for one in energy.kinds
        if one.joules is None
    ]


def _notes(energy: EnergyFigures) -> list[str]:
    notes = [f"{line}." for line in _unmeasured(energy)]
    if not energy.measured:
        return notes
    notes += [f"{_named(one)}: {', '.join(one.devices)}." for one in energy.measured]
    notes += [note for one in energy.measured for note in one.notes]
    notes.append(
        f"From the first request's issue to the last answer: {energy.span_s or 0:,.1f} s, "
        f"{energy.tokens or 0:,} output tokens. The peak is the highest mean over a second; idle "
        "power was read with the engine loaded, before it had any work."
    )
    return notes


def _cost(cost: CostFigures, *, simulated: bool) -> list[tuple[str, str]]:
    def amount(value: float | None) -> str:
        return UNMEASURED if value is None else f"{digits(value)} {cost.currency}"

    rows = []
    if cost.per_kwh is not None:
        of = f"energy of {' and '.join(cost.energy_of)} alone" if cost.energy_of else "energy"
        made_up = f" ({SIMULATED_LABEL})" if simulated else ""
        name = f"{of}, at {cost.per_kwh:g} {cost.currency} a kWh{made_up}"
        rows.append((name, amount(cost.energy)))
    if cost.per_hour is not None:
        name = f"machine, at {cost.per_hour:g} {cost.currency} an hour"
        rows.append((name, amount(cost.machine)))
    return rows


def energy_lines(run: Run) -> list[str]:
    """The lines of the closing table, at most 80 columns wide except for reasons."""
    lines = []
    for one in run.energy.measured if run.energy else ():
        above = one.above_idle_joules_per_token
        without = f" ({digits(above)} above idle)" if above is not None else ""
        idle = f", idle {digits(one.idle_watts)} W" if one.idle_watts is not None else ""
        lines += [
            f"{_named(one)}:",
            f"  {digits(one.joules_per_token)} J/token{without}, "
            f"{digits(one.tokens_per_joule)} tokens/J",
            f"  mean {digits(one.mean_watts)} W, peak {digits(one.peak_watts)} W{idle}",
        ]
    if run.energy:
        lines += _unmeasured(run.energy)
    if run.cost:
        simulated = run.energy is not None and run.energy.simulated
        rows = _cost(run.cost, simulated=simulated)
        lines += [f"a million tokens, {name}: {value}" for name, value in rows]
    return lines


INDEX_HEADER = "J/token"
INDEX_NOTE = "J/token: GPU energy by NVML or CPU energy by RAPL, not MLPerf Power."


def energy_cell(energy: EnergyFigures | None) -> str:
    """The cell in the index of all runs: the first kind that was measured; empty if none was."""
    for one in energy.measured if energy else ():
        made_up = "SIMULATED " if energy and energy.simulated else ""
        return f"{made_up}{one.kind} {digits(one.joules_per_token)}"
    return ""


# The curve


def with_power(plots: Sequence[Plot], curve: Curve | None) -> list[Plot]:
    """The plots, with the power curve under the throughput curve."""
    if curve is None:
        return list(plots)
    said = "; ".join(curve.watts)
    return [
        replace(
            plot,
            caption=f"{plot.caption} Below, the power: {said}.",
            draw=partial(_over_power, plot.draw, curve),
            panels=2,
        )
        if plot.name == _RATE
        else plot
        for plot in plots
    ]


def _over_power(draw_rate: Any, curve: Curve, panels: Any, ink: str) -> None:
    above, below = panels
    draw_rate(above, ink)
    above.set_xlabel("")
    seconds = np.asarray(curve.ms) / 1000
    highest = 0.0
    for (label, watts), (colour, style) in zip(curve.watts.items(), _LINES, strict=False):
        kind = label.partition(",")[0].partition(" energy")[0]
        below.stairs(
            watts, seconds, color=colour, linestyle=style, label=f"{kind}, W", baseline=None
        )
        highest = max(highest, *watts)
    title = SIMULATED_LABEL if curve.simulated else "; ".join(curve.watts)
    below.set_title(title, fontsize=9)
    below.set(xlabel="time since the start, s", ylabel="power, W")
    below.set_ylim(0, highest * 1.4 or 1)
    below.set_xlim(left=0)
    below.legend(loc="upper right", ncols=2, fontsize=9)
