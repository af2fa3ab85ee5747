"""The session's engine as an lm-eval model."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import lm_eval
from datasets import Dataset, DatasetDict
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.tasks import TaskManager
from lm_eval.tasks._index import Entry, Kind

from mlperf_suite.engines.protocol import ScoreRequest, ScoringEngine
from mlperf_suite.errors import UsageError
from mlperf_suite.features.mmlu.journal import Journal, QuestionKey
from mlperf_suite.features.mmlu.mmlu_questions import DOMAINS, LETTERS, Mmlu, Question
from mlperf_suite.features.mmlu.score_files import Accuracy, MmluScores, ScoredQuestion

OnScored = Callable[[QuestionKey], None]


class TokenizingLM(TemplateLM):  # type: ignore[misc]
    """A model of lm-eval that has a tokenizer, and answers nothing by itself."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    @property
    def eot_token_id(self) -> int:
        token_id: int = self.tokenizer.eos_token_id
        return token_id

    def tok_encode(self, string: Any, add_special_tokens: Any = None, **kwargs: Any) -> Any:
        """The token ids of a text, or of each of several; with BOS if the tokenizer adds one."""
        return self.tokenizer(string, add_special_tokens=add_special_tokens is not False)[
            "input_ids"
        ]

    def encode_questions(
        self, questions: list[list[tuple[str, str]]]
    ) -> Iterator[tuple[list[int], list[list[int]]]]:
        """The context and continuations of each question, split as TemplateLM splits them.

        lm-eval encodes every pair separately; here a whole subject goes through the tokenizer at
        once.
        """
        contexts = [pairs[0][0] for pairs in questions]
        if any(context != context.rstrip() or not context for context in contexts):
            for pairs in questions:
                split = [self._encode_pair(*pair) for pair in pairs]
                yield split[0][0], [continuation for _, continuation in split]
            return
        wholes = iter(self.tok_encode([c + choice for pairs in questions for c, choice in pairs]))
        for context_ids, pairs in zip(self.tok_encode(contexts), questions, strict=True):
            yield context_ids, [next(wholes)[len(context_ids) :] for _ in pairs]

    def _loglikelihood_tokens(self, requests: Any, **kwargs: Any) -> NoReturn:
        """Unused: `loglikelihood` does not need it."""
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> NoReturn:
        """Unused: no task that asks for it is run."""
        raise NotImplementedError

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        """Unused by MMLU."""
        raise NotImplementedError


class EngineLM(TokenizingLM):
    """Answers lm-eval's loglikelihood requests with an engine, and records each score in a journal.

    A question's choices share their context, so each question is one request to the engine.
    Questions in the journal are not asked again; if it has all of them, no engine is needed.
    """

    def __init__(
        self,
        engine: ScoringEngine | None,
        tokenizer: Any,
        max_model_len: int,
        journal: Journal,
        on_scored: OnScored,
    ) -> None:
        super().__init__(tokenizer)
        self._engine = engine
        self._max_model_len = max_model_len
        self._journal = journal
        self._on_scored = on_scored

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Each request's log-probability, and whether greedy decoding would produce it."""
        by_question: dict[QuestionKey, list[Instance]] = {}
        for request in requests:
            by_question.setdefault(_key(request), []).append(request)
        to_score = [key for key in by_question if key not in self._journal]
        if to_score and self._engine is not None:
            for tag, score in self._engine.score(self._encoded(to_score, by_question)):
                self._journal.add(to_score[tag], score)
                self._on_scored(to_score[tag])
        likelihoods = [self._journal[_key(r)].likelihoods[r.idx] for r in requests]
        return [(likelihood.logprob, likelihood.greedy) for likelihood in likelihoods]

    def _encoded(
        self, keys: list[QuestionKey], by_question: dict[QuestionKey, list[Instance]]
    ) -> Iterator[ScoreRequest]:
        """A request for each question, encoded one subject at a time while the engine works."""
        start = 0
        while start < len(keys):
            end = start
            while end < len(keys) and keys[end].subject == keys[start].subject:
                end += 1
            pairs = [[r.args for r in by_question[key]] for key in keys[start:end]]
            for tag, (prompt, continuations) in enumerate(self.encode_questions(pairs), start):
                request = ScoreRequest(tag, prompt, continuations)
                if request.tokens >= self._max_model_len:
                    raise UsageError(
                        f"{keys[tag].subject} question {keys[tag].id}: {request.tokens:,} tokens "
                        f"do not fit the engine's context of {self._max_model_len:,}: "
                        "show fewer examples with --mmlu-shots, or raise --max-model-len"
                    )
                yield request
            start = end


