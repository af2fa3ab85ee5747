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
from dataclasses import dataclass, field
from functools import partial

from mlperf_suite.results.schema import (
    ChangeFigures,
    ChangeOutcome,
    RepeatFigures,
    Summary,
)

FALSE_ALARMS = 0.0425
"""How often a comparison in which nothing changed may be called regressed: the promise is 5%, and
no machine's noise is exactly what the intervals assume."""
_MANY = 1e6
"""Degrees of freedom of an error that is practically known."""
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


def _percentile_of(times: str, name: str, run: RepeatFigures) -> float | None:
    return (getattr(run, times) or {}).get(name)


METRICS: tuple[Metric, ...] = (
    Metric(
        "tokens_per_sec",
        "tokens/s",
        "tokens/s",
        "performance",
        True,
        "speed",
        "tokens_per_sec",
        lambda run: run.tokens_per_sec,
    ),
    Metric(
        "qps",
        "QPS",
        "queries/s",
        "performance",
        True,
        "speed",
        "tokens_per_sec",
        lambda run: run.qps,
    ),
    *(
        Metric(
            f"{time}_{percentile}",
            f"{time.upper()} {percentile}",
            "ms",
            "performance",
            False,
            f"{time}_{percentile}",
            f"{time}_{percentile}_ms" if percentile == "p50" else f"{time}_ms",
            partial(_percentile_of, f"{time}_ms", percentile),
        )
        # At Server's fixed rate tokens/s cannot fall, and the 99th percentile is what noise moves
        # most: a decode step that takes twice as long shows in the median.
        for time in ("ttft", "tpot")
        for percentile in ("p50", "p99")
    ),
    Metric("mmlu", "MMLU", "%", "mmlu", True, "mmlu"),
)
"""The metrics of every benchmark; scores in percent are added by name."""


def score_metric(name: str) -> Metric:
    """The metric of a score in percent, from any scorer."""
    return Metric(name.lower(), name, "%", "accuracy", True, "scores")


def metrics_of(summaries: Iterable[Summary]) -> tuple[Metric, ...]:
    """The metrics that can be compared for these runs: METRICS, and each score in percent.

    A score that is a length or a count is not a quality: the accuracy rules have its range.
    """
    scores = [
        s for summary in summaries if summary.run.accuracy for s in summary.run.accuracy.scores
    ]
    names = dict.fromkeys(score.name for score in scores if score.is_percentage)
    return (*METRICS, *map(score_metric, names))


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


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one metric, relative (0.05 is 5%); above 0 is better.

    `low` and `high`: the interval; None if the noise could not be measured.
    """

    metric: Metric
    baseline: float
    current: float
    change: float
    low: float | None
    high: float | None
    outcome: ChangeOutcome
    noise_from: str

    @property
    def figures(self) -> ChangeFigures:
        """The figures for summary.json."""
        return ChangeFigures(
            self.metric.name,
            self.metric.label,
            self.metric.unit,
            self.metric.higher_is_better,
            self.baseline,
            self.current,
            self.change,
            self.low,
            self.high,
            self.outcome,
            self.words,
            self.noise_from,
        )

    @property
    def words(self) -> str:
        """The change and its interval, as a rise or fall of the metric itself."""
        if not self.current:
            return "lost altogether"
        sign = 1 if self.metric.higher_is_better else -1
        change = f"{_percent(_signed(self.change, sign))}"
        if self.low is None or self.high is None:
            return f"{change} (noise not measured)"
        ends = sorted((_signed(self.low, sign), _signed(self.high, sign)))
        return f"{change} ({_percent(ends[0])} to {_percent(ends[1])})"


def _signed(gain: float, sign: int) -> float:
    """A gain (above 0 is better) as the metric's own change."""
    return gain if sign > 0 else 1 / (1 + gain) - 1


def _percent(change: float) -> str:
    return f"{change * 100:+.1f}%"


def confidence(groups: int) -> float:
    """The confidence of each interval, such that all groups together keep to FALSE_ALARMS."""
    return 1 - 2 * FALSE_ALARMS / max(groups, 1)


