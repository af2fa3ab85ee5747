"""The session's engine as an lm-eval model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM

from mlperf_suite.engines.scoring import ScoreRequest, ScoringEngine
from mlperf_suite.errors import UsageError
from mlperf_suite.mmlu.journal import Journal, Key
from mlperf_suite.mmlu.lm_eval_tasks import longest_prompt, subject_of

OnScored = Callable[[Key], None]


class EngineLM(TemplateLM):  # type: ignore[misc]
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
        super().__init__()
        self.tokenizer = tokenizer
        self._engine = engine
        self._max_model_len = max_model_len
        self._journal = journal
        self._on_scored = on_scored

    @property
    def eot_token_id(self) -> int:
        token_id: int = self.tokenizer.eos_token_id
        return token_id

    def tok_encode(self, string: Any, add_special_tokens: Any = None, **kwargs: Any) -> Any:
        """The token ids of a text, or of each of several; with BOS if the tokenizer adds one."""
        return self.tokenizer(string, add_special_tokens=add_special_tokens is not False)[
            "input_ids"
        ]

    def check_room(self, tasks: Iterable[Any], shots: int) -> None:
        """Raise UsageError if a subject's longest question does not fit with its examples."""
        for task in tasks:
            for fitting in range(shots, -1, -1):
                tokens = len(self.tok_encode(longest_prompt(task, fitting)))
                if fitting == shots:
                    longest = tokens
                if tokens < self._max_model_len:
                    break
            else:
                fitting = -1
            if fitting < shots:
                subject = subject_of(task.task_name)
                raise UsageError(self._no_room(subject, shots, longest, fitting))

    def _no_room(self, subject: str, shots: int, longest: int, fitting: int) -> str:
        fits = (
            "it does not fit without examples either"
            if fitting < 0
            else f"--mmlu-shots {fitting} fits"
        )
        return (
            f"--mmlu-shots {shots}: the longest question of {subject} takes {longest:,} tokens, "
            f"and the engine's context of {self._max_model_len:,} leaves room for "
            f"{self._max_model_len - 1:,}: {fits}; or raise --max-model-len"
        )

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Each request's log-probability, and whether greedy decoding would produce it."""
        by_question: dict[Key, list[Instance]] = {}
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
        self, keys: list[Key], by_question: dict[Key, list[Instance]]
    ) -> Iterator[ScoreRequest]:
        """A request for each question, encoded one subject at a time while the engine works."""
        start = 0
        while start < len(keys):
            end = start
            while end < len(keys) and keys[end].subject == keys[start].subject:
                end += 1
            pairs = [[r.args for r in by_question[key]] for key in keys[start:end]]
            for tag, (prompt, continuations) in enumerate(self._encode_questions(pairs), start):
                request = ScoreRequest(tag, prompt, continuations)
                if request.tokens >= self._max_model_len:
                    raise UsageError(
                        f"{keys[tag].subject} question {keys[tag].id}: {request.tokens:,} tokens "
                        f"do not fit the engine's context of {self._max_model_len:,}: "
                        "show fewer examples with --mmlu-shots, or raise --max-model-len"
                    )
                yield request
            start = end

    def _encode_questions(
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
        """Unused by MMLU."""
        raise NotImplementedError

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> NoReturn:
        """Unused by MMLU."""
        raise NotImplementedError


def _key(request: Instance) -> Key:
    return Key(request.doc["subject"], request.doc["id"])
