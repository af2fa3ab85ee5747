"""Scores MMLU on a session's engine, or a share of it on each of several workers' engines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.engines.protocol import Engine, ScoringEngine
from mlperf_suite.errors import RunError, SuiteError
from mlperf_suite.features.mmlu.journal import JOURNAL_NAME, Journal, QuestionKey, system_of
from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.features.mmlu.mmlu_rules import MmluFacts
from mlperf_suite.features.mmlu.score_files import MmluRecord, MmluScores, MmluTask
from mlperf_suite.features.mmlu.shares import Shares, split_subjects
from mlperf_suite.results.run_folder import ENGINE_LOG
from mlperf_suite.rules import judge
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Step


@dataclass(frozen=True, slots=True)
class Share:
    """One of several engines' part: how many questions it was given and how many it scored."""

    planned: int
    scored: int


@dataclass
class MmluRun:
    """Makes the session's MMLU score.

    `shares`: set if several engines score it, each on its own worker.
    """

    inputs: Inputs
    engines: Engines
    display: ProgressDisplay
    task: MmluTask
    shares: Shares | None = None

    def make(self, step: Step, result: MmluRecord) -> object:
        """Load the engine that scores, or score every question. Raises SuiteError or OSError."""
        if step.kind == "load":
            return self._load_engine(0, result.folder.path / ENGINE_LOG).description
        return self._score_all(result)

    def _score_all(self, record: MmluRecord) -> MmluRecord:
        """Score every question and complete the record.

        If it fails, the record keeps the scores by then. Raises SuiteError or OSError.
        """
        engine, task = self.engines.loaded("scoring"), record.task
        if not isinstance(engine, ScoringEngine):
            record.verdicts = judge(MmluFacts(task.planned, no_score_reason=_no_scores(engine)))
            return record
        folder = record.folder.path
        with contextlib.closing(self._journal(engine, folder / JOURNAL_NAME)) as journal:
            if self.inputs.settings.feature_options["mmlu_resume"]:
                record.resumed = self._go_on(journal, folder)
            start_s = time.perf_counter()
            try:
                if self.shares is not None:
                    self._merge_shares(engine, journal, self.shares, folder)
                record.scores = self._score(engine, journal, task.chosen)
            except BaseException:
                # The reason of the failure counts more than the scores that were there.
                with contextlib.suppress(Exception):
                    record.scores = self._score_so_far(journal)
                raise
        record.elapsed_s = time.perf_counter() - start_s
        record.verdicts = judge(
            MmluFacts(
                task.planned,
                self.inputs.settings.model,
                scored=len(record.scores.samples),
                accuracy=record.scores.overall.accuracy,
                questions=record.scores.overall.questions,
                min_accuracy=self.inputs.settings.feature_options["mmlu_min_accuracy"],
            )
        )
        return record

    def _load_engine(self, share: int, log_file: Path) -> Engine:
        if self.shares is not None and not self.engines.is_loaded("scoring"):
            self.shares.use_gpus(share)
        return self.engines.get("scoring", log_file, f"for {MMLU}")

    def score_share(self, index: int) -> Share:
        """Score a share other than the first, for the worker that makes the run to merge.

        Raises SuiteError after reporting the failure to that worker.
        """
        assert self.shares is not None
        questions = split_subjects(self.task.chosen, self.shares.count)[index]
        failure: str | None = "interrupted"
        try:
            path = self.shares.journal(index)
            engine = self._load_engine(index, self.shares.engine_log(index))
            with contextlib.closing(self._journal(engine, path)) as journal:
                if self.inputs.settings.feature_options["mmlu_resume"]:
                    self._go_on(journal, path.parent)
                scores = self._score(engine, journal, questions)
            failure = None
        except SuiteError as error:
            failure = str(error)
            raise
        finally:
            self.shares.end(index, failure)
        return Share(sum(map(len, questions.values())), len(scores.samples))

    def _merge_shares(self, engine: Engine, journal: Journal, shares: Shares, folder: Path) -> None:
        """Score the first share and merge what the others scored, even if they did not finish."""
        task = self.task
        try:
            self._score(engine, journal, split_subjects(task.chosen, shares.count)[0])
            shares.wait()
        finally:
            for path in shares.journals():
                journal.add_from(path, task.keys)
            shares.clear(folder)

    def _journal(self, engine: Engine, path: Path) -> Journal:
        """A new, empty journal of what this engine scores."""
        task = self.task
        system = system_of(self.inputs.settings, engine.description, MMLU.benchmark)
        return Journal(path, {**system, "data": task.data.sha256, "shots": task.shots})

    def _go_on(self, journal: Journal, own: Path) -> int:
        return journal.go_on(self.inputs.settings.results_dir, own, self.task.keys)

    def _score(
        self, engine: Engine | None, journal: Journal, questions: Mapping[str, Sequence[int]]
    ) -> MmluScores:
        """Score the questions; without an engine, take the journal's scores."""
        from mlperf_suite.features.mmlu.engine_lm import EngineLM, check_room, evaluate, load_tasks

        if engine is not None and not isinstance(engine, ScoringEngine):
            raise RunError(_no_scores(engine))
        task = self.task
        tasks = load_tasks(task.data, questions, task.shots)
        room = engine.description.max_model_len if engine else 0

        def tell(key: QuestionKey) -> None:
            self.display.items(len(journal), task.planned, key.subject)

        lm = EngineLM(engine, self.inputs.tokenizer, room, journal, tell)
        if engine is not None:
            check_room(tasks["tasks"].values(), task.shots, self.inputs.tokenizer, room)
            self.display.begin(str(MMLU), task.planned)
        return evaluate(lm, tasks, journal)

    def _score_so_far(self, journal: Journal) -> MmluScores | None:
        """The scores of the questions that a failed run has in its journal, None without any."""
        questions: dict[str, list[int]] = {}
        for key in sorted(journal, key=lambda key: (key.subject, key.id)):
            questions.setdefault(key.subject, []).append(key.id)
        return self._score(None, journal, questions) if questions else None


def _no_scores(engine: Engine) -> str:
    return f"{engine.description.name} gives no log-probabilities to score with"
