"""The score of a task of lm-eval, which is of no benchmark's scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mlperf_suite.features.evals.eval_key import EVALS, EvalKey
from mlperf_suite.features.evals.options import shots_by_task, shots_of
from mlperf_suite.session.run_kind import Maker, RunKind, Selection, Step
from mlperf_suite.session.timing.forecast import has_results

if TYPE_CHECKING:
    from mlperf_suite.features.evals.eval_results import EvalRecord
    from mlperf_suite.features.evals.lm_eval_tasks import EvalTask
    from mlperf_suite.results.schema import Summary
    from mlperf_suite.rules.verdict import Verdict
    from mlperf_suite.session.executor import Session, SessionParts
    from mlperf_suite.session.recorder import Recorder
    from mlperf_suite.session.timing.estimate import Estimator
    from mlperf_suite.settings import Settings

Tasks = Mapping[str, "EvalTask"]
_EMBEDDED = {"embedded_facts": (40, 29, 1.0), "embedded_sums": (40, 112, 4.0)}
"""The number of documents, and the mean tokens of a document's prompts and answer."""


class EvalKind(RunKind[EvalKey]):
    name, rank, role, long_steps = EVALS, 5, "scoring", (EVALS,)

    def subject(self, key: EvalKey) -> str:
        return EVALS

    def order(self, key: EvalKey) -> tuple[Any, ...]:
        return self.rank, key.task

    def is_at_a_rate(self, key: EvalKey) -> bool:
        return False

    def steps(
        self, keys: Sequence[EvalKey], selection: Selection
    ) -> Mapping[EvalKey, Sequence[Step]]:
        engine = "load the engine for tasks of lm-eval, with a prefix cache"
        words = "connect to the endpoint for tasks of lm-eval" if selection.remote else engine
        # All tasks have one engine.
        steps = {key: [Step(EVALS, key, f"{key.task} through lm-eval")] for key in keys}
        for first in sorted(keys, key=self.order)[:1]:
            steps[first].insert(0, Step("load", first, words))
        return steps

    def knows_seconds(self, step: Step) -> bool:
        return True

    def seconds(self, step: Step, key: EvalKey, estimator: Estimator) -> float | None:
        """By the documents/s of the last run of the task; before one, the lengths of its prompts
        and answers are known only of the embedded ones."""
        settings, speed, usual = estimator.settings, estimator.speed, _EMBEDDED.get(key.task)
        limit, shots = settings.feature_options["limit"], shots_by_task(settings)[key.task]
        if last := _last_run(key.task, settings):
            documents, rate = last
            return min(limit or documents, documents) / rate
        if speed is None or usual is None or shots is not None:
            return None
        documents, prompt_tokens, answer_tokens = usual
        return speed.batch_s([prompt_tokens] * min(limit or documents, documents), answer_tokens)

    def inputs(self, settings: Settings) -> Tasks:
        from mlperf_suite.features.evals.lm_eval_tasks import read_task

        shots = shots_by_task(settings)
        return {name: read_task(name, count, settings) for name, count in shots.items()}

    def meta(self, key: EvalKey, session: Session) -> dict[str, Any]:
        tasks: Tasks = session.inputs.of_kind(self.name)
        return tasks[key.task].meta

    def check(self, keys: Sequence[EvalKey], session: SessionParts) -> None:
        session.inputs.of_kind(self.name)

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.features.evals.eval_run import EvalRun

        return EvalRun(session.inputs, session.engines, session.display)

    # The result

    def result(self, key: EvalKey, recorder: Recorder, started: datetime) -> EvalRecord:
        from mlperf_suite.features.evals.eval_results import EvalRecord

        task = recorder.inputs.of_kind(self.name)[key.task]
        folder = recorder.new_folder(EVALS, key.task, started)
        return EvalRecord(task=task, folder=folder, started=started)

    def end(self, key: EvalKey, result: EvalRecord, failure: str | None) -> None:
        result.died = failure

    def verdicts(self, key: EvalKey, result: EvalRecord) -> list[Verdict]:
        return result.verdicts

    def replaces_others(self, result: EvalRecord) -> bool:
        return result.scores is not None

    def write(self, recorder: Recorder, result: EvalRecord) -> None:
        from mlperf_suite.features.evals.eval_results import write_documents
        from mlperf_suite.results.run_folder import CONFIG_JSON

        task = result.task
        if result.scores is not None:
            write_documents(result.folder.path, result.scores)
        content = {
            **recorder.about_json("scoring"),
            "settings": recorder.inputs.settings.as_json(),
            "dataset": {
                "name": task.data,
                "documents": dict(task.available),
                "sha256": result.asked_sha256,
            },
            "shots": task.shots,
            "chat_template": task.as_chat,
        }
        result.folder.write(CONFIG_JSON, content)

    def summary(self, recorder: Recorder, result: EvalRecord) -> Summary:
        from mlperf_suite.features.evals.figures import PART

        about = recorder.about(
            "scoring",
            benchmark=EVALS,
            scenario=result.task.name,
            **result.task.meta,
            started=result.started.isoformat(timespec="seconds"),
            ended=result.ended,
            status=result.status,
            reason=result.failure,
        )
        figures = result.figures(recorder.inputs.settings.model)
        return dataclasses.replace(
            about,
            parts={PART: figures} if figures else {},
            verdicts=tuple(result.verdicts),
        )


def _last_run(task: str, settings: Settings) -> tuple[int, float] | None:
    """All documents and the documents/s of the last whole run of a task, with the same examples and
    template, on this system; None if none was kept."""
    if not has_results(settings):
        return None
    from mlperf_suite.features.evals.figures import evals_of
    from mlperf_suite.results.run_folder import read_summary
    from mlperf_suite.results.schema import Config, Summary
    from mlperf_suite.session.timing.earlier_runs import runs_of_this_system

    asked = settings.feature_options["task_chat_template"], shots_by_task(settings)[task]
    for folder, content in runs_of_this_system(settings):
        figures, then = evals_of(read_summary(folder) or Summary()), Config.read(content).settings
        if figures is None or figures.task != task:
            continue
        shots = shots_of(then.get("task") or ()).get(task), figures.shots
        is_alike = asked in [(then.get("task_chat_template"), number) for number in shots]
        if is_alike and figures.available and figures.documents_per_sec:
            return figures.available, figures.documents_per_sec
    return None


KIND = EvalKind()
