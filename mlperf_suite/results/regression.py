"""Decides whether a run is worse than a baseline: by more than is allowed, and more than noise.

Noise is how far two runs of the same system differ, estimated for each metric:

- blocks: a run is cut into blocks of equal work, and two runs of the same seeds do the same work in
  the same block. Runs are taken to vary as the blocks' ratios do. The spread is not divided by the
  root of the number of blocks, as a bootstrap of the blocks' mean would do: that misses what
  differs from one run to the next. The block that differs most is left out, so that one stall
  hides no loss.
- repeats: runs repeated in the same session, on either side or both. From five on each side they
  count alone. Fewer show too little of the noise: they are pooled with the blocks, or count alone
  where that says more; where they vary more than both together, their own spread is used.

So a run that was disturbed for half of its time is not called regressed however much it lost: its
other half shows that nothing changed. The verdict is then "cannot tell" and says how many blocks
lost no more than is allowed.

Everything is computed on logarithms, so that a loss of 10% and the gain that undoes it are equally
far from 0. A comparison in which nothing changed is called regressed so seldom that the
COMPARISONS of a job keep to 5% together. Within a comparison, speed, TTFT, TPOT and scores are
judged by Hochberg's procedure (Biometrika 75, 1988), which requires less of each if several are
worse at once. The interval of a regressed metric has the confidence at which it was judged; those
of the others hold simultaneously with 97.7%.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from mlperf_suite.feature import features
from mlperf_suite.results.schema import (
    TOO_NOISY,
    ChangeFigures,
    ChangeOutcome,
    Percentiles,
    RepeatFigures,
    Summary,
)

COMPARISONS = 4
"""What a CI job compares: Offline and Server, each with the last good and with the pinned run."""
FALSE_ALARMS = 0.0115
"""How often a comparison in which nothing changed may be called regressed. In simulation
(perf/regression_gate.py) four of them then stay below 5% together, with two repeats too, where the
two estimates of the noise have a chance each."""
_ENOUGH_RUNS = 5
_SUFFICIENT_REPEATS = 2 * (_ENOUGH_RUNS - 1)
"""Degrees of freedom from which the repeats count alone: those of five repeats on each side."""
_MIN_BLOCKS_TO_DROP = 10
"""The number of blocks from which the one that differs most is left out."""
_HALF = math.log(2)
"""Noise beyond it hides that half of the speed is lost: its interval says nothing to a reader."""
KNOWN_DF = 1e6
"""Degrees of freedom of an error that is practically known."""
_FAR = 50.0
"""The largest logarithm of an interval's end: what lies beyond is no figure to print."""
DEFAULT_MAX_REGRESSION = 0.05
Score = tuple[float | None, float | None]
"""A score and its standard error, None where there is none."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that the gate compares.

    `mode`: the run it belongs to: performance, accuracy or a feature's. `group`: metrics of one
    group rise and fall together and count once among the judged ones. `blocks`: the blocks that
    show its noise. `of_run`: gets the figure of a performance run. `of_summary`: gets a feature's
    score; None if a summary has no such run. `of_answers`: reads each answer's score in percent
    from a run's folder.
    """

    name: str
    label: str
    unit: str
    mode: str
    higher_is_better: bool
    group: str
    blocks: str = ""
    of_run: Callable[[RepeatFigures], float | None] | None = field(default=None, compare=False)
    of_summary: Callable[[Summary], Score | None] | None = field(default=None, compare=False)
    of_answers: Callable[[Path], dict[object, float]] | None = field(default=None, compare=False)


def _rate(name: str, label: str, unit: str) -> Metric:
    return Metric(
        name, label, unit, "performance", True, "speed", "tokens_per_sec", attrgetter(name)
    )


def _time(name: str, percentile: str) -> Metric:
    key, blocks = f"{name}_{percentile}", f"{name}_p50_ms" if percentile == "p50" else f"{name}_ms"

    def of_run(run: RepeatFigures) -> float | None:
        times: Percentiles | None = getattr(run, f"{name}_ms")
        return (times or {}).get(percentile)

    label = f"{name.upper()} {percentile}"
    return Metric(key, label, "ms", "performance", False, key, blocks, of_run)


METRICS: tuple[Metric, ...] = (
    _rate("tokens_per_sec", "tokens/s", "tokens/s"),
    _rate("qps", "samples/s", "samples/s"),
    # At Server's fixed rate tokens/s cannot fall, and the 99th percentile is what noise moves
    # most: a decode step that takes twice as long shows in the median.
    *(_time(name, percentile) for name in ("ttft", "tpot") for percentile in ("p50", "p99")),
)
"""The metrics of every benchmark; scores in percent are added by name."""


