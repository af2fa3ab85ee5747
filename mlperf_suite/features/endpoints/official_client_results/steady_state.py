"""The steady state of a point at fixed concurrency: where its TPOT is flat for long enough.

Source: endpoints_rules.md §4.4 of github.com/mlcommons/endpoints_policies; statistics and constants
as the client's metrics/steady_state_diagnostics.py: the first super-passes are left out until TPOT
is near its later level, and the first window counts in which TPOT at p50 and p90 has no trend
(Mann-Kendall, with Hamed and Rao's correction) and varies little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median, pstdev
from typing import Literal

from mlperf_suite.features.endpoints.official_client_results.package_files import (
    SteadyState,
    Window,
)
from mlperf_suite.features.endpoints.official_client_results.series import MIN_PASSES
from mlperf_suite.features.endpoints.official_client_results.super_passes import SuperPass

Metric = Literal["tpot_p50", "tpot_p90"]
_METRICS: dict[Metric, float] = {"tpot_p50": 0.5, "tpot_p90": 0.9}
_STATES: dict[int, Literal["Plateau", "Drifting Up", "Drifting Down"]] = {
    0: "Plateau",
    1: "Drifting Up",
    -1: "Drifting Down",
}
_Verdict = Literal["STEADY STATE", "drifting_up", "drifting_down", "not found"]
_SIGNIFICANT = 0.05
_MIN_DRIFT = 0.05
"""The share of its level by which a metric must change from end to end to count as drifting."""
_MAX_VARIATION = 0.08
"""Standard deviation over mean, of the super-passes of a window."""
_BAND = 0.05
"""How far from the later level the first super-passes are left out."""
_SHIFT = 0.05
"""By which share a later level differs from the window's where it is an anomaly."""
_PRECISION, _Z = 0.05, 1.96
_LATENCIES = 5.0
"""A window lasts at least so many latencies at p90."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Super-passes from `start` to before `end`."""

    start: int
    end: int

    def of(self, passes: Sequence[SuperPass]) -> Sequence[SuperPass]:
        return passes[self.start : self.end]


def steady_state(
    passes: Sequence[SuperPass], samples: int, size: int, least_s: float
) -> SteadyState:
    """What point.yaml says of a run.

    `samples`: of the data set; `size`: requests of a super-pass; `least_s`: how long the point must
    be measured, in seconds. Super-passes are numbered from 0. A last pass that is not whole is left
    out.
    """
    issued = sum(p.issued for p in passes)
    whole = [p for p in passes if p.issued == size and p.tpot]
    warmup = _warmup(whole)
    if issued < samples:
        return SteadyState(status="partial_dataset", verdict="not found")
    if len(whole) - warmup < MIN_PASSES:
        return SteadyState(status="insufficient_passes", verdict="not found")
    measured = whole[warmup:]
    spans = _plateaus(measured)
    chosen = next((s for s in spans if _lasts(s.of(measured), least_s)), None)
    if chosen is None:
        return _without_window(measured, spans)
    window = Window(
        super_pass_start=warmup + chosen.start,
        super_pass_end=warmup + chosen.end - 1,
        super_pass_size=size,
        n_samples=sum(len(p.latency) for p in chosen.of(measured)),
        duration_s=_duration_s(chosen.of(measured)),
    )
    shifted = _is_shifted(measured, spans, chosen)
    return SteadyState(
        status="windowable",
        verdict="anomaly" if shifted else "STEADY STATE",
        window=window,
        state=dict.fromkeys(_METRICS, "Plateau"),
    )


def _without_window(passes: Sequence[SuperPass], spans: Sequence[_Span]) -> SteadyState:
    """The block of a run with enough super-passes and no window that is long enough."""
    drifts = {str(name): _drift(_metric(passes, share)) for name, share in _METRICS.items()}
    state = {name: _STATES[drift] for name, drift in drifts.items()}
    verdict: _Verdict = "not found"
    if spans:
        verdict = "STEADY STATE"
    elif any(drifts.values()):
        verdict = "drifting_up" if 1 in drifts.values() else "drifting_down"
    return SteadyState(status="insufficient_duration", verdict=verdict, state=state)


def _percentile(values: Sequence[float], share: float) -> float:
    """The nearest rank at or below."""
    return sorted(values)[int(share * (len(values) - 1))]


def _metric(passes: Sequence[SuperPass], share: float) -> list[float]:
    """TPOT at a percentile, of each super-pass."""
    return [_percentile(p.tpot, share) for p in passes]