def _key(request: Instance) -> QuestionKey:
    return QuestionKey(request.doc["subject"], request.doc["id"])


# lm-eval's own MMLU tasks, fed with questions that are already loaded

TASK_PREFIX = "mmlu_"
GROUP_OF_DOMAIN: Mapping[str, str] = {
    domain: TASK_PREFIX + domain.lower().replace(" ", "_") for domain in DOMAINS
}
"""lm-eval's names for the domains."""
_TASKS = Path(lm_eval.__file__).parent / "tasks" / "mmlu" / "default"
_WRAPPER = "suite"
_PLACEHOLDER = Question("?", ("a", "b", "c", "d"), 0)


def check_room(tasks: Iterable[Any], shots: int, tokenizer: Any, max_model_len: int) -> None:
    """Raise UsageError if a subject's longest question does not fit with its examples."""
    for task in tasks:
        for fitting in range(shots, -1, -1):
            tokens = len(tokenizer(longest_prompt(task, fitting))["input_ids"])
            if fitting == shots:
                longest = tokens
            if tokens < max_model_len:
                break
        else:
            fitting = -1
        if fitting < shots:
            fits = f"--mmlu-shots {fitting} fits"
            advice = "it does not fit without examples either" if fitting < 0 else fits
            raise UsageError(
                f"--mmlu-shots {shots}: the longest question of {subject_of(task.task_name)} "
                f"takes {longest:,} tokens, and the engine's context of "
                f"{max_model_len:,} leaves room for {max_model_len - 1:,}: "
                f"{advice}; or raise --max-model-len"
            )


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
    drop_tasks(loaded, {TASK_PREFIX + subject for subject, numbers in questions.items() if numbers})
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


def drop_tasks(loaded: dict[str, Any], kept: Container[str]) -> None:
    """Remove the tasks that are not `kept`, and the groups without a task."""
    tasks, groups = loaded["tasks"], loaded["groups"]
    for name in [n for n in tasks if n not in kept]:
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


# The scores, from lm-eval's evaluation

_ACC, _STDERR = "acc,none", "acc_stderr,none"


def evaluate(lm: Any, tasks: dict[str, Any], journal: Journal) -> MmluScores:
    """Score every question of the tasks. Raises whatever the model raises."""
    with quiet_lm_eval():
        evaluation = lm_eval.evaluate(lm, tasks, bootstrap_iters=1, log_samples=True)
    results = evaluation["results"]
    counts = {name: results[name]["sample_len"] for name in tasks["tasks"]}
    groups = {
        name: sum(counts[task.task_name] for task in group.get_all_tasks())
        for name, group in tasks["groups"].items()
    }

    def accuracy(name: str) -> Accuracy:
        percent, stderr = 100 * results[name][_ACC], results[name].get(_STDERR)
        questions = counts.get(name) or groups[name]
        return Accuracy(
            percent,
            100 * float(stderr) if isinstance(stderr, float) else None,
            round(percent * questions / 100),
            questions,
        )

    return MmluScores(
        accuracy("mmlu"),
        {d: accuracy(name) for d, name in GROUP_OF_DOMAIN.items() if name in groups},
        {name.removeprefix(TASK_PREFIX): accuracy(name) for name in sorted(counts)},
        tuple(_sample(s, journal) for name in sorted(counts) for s in evaluation["samples"][name]),
    )


def _sample(logged: Mapping[str, Any], journal: Journal) -> ScoredQuestion:
    key = QuestionKey(logged["doc"]["subject"], logged["doc"]["id"])
    score = journal[key]
    # The first maximum, as lm-eval chooses an answer (numpy.argmax).
    logprobs = [response[0] for response in logged["filtered_resps"]]
    return ScoredQuestion(
        key,
        LETTERS[logged["target"]],
        LETTERS[logprobs.index(max(logprobs))],
        logged["acc"] == 1.0,
        score.latency_ms,
        score.tokens,
        score.cached_tokens,
        tuple(logprobs),
    )