def metrics_of_features() -> list[Metric]:
    """The metrics of each feature that has some."""
    return [metric for gate in feature_gates() for metric in gate.metrics]


def modes_of(summary: Summary) -> list[str]:
    """The modes of the metrics of which a summary has runs, though perhaps no figures."""
    modes = [mode for mode in ("performance", "accuracy") if summary.run.has(mode)]
    own = [m.mode for m in metrics_of_features() if m.of_summary and m.of_summary(summary)]
    return list(dict.fromkeys([*modes, *own]))


def metrics_of(summaries: Iterable[Summary]) -> tuple[Metric, ...]:
    """The metrics that can be compared for these runs: those of every benchmark and of features,
    and each score in percent.

    A score that is a length or a count is not a quality: the accuracy rules have its range.
    """
    scores = [
        s for summary in summaries if summary.run.accuracy for s in summary.run.accuracy.scores
    ]
    names = dict.fromkeys(score.name for score in scores if score.is_percentage)
    of_answers = (Metric(n.lower(), n, "%", "accuracy", True, "scores") for n in names)
    return (*METRICS, *metrics_of_features(), *of_answers)


@dataclass(frozen=True, slots=True)
class MetricSamples:
    """One side's figures of one metric: a value for each repeat, and the blocks of the first.

    `standard_error`: that of the value, in its unit, if a single run shows it (scores).
    """

    values: tuple[float, ...]
    blocks: tuple[float, ...] = ()
    standard_error: float | None = None

    @property
    def value(self) -> float:
        """The geometric mean of the repeats."""
        return math.exp(statistics.fmean(map(math.log, self.values)))


def confidence(groups: int, comparisons: int = COMPARISONS) -> float:
    """The confidence of each interval, such that all groups together keep to FALSE_ALARMS.

    `comparisons`: how many share the false alarms of a job, if they are more than COMPARISONS.
    """
    share = COMPARISONS / max(comparisons, COMPARISONS)
    return 1 - 2 * FALSE_ALARMS * share / max(groups, 1)


@dataclass(frozen=True, slots=True)
class Noise:
    """`estimates`: each a standard error of the difference of logarithms and its degrees of
    freedom; the one that gives the narrowest interval counts. `source`: where it is from."""

    estimates: tuple[tuple[float, float], ...]
    source: str

    def reach(self, level: float) -> float | None:
        """Half the width of the interval at a confidence; None if the noise is not known."""
        from scipy.special import stdtrit

        reaches = (float(stdtrit(degrees, 0.5 + level / 2)) * e for e, degrees in self.estimates)
        return min(reaches, default=None)


def compare(
    metric: Metric,
    baseline: MetricSamples,
    current: MetricSamples,
    max_regression: float = DEFAULT_MAX_REGRESSION,
    level: float | None = None,
    noise: Noise | None = None,
) -> ChangeFigures:
    """Judge one metric.

    `max_regression`: the allowed loss, relative. `level`: the confidence of the interval, by
    default that of a metric alone. `noise`: that of these figures if it is not to be found in them.
    """
    sign = 1 if metric.higher_is_better else -1
    gain = sign * (math.log(current.value) - math.log(baseline.value))
    noise = noise or _noise(baseline, current, None)
    noise_from = noise.source
    reach = noise.reach(confidence(1) if level is None else level)
    low = high = None
    if reach is not None:
        low, high = max(gain - reach, -_FAR), min(gain + reach, _FAR)
    outcome = _outcome(gain, low, high, max_regression)
    if outcome == "cannot tell" and gain < math.log1p(-max_regression):
        noise_from += _undisturbed(baseline, current, sign, max_regression)
    words = _percent(gain, sign)
    if low is None or high is None:
        words += " (noise not measured)"
    elif outcome == "cannot tell" and reach is not None and reach > _HALF:
        words += f" ({TOO_NOISY})"
    else:
        ends = (low, high) if sign > 0 else (high, low)
        words += f" ({_percent(ends[0], sign)} to {_percent(ends[1], sign)})"
    return replace(
        _change(metric, baseline),
        current=current.value,
        change=math.expm1(gain),
        low=None if low is None else math.expm1(low),
        high=None if high is None else math.expm1(high),
        outcome=outcome,
        words=words,
        noise_from=noise_from,
    )


