"""lm-eval's tasks as it defines them: their documents, the draw of some, data from local folders.

Sources: lm_eval 0.4.13, tasks/manager.py and tasks/_factory.py (how a task is found and read),
evaluator.py (`simple_evaluate`: shots, the seed of worked examples).
"""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import datasets
import lm_eval
from lm_eval.tasks import TaskManager
from lm_eval.tasks._factory import TaskFactory
from lm_eval.tasks._index import Kind

from mlperf_suite.assets import nltk_data_dir
from mlperf_suite.errors import UsageError, one_line
from mlperf_suite.features.mmlu.engine_lm import drop_tasks, quiet_lm_eval
from mlperf_suite.scorers.rouge import check_punkt
from mlperf_suite.settings import Settings

EMBEDDED = Path(__file__).parent / "embedded"
_OF_LM_EVAL = Path(lm_eval.__file__).parent / "tasks"
_FEWSHOT_SEED = 1234
"""lm-eval's default, `simple_evaluate(fewshot_random_seed)`."""
_REQUESTS = ("multiple_choice", "loglikelihood", "generate_until")
_GENERATION = {
    *("until", "do_sample", "temperature", "top_p", "top_k"),
    *("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"),
}
"""The generation settings of tasks that an engine is asked for."""
_FILES = ("json", "csv", "parquet", "text")
"""datasets' builders of files, whose names say nothing of the data."""


@dataclass(frozen=True)
class EvalTask:
    """A task or a group, ready for `lm_eval.evaluate`.

    `loaded`: tasks and groups. `available`: the number of documents of each task. `chosen`: the
    numbers of those that are answered. `shots`: None if its tasks have different numbers.
    """

    name: str
    loaded: dict[str, Any]
    available: Mapping[str, int]
    chosen: Mapping[str, Sequence[int]]
    shots: int | None
    data: str
    as_chat: bool

    @property
    def planned(self) -> int:
        """The number of documents to answer."""
        return sum(map(len, self.chosen.values()))

    @property
    def samples(self) -> dict[str, list[int]] | None:
        """The documents in the form that lm-eval takes; None means all."""
        if self.planned == sum(self.available.values()):
            return None
        return {name: list(numbers) for name, numbers in self.chosen.items()}

    @property
    def meta(self) -> dict[str, Any]:
        """What the meta of its summary says of them."""
        return {"dataset": self.data, "questions": self.planned, "shots": self.shots}

    @cached_property
    def needs_scores(self) -> bool:
        """Whether a request asks for likelihoods."""
        return any(task.OUTPUT_TYPE != "generate_until" for task in self.loaded["tasks"].values())


def read_task(name: str, shots: int | None, settings: Settings) -> EvalTask:
    """Read a task of lm-eval, embedded or of --task-folder, with its documents.

    Raises UsageError if there is none, its data cannot be read, or it asks for what no engine here
    answers.
    """
    own = settings.feature_options
    try:
        with quiet_lm_eval():
            datasets.disable_progress_bars()
            _show_nltk_data()
            manager = _manager(name, own["task_folder"])
            manager._factory = _LocalData(own["task_data"], settings.token)
            loaded = dict(manager.load(name))
            for task in loaded["tasks"].values():
                _check(name, task)
                _set_shots(name, task, shots)
            if "nltk" in sys.modules:
                check_punkt()
            available = {n: len(task.eval_docs) for n, task in loaded["tasks"].items()}
    except UsageError:
        raise
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--task {name}: it needs the Python module {error.name}, which is not installed: "
            f"pip install {_package(name, error.name)}"
        ) from error
    # A task is another project's code on others' data.
    except Exception as error:
        advice = "; --task-data FOLDER reads a copy" if isinstance(error, ConnectionError) else ""
        raise UsageError(
            f"--task {name}: cannot be read: {type(error).__name__}: {one_line(error)}{advice}"
        ) from error
    chosen = draw(name, available, own["limit"])
    drop_tasks(loaded, chosen)
    tasks = loaded["tasks"].values()
    counts = {task.config.num_fewshot for task in tasks}
    asks = [bool(task.config.metadata.get("chat_template")) for task in tasks]
    as_chat = own["task_chat_template"]
    return EvalTask(
        name,
        loaded,
        available,
        chosen,
        counts.pop() if len(counts) == 1 else None,
        ", ".join(dict.fromkeys(str(task.config.metadata.get("data")) for task in tasks)),
        all(asks) if as_chat is None else as_chat,
    )


def _show_nltk_data() -> None:
    """lm-eval's tasks look for NLTK's data as soon as they are read; without this they would not
    find that of the set-up, and miss it only when all answers are there."""
    own, folders = str(nltk_data_dir()), os.environ.get("NLTK_DATA", "").split(os.pathsep)
    if own not in folders:
        os.environ["NLTK_DATA"] = os.pathsep.join([*filter(None, folders), own])
    # NLTK reads the variable when it is imported.
    if (nltk := sys.modules.get("nltk")) and own not in nltk.data.path:
        nltk.data.path.append(own)


def _package(task: str, module: str | None) -> str:
    """What pip calls the modules that a task needs: lm-eval names those of some."""
    extras = importlib.metadata.metadata("lm_eval").get_all("Provides-Extra") or ()
    return f"'lm_eval[{task}]'" if task in extras else str(module)