def _warmup(passes: Sequence[SuperPass]) -> int:
    """How many of the first super-passes are left out, at least one and at most half of them."""
    values = _metric(passes, 0.5)
    if len(values) < MIN_PASSES:
        return 1
    level = median(values[len(values) // 2 :]) or math.inf
    most, count = max(1, len(values) // 2), 0
    while count < most and abs(values[count] - level) / level > _BAND:
        count += 1
    return max(1, count)


def _plateaus(passes: Sequence[SuperPass]) -> list[_Span]:
    """The windows without a drift, each grown from its start as far as it goes."""
    metrics = [_metric(passes, share) for share in _METRICS.values()]
    spans, start = [], 0
    while start <= len(passes) - MIN_PASSES:
        end = start + MIN_PASSES
        while end <= len(passes) and all(_is_flat(m[start:end]) for m in metrics):
            end += 1
        end -= 1
        if end - start >= MIN_PASSES:
            spans.append(_Span(start, end))
            start = end
        else:
            start += 1
    return spans


def _is_flat(values: Sequence[float]) -> bool:
    return _drift(values) == 0 and _variation(values) <= _MAX_VARIATION


def _variation(values: Sequence[float]) -> float:
    mean = fmean(values)
    return pstdev(values) / mean if mean else 0.0


def _drift(values: Sequence[float]) -> Literal[-1, 0, 1]:
    """The direction of a trend that is both significant and large; else 0."""
    n, level = len(values), median(values) or math.inf
    middle = (n - 1) / 2
    slope = sum((i - middle) * v for i, v in enumerate(values)) / (n * (n * n - 1) / 12)
    if abs(slope * (n - 1) / level) < _MIN_DRIFT:
        return 0
    rises = sum(
        (later > value) - (later < value)
        for i, value in enumerate(values)
        for later in values[i + 1 :]
    )
    spread = math.sqrt(_trend_variance(values))
    z = (abs(rises) - 1) / spread if spread and rises else 0.0
    if 2 * (1 - NormalDist().cdf(z)) >= _SIGNIFICANT:
        return 0
    return 1 if rises > 0 else -1


def _trend_variance(values: Sequence[float]) -> float:
    """Of Mann-Kendall's sum, corrected for the autocorrelation of the ranks."""
    n = len(values)
    ties = [values.count(value) for value in set(values)]
    variance = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    order = sorted(range(n), key=values.__getitem__)
    ranks = [0.0] * n
    for rank, index in enumerate(order):
        ranks[index] = rank - (n - 1) / 2
    total = sum(r * r for r in ranks)
    limit, correction = _Z / math.sqrt(n), 0.0
    for lag in range(1, n):
        r = sum(ranks[t] * ranks[t - lag] for t in range(lag, n)) / total
        correction += (n - lag) * (n - lag - 1) * (n - lag - 2) * r * (abs(r) > limit)
    factor = 1 + 2 / (n * (n - 1) * (n - 2)) * correction
    return variance * (factor if factor > 0 else 1.0)


def _duration_s(passes: Sequence[SuperPass]) -> float:
    """From the first to the last issue, in seconds."""
    return (passes[-1].last_ns - passes[0].first_ns) / 1e9


def _lasts(passes: Sequence[SuperPass], least_s: float) -> bool:
    """Whether a window is long enough: for the point, for its latencies, and for its own noise."""
    variation = _variation(_metric(passes, 0.5))
    needed = math.ceil((_Z * variation / _PRECISION) ** 2)
    pass_s = median([(p.last_ns - p.first_ns) / 1e9 for p in passes])
    latencies = [latency for p in passes for latency in p.latency]
    relaxation_s = _LATENCIES * _percentile(latencies, 0.9) / 1e9 if latencies else 0.0
    precision_s = needed * pass_s if needed > MIN_PASSES else 0.0
    return _duration_s(passes) >= max(least_s, relaxation_s, precision_s)


def _is_shifted(passes: Sequence[SuperPass], spans: Sequence[_Span], chosen: _Span) -> bool:
    """Whether the mean TPOT of a later window is elsewhere, at a change point (Pettitt)."""
    means = [fmean(p.tpot) for p in passes]
    if not _has_change_point(means):
        return False
    level = _mean_tpot(chosen.of(passes))
    later = [_mean_tpot(s.of(passes)) for s in spans if s.start >= chosen.end]
    return any(abs(mean - level) / level > _SHIFT for mean in later)


def _mean_tpot(passes: Sequence[SuperPass]) -> float:
    return fmean(value for p in passes for value in p.tpot)


def _has_change_point(values: Sequence[float]) -> bool:
    n, total, most = len(values), 0.0, 0.0
    # The mean rank of equal values.
    ranks = [
        sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values
    ]
    for count, rank in enumerate(ranks[:-1], 1):
        total += rank
        most = max(most, abs(2 * total - count * (n + 1)))
    return 2 * math.exp(-6 * most * most / (n**3 + n**2)) < _SIGNIFICANT
