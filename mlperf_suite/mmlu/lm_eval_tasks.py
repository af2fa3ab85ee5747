"""lm-eval's own MMLU tasks, fed with questions that are already loaded."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import lm_eval
from datasets import Dataset, DatasetDict
from lm_eval.tasks import TaskManager
from lm_eval.tasks._index import Entry, Kind

from mlperf_suite.datasets.mmlu_questions import DOMAINS, Mmlu, Question

TASK_PREFIX = "mmlu_"
GROUP_OF_DOMAIN: Mapping[str, str] = {
    domain: TASK_PREFIX + domain.lower().replace(" ", "_") for domain in DOMAINS
}
"""lm-eval's names for the domains."""
_TASKS = Path(lm_eval.__file__).parent / "tasks" / "mmlu" / "default"
_WRAPPER = "suite"
_PLACEHOLDER = Question("?", ("a", "b", "c", "d"), 0)


def load_tasks(data: Mmlu, questions: Mapping[str, Sequence[int]], shots: int) -> dict[str, Any]:
    """lm-eval's tasks and groups for the chosen questions, in the form that `lm_eval.evaluate`
    takes.

    `questions`: by subject, the numbers of the test questions. Each document of a task has its
    question's number as `id`, and the tasks contain only the chosen questions.
    """

    def documents(config_source: str, **_: object) -> DatasetDict:
        subject = Path(config_source).stem.removeprefix(TASK_PREFIX)
        test = data.test.get(subject, ())
        numbers = questions.get(subject, ())
        return DatasetDict(
            dev=_dataset(subject, enumerate(data.dev.get(subject) or [_PLACEHOLDER])),
            test=_dataset(subject, [(n, test[n]) for n in numbers] or [(0, _PLACEHOLDER)]),
        )

    # lm-eval's loader takes settings for all tasks of a group from a group that names it. The group
    # must be in the index: one passed to `load` adds its own members to its tasks.
    wrapper = {
        "group": _WRAPPER,
        "task": [{"group": "mmlu", "custom_dataset": documents, "num_fewshot": shots}],
    }
    with quiet_lm_eval():
        manager = TaskManager(include_path=str(_TASKS), include_defaults=False)
        manager.task_index[_WRAPPER] = Entry(_WRAPPER, Kind.GROUP, None, cfg=wrapper)
        loaded: dict[str, Any] = dict(manager.load([_WRAPPER]))
    loaded["groups"].pop(_WRAPPER)
    _drop_unchosen(loaded, questions)
    return loaded


def _dataset(subject: str, questions: Any) -> Dataset:
    return Dataset.from_list(
        [
            {
                "id": number,
                "subject": subject,
                "question": question.question,
                "choices": list(question.choices),
                "answer": question.answer,
            }
            for number, question in questions
        ]
    )


def _drop_unchosen(loaded: dict[str, Any], questions: Mapping[str, Sequence[int]]) -> None:
    """Remove the tasks without a question, and the groups without a task."""
    tasks, groups = loaded["tasks"], loaded["groups"]
    for name in [n for n in tasks if not questions.get(subject_of(n))]:
        del tasks[name]
        for group in groups.values():
            group.pop(name)
    for name in [n for n, group in groups.items() if not group.get_all_tasks()]:
        del groups[name]
        for group in groups.values():
            group.pop(name)
    loaded["group_map"] = {name: group.child_names for name, group in groups.items()}


def subject_of(task_name: str) -> str:
    return task_name.removeprefix(TASK_PREFIX)


def longest_prompt(task: Any, shots: int) -> str:
    """The prompt of the task's longest question, with `shots` worked examples."""
    longest = max(task.eval_docs, key=lambda doc: len(task.doc_to_text(doc)))
    prompt: str = task.fewshot_context(longest, num_fewshot=shots)
    return prompt


@contextlib.contextmanager
def quiet_lm_eval() -> Iterator[None]:
    """Silence lm-eval's log, which reports for every task that its data was passed in."""
    logger = logging.getLogger("lm_eval")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
