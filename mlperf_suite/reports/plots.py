"""The plots of reports.

Colours are Okabe and Ito's, which colour-blind readers can distinguish, and no line is identified
by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlperf_suite.reports.sections import decimal
from mlperf_suite.rules.verdict import in_words

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def titled(axes: Any, title: str = "") -> None:
    """The legend above the axes, where it hides nothing, in rows of two; the title above it."""
    rows = (len(axes.get_legend_handles_labels()[0]) + 1) // 2
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=6 + 14 * rows)
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    axes.legend(ncols=2, fontsize=9, handlelength=1.6, columnspacing=1.2, borderpad=0, **place)


def draw_bars(
    values: Mapping[str, float | None], unit: str, axes: Any, ink: str, **style: Any
) -> None:
    """A bar for each name, from the top, with its value in the unit beside it. `style`: as
    matplotlib's barh takes it."""
    bars = axes.barh(list(map(in_words, values)), [of or 0 for of in values.values()], **style)
    axes.bar_label(bars, labels=[decimal(value) for value in values.values()], padding=3, color=ink)
    axes.set_xlabel(unit, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.19)
    axes.grid(visible=False, axis="y")
