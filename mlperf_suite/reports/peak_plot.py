"""Plots a search for the highest valid rate, in colours that are safe for colour-blind readers."""

from __future__ import annotations

from pathlib import Path

from mlperf_suite.benchmarks.definition import TokenLimits
from mlperf_suite.results.peak import PeakSearch

_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"


def plot_peak(search: PeakSearch, limits: TokenLimits, title: str, path: Path) -> None:
    """Plot TTFT and TPOT at p99 (ms) over the target QPS, with their limits."""
    from matplotlib.figure import Figure

    trials, peak_qps = search.trials, search.peak_qps
    if peak_qps is not None and not search.bounded:
        title += f"\n{search.words}"
    known = "peak" if search.bounded else "at least"
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    named = (
        ("TTFT p99, ms", limits.ttft_ms, [t.ttft_p99_ms for t in trials]),
        ("TPOT p99, ms", limits.tpot_ms, [t.tpot_p99_ms for t in trials]),
    )
    for axis, (name, limit, values) in zip(axes, named, strict=True):
        for valid, marker, colour in ((True, "o", _BLUE), (False, "x", _ORANGE)):
            points = [
                (t.target_qps, v)
                for t, v in zip(trials, values, strict=True)
                if t.valid is valid and v is not None
            ]
            axis.plot(
                [x for x, _ in points],
                [y for _, y in points],
                marker,
                color=colour,
                label="VALID" if valid else "INVALID",
            )
        axis.axhline(limit, color="black", linestyle="--", linewidth=1, label=f"limit {limit:g} ms")
        if peak_qps is not None:
            label = f"{known} {peak_qps:g} queries/s"
            axis.axvline(peak_qps, color=_GREEN, linewidth=1, label=label)
        axis.set_ylabel(name)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")
    axes[-1].set_xlabel("target rate, queries/s")
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
