"""The baseline that the regression gate compares with: read once, compared at each write.

--baseline names a run's folder or only a summary.json. A folder also has each answer's score, which
shows how far two runs' scores differ by chance, and the engine's description of itself.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite import strict_json
from mlperf_suite.errors import UsageError
from mlperf_suite.results import typed_json
from mlperf_suite.results.comparability import Aspect, Identity, differences, identity_of
from mlperf_suite.results.regression import (
    COMPARISONS,
    Metric,
    compare_summaries,
    feature_gates,
    has_figures,
    metrics_of,
    metrics_of_features,
    samples_of,
    unusable_figures,
)
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_config, read_object, write_json
from mlperf_suite.results.schema import (
    ChangeFigures,
    Config,
    RegressionFigures,
    Summary,
    version_fault,
)
from mlperf_suite.rules.verdict import in_words

_ANSWER_SCORES = "_samples.json"
AT_A_RATE = ("Server", "Interactive")
"""The scenarios whose queries come at a rate."""
_SAME_RATE, _SAME_LENGTH = 1.01, 2.0
"""The factors by which the rates and the lengths of two runs may differ."""
_ASPECTS: tuple[Aspect, ...] = ("measurement", "engine", "capacity")
"""What a run and its baseline must have in common. The versions need not be the same: the gate is
there to judge new ones."""


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """A baseline: its name as the user gave it, its summary, and its folder, if any.

    `option`: the text that messages put before the name.
    """

    label: str
    summary: Summary
    folder: Path | None
    option: str = ""

    @property
    def kind(self) -> tuple[str, str]:
        """Benchmark id and scenario, see `Meta.kind`."""
        return self.summary.meta.kind

    @property
    def name(self) -> str:
        """What the run is called: by --label, or else its folder."""
        folder = self.folder.resolve().name if self.folder else Path(self.label).name
        return in_words(self.summary.meta.run_name or folder)

    @property
    def config(self) -> Config | None:
        """The run's config.json, None if there is none."""
        content = read_config(self.folder) if self.folder else None
        return None if content is None else Config.read(content)

    @property
    def has_engine_facts(self) -> bool:
        """Whether its engine described itself, so that another one would show."""
        return self.config is not None and self.config.engine is not None

    def metrics(self, mode: str) -> tuple[Metric, ...]:
        """The metrics of one mode (performance, accuracy or a feature's) that the baseline has
        figures for."""
        metrics = metrics_of([self.summary])
        return tuple(m for m in metrics if m.mode == mode and samples_of(m, self.summary))

    @property
    def identity(self) -> Identity:
        return identity_of(self.config, self.summary)

    def check(
        self, current: Summary, rate: float | None = None, config: Config | None = None
    ) -> None:
        """Raise UsageError that names the differences between this baseline and a run.

        `current`, `config`: the run's summary and config.json, as far as they are known before the
        run is made. `rate`: that of Server's queries in queries/s, None if the run is to choose its
        own.
        """
        different = self.differences(identity_of(config, current), planned=True)
        run = self.summary.run.performance
        sent = run.target_qps if run and self.summary.meta.scenario in AT_A_RATE else None
        if sent and (rate is None or _factor(rate, sent) > _SAME_RATE):
            different.append(
                f"rate of queries: only --server-target-qps {sent:g} is the baseline's"
            )
        if different:
            raise UsageError(self.refusal(different))

    def differences(self, current: Identity, *, planned: bool = False) -> list[str]:
        """What makes a run incomparable with this baseline, in words, of facts that both have: the
        run may not be made yet, as one that is `planned`, and the baseline be of an older suite."""
        sides = self.identity, current, _ASPECTS
        return [
            f"{fact.name}: baseline {fact.first}, this run {fact.second}"
            for fact in differences(*sides, known_to_both=True, planned=planned)
        ]

    def refusal(self, different: Sequence[str]) -> str:
        return (
            f"{self.option}{self.label}: not comparable: {'; '.join(different)} "
            "(--baseline-allow-different compares anyway)"
        )

    def judge(
        self,
        current: Summary,
        folder: Path,
        max_regression: float,
        *,
        allow_different: bool = False,
        comparisons: int = COMPARISONS,
    ) -> RegressionFigures:
        """Compare each metric, or say why nothing was compared.

        `folder`: the run's own, with its config.json and its answers' scores. `comparisons`: how
        many the job makes.
        """
        different = self.differences(identity_of(Config.read(read_config(folder)), current))
        different += load_differences(self.summary, current)
        different += differences_of_features(self.summary, current)
        refusal = self.refusal(different) if different and not allow_different else None
        sides = ((self.label, self.summary), ("this run", current))
        if reasons := [f"{name}: {side.spoiled}" for name, side in sides if side.spoiled]:
            refusal = "; ".join(reasons)
        changes: list[ChangeFigures] = []
        if refusal is None:
            paired = _paired_errors(self.folder, folder) if self.folder else {}
            changes = compare_summaries(self.summary, current, max_regression, paired, comparisons)
        return RegressionFigures(
            baseline=self.label,
            baseline_started=self.summary.meta.started,
            max_regression=max_regression,
            refused=refusal,
            different=tuple(different) if allow_different else (),
            metrics=tuple(changes),
        )

    @property
    def faults(self) -> list[str]:
        """Why a comparison with this run could not show a loss, a few words each."""
        meta, run = self.summary.meta, self.summary.run.performance
        faults = [] if meta.status == "complete" else [f"its status is {meta.status}, not complete"]
        faults += unusable_figures(self.summary)
        if meta.scenario in AT_A_RATE and run and run.target_qps is None:
            faults.append("its rate of queries is not known")
        planned = self.config.settings.get("repeat") if self.config else None
        repeats = 1 + len(run.repeats) if run else 0
        if run and isinstance(planned, int) and repeats < planned:
            faults.append(f"it has {repeats} of {planned} repeats")
        return faults