def _change(metric: Metric, baseline: MetricSamples) -> ChangeFigures:
    return ChangeFigures(
        metric.name, metric.label, metric.unit, metric.higher_is_better, baseline.value
    )


def _percent(gain: float, sign: int) -> str:
    """A gain, as a logarithm, as the metric's own rise or fall."""
    return f"{math.expm1(sign * gain) * 100:+.1f}%"


def _outcome(
    gain: float, low: float | None, high: float | None, max_regression: float
) -> ChangeOutcome:
    if low is None or high is None:
        return "cannot tell"
    worst, best = math.log1p(-max_regression), -math.log1p(-max_regression)
    if gain < worst and high < 0:
        return "regressed"
    if gain > best and low > 0:
        return "improved"
    return "cannot tell" if low < worst else "unchanged"


def _noise(baseline: MetricSamples, current: MetricSamples, paired_error: float | None) -> Noise:
    if paired_error is not None:
        return Noise(((paired_error / baseline.value, KNOWN_DF),), "the same samples")
    if baseline.standard_error is not None and current.standard_error is not None:
        errors = (s.standard_error or 0.0 for s in (baseline, current))
        relative = [e / s.value for e, s in zip(errors, (baseline, current), strict=True)]
        return Noise(((math.hypot(*relative), KNOWN_DF),), "the spread of the samples")
    sides = baseline, current
    logs = [[math.log(value) for value in side.values] for side in sides]
    squares = sum(statistics.variance(of) * (len(of) - 1) for of in logs if len(of) > 1)
    degrees = sum(len(of) - 1 for of in logs)
    variances = [(squares / degrees, degrees)] if degrees else []
    sources = [" and ".join(str(len(of)) for of in logs) + " runs"] if degrees else []
    blocks = _block_variance(baseline, current)
    if blocks and degrees < _SUFFICIENT_REPEATS and not (degrees and blocks[2] == "one run"):
        variance, count, runs = blocks
        # Without its farthest block a mean is taken of the others: two degrees of freedom.
        freedom = count - (2 if count >= _MIN_BLOCKS_TO_DROP else 1)
        pooled = (freedom * variance + squares) / (freedom + degrees)
        variances.append((max(pooled, *(v for v, _ in variances), 0.0), freedom + degrees))
        sources.append(f"{count} blocks of {runs}")
    inverse = 1 / len(baseline.values) + 1 / len(current.values)
    estimates = tuple((math.sqrt(variance * inverse), d) for variance, d in variances)
    return Noise(estimates, " and ".join(sources) or "not measured")


def _block_variance(
    baseline: MetricSamples, current: MetricSamples
) -> tuple[float, int, str] | None:
    """The variance of one run's logarithm as the blocks show it, their number and whose they are.

    That of the blocks, and that of their mean on top.
    """
    if ratios := _block_ratios(baseline, current):
        return _spread(ratios) ** 2 / 2 * (1 + 1 / len(ratios)), len(ratios), "each run"
    for side in (current, baseline):
        if len(side.blocks) >= 2:
            variance = _spread([math.log(value) for value in side.blocks]) ** 2
            return variance * (1 + 1 / len(side.blocks)), len(side.blocks), "one run"
    return None


def _spread(values: Sequence[float]) -> float:
    """The standard deviation without the value that is farthest from the median.

    The factor makes up for the value that is left out, to within 2% in normal noise.
    """
    count = len(values)
    if count < _MIN_BLOCKS_TO_DROP:
        return statistics.stdev(values)
    middle = statistics.median(values)
    rest = sorted(values, key=lambda value: abs(value - middle))[:-1]
    return statistics.stdev(rest) * math.sqrt((count + 4) / (count - 1))


def _block_ratios(baseline: MetricSamples, current: MetricSamples) -> list[float]:
    """The logarithm of each block's ratio; empty if the two have different blocks."""
    if len(baseline.blocks) != len(current.blocks) or len(current.blocks) < 2:
        return []
    pairs = zip(current.blocks, baseline.blocks, strict=True)
    return [math.log(now / then) for now, then in pairs]


def _undisturbed(
    baseline: MetricSamples, current: MetricSamples, sign: int, max_regression: float
) -> str:
    """How many blocks lost no more than is allowed, for a run that lost more as a whole."""
    ratios = _block_ratios(baseline, current)
    unaffected = sum(sign * ratio >= math.log1p(-max_regression) for ratio in ratios)
    words = f"; {unaffected} of {len(ratios)} blocks lost no more than {max_regression * 100:g}%"
    return words if unaffected else ""


