"""What a search makes as high as possible, and where a run's files say it.

Each target is judged by what the suite has for it: Offline's tokens/s, the peak search's rates, a
curve's area. A trial is the cheapest run that shows the figure and the scores; the pairs that
decide are whole runs with the accuracy gate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mlperf_suite.features.endpoints.curve.curve_area import StepCurve
from mlperf_suite.features.endpoints.curve.curve_figures import curve_of
from mlperf_suite.features.peak_search.figures import peak_of
from mlperf_suite.features.peak_search.rate_search import PEAK_JSON
from mlperf_suite.loadgen.timeline import Timeline, read_timeline
from mlperf_suite.results.regression import METRICS, samples_of
from mlperf_suite.results.run_folder import read_object, read_summary, run_folders
from mlperf_suite.results.schema import PerformanceFigures, Summary

_BOTH = "datacenter and (accuracy or performance)"
_ACCURACY = ("-m", "offline and datacenter and accuracy", "--warmup=0")
_CURVE = ("-m", "curve")
_PEAK = ("--find-peak-qps", "-k", "test_accuracy.py or test_peak_qps.py")
_MIN_BLOCKS = 4
_OF_MEDIAN = 1.0483
"""A normal distribution's standard deviation by the median difference of two draws from it."""
_RESOLUTION = 0.014
"""The standard error of a rate known to lie within a twentieth: the peak search's last step."""


