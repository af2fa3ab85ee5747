"""What reports say of energy and cost.

Each figure of energy has the label of the meter that it was read with, which says that it is not
MLPerf Power.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlperf_suite.energy import SIMULATED_LABEL
from mlperf_suite.features.energy.energy_figures import (
    COST,
    ENERGY,
    CostFigures,
    Curve,
    EnergyFigures,
    KindFigures,
    read_curve,
)
from mlperf_suite.reports.feature_report import FeatureReport, IndexColumn
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE, titled
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Line,
    Plot,
    Row,
    Section,
    figure_table,
    notes,
    record_table,
    significant,
)
from mlperf_suite.results.schema import Summary

_UNMEASURED = "not measured"
_INDEX_NOTE = "J/token: GPU energy by NVML or CPU energy by RAPL, not MLPerf Power."
_POWER_LINES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, ":"))


class EnergyReport(FeatureReport):
    def of_speed(self, summary: Summary) -> list[Section]:
        """The run's energy and its cost; none if nothing was measured or priced."""
        energy, cost = _figures_of(summary)
        if not (energy and energy.measured) and cost is None:
            return []
        blocks = list[Block]()
        if energy is not None:
            blocks += record_table([_energy(kind) for kind in energy.measured], ["energy"])
            blocks += notes(_energy_notes(energy))
        if costs := _costs(cost, simulated=energy is not None and energy.simulated):
            blocks.append(figure_table(costs, "Cost of a million output tokens"))
        return [Section("Energy and cost", blocks, 3)]

    def system_note(self, summary: Summary) -> str:
        """Why no energy was measured, for a run of which nobody asked for its cost."""
        energy, cost = _figures_of(summary)
        if energy is None or energy.measured or cost is not None:
            return ""
        return " ".join(f"{line}." for line in _unmeasured(energy))

    def over_time(self, folder: Path, summary: Summary) -> list[Plot]:
        energy, _ = _figures_of(summary)
        curve = read_curve(folder / "Performance") if energy else None
        if curve is None:
            return []
        return [Plot("power", f"the power: {'; '.join(curve.watts)}.", partial(_power, curve))]

    def index_columns(self) -> list[IndexColumn]:
        return [IndexColumn("J/token", _joules_per_token, _INDEX_NOTE)]

    def closing(self, summary: Summary) -> list[Line]:
        energy, cost = _figures_of(summary)
        if (not (energy and energy.measured) and cost is None) or not summary.run.performance:
            return []
        lines: list[str] = []
        if energy is not None:
            lines += [line for kind in energy.measured for line in _energy_lines(kind)]
            lines += _unmeasured(energy)
        costs = _costs(cost, simulated=energy is not None and energy.simulated)
        lines += [f"a million tokens, {name}: {value}" for name, value in costs]
        return [Line("" if number else "energy", text) for number, text in enumerate(lines)]


REPORT = EnergyReport()


def _figures_of(summary: Summary) -> tuple[EnergyFigures | None, CostFigures | None]:
    return summary.parts.get(ENERGY), summary.parts.get(COST)


def _joules_per_token(summary: Summary) -> str:
    """The figures of the first kind of device that was measured; empty if none was."""
    energy, _ = _figures_of(summary)
    for kind in energy.measured if energy else ():
        mark = "SIMULATED " if energy and energy.simulated else ""
        return f"{mark}{kind.kind} {significant(kind.joules_per_token)}"
    return ""


def _energy(kind: KindFigures) -> dict[str, Cell]:
    return {
        "energy": _meter(kind),
        "J/token": significant(kind.joules_per_token),
        "tokens/J": significant(kind.tokens_per_joule),
        "J/token above idle": significant(kind.above_idle_joules_per_token),
        "mean W": significant(kind.mean_watts),
        "peak W": significant(kind.peak_watts),
        "idle W": significant(kind.idle_watts),
        "limit W": significant(kind.limit_watts),
        "total J": significant(kind.joules),
    }


