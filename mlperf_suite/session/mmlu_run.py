"""One MMLU run of a session: its folder, journal, scores and verdicts."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from mlperf_suite import __version__
from mlperf_suite.benchmarks.percentile import percentile
from mlperf_suite.datasets.mmlu_questions import CHANCE, Mmlu, load_mmlu
from mlperf_suite.engines.protocol import Engine, EngineDescription
from mlperf_suite.engines.scoring import ScoringEngine
from mlperf_suite.errors import RunError, SuiteError
from mlperf_suite.hardware import describe_system
from mlperf_suite.mmlu.evaluation import Accuracy, Sample, Scores, evaluate
from mlperf_suite.mmlu.journal import JOURNAL_NAME, Journal, Key, read_journal
from mlperf_suite.mmlu.shares import Shares, split
from mlperf_suite.results.baseline import MMLU_KIND
from mlperf_suite.results.comparability import Aspect, identity_of
from mlperf_suite.results.run_folder import (
    CONFIG_JSON,
    ENDED,
    ENGINE_LOG,
    SUMMARY_JSON,
    RunFolder,
    read_summary,
    run_folders,
)
from mlperf_suite.results.schema import (
    MMLU,
    Config,
    EngineFacts,
    Meta,
    MmluFigures,
    MmluScore,
    Run,
    Summary,
)
from mlperf_suite.rules import judge
from mlperf_suite.rules.mmlu_rules import MmluFacts
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.executor import Made
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import MmluKey
from mlperf_suite.session.recorder import Baselines, label_of, publish, unwritten

OnProgress = Callable[[int, int, str], None]
"""Called with the questions scored, the questions in all, and the subject of the last one."""


_ASPECTS: tuple[Aspect, ...] = ("engine", "release")
"""What must be the same for scores to be of one system: neither the hardware nor the batches."""


@dataclass(frozen=True, slots=True)
class Share:
    """One of several engines' part: how many questions it was given and how many it scored."""

    planned: int
    scored: int