@dataclass(frozen=True, slots=True)
class TrialFiles:
    """A run in its folder."""

    folder: Path
    summary: Summary


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate, and its relative standard error as far as one run shows it."""

    rate: float
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class TuneTarget:
    """`trial`, `whole`: a trial and a run of the pairs, as the options of each session of the suite
    that they take, one after another. `figure`: the rate of a run, None if it does not have it.
    `start`: the option that gives later runs the first one's rate to begin with, if there is one.
    `is_probed`: whether the rate is proportional to what the probe of an engine's speed says.
    """

    name: str
    unit: str
    meaning: str
    trial: tuple[tuple[str, ...], ...]
    whole: tuple[tuple[str, ...], ...]
    figure: Callable[[TrialFiles], Figure | None]
    start: str = ""
    is_probed: bool = False


def trial_files(folder: Path) -> list[TrialFiles]:
    """The runs in a results folder, the newest first."""
    summaries = ((run, read_summary(run)) for run in run_folders(folder))
    return [TrialFiles(run, summary) for run, summary in summaries if summary is not None]


def _offline(run: TrialFiles) -> Figure | None:
    """Of a performance run, or else of an accuracy run: Offline sends both all at once."""
    if run.summary.run.performance is not None:
        samples = samples_of(METRICS[0], run.summary)
        return Figure(samples.value, _error(samples.blocks)) if samples else None
    timeline = read_timeline(run.folder / "Accuracy")
    if timeline is None or run.summary.meta.scenario != "Offline":
        return None
    times, tokens = timeline.made_so_far()
    if not times or times[-1] <= 0 or tokens[-1] <= 0:
        return None
    rate = 1000 * tokens[-1] / times[-1]
    return Figure(rate, _error(timeline.blocks().get("tokens_per_sec", ())))


def _error(blocks: Sequence[float]) -> float:
    """The relative standard error of the mean, from the median difference of neighbouring blocks:
    the step from reading prompts to writing answers is in every run and no noise."""
    logs = list(map(math.log, blocks))
    if len(logs) < _MIN_BLOCKS:
        return 0.0
    median = statistics.median(abs(after - before) for before, after in pairwise(logs))
    return _OF_MEDIAN * median / math.sqrt(len(logs))


def _peak(run: TrialFiles) -> Figure | None:
    peak = peak_of(run.summary)
    return Figure(peak.peak_qps, _RESOLUTION) if peak and peak.peak_qps else None


def _goodput(run: TrialFiles) -> Figure | None:
    peak = peak_of(run.summary)
    return Figure(peak.goodput_qps, _RESOLUTION) if peak and peak.goodput_qps else None


def _area(run: TrialFiles) -> Figure | None:
    """The area under the step function from 0 to the most tokens/s per user."""
    curve = curve_of(run.summary)
    if curve is None or not curve.measured:
        return None
    users, heights = StepCurve(curve.measured).steps()
    widths = (end - begin for begin, end in pairwise([0.0, *users]))
    area = sum(width * height for width, height in zip(widths, heights, strict=True))
    return Figure(area) if area > 0 else None


def _at_a_rate(name: str, scenario: str, meaning: str, figure: object) -> TuneTarget:
    trial = f"datacenter and (offline and accuracy or {scenario} and performance)"
    return TuneTarget(
        name,
        "queries/s",
        meaning,
        (("-m", trial, *_PEAK),),
        (("-m", f"{scenario} and {_BOTH}", *_PEAK),),
        figure,  # type: ignore[arg-type]
        start="--server-target-qps",
    )


TARGETS: Mapping[str, TuneTarget] = {
    target.name: target
    for target in (
        TuneTarget(
            "offline",
            "tokens/s",
            "Offline's tokens/s",
            (_ACCURACY,),
            (("-m", f"offline and {_BOTH}"),),
            _offline,
            is_probed=True,
        ),
        _at_a_rate("server", "server", "the highest valid rate of Server", _peak),
        _at_a_rate("interactive", "interactive", "the highest valid rate of Interactive", _peak),
        _at_a_rate(
            "goodput",
            "server",
            "the highest rate of Server with 99% of the requests within every latency limit",
            _goodput,
        ),
        TuneTarget(
            "curve",
            "(tokens/s)²",
            "the area of tokens/s over tokens/s per user",
            # A curve's points need the engine to themselves.
            (_ACCURACY, _CURVE),
            (_ACCURACY, _CURVE),
            _area,
        ),
    )
}


def costs_of(runs: Sequence[TrialFiles]) -> dict[str, float]:
    """What the runs took of their users and of the machine, by name with unit; lower is better.

    Latencies of a performance run as LoadGen reports them, or of the requests of another; what
    features add (`Summary.parts`), such as energy.
    """
    costs: dict[str, float] = {}
    for run in runs:
        if performance := run.summary.run.performance:
            costs |= _latencies(performance)
        elif timeline := read_timeline(run.folder / "Accuracy"):
            costs = {**_request_costs(timeline), **costs}
        costs |= _at_the_peak(run.folder)
        for part in run.summary.parts.values():
            costs |= getattr(part, "costs", {})
        for point in curve.measured if (curve := curve_of(run.summary)) else ():
            if point.concurrency == 1 and point.ttft_p90_ms and point.tpot_p90_ms:
                costs |= {"TTFT p90 of one user, ms": point.ttft_p90_ms}
                costs |= {"TPOT p90 of one user, ms": point.tpot_p90_ms}
    # A stand-in may take no time, and no ratio is of that.
    return {name: cost for name, cost in costs.items() if cost > 0}


def _at_the_peak(folder: Path) -> dict[str, float]:
    """The latencies of the last run of a peak search, which confirmed the rate."""
    trials = (read_object(folder / PEAK_JSON) or {}).get("trials")
    last = trials[-1] if isinstance(trials, list) and trials else {}
    values = {
        f"{name} p99 at the rate, ms": last.get(f"{name.lower()}_p99_ms")
        for name in ("latency", "TTFT", "TPOT")
    }
    return {n: v for n, v in values.items() if isinstance(v, int | float) and v > 0}


def _latencies(run: PerformanceFigures) -> dict[str, float]:
    by_name = {"latency": run.latency_ms, "TTFT": run.ttft_ms, "TPOT": run.tpot_ms}
    return {
        f"{name} {percentile}, ms": values[percentile]
        for name, values in by_name.items()
        for percentile in ("p50", "p99")
        if values and values.get(percentile)
    }


def _request_costs(timeline: Timeline) -> dict[str, float]:
    """Of a run that is no performance run; TPOT by the engine's own times if it did not stream."""
    decode_ms = timeline.parts_ms.get("decode", ())
    tpot = timeline.tpot_ms or [
        own_ms / (tokens - 1)
        for own_ms, tokens in zip(decode_ms, timeline.tokens, strict=False)
        if tokens > 1
    ]
    rows = {"latency": timeline.latency_ms, "TPOT": tpot}
    return {f"{name} p50, ms": statistics.median(of) for name, of in rows.items() if of}