# From summaries


def samples_of(metric: Metric, summary: Summary) -> MetricSamples | None:
    """A summary's figures of a metric; None if it has none."""
    run = summary.run
    if metric.of_run is not None:
        if run.performance is None:
            return None
        repeats = (run.performance, *run.performance.repeats)
        values = [_positive(metric.of_run(repeat)) for repeat in repeats]
        blocks = map(_positive, run.performance.blocks.get(metric.blocks, ()))
        if values[0] is None:
            return None
        return MetricSamples(
            tuple(value for value in values if value is not None),
            tuple(block for block in blocks if block is not None),
        )
    value, error = score_of(metric, summary)
    if (positive := _positive(value)) is None:
        return None
    return MetricSamples((positive,), standard_error=_positive(error))


def score_of(metric: Metric, summary: Summary) -> Score:
    if metric.of_summary is not None:
        return metric.of_summary(summary) or (None, None)
    run = summary.run
    score = run.accuracy.score(metric.label) if run.accuracy is not None else None
    return (score.value, score.standard_error) if score else (None, None)


def _positive(value: float | None) -> float | None:
    return value if value is not None and 0 < value < math.inf else None


def unusable_figures(summary: Summary) -> list[str]:
    """The figures of performance runs that are not positive numbers, and those of the first that a
    repeat lacks, in words. Every run has a rate of tokens."""
    run = summary.run.performance
    if run is None:
        return []
    faults = ["tokens/s is missing"] if run.tokens_per_sec is None else []
    for of_run, metric in [(metric.of_run, metric) for metric in METRICS if metric.of_run]:
        values = [of_run(repeat) for repeat in (run, *run.repeats)]
        if values[0] is not None and None in values:
            faults.append(f"{metric.label} is missing in a repeat")
        unusable = [v for v in values if v is not None and _positive(v) is None]
        faults += [f"{metric.label} is {value:g} {metric.unit}" for value in unusable]
    return faults


def compare_summaries(
    baseline: Summary,
    current: Summary,
    max_regression: float = DEFAULT_MAX_REGRESSION,
    paired_errors: Mapping[str, float] | None = None,
    comparisons: int = COMPARISONS,
) -> list[ChangeFigures]:
    """Judge every metric that both summaries have, together.

    Hochberg's procedure: if all but `n` groups of metrics are worse at a confidence that shares the
    false alarms among `n + 1`, they are regressed. This keeps the false alarm rate for metrics that
    are independent or rise and fall together. If the baseline has a figure that is missing or 0
    although the run was made, the metric is regressed. `paired_errors`: by metric name, the
    standard error of the difference of scores. `comparisons`: as in `confidence`.
    """
    pairs, vanished = [], []
    for metric in metrics_of((baseline, current)):
        then, now = samples_of(metric, baseline), samples_of(metric, current)
        if then and now:
            noise = _noise(then, now, (paired_errors or {}).get(metric.name))
            pairs.append((metric, then, now, noise))
        elif then and metric.mode in modes_of(current):
            error = (paired_errors or {}).get(metric.name, then.standard_error)
            vanished.append(_lost(metric, then, current, error, confidence(1, comparisons)))
    for gate in feature_gates():
        of_feature, lost = gate.compare(baseline, current)
        pairs, vanished = [*pairs, *of_feature], [*vanished, *lost]
    groups = len({metric.group for metric, *_ in pairs})

    def judge(shared_among: int) -> list[ChangeFigures]:
        level = confidence(shared_among, comparisons)
        return [
            compare(metric, then, now, max_regression, level, noise)
            for metric, then, now, noise in pairs
        ]

    changes = judge(groups)
    for shared_among in range(1, groups):
        judged = judge(shared_among)
        verdicts = zip(pairs, judged, strict=True)
        worse = {metric.group for (metric, *_), c in verdicts if c.outcome == "regressed"}
        if len(worse) > groups - shared_among:
            changes = [
                shared if shared.outcome == "regressed" else alone
                for shared, alone in zip(judged, changes, strict=True)
            ]
            break
    return changes + vanished