def load_differences(baseline: Summary, current: Summary) -> list[str]:
    """How the load of two performance runs differs: the rate at which queries come bounds tokens/s
    and determines latency, and much of a short run is its start and its end."""
    before, now = baseline.run.performance, current.run.performance
    if before is None or now is None:
        return []
    lines = []
    rates = before.target_qps, now.target_qps
    if current.meta.scenario in AT_A_RATE and _factor(*rates) > _SAME_RATE:
        lines.append(
            f"the baseline was sent {rates[0]:g} queries/s and this run {rates[1]:g}: "
            f"only pytest --server-target-qps {rates[0]:g} makes them comparable"
        )
    durations = before.duration_s, now.duration_s
    tokens = before.total_new_tokens, now.total_new_tokens
    # A slower system takes longer or, where it sizes its own query, generates less: not both less.
    if min(_factor(*durations), _factor(*tokens)) > _SAME_LENGTH:
        lengths = [f"{t:,} tokens in {s:,.6g} s" for t, s in zip(tokens, durations, strict=True)]
        lines.append(f"length of the run: baseline {lengths[0]}, this run {lengths[1]}")
    return lines


def differences_of_features(baseline: Summary, current: Summary) -> list[str]:
    """What makes two runs incomparable of what features measured."""
    return [line for gate in feature_gates() for line in gate.differences(baseline, current)]


def _factor(first: float | None, second: float | None) -> float:
    """By what factor two figures differ, 1 if one is not known."""
    if not first or not second or min(first, second) <= 0:
        return 1.0
    return max(first, second) / min(first, second)