def draw(name: str, available: Mapping[str, int], limit: int | None) -> dict[str, list[int]]:
    """The documents of each task that are answered, by number: all, or `limit` of them together,
    each as likely as any other and the same in every session. A smaller limit takes some of those
    that a larger one takes."""
    places = [(task, number) for task, count in available.items() for number in range(count)]
    if limit is not None:
        random.Random(f"the documents of {name}").shuffle(places)  # noqa: S311 - no secret
        places = places[:limit]
    by_task: dict[str, list[int]] = {task: [] for task in available}
    for task, number in sorted(places):
        by_task[task].append(number)
    return {task: numbers for task, numbers in by_task.items() if numbers}


def _manager(name: str, folder: str | None) -> TaskManager:
    """An index that has a task with all its parts. That of every task of lm-eval takes half a
    minute, so the folder of the task's name is tried before."""
    own = [str(EMBEDDED), *([folder] if folder else [])]
    beside = _OF_LM_EVAL / name
    paths = [*([str(beside)] if beside.is_dir() else []), *own]
    manager = TaskManager(include_path=paths, include_defaults=False)
    if _is_whole(name, manager):
        return manager
    manager = TaskManager(include_path=own)
    if name not in manager.task_index:
        near = difflib.get_close_matches(name, manager.all_tasks, 1, 0.0)[0]
        raise UsageError(f"--task {name}: no such task; the nearest is {near}")
    return manager


def _is_whole(name: str, manager: TaskManager) -> bool:
    """Whether an index has a task, or a group with all its members."""
    entry = manager.task_index.get(name)
    members = (entry.cfg or {}).get("task") if entry else None
    return entry is not None and all(_is_whole(n, manager) for n in _names(members))


def _names(members: object) -> Iterator[str]:
    """The tasks and groups that a group names."""
    for member in members if isinstance(members, list) else ():
        if isinstance(member, Mapping) and not isinstance(member.get("task"), list):
            yield str(member.get("group") or member.get("task"))
        elif isinstance(member, Mapping):
            yield from _names(member["task"])
        else:
            yield str(member)


class _LocalData(TaskFactory):  # type: ignore[misc]
    """Reads tasks with data from local files: those beside a task's own file, and those of
    --task-data in place of the hub's."""

    def __init__(self, folder: str | None, token: str | None) -> None:
        super().__init__()
        self._folder = folder
        self._token = token

    def _load_full_config(self, entry: Any, overrides: Any = None) -> dict[str, Any]:
        config: dict[str, Any] = super()._load_full_config(entry, overrides)
        if entry.kind is Kind.GROUP:
            return config
        data, beside = str(config.get("dataset_path")), Path(entry.yaml_path or "").parent
        arguments = dict(config.get("dataset_kwargs") or {})
        config["metadata"]["data"] = beside.name if data in _FILES else data
        if "data_files" in arguments:
            arguments["data_files"] = _beside(arguments["data_files"], beside)
        if copy := self._copy(data):
            # datasets finds the parts of a copy in its README; without one, in its folders.
            part = copy / str(config.get("dataset_name"))
            if not (copy / "README.md").exists() and part.is_dir():
                config["dataset_name"] = None
                copy = part
            config["dataset_path"] = str(copy)
        elif self._token and data not in _FILES:
            arguments["token"] = self._token
        config["dataset_kwargs"] = arguments
        return config

    def _copy(self, data: str) -> Path | None:
        places = (data, data.rpartition("/")[2]) if self._folder and data not in _FILES else ()
        folders = (Path(self._folder or "") / place for place in places)
        return next((folder for folder in folders if folder.is_dir()), None)


def _beside(files: Any, folder: Path) -> Any:
    """data_files with the paths of those that are in a folder."""
    if isinstance(files, Mapping):
        return {split: _beside(names, folder) for split, names in files.items()}
    if isinstance(files, list):
        return [_beside(name, folder) for name in files]
    return str(folder / files) if (folder / files).exists() else files


def _check(name: str, task: Any) -> None:
    """Raise UsageError for a task that asks for what no engine here answers."""
    if task.OUTPUT_TYPE not in _REQUESTS:
        raise UsageError(
            f"--task {name}: {task.task_name} asks for {task.OUTPUT_TYPE}, which is not supported: "
            f"must be {', '.join(_REQUESTS)}"
        )
    if getattr(task, "UNSAFE_CODE", False):
        raise UsageError(f"--task {name}: {task.task_name} runs the model's programs unprotected")
    if getattr(task, "MULTIMODAL", False):
        raise UsageError(
            f"--task {name}: {task.task_name} has pictures or sound, which is not sent"
        )
    settings = task.config.generation_kwargs or {}
    if others := sorted(set(settings) - _GENERATION):
        raise UsageError(
            f"--task {name}: {task.task_name} asks for {', '.join(others)}, which engines are not "
            f"asked for: only {', '.join(sorted(_GENERATION))}"
        )


def _set_shots(name: str, task: Any, shots: int | None) -> None:
    """Set the number of worked examples, and the seed that chooses them. As in lm-eval, a task
    without examples takes none; it is refused here instead of ignored."""
    own = task.config.num_fewshot
    if shots and own == 0:
        raise UsageError(f"--task {name}@{shots}: {task.task_name} is a task without examples")
    task.set_config("num_fewshot", (own or 0) if shots is None else shots)
    task.set_fewshot_seed(_FEWSHOT_SEED)
