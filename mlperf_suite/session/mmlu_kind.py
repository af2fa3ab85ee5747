"""The MMLU score, which is of no benchmark's scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.session.run_kind import Maker, Place, RunKind, Selection, Step

if TYPE_CHECKING:
    from mlperf_suite.mmlu.score_files import MmluRecord
    from mlperf_suite.results.schema import Summary
    from mlperf_suite.rules.verdict import Verdict
    from mlperf_suite.session.recorder import Recorder
    from mlperf_suite.session.session_parts import SessionParts
    from mlperf_suite.session.timing.estimate import Estimator

_QUESTION_TOKENS = 110
"""The mean length of a question with its choices, in tokens."""
_UNCACHED_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class MmluKey:
    """The MMLU score; a session makes one."""

    kind: ClassVar[str] = "mmlu"
    benchmark: ClassVar[str] = "mmlu"
    scenario: ClassVar[str] = ""
    mode: ClassVar[Mode] = "accuracy"

    @property
    def place(self) -> Place:
        return self.benchmark, self.scenario

    def __str__(self) -> str:
        return "MMLU"


MMLU = MmluKey()


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
        questions, shots = estimator.mmlu()
        tokens = _QUESTION_TOKENS * (1 + shots * _UNCACHED_SHARE)
        return questions * estimator.speed.batch_s([round(tokens)], 1.0)

    def check(self, keys: Sequence[MmluKey], session: SessionParts) -> None:
        _ = session.inputs.mmlu

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.session.mmlu_run import MmluRun

        return MmluRun(session.inputs, session.engines, session.on_mmlu, session.shares)

    # The result

    def result(self, key: MmluKey, recorder: Recorder, started: datetime) -> MmluRecord:
        from mlperf_suite.mmlu.score_files import MmluRecord

        return MmluRecord(recorder.inputs.mmlu, recorder.new_folder("mmlu", None, started), started)

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
        result.write_scores(settings.model, label, details=settings.mmlu_details)
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
        from mlperf_suite.mmlu.score_files import SUBJECTS_PLOT

        about = recorder.about(
            "scoring",
            benchmark=self.name,
            dataset=result.task.data.name,
            questions=result.task.planned,
            shots=result.task.shots,
            started=result.started.isoformat(timespec="seconds"),
            ended=result.ended,
            status=result.status,
            reason=result.failure,
        )
        figures = result.figures(recorder.inputs.settings.model)
        has_plot = (result.folder.path / SUBJECTS_PLOT).is_file()
        return dataclasses.replace(
            about,
            run=dataclasses.replace(about.run, mmlu=figures),
            verdicts=tuple(result.verdicts),
            plots=(SUBJECTS_PLOT,) if has_plot else (),
        )


KIND = MmluKind()