def _meter(kind: KindFigures) -> str:
    """The label, preceded by the kind of device unless the label begins with it."""
    label = kind.label
    return label if label.startswith(kind.kind) else f"{kind.kind}, {label}".strip(", ")


def _unmeasured(energy: EnergyFigures) -> list[str]:
    return [
        f"{_meter(kind) or 'energy'}: {_UNMEASURED}: {kind.why}"
        for kind in energy.kinds
        if kind.joules is None
    ]


def _energy_notes(energy: EnergyFigures) -> list[str]:
    lines = [f"{line}." for line in _unmeasured(energy)]
    if not energy.measured:
        return lines
    lines += [f"{_meter(kind)}: {', '.join(kind.devices)}." for kind in energy.measured]
    lines += [note for kind in energy.measured for note in kind.notes]
    lines += [_waiting(kind) for kind in energy.measured if kind.mostly_idle]
    lines.append(
        f"From the first request's issue to the last answer: {energy.span_s or 0:,.1f} s, "
        f"{energy.tokens or 0:,} output tokens. The peak is the highest mean over a second; idle "
        "power was read with the engine loaded, before the first request."
    )
    return lines


def _waiting(kind: KindFigures) -> str:
    """What a low power says of where the time goes."""
    return (
        f"The {kind.kind} drew {significant(kind.mean_watts)} W of its limit of "
        f"{significant(kind.limit_watts)} W, little more than idle: for most of the run it waited, "
        "for the CPU's part of each step or for requests. A quantized model or a faster "
        f"{kind.kind} would change little."
    )


def _energy_lines(kind: KindFigures) -> list[str]:
    """At most 80 columns wide."""
    above = kind.above_idle_joules_per_token
    without_idle = f" ({significant(above)} above idle)" if above is not None else ""
    idle = f", idle {significant(kind.idle_watts)} W" if kind.idle_watts is not None else ""
    if kind.limit_watts is not None:
        idle += f", limit {significant(kind.limit_watts)} W"
    return [
        f"{_meter(kind)}:",
        f"  {significant(kind.joules_per_token)} J/token{without_idle}, "
        f"{significant(kind.tokens_per_joule)} tokens/J",
        f"  mean {significant(kind.mean_watts)} W, peak {significant(kind.peak_watts)} W{idle}",
    ]


def _costs(cost: CostFigures | None, *, simulated: bool) -> list[Row]:
    if cost is None:
        return []
    rows = []
    if cost.per_kwh is not None:
        source = f"energy of {' and '.join(cost.energy_of)} alone" if cost.energy_of else "energy"
        mark = f" ({SIMULATED_LABEL})" if simulated else ""
        rows.append((f"{source}, at {cost.per_kwh:g} {cost.currency} per kWh{mark}", cost.energy))
    if cost.per_hour is not None:
        rows.append((f"machine, at {cost.per_hour:g} {cost.currency} per hour", cost.machine))
    return [
        (name, _UNMEASURED if value is None else f"{significant(value)} {cost.currency}")
        for name, value in rows
    ]


def _power(power: Curve, axes: Any, ink: str) -> None:
    seconds = np.asarray(power.ms) / 1000
    highest = 0.0
    for (meter, watts), (colour, style) in zip(power.watts.items(), _POWER_LINES, strict=False):
        kind = meter.partition(",")[0].partition(" energy")[0]
        label = f"{kind}, W"
        axes.stairs(watts, seconds, color=colour, linestyle=style, label=label, baseline=None)
        highest = max(highest, *watts)
    axes.set(xlabel="time since the start, s", ylabel="power, W", xlim=(0, None))
    axes.set_ylim(0, highest * 1.05 or 1)
    titled(axes)
    title = SIMULATED_LABEL if power.simulated else "\n".join(power.watts)
    axes.set_title(title, loc="left", fontsize=9, pad=20)
