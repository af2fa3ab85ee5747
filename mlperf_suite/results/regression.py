"""Decides whether a run is worse than a baseline: by more than is allowed, and more than noise.

Noise is measured, in this order of preference:

- repeats: runs repeated in the same session, on either side or both; the spread between them;
- blocks: a run is cut into blocks of equal work, and two runs of the same seeds do the same work in
  the same block. The spread of the blocks' ratios is used as the spread of the runs' ratio. It is
  not divided by the root of the number of blocks, as a bootstrap of the blocks' mean would do:
  that misses what differs from one run to the next, and on a machine whose runs vary by 8% it
  raises a false alarm every third time (perf/regression_gate.py prints it).

So a run that was disturbed for half of its time is not called regressed however much it lost: its
other half shows that nothing changed. The verdict is then "cannot tell" and says how many blocks
lost no more than is allowed.

Everything is computed on logarithms, so that a loss of 10% and the gain that undoes it are equally
far from 0. Speed, TTFT, TPOT and scores are judged together, so that a comparison in which nothing
changed is called regressed at most once in twenty times: by Hochberg's procedure (Biometrika 75,
1988), which requires less of each if several are worse at once. The interval of a regressed metric
has the confidence at which it was judged; those of the others hold simultaneously with 91.5%.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from mlperf_suite.results.schema import (
    ChangeFigures,
    ChangeOutcome,
    Percentiles,
    RepeatFigures,
    Summary,
)

FALSE_ALARMS = 0.0425
"""How often a comparison in which nothing changed may be called regressed: the promise is 5%, and
no machine's noise is exactly what the intervals assume."""
_MANY = 1e6
"""Degrees of freedom of an error that is practically known."""
_FAR = 50.0
"""The largest logarithm of an interval's end: what lies beyond is no figure to print."""
DEFAULT_MAX_REGRESSION = 0.05


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that the gate compares.

    `mode`: the run it belongs to: performance, accuracy or mmlu. `group`: metrics of one group rise
    and fall together and count once among the judged ones. `blocks`: the blocks that show its
    noise. `of_run`: gets the figure of a performance run.
    """

    name: str
    label: str
    unit: str
    mode: str
    higher_is_better: bool
    group: str
    blocks: str = ""
    of_run: Callable[[RepeatFigures], float | None] | None = field(default=None, compare=False)


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
    _rate("qps", "QPS", "queries/s"),
    # At Server's fixed rate tokens/s cannot fall, and the 99th percentile is what noise moves
    # most: a decode step that takes twice as long shows in the median.
    *(_time(name, percentile) for name in ("ttft", "tpot") for percentile in ("p50", "p99")),
    Metric("mmlu", "MMLU", "%", "mmlu", True, "mmlu"),
)
"""The metrics of every benchmark; scores in percent are added by name."""


def metrics_of(summaries: Iterable[Summary]) -> tuple[Metric, ...]:
    """The metrics that can be compared for these runs: METRICS, and each score in percent.

    A score that is a length or a count is not a quality: the accuracy rules have its range.
    """
    scores = [
        s for summary in summaries if summary.run.accuracy for s in summary.run.accuracy.scores
    ]
    names = dict.fromkeys(score.name for score in scores if score.is_percentage)
    return (*METRICS, *(Metric(n.lower(), n, "%", "accuracy", True, "scores") for n in names))


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


def confidence(groups: int) -> float:
    """The confidence of each interval, such that all groups together keep to FALSE_ALARMS."""
    return 1 - 2 * FALSE_ALARMS / max(groups, 1)


Noise = tuple[float | None, float, str]
"""The standard error of the difference of logarithms, its degrees of freedom, its source."""


def compare(
    metric: Metric,
    baseline: MetricSamples,
    current: MetricSamples,
    max_regression: float = DEFAULT_MAX_REGRESSION,
    groups: int = 1,
    noise: Noise | None = None,
) -> ChangeFigures:
    """Judge one metric.

    `max_regression`: the allowed loss, relative. `groups`: the number of metric groups that share
    the allowed false alarms. `noise`: that of these figures if it is not to be found in them.
    """
    sign = 1 if metric.higher_is_better else -1
    gain = sign * (math.log(current.value) - math.log(baseline.value))
    error, degrees, noise_from = noise or _noise(baseline, current, None)
    low = high = None
    if error is not None:
        from scipy.special import stdtrit

        reach = float(stdtrit(degrees, 0.5 + confidence(groups) / 2)) * error
        low, high = max(gain - reach, -_FAR), min(gain + reach, _FAR)
    outcome = _outcome(gain, low, high, max_regression)
    if outcome == "cannot tell" and gain < math.log1p(-max_regression):
        noise_from += _undisturbed(baseline, current, sign, max_regression)
    words = _percent(gain, sign)
    if low is None or high is None:
        words += " (noise not measured)"
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
        return paired_error / baseline.value, _MANY, "the same samples"
    repeated = [side.values for side in (baseline, current) if len(side.values) > 1]
    if repeated:
        logs = [[math.log(value) for value in values] for values in repeated]
        degrees = sum(len(values) - 1 for values in logs)
        squares = sum(statistics.variance(values) * (len(values) - 1) for values in logs)
        inverse = 1 / len(baseline.values) + 1 / len(current.values)
        runs = " and ".join(str(len(side.values)) for side in (baseline, current))
        return math.sqrt(squares / degrees * inverse), degrees, f"{runs} runs"
    if baseline.standard_error is not None and current.standard_error is not None:
        errors = (s.standard_error or 0.0 for s in (baseline, current))
        relative = [e / s.value for e, s in zip(errors, (baseline, current), strict=True)]
        return math.hypot(*relative), _MANY, "the spread of the samples"
    if ratios := _block_ratios(baseline, current):
        return _of_blocks(ratios), len(ratios) - 1, f"{len(ratios)} blocks of each run"
    blocks = next((s.blocks for s in (current, baseline) if len(s.blocks) >= 2), None)
    if blocks is not None:
        spread = _of_blocks([math.log(value) for value in blocks]) * math.sqrt(2)
        return spread, len(blocks) - 1, f"{len(blocks)} blocks of one run"
    return None, _MANY, "not measured"


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


def _of_blocks(values: Sequence[float]) -> float:
    """The spread between runs: that of the blocks, and that of their mean on top."""
    return statistics.stdev(values) * math.sqrt(1 + 1 / len(values))


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
    value = error = None
    if metric.mode == "mmlu" and run.mmlu is not None:
        value, error = run.mmlu.accuracy, run.mmlu.stderr
    elif metric.mode == "accuracy" and run.accuracy is not None:
        score = run.accuracy.score(metric.label)
        value, error = (score.value, score.standard_error) if score else (None, None)
    if (positive := _positive(value)) is None:
        return None
    return MetricSamples((positive,), standard_error=_positive(error))


def _positive(value: float | None) -> float | None:
    return value if value is not None and 0 < value < math.inf else None


def unusable_figures(summary: Summary) -> list[str]:
    """The figures of performance runs that are no positive numbers, and those of the first that a
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