def compare(
    metric: Metric,
    baseline: MetricSamples,
    current: MetricSamples,
    max_regression: float = DEFAULT_MAX_REGRESSION,
    groups: int = 1,
    paired_error: float | None = None,
) -> Change:
    """Judge one metric.

    `max_regression`: the allowed loss, relative. `groups`: the number of metric groups that share
    the allowed false alarms. `paired_error`: the standard error of the difference, in the metric's
    unit, if both sides answered the same samples.
    """
    noise = _noise(baseline, current, paired_error)
    return _judged(metric, baseline, current, noise, max_regression, groups)


Noise = tuple[float | None, float, str]
"""The standard error of the difference of logarithms, its degrees of freedom, its source."""


def _judged(
    metric: Metric,
    baseline: MetricSamples,
    current: MetricSamples,
    noise: Noise,
    max_regression: float,
    groups: int,
) -> Change:
    sign = 1 if metric.higher_is_better else -1
    gain = sign * (math.log(current.value) - math.log(baseline.value))
    error, degrees, noise_from = noise
    low = high = None
    if error is not None:
        from scipy.special import stdtrit

        reach = float(stdtrit(degrees, 0.5 + confidence(groups) / 2)) * error
        low, high = gain - reach, gain + reach
    outcome = _outcome(gain, low, high, max_regression)
    if outcome == "cannot tell" and gain < math.log1p(-max_regression):
        noise_from += _undisturbed(baseline, current, sign, max_regression)
    return Change(
        metric,
        baseline.value,
        current.value,
        math.expm1(gain),
        None if low is None else math.expm1(low),
        None if high is None else math.expm1(min(high, 50.0)),
        outcome,
        noise_from,
    )


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
    if metric.mode == "performance":
        return _of_performance(metric, summary)
    value: float | None = None
    error: float | None = None
    if metric.mode == "mmlu" and run.mmlu is not None:
        value, error = run.mmlu.accuracy, run.mmlu.stderr
    elif metric.mode == "accuracy" and run.accuracy is not None:
        score = run.accuracy.score(metric.label)
        value, error = (score.value, score.standard_error) if score else (None, None)
    if (positive := _positive(value)) is None:
        return None
    return MetricSamples((positive,), standard_error=_positive(error))


def _of_performance(metric: Metric, summary: Summary) -> MetricSamples | None:
    first = summary.run.performance
    if first is None or metric.of_run is None:
        return None
    values = [_positive(metric.of_run(repeat)) for repeat in (first, *first.repeats)]
    if values[0] is None:
        return None
    blocks = map(_positive, first.blocks.get(metric.blocks, ()))
    return MetricSamples(
        tuple(value for value in values if value is not None),
        tuple(block for block in blocks if block is not None),
    )


def _positive(value: float | None) -> float | None:
    return value if value is not None and value > 0 else None


def compare_summaries(
    baseline: Summary,
    current: Summary,
    max_regression: float = DEFAULT_MAX_REGRESSION,
    paired_errors: Mapping[str, float] | None = None,
) -> list[Change]:
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
            pairs.append((metric, then, now))
        elif then and current.run.has(metric.mode):
            vanished.append(_vanished(metric, then))
    groups = len({metric.group for metric, _, _ in pairs})
    paired = paired_errors or {}
    noises = [_noise(then, now, paired.get(metric.name)) for metric, then, now in pairs]

    def judge(shared_among: int) -> list[Change]:
        return [
            _judged(*pair, noise, max_regression, shared_among)
            for pair, noise in zip(pairs, noises, strict=True)
        ]

    changes = judge(groups)
    for shared_among in range(1, groups):
        judged = judge(shared_among)
        worse = {change.metric.group for change in judged if change.outcome == "regressed"}
        if len(worse) > groups - shared_among:
            changes = [
                shared if shared.outcome == "regressed" else alone
                for shared, alone in zip(judged, changes, strict=True)
            ]
            break
    return changes + vanished


def _vanished(metric: Metric, baseline: MetricSamples) -> Change:
    """A metric whose figure is 0 or missing although its run was made: noise cannot explain
    that."""
    return Change(metric, baseline.value, 0.0, -1.0, None, None, "regressed", "no figure now")