def _lost(
    metric: Metric, then: MetricSamples, current: Summary, error: float | None, level: float
) -> ChangeFigures:
    """A figure that is 0 or missing although its run was made. Noise cannot explain that, unless it
    is a score of so few answers that all may be wrong by chance. `error`: its standard error."""
    if error and score_of(metric, current)[0] == 0:
        reach = Noise(((error / then.value, KNOWN_DF),), "").reach(level)
        if reach is not None and reach >= 1:
            words = "-100.0% (few answers may have that by chance)"
            change = replace(_change(metric, then), current=0.0, change=-1.0, words=words)
            return replace(change, noise_from="the spread of the samples")
    return lost(metric, then)


def lost(metric: Metric, then: MetricSamples, words: str = "lost altogether") -> ChangeFigures:
    """The loss of all of a figure."""
    change = replace(_change(metric, then), outcome="regressed", current=0.0, change=-1.0)
    return replace(change, words=words, noise_from="no figure now")


Pair = tuple[Metric, MetricSamples, MetricSamples, Noise]
"""A metric, its figures in two runs, and their noise."""


class FeatureGate:
    """What the gate compares of a feature's part of two summaries; nothing without it.

    `metrics`: those that are compared as the core's are. `of_speed`: the names of the metrics that
    show how fast a system is.
    """

    metrics: tuple[Metric, ...] = ()
    of_speed: tuple[str, ...] = ()

    def compares(self, summary: Summary) -> bool:
        """Whether a summary has figures to compare."""
        return False

    def missing(self, baseline: Summary, current: Summary) -> list[str]:
        """What cannot be compared because one side lacks it, in words."""
        return []

    def differences(self, baseline: Summary, current: Summary) -> list[str]:
        """What makes the two incomparable, in words."""
        return []

    def compare(
        self, baseline: Summary, current: Summary
    ) -> tuple[list[Pair], list[ChangeFigures]]:
        """What is judged together with the other metrics, and what was lost altogether."""
        return [], []


@cache
def feature_gates() -> tuple[FeatureGate, ...]:
    """The `GATE` of each feature that has one."""
    places = (feature.gate for feature in features() if feature.gate)
    return tuple(import_module(place).GATE for place in places)


def has_figures(summary: Summary) -> bool:
    """Whether a summary has figures to compare."""
    return bool(modes_of(summary)) or any(gate.compares(summary) for gate in feature_gates())


def cannot_tell(summary: Summary) -> str:
    """The metrics of which the gate cannot tell, and what may let it tell; empty without one."""
    metrics = summary.regression.metrics if summary.regression else ()
    changes = [change for change in metrics if change.outcome == "cannot tell"]
    labels = ", ".join(change.label for change in changes)
    return f"{labels} (next: {next_step(summary, changes)})" if changes else ""


def next_step(summary: Summary, changes: Iterable[ChangeFigures]) -> str:
    """What may let the gate tell of changes: less noise in times and rates, more answers scored."""
    run = summary.run.performance
    timed = {m.name for m in METRICS} | {name for gate in feature_gates() for name in gate.of_speed}
    is_timed = {change.metric in timed for change in changes}
    again = "rerun on a quiet machine, or measure the baseline again"
    if run and len(run.repeats) + 1 < _ENOUGH_RUNS:
        again = f"make both runs with --repeat {_ENOUGH_RUNS} on a quiet machine"
    return "; ".join([*[again] * (True in is_timed), *["score more samples"] * (False in is_timed)])


def underpowered_metrics(changes: Sequence[ChangeFigures], at_a_rate: bool) -> list[str]:
    """Why the comparison could not show that half of the speed is lost; empty if it could.

    `at_a_rate`: queries come at a rate, at which speed shows in the latencies: one of them is
    enough.
    """
    performance = {metric.name for metric in METRICS if metric.of_run}
    times = [c for c in changes if c.metric in performance and not c.higher_is_better]
    names = {"tokens_per_sec", *(name for gate in feature_gates() for name in gate.of_speed)}
    speed = [c for c in changes if c.metric in names]
    deciding = times if at_a_rate and times else speed
    blind = [(change.label, change.noise_from) for change in deciding if _is_blind(change)]
    if not blind or len(blind) < len(deciding):
        return []
    labels, sources = (", ".join(dict.fromkeys(of)) for of in zip(*blind, strict=True))
    return [
        f"{labels}: the noise ({sources}) would hide that half of the speed is lost: measure both "
        "again on a quiet machine with pytest --repeat 5"
    ]


def _is_blind(change: ChangeFigures) -> bool:
    if change.outcome == "regressed":
        return False
    if change.change is None or change.low is None:
        return True
    return change.low <= -1 or math.log1p(change.change) - math.log1p(change.low) > _HALF
