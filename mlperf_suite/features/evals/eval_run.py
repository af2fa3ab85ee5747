"""Answers the documents of a task on a session's engine."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import lm_eval

from mlperf_suite.engines.protocol import Engine, RemoteEngine, ScoringEngine
from mlperf_suite.features.evals.eval_key import EVALS
from mlperf_suite.features.evals.eval_results import EvalRecord, scores_of
from mlperf_suite.features.evals.eval_rules import EvalFacts
from mlperf_suite.features.evals.lm_eval_tasks import EvalTask
from mlperf_suite.features.evals.task_lm import TaskJournal, TaskLM, open_journal
from mlperf_suite.features.mmlu.engine_lm import quiet_lm_eval
from mlperf_suite.features.mmlu.journal import JOURNAL_NAME, system_of
from mlperf_suite.results.run_folder import ENGINE_LOG
from mlperf_suite.rules import judge
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Step


@dataclass
class EvalRun:
    """Makes the scores of a session's tasks, one after the other."""

    inputs: Inputs
    engines: Engines
    display: ProgressDisplay

    def make(self, step: Step, result: EvalRecord) -> object:
        """Load the engine, or answer every document. Raises SuiteError or OSError."""
        log = result.folder.path / ENGINE_LOG
        engine = self.engines.get("scoring", log, "for tasks of lm-eval")
        if step.kind == "load":
            return engine.description
        if result.task.needs_scores and not isinstance(engine, ScoringEngine):
            why = f"{engine.description.name} gives no log-probabilities to score with"
            result.verdicts = judge(EvalFacts(result.task.planned, no_score_reason=why))
            return result
        settings = self.inputs.settings
        system = system_of(settings, engine.description, EVALS)
        folder = result.folder.path
        with contextlib.closing(
            open_journal(folder / JOURNAL_NAME, system, result.task.name)
        ) as journal:
            taken = 0
            if settings.feature_options["task_resume"]:
                taken = journal.go_on(settings.results_dir, folder)
            self._answer(engine, journal, result, taken)
        facts = EvalFacts(
            result.task.planned,
            len(result.scores.documents) if result.scores else 0,
            result.departures,
        )
        result.verdicts = judge(facts)
        return result

    def _answer(self, engine: Engine, journal: TaskJournal, record: EvalRecord, taken: int) -> None:
        """Answer and score every document. `taken`: the answers in the journal."""
        if isinstance(engine, RemoteEngine):
            engine.take_remote_run()
        record.resumed = taken
        lm = self._lm(engine, journal, record, taken)
        cached, start_s = lm.cached_prompt_tokens, time.perf_counter()
        evaluation = evaluate(lm, record.task)
        record.elapsed_s = time.perf_counter() - start_s
        record.scores = scores_of(record.task, evaluation)
        answers = [journal[key] for key in dict.fromkeys(lm.asked)]
        record.asked_sha256, record.requests = lm.asked_sha256, len(answers)
        record.resumed = min(taken, len(answers))
        record.prompt_tokens = sum(answer.prompt_tokens for answer in answers)
        record.cached_tokens = sum(answer.cached_tokens for answer in answers)
        record.cached_tokens += lm.cached_prompt_tokens - cached
        record.generated_tokens = sum(answer.tokens for answer in answers)
        record.cut = sum(answer.cut for answer in answers)
        if isinstance(engine, RemoteEngine):
            record.departures = engine.take_remote_run().departures

    def _lm(self, engine: Engine, journal: TaskJournal, record: EvalRecord, taken: int) -> TaskLM:
        task, inputs = record.task, self.inputs
        self.display.begin(task.name, task.planned)

        def tell(place: str) -> None:
            self.display.items(len(journal), task.planned, place.partition(",")[0])

        silence_s = inputs.settings.engine_silence
        return TaskLM(engine, inputs.tokenizer, inputs.eos_token_ids, journal, silence_s, tell)


def evaluate(lm: Any, task: EvalTask) -> Any:
    """What lm-eval makes of a task with any model: scores, and a sample for each document."""
    with quiet_lm_eval():
        return lm_eval.evaluate(
            lm,
            task.loaded,
            samples=task.samples,
            # The standard errors are made of the documents' scores.
            bootstrap_iters=0,
            apply_chat_template=task.as_chat,
            fewshot_as_multiturn=task.as_chat,
        )
