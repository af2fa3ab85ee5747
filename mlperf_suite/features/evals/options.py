"""The options of lm-eval's tasks, and the tasks that they select."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from mlperf_suite.option_specs import (
    COUNT_OR_AUTO,
    TRUE_OR_FALSE,
    OptionSpec,
    Values,
    folder,
    or_auto,
    switch,
)

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

EMBEDDED_TASKS = ("embedded_facts", "embedded_sums")
"""The tasks of a smoke session that names none: one for each type of request."""
_TASK = re.compile(r"([A-Za-z_][\w.+-]{0,199})(?:@(\d{1,3}))?", re.ASCII)


def _tasks(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    tasks = {name.partition("@")[0] for name in names}
    if len(tasks) < len(names) or not all(_TASK.fullmatch(name) for name in names):
        raise ValueError(text)
    return names


def _existing_folder(text: str) -> str:
    if not folder(text).is_dir():
        raise ValueError(text)
    return str(folder(text).resolve())


_FOLDER = Values(_existing_folder, "must be a folder")
_option = partial(OptionSpec, section="Tasks of lm-eval")

OPTIONS = {
    "task": _option(
        "tasks and groups of lm-eval with commas between, each with the number of worked examples "
        "if it is not the task's own: mmlu_pro,gsm8k@8; a smoke session has embedded ones",
        Values(_tasks, "must be names with commas between, each once and with @SHOTS if wanted"),
        identifies=None,
    ),
    "task_folder": _option(
        "a folder of tasks of your own, in lm-eval's format; its Python functions are run",
        _FOLDER,
        identifies=None,
    ),
    "task_data": _option(
        "a folder with copies of data sets of the Hugging Face hub, as OWNER/NAME or NAME, which "
        "are then read in place of the hub's",
        _FOLDER,
        identifies=None,
    ),
    "limit": _option(
        "total number of documents of each --task, drawn from all of its documents, the same ones "
        "each time; auto uses all",
        COUNT_OR_AUTO,
        "auto",
        identifies="evals",
        reported_as="questions",
    ),
    "task_chat_template": _option(
        "whether prompts are messages in the model's chat template, each worked example a turn of "
        "its own; auto does as the task's metadata say (chat_template), which lm-eval's lack",
        or_auto(TRUE_OR_FALSE),
        "auto",
        identifies="evals",
    ),
    "task_resume": switch(
        "continue the most recent interrupted run of each --task",
        section="Tasks of lm-eval",
        identifies=None,
    ),
}


def shots_by_task(settings: Settings) -> dict[str, int | None]:
    """The selected tasks, with the number of worked examples that the user chose, if any."""
    return shots_of(settings.feature_options["task"] or (EMBEDDED_TASKS if settings.smoke else ()))


def shots_of(names: Iterable[str]) -> dict[str, int | None]:
    """The same of these values of --task."""
    parts = (name.partition("@") for name in names)
    return {name: int(shots) if shots else None for name, _, shots in parts}