def figures_missing(baseline: Summary, current: Summary) -> list[str]:
    """What was not compared because one side lacks it, in words: a mode of the baseline, or, of a
    mode that both have, a figure that the baseline lacks (JSON's reader drops NaN)."""
    modes = [mode for mode in ("performance", "accuracy", "mmlu") if baseline.run.has(mode)]
    missing = [f"no {mode} run, unlike the baseline" for mode in modes if not current.run.has(mode)]
    for metric in metrics_of((baseline, current)):
        has_figure = metric.mode in modes and samples_of(metric, current) is not None
        if has_figure and samples_of(metric, baseline) is None:
            missing.append(f"{metric.label}: the baseline has no such figure")
    return missing


def compare_summaries(
    baseline: Summary,
    current: Summary,
    max_regression: float = DEFAULT_MAX_REGRESSION,
    paired_errors: Mapping[str, float] | None = None,
) -> list[ChangeFigures]:
    """Judge every metric that both summaries have, together.

    Hochberg's procedure: if all but `n` groups of metrics are worse at a confidence that shares the
    false alarms among `n + 1`, they are regressed. This keeps the false alarm rate for metrics that
    are independent or rise and fall together. If the baseline has a figure that is missing or 0
    although the run was made, the metric is regressed. `paired_errors`: by metric name, as
    `compare` takes them.
    """
    pairs, vanished = [], []
    for metric in metrics_of((baseline, current)):
        then, now = samples_of(metric, baseline), samples_of(metric, current)
        if then and now:
            noise = _noise(then, now, (paired_errors or {}).get(metric.name))
            pairs.append((metric, then, now, noise))
        elif then and current.run.has(metric.mode):
            # Noise cannot explain that a figure is 0 or missing although its run was made.
            change = replace(_change(metric, then), current=0.0, change=-1.0, outcome="regressed")
            lost = replace(change, words="lost altogether", noise_from="no figure now")
            vanished.append(lost)
    groups = len({metric.group for metric, *_ in pairs})

    def judge(shared_among: int) -> list[ChangeFigures]:
        return [
            compare(metric, then, now, max_regression, shared_among, noise)
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