def load_baseline(
    path: Path, option: str = "--baseline ", *, needs_figures: bool = True
) -> BaselineRun:
    """Read a baseline. Raises UsageError if there is none or it lacks the required figures.

    `option`: the text that errors put before the path.
    """
    path = path.expanduser()
    if path.is_symlink():
        # For results/latest: resolve it now, since it will point to this run later.
        beside = path.parent / Path(os.path.realpath(path)).name
        path = beside if beside.exists() and beside.samefile(path) else Path(os.path.realpath(path))
    file = path / SUMMARY_JSON if path.is_dir() else path
    try:
        content = strict_json.load(file)
    except OSError as error:
        raise UsageError(f"{option}{path}: {file.name}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{option}{path}: {file.name} is not JSON") from error
    if not isinstance(content, dict) or not isinstance(content.get("meta"), dict):
        raise UsageError(f"{option}{path}: {file.name} is not the summary of a run")
    if fault := version_fault(content):
        raise UsageError(f"{option}{path}: {file.name} has {fault}")
    summary = Summary.read(content)
    if needs_figures and not has_figures(summary):
        status = summary.meta.status
        raise UsageError(f"{option}{path}: the run has no figures to compare ({status})")
    folder = file.parent if file.name == SUMMARY_JSON else None
    return BaselineRun(str(path), summary, folder, option)


def load_baselines(paths: Iterable[Path]) -> dict[tuple[str, str], BaselineRun]:
    """Baselines by benchmark id and scenario.

    Raises UsageError, also for two of one kind and for a run that did not finish.
    """
    baselines: dict[tuple[str, str], BaselineRun] = {}
    for path in paths:
        baseline = load_baseline(path)
        status = baseline.summary.meta.status
        if status in ("failed", "running"):
            raise UsageError(
                f"--baseline {path}: the run did not finish (status {status}): choose one that did"
            )
        if baseline.summary.no_result:
            again = "choose another run, or make it again as its report says"
            raise UsageError(f"--baseline {path}: {baseline.summary.no_result}: {again}")
        earlier = baselines.setdefault(baseline.kind, baseline)
        if earlier is not baseline:
            raise UsageError(
                f"--baseline {path}: {earlier.label} is already the baseline of "
                f"{baseline.summary.meta.title}"
            )
    return baselines


def write_answer_scores(
    folder: Path, scorer: str, per_answer: Mapping[str, Sequence[float | None]], dataset_sha256: str
) -> None:
    """Write each answer's scores, in the scores' units and in the data's order.

    `scorer`: its name; the file is <scorer>_samples.json. Nothing is written if no score applies to
    single answers; null is written for an answer that a score does not apply to.
    """
    if per_answer:
        scores = {name: list(values) for name, values in per_answer.items()}
        content = {"dataset_sha256": dataset_sha256, "scores": scores}
        write_json(folder / f"{scorer}{_ANSWER_SCORES}", content)


_AnswerScores = dict[str, dict[object, float]]
"""By metric, the score of each answer, in percent."""


def _paired_errors(baseline: Path, current: Path) -> dict[str, float]:
    """By metric, the standard error of the mean difference of the scores of the same answers."""
    (then_data, then), (now_data, now) = (answer_scores(folder) for folder in (baseline, current))
    errors = {}
    for name, old in then.items():
        new = now.get(name, {})
        if then_data == now_data and len(old) > 1 and old.keys() == new.keys():
            spread = statistics.stdev(old[key] - new[key] for key in old)
            errors[name] = spread / math.sqrt(len(old))
    return errors


@dataclass(frozen=True, slots=True)
class _ScoreFile:
    dataset_sha256: str
    scores: dict[str, tuple[float | None, ...]]


def answer_scores(folder: Path) -> tuple[object, _AnswerScores]:
    """A fingerprint of the data and, by metric in lower case, each answer's score in percent.

    An answer's key is its index in the data, or what a feature's metric tells answers apart by.
    """
    by_metric: _AnswerScores = {}
    fingerprint: str | None = None
    for path in sorted((folder / "Accuracy").glob(f"*{_ANSWER_SCORES}")):
        if (content := typed_json.read(_ScoreFile, read_object(path))) is None:
            continue
        fingerprint = content.dataset_sha256
        for name, scores in content.scores.items():
            by_metric[name.lower()] = {n: s for n, s in enumerate(scores) if s is not None}
    for metric in metrics_of_features():
        if metric.of_answers is not None and (own := metric.of_answers(folder)):
            fingerprint = Config.read(read_config(folder)).dataset.sha256
            by_metric[metric.name] = own
    return fingerprint, by_metric