class MmluRun:
    """Makes the session's MMLU score, with its folder, journal and verdicts.

    `shares`: set if several engines score it, each on its own worker.
    """

    def __init__(
        self,
        inputs: Inputs,
        engines: Engines,
        baselines: Baselines,
        on_progress: OnProgress,
        shares: Shares | None = None,
    ) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._engines = engines
        self._baselines = baselines
        self._shares = shares
        self._on_progress = on_progress
        self._elapsed_s: float | None = None
        self._resumed = 0
        self.started = datetime.now(UTC).astimezone()
        self.folder: RunFolder | None = None
        self.failure: str | None = None
        self.scores: Scores | None = None
        self.verdicts: list[Verdict] = []

    def check(self) -> None:
        """Read the questions. Raises UsageError for unusable data or shots."""
        _ = self.shots

    @cached_property
    def data(self) -> Mmlu:
        return load_mmlu(self._settings.mmlu_data, self._settings.token)

    @cached_property
    def shots(self) -> int:
        return self.data.shots(self._settings.mmlu_shots)

    @cached_property
    def chosen(self) -> dict[str, range]:
        """The numbers of the questions to score, by subject."""
        return self.data.selection(self._settings.mmlu_limit)

    @property
    def planned(self) -> int:
        return sum(map(len, self.chosen.values()))

    def maker(self, key: MmluKey) -> Made:
        """Return what the executor calls to make the score."""
        folder = RunFolder(self._settings.results_dir, MMLU, None, self.started)
        self.folder = folder
        journals: list[Journal] = []

        def keep(failure: str | None) -> None:
            self.failure = failure
            try:
                self._keep(journals)
            finally:
                folder.give_up_room()

        return Made(lambda: self._make(journals), keep, self.folder.path)

    def _make(self, journals: list[Journal]) -> None:
        assert self.folder is not None
        self._write()
        engine = self._load_engine(0, self.folder.path / ENGINE_LOG)
        if not isinstance(engine, ScoringEngine):
            self.verdicts = judge(MmluFacts(self.planned, unscored=_no_scores(engine)))
            return
        journal = self._journal(engine, self.folder.path / JOURNAL_NAME)
        journals.append(journal)
        started = time.perf_counter()
        if self._shares is not None:
            self._merge_shares(engine, journal, self._shares)
        self.scores = self._score(engine, journal, self.chosen)
        self._elapsed_s = time.perf_counter() - started
        self.verdicts = judge(
            MmluFacts(
                self.planned,
                self._settings.model,
                scored=len(self.scores.samples),
                accuracy=self.scores.overall.accuracy,
                questions=self.scores.overall.questions,
                min_accuracy=self._settings.mmlu_min_accuracy,
            )
        )

    @cached_property
    def _wanted(self) -> frozenset[Key]:
        return frozenset(Key(s, number) for s, numbers in self.chosen.items() for number in numbers)

    def _load_engine(self, share: int, log_file: Path) -> Engine:
        if self._shares is not None and not self._engines.is_loaded("scoring"):
            self._shares.use_gpus(share)
        return self._engines.get("scoring", log_file)

    def score_share(self, index: int) -> Share:
        """Score a share other than the first, for the worker that makes the run to merge.

        Raises SuiteError after reporting the failure to that worker.
        """
        assert self._shares is not None
        chosen = split(self.chosen, self._shares.count)[index]
        failure: str | None = "interrupted"
        try:
            path = self._shares.journal(index)
            engine = self._load_engine(index, self._shares.engine_log(index))
            with contextlib.closing(self._journal(engine, path)) as journal:
                scores = self._score(engine, journal, chosen)
            failure = None
        except SuiteError as error:
            failure = str(error)
            raise
        finally:
            self._shares.end(index, failure)
        return Share(sum(map(len, chosen.values())), len(scores.samples))

    def _merge_shares(self, engine: Engine, journal: Journal, shares: Shares) -> None:
        """Score the first share and merge what the others scored, even if they did not finish."""
        assert self.folder is not None
        try:
            self._score(engine, journal, split(self.chosen, shares.count)[0])
            shares.wait()
        finally:
            for path in shares.journals():
                journal.add_from(path, self._wanted)
            shares.clear(self.folder.path)

    def _journal(self, engine: Engine, path: Path) -> Journal:
        """A new journal, empty or with the scores that --mmlu-resume takes from an earlier run."""
        of = {
            **self._identity(engine.description),
            "data": self.data.sha256,
            "shots": self.shots,
        }
        journal = Journal(path, of)
        if self._settings.mmlu_resume:
            self._resumed = self._take_over(journal, path.parent, of)
        return journal

    def _identity(self, description: EngineDescription) -> dict[str, object]:
        """What identifies the system that scores, as JSON."""
        facts = EngineFacts(**dataclasses.asdict(description))
        config = Config(settings=self._settings.as_json(), engine=facts)
        return identity_of(config, Summary(meta=Meta(benchmark=MMLU))).values(_ASPECTS)

    def _take_over(self, journal: Journal, own: Path, of: Mapping[str, object]) -> int:
        """Take over the scores of the newest matching run unless it finished; return how many."""
        for earlier in run_folders(self._settings.results_dir):
            scored = earlier / JOURNAL_NAME
            if earlier == own or not read_journal(scored, of):
                continue
            summary = read_summary(earlier)
            ended = summary is not None and summary.meta.status in ENDED
            return 0 if ended else journal.add_from(scored, self._wanted)
        return 0

    def _score(
        self, engine: Engine, journal: Journal, chosen: Mapping[str, Sequence[int]]
    ) -> Scores:
        from mlperf_suite.mmlu.engine_lm import EngineLM
        from mlperf_suite.mmlu.lm_eval_tasks import load_tasks

        if not isinstance(engine, ScoringEngine):
            raise RunError(_no_scores(engine))
        tasks = load_tasks(self.data, chosen, self.shots)
        room = engine.description.max_model_len
        lm = EngineLM(engine, self._inputs.tokenizer, room, journal, self._heard(journal))
        lm.check_room(tasks["tasks"].values(), self.shots)
        return evaluate(lm, tasks, journal)

    def _heard(self, journal: Journal) -> Callable[[Key], None]:
        return lambda key: self._on_progress(len(journal), self.planned, key.subject)

    def _keep(self, journals: Sequence[Journal]) -> None:
        """Write the run; if it failed, with the scores that the journal holds.

        `journals`: the run's journal, closed here; empty if the run did not begin.
        """
        for journal in journals:
            journal.close()
            if self.failure is None or not len(journal):
                continue
            from mlperf_suite.mmlu.engine_lm import EngineLM
            from mlperf_suite.mmlu.lm_eval_tasks import load_tasks

            scored: dict[str, list[int]] = {}
            for key in sorted(journal, key=lambda key: (key.subject, key.id)):
                scored.setdefault(key.subject, []).append(key.id)
            tasks = load_tasks(self.data, scored, self.shots)
            lm = EngineLM(None, self._inputs.tokenizer, 0, journal, lambda key: None)
            self.scores = evaluate(lm, tasks, journal)
        self._write()

    def _write(self) -> None:
        """Write what is known so far: scores, config, summary, report, index.

        Raises OSError if something cannot be written; summary.json then says so, if it can be
        written itself.
        """
        assert self.folder is not None
        try:
            self._write_all()
        except OSError as error:
            self.failure = self.failure or unwritten(error, self.folder.path)
            with contextlib.suppress(OSError):
                self.folder.last_word(self.summary())
            raise

    def _write_all(self) -> None:
        from mlperf_suite.mmlu.score_files import write_details, write_scores
        from mlperf_suite.reports.writing import write_reports

        assert self.folder is not None
        path = self.folder.path
        if self.scores is not None:
            about = {"planned": self.planned, "chance": CHANCE, **self._about()}
            title = f"MMLU, {self._settings.model}, {self.shots} shots: {self._label}"
            write_scores(path, self.scores, about, title)
            if self._settings.mmlu_details:
                write_details(path / "details.jsonl", self.scores, self.data)
        self.folder.write(CONFIG_JSON, self._config_json())
        self.folder.write(SUMMARY_JSON, self.summary().as_json())
        write_reports(path)
        # If nothing was scored, nothing is replaced.
        keep_all = self._settings.keep_all or self.scores is None
        publish(self.folder, self.status, keep_all, self._baselines)

    def _about(self) -> dict[str, Any]:
        return {
            "shots": self.shots,
            "subjects": len(self.scores.by_subject) if self.scores else 0,
            "data": self.data.name,
            "model": self._settings.model,
            "lm_eval_version": importlib.metadata.version("lm_eval"),
        }

    def _config_json(self) -> dict[str, Any]:
        questions = {"dev": self.data.dev, "test": self.data.test}
        description = self._engines.descriptions.get("scoring")
        return {
            "suite_version": __version__,
            "settings": self._settings.as_json(),
            "engine": dataclasses.asdict(description) if description else None,
            "dataset": {
                "name": self.data.name,
                **{split: sum(map(len, of.values())) for split, of in questions.items()},
                "sha256": self.data.sha256,
            },
            "shots": self.shots,
            "system": describe_system(),
        }

    @property
    def _label(self) -> str:
        return label_of(self._settings.label, self._engines.descriptions.get("scoring"))

    @property
    def status(self) -> str:
        """failed (did not finish), running, invalid (a rule failed), or complete."""
        if self.failure is not None:
            return "failed"
        if not self.verdicts:
            return "running"
        return "invalid" if any(v.status == "failed" for v in self.verdicts) else "complete"

    def summary(self) -> Summary:
        """The summary so far, with the regression gate's verdict."""
        assert self.folder is not None
        settings, plot = self._settings, "plots/score_by_subject.png"
        summary = Summary(
            meta=Meta(
                benchmark=MMLU,
                model=settings.model,
                dataset=self.data.name,
                questions=self.planned,
                shots=self.shots,
                round=settings.round.name,
                profile=settings.profile,
                label=self._label,
                started=self.started.isoformat(timespec="seconds"),
                node_name=settings.node_name,
                status=self.status,
                reason=self.failure,
            ),
            system=dict(describe_system()),
            run=Run(mmlu=self._figures()),
            verdicts=tuple(self.verdicts),
            plots=(plot,) if (self.folder.path / plot).is_file() else (),
        )
        baseline = self._baselines.get(MMLU_KIND)
        if baseline is None or self.scores is None:
            return summary
        judged = baseline.judge(
            summary,
            self.folder.path,
            settings.max_regression,
            allow_different=settings.baseline_allow_different,
        )
        return dataclasses.replace(summary, regression=judged)

    def _figures(self) -> MmluFigures | None:
        """The score in percent and the measurements; rates only if all was scored in this run."""
        if self.scores is None:
            return None
        samples = self.scores.samples
        asked_now = len(samples) - self._resumed
        return MmluFigures(
            **asdict(_score_figures(self.scores.overall)),
            **self._about(),
            planned=self.planned,
            resumed=self._resumed,
            elapsed_s=self._elapsed_s,
            questions_per_sec=asked_now / self._elapsed_s if self._elapsed_s else None,
            tokens=sum(s.tokens for s in samples),
            cached_tokens=sum(s.cached_tokens for s in samples),
            latency_ms=latency_percentiles(samples),
            by_domain={d: _score_figures(a) for d, a in self.scores.by_domain.items()},
        )


def _no_scores(engine: Engine) -> str:
    return f"{engine.description.name} gives no log-probabilities to score with"


def _score_figures(accuracy: Accuracy) -> MmluScore:
    return MmluScore(**accuracy.as_json())


def latency_percentiles(samples: Sequence[Sample]) -> dict[str, float]:
    """The p50, p90, p99 and maximum of the measured latencies, in ms."""
    values = sorted(s.latency_ms for s in samples)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {n: percentile(values, share) for n, share in shares.items()} | {"max": values[-1]}
