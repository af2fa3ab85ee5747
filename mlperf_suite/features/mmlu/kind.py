"""The MMLU score, which is of no benchmark's scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mlperf_suite.features.mmlu.key import MMLU, MmluKey
from mlperf_suite.session.run_kind import Maker, RunKind, Selection, Step

if TYPE_CHECKING:
    from mlperf_suite.features.mmlu.score_files import MmluRecord, MmluTask
    from mlperf_suite.results.schema import Summary
    from mlperf_suite.rules.verdict import Verdict
    from mlperf_suite.session.executor import Session, SessionParts
    from mlperf_suite.session.inputs import Inputs
    from mlperf_suite.session.recorder import Recorder
    from mlperf_suite.session.timing.estimate import Estimator
    from mlperf_suite.settings import Settings

_QUESTION_TOKENS = 110
"""The mean length of a question with its choices, in tokens."""
_UNCACHED_SHARE = 0.1
_QUESTIONS, _SHOTS = {True: 171, False: 14_042}, {True: 1, False: 5}
"""The number of questions and of shots, by whether the questions are the embedded ones."""


class MmluKind(RunKind[MmluKey]):
    name, rank, role, long_steps = MmluKey.kind, 4, "scoring", ("mmlu",)

    def subject(self, key: MmluKey) -> str:
        return "mmlu"

    def order(self, key: MmluKey) -> tuple[Any, ...]:
        return (self.rank,)

    def is_at_a_rate(self, key: MmluKey) -> bool:
        return False

    def steps(
        self, keys: Sequence[MmluKey], selection: Selection
    ) -> Mapping[MmluKey, Sequence[Step]]:
        engine = "load the engine for MMLU, with a prefix cache"
        words = "connect to the endpoint for MMLU" if selection.remote else engine
        return {
            key: [Step("load", key, words), Step("mmlu", key, "MMLU through lm-eval")]
            for key in keys
        }

    def seconds(self, step: Step, key: MmluKey, estimator: Estimator) -> float | None:
        """Of each question its own tokens, with examples mostly from the cache."""
        assert estimator.speed is not None
        questions, shots = _size(estimator)
        tokens = _QUESTION_TOKENS * (1 + shots * _UNCACHED_SHARE)
        return questions * estimator.speed.batch_s([round(tokens)], 1.0)

    def inputs(self, settings: Settings) -> MmluTask:
        from mlperf_suite.features.mmlu.mmlu_questions import load_mmlu
        from mlperf_suite.features.mmlu.score_files import MmluTask

        own = settings.feature_options
        data = load_mmlu(own["mmlu_data"], settings.token)
        selection = data.selection(own["mmlu_limit"], own["mmlu_subset"])
        return MmluTask(data, data.shots(own["mmlu_shots"]), selection)

    def meta(self, key: MmluKey, session: Session) -> dict[str, Any]:
        task: MmluTask = session.inputs.of_kind(self.name)
        return task.meta

    def check(self, keys: Sequence[MmluKey], session: SessionParts) -> None:
        session.inputs.of_kind(self.name)

    def check_context(self, keys: Sequence[MmluKey], inputs: Inputs, context: int) -> None:
        from mlperf_suite.features.mmlu.engine_lm import check_room, load_tasks

        task: MmluTask = inputs.of_kind(self.name)
        tasks = load_tasks(task.data, task.chosen, task.shots)["tasks"]
        check_room(tasks.values(), task.shots, inputs.tokenizer, context)

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.features.mmlu.mmlu_run import MmluRun

        task = session.inputs.of_kind(self.name)
        return MmluRun(session.inputs, session.engines, session.display, task)

    # The result

    def result(self, key: MmluKey, recorder: Recorder, started: datetime) -> MmluRecord:
        from mlperf_suite.features.mmlu.score_files import MmluRecord

        task = recorder.inputs.of_kind(self.name)
        folder = recorder.new_folder(key.benchmark, None, started)
        return MmluRecord(task=task, folder=folder, started=started)

    def end(self, key: MmluKey, result: MmluRecord, failure: str | None) -> None:
        result.died = failure

    def verdicts(self, key: MmluKey, result: MmluRecord) -> list[Verdict]:
        return result.verdicts

    def replaces_others(self, result: MmluRecord) -> bool:
        return result.scores is not None

    def write(self, recorder: Recorder, result: MmluRecord) -> None:
        from mlperf_suite.results.run_folder import CONFIG_JSON

        settings = recorder.inputs.settings
        label = recorder.engines.label("scoring")
        result.write_scores(settings.model, label, details=settings.feature_options["mmlu_details"])
        data = result.task.data
        questions = {"dev": data.dev, "test": data.test}
        content = {
            **recorder.about_json("scoring"),
            "settings": settings.as_json(),
            "dataset": {
                "name": data.name,
                **{part: sum(map(len, of.values())) for part, of in questions.items()},
                "sha256": data.sha256,
            },
            "shots": result.task.shots,
        }
        result.folder.write(CONFIG_JSON, content)

    def summary(self, recorder: Recorder, result: MmluRecord) -> Summary:
        from mlperf_suite.features.mmlu.figures import PART
        from mlperf_suite.features.mmlu.score_files import SUBJECTS_PLOT

        about = recorder.about(
            "scoring",
            benchmark=self.name,
            **result.task.meta,
            started=result.started.isoformat(timespec="seconds"),
            ended=result.ended,
            status=result.status,
            reason=result.failure,
        )
        figures = result.figures(recorder.inputs.settings.model)
        has_plot = (result.folder.path / SUBJECTS_PLOT).is_file()
        return dataclasses.replace(
            about,
            parts={PART: figures} if figures else {},
            verdicts=tuple(result.verdicts),
            plots=(SUBJECTS_PLOT,) if has_plot else (),
        )


def _size(estimator: Estimator) -> tuple[int, int]:
    """The number of questions and of shots: of the data, or what they usually are before it is
    read."""
    task: MmluTask | None = estimator.of_kind(MMLU.kind)
    if task is not None:
        return task.planned, task.shots
    own = estimator.settings.feature_options
    embedded, shots = own["mmlu_data"] == "embedded", own["mmlu_shots"]
    return own["mmlu_limit"] or _QUESTIONS[embedded], _SHOTS[embedded] if shots is None else shots


KIND = MmluKind()
