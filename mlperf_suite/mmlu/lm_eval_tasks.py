"""lm-eval's own MMLU tasks, fed with questions that are already here."""

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

from mlperf_suite.datasets.mmlu_questions import Mmlu, Question
from mlperf_suite.datasets.mmlu_subjects import DOMAINS

TASK_PREFIX = "mmlu_"
GROUP_OF_DOMAIN: Mapping[str, str] = {
    domain: TASK_PREFIX + domain.lower().replace(" ", "_") for domain in DOMAINS
}
"""The names that lm-eval gives the domains."""
_TASKS = Path(lm_eval.__file__).parent / "tasks" / "mmlu" / "default"
_WRAPPER = "suite"
_PLACEHOLDER = Question("?", ("a", "b", "c", "d"), 0)


def load_tasks(data: Mmlu, chosen: Mapping[str, Sequence[int]], shots: int) -> dict[str, Any]:
    """lm-eval's tasks and groups for the chosen questions, as `lm_eval.evaluate` takes them.

    `chosen`: by subject, the numbers of the test questions. Each document of a task has its
    question's number as `id`, and the tasks hold no other questions than the chosen ones.
    """

    def documents(config_source: str, **_: object) -> DatasetDict:
        subject = Path(config_source).stem.removeprefix(TASK_PREFIX)
        test = data.test.get(subject, ())
        numbers = chosen.get(subject, ())
        return DatasetDict(
            dev=_dataset(subject, enumerate(data.dev.get(subject) or [_PLACEHOLDER])),
            test=_dataset(subject, [(n, test[n]) for n in numbers] or [(0, _PLACEHOLDER)]),
        )

    # A group that names lm-eval's is how its loader takes settings for all tasks of a group; it
    # must be in the index, as a group given to `load` gives its own members to its tasks.
    ours = {
        "group": _WRAPPER,
        "task": [{"group": "mmlu", "custom_dataset": documents, "num_fewshot": shots}],
    }
    with quiet_lm_eval():
        manager = TaskManager(include_path=str(_TASKS), include_defaults=False)
        manager.task_index[_WRAPPER] = Entry(_WRAPPER, Kind.GROUP, None, cfg=ours)
        loaded: dict[str, Any] = dict(manager.load([_WRAPPER]))
    loaded["groups"].pop(_WRAPPER)
    _drop_unchosen(loaded, chosen)
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


def _drop_unchosen(loaded: dict[str, Any], chosen: Mapping[str, Sequence[int]]) -> None:
    """Take out the tasks without a question, and the groups without a task."""
    tasks, groups = loaded["tasks"], loaded["groups"]
    for name in [n for n in tasks if not chosen.get(subject_of(n))]:
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
    """The prompt of the task's longest question, with so many worked examples."""
    longest = max(task.eval_docs, key=lambda doc: len(task.doc_to_text(doc)))
    prompt: str = task.fewshot_context(longest, num_fewshot=shots)
    return prompt


@contextlib.contextmanager
def quiet_lm_eval() -> Iterator[None]:
    """lm-eval without its log, which says for every task that its data was given to it."""
    logger = logging.getLogger("lm_eval")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
