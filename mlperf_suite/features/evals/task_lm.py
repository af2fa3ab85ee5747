"""The session's engine as an lm-eval model of likelihoods and of generated answers."""

from __future__ import annotations

import hashlib
import itertools
import json
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import AnswerCollector
from mlperf_suite.engines.protocol import (
    CountsCachedTokens,
    Engine,
    Request,
    ScoreRequest,
    ScoringEngine,
    Tokens,
)
from mlperf_suite.errors import UsageError
from mlperf_suite.features.mmlu.engine_lm import TokenizingLM
from mlperf_suite.features.mmlu.journal import LineJournal

_AT_ONCE, _SENT_TOGETHER = 512, 64
"""Generated answers that the engine has at once, enough to fill every step, and that are sent with
one call."""
_LONGEST = 256
"""The tokens of an answer whose task says no limit, as in lm-eval's backends."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What the engine answered to one request.

    `content`: of each continuation its log-probability and whether it is greedy, or a generated
    text. `tokens`: the generated ones. `cut`: whether the text ended at its limit of tokens.
    """

    content: Any
    prompt_tokens: int
    cached_tokens: int
    tokens: int = 0
    cut: bool = False


class TaskJournal(LineJournal[str, TaskAnswer]):
    """The answered requests, by the fingerprint of what was asked."""

    def line(self, key: str, entry: TaskAnswer) -> Mapping[str, object]:
        return {"asked": key, **{name: getattr(entry, name) for name in TaskAnswer.__slots__}}

    def entry(self, line: Mapping[str, Any]) -> tuple[str, TaskAnswer]:
        return line["asked"], TaskAnswer(**{name: line[name] for name in TaskAnswer.__slots__})


def open_journal(path: Path, system: Mapping[str, object], task: str) -> TaskJournal:
    """A new, empty journal of what a system answers to a task."""
    return TaskJournal(path, {**system, "task": task})


@dataclass(frozen=True, slots=True)
class _Question:
    """Continuations of one context. `place`: the document, for people."""

    key: str
    place: str
    context: str
    continuations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A request for text. `until`: the texts that end it, without which it is kept."""

    key: str
    place: str
    context: str
    generation: Generation
    until: tuple[str, ...]
    stop: str


class _ArrivingAnswers(AnswerCollector):
    """Hands on each answer as it comes."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.arrived: deque[Tokens] = deque()

    def finished(self, answers: Sequence[Tokens]) -> None:
        self.arrived.extend(answers)
        super().finished(answers)


class TaskLM(TokenizingLM):
    """Answers lm-eval's requests with an engine, and records each answer in a journal.

    Requests in the journal are not asked again. `end_ids`: the tokens that end an answer.
    `asked`: the fingerprints of all requests, in lm-eval's order. `on_answer`: called with the
    place of each answer.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Any,
        end_ids: Sequence[int],
        journal: TaskJournal,
        silence_s: float,
        on_answer: Callable[[str], None],
    ) -> None:
        super().__init__(tokenizer)
        self.asked: list[str] = []
        self._engine = engine
        self._end_ids = end_ids
        self._journal = journal
        self._silence_s = silence_s
        self._on_answer = on_answer

    @property
    def asked_sha256(self) -> str:
        """A fingerprint of everything that was asked: documents, examples, template, settings."""
        return hashlib.sha256("".join(self.asked).encode()).hexdigest()

    # Prompts

    @property
    def tokenizer_name(self) -> str:
        return str(self.tokenizer.name_or_path)

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The messages as text. Raises UsageError if the model has no template for them."""
        try:
            text: str = self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        # A template is a program of the model's authors.
        except Exception as error:
            raise UsageError(f"--task-chat-template: the model's template: {error}") from error
        return text

    def tok_encode(self, string: Any, add_special_tokens: Any = None, **kwargs: Any) -> Any:
        """As TokenizingLM, but without a second BOS where a chat template wrote one."""
        first = string if isinstance(string, str) else next(iter(string), "")
        bos = self.tokenizer.bos_token
        if add_special_tokens is None and bos and first.startswith(bos):
            add_special_tokens = False
        return super().tok_encode(string, add_special_tokens, **kwargs)

    def _check_room(self, place: str, tokens: int, answer: int) -> None:
        room = self._engine.description.max_model_len
        if tokens + answer > room:
            raise UsageError(
                f"{place}: a prompt of {tokens:,} tokens and {answer:,} of the answer do not fit "
                f"the engine's context of {room:,}: raise --max-model-len, or show fewer examples "
                "with --task NAME@SHOTS"
            )

    # Likelihoods

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Each request's log-probability, and whether greedy decoding would produce it.

        The continuations of a document's context are one request to the engine.
        """
        together: dict[tuple[str, str], dict[str, None]] = {}
        for request in requests:
            context, continuation = request.args
            together.setdefault((_place(request), context), {})[continuation] = None
        questions = {
            (place, context): _Question(
                _fingerprint(context, *continuations), place, context, tuple(continuations)
            )
            for (place, context), continuations in together.items()
        }
        self.asked += [question.key for question in questions.values()]
        pending = [q for q in questions.values() if q.key not in self._journal]
        if pending:
            assert isinstance(self._engine, ScoringEngine)
            for tag, score in self._engine.score(self._score_requests(pending)):
                content = [[entry.logprob, entry.greedy] for entry in score.likelihoods]
                answer = TaskAnswer(content, score.tokens, score.cached_tokens)
                self._take(pending[tag].key, pending[tag].place, answer)
        answers = []
        for request in requests:
            context, continuation = request.args
            question = questions[_place(request), context]
            content = self._journal[question.key].content
            answers.append(tuple(content[question.continuations.index(continuation)]))
        return answers

    def _score_requests(self, questions: Sequence[_Question]) -> Iterator[ScoreRequest]:
        """Encoded while the engine works."""
        for tag, question in enumerate(questions):
            prompt, continuations = self._encoded(question)
            if not all(continuations):
                raise UsageError(f"{question.place}: a choice has no token of its own")
            request = ScoreRequest(tag, prompt, continuations)
            self._check_room(question.place, request.tokens, 1)
            yield request

    def _encoded(self, question: _Question) -> tuple[list[int], list[list[int]]]:
        """The tokens of a context and of its continuations, as TemplateLM splits them."""
        if question.context:
            pairs = [(question.context, text) for text in question.continuations]
            ((prompt, continuations),) = self.encode_questions([pairs])
            return prompt, continuations
        wholes = [self.tok_encode(text, False) for text in question.continuations]
        start = self.prefix_token_id
        if any(whole[:1] == [start] for whole in wholes):
            raise UsageError(f"{question.place}: a text without a context begins with its BOS")
        return [start], wholes

    # Generated answers

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The text of each answer up to the first of its task's ends.

        Each repetition of a sampled request has a seed of its own.
        """
        times: Counter[tuple[str, str]] = Counter()
        prompts = []
        for request in requests:
            asked = _place(request), request.args[0]
            times[asked] += 1
            prompts.append(self._prompt(request, times[asked]))
        self.asked += [prompt.key for prompt in prompts]
        waiting = {p.key: p for p in prompts if p.key not in self._journal}
        self._generate(list(waiting.values()))
        return [self._journal[prompt.key].content for prompt in prompts]

    def _prompt(self, request: Instance, time: int) -> _Prompt:
        context, settings = request.args
        asked = normalize_gen_kwargs(settings, default_max_gen_toks=_LONGEST)
        eos = self.tokenizer.decode([self.eot_token_id])
        until = tuple(handle_stop_sequences(list(asked["until"]), eos=eos))
        is_sampled = asked["do_sample"] and asked["temperature"] > 0
        sampling = {"top_p": asked.get("top_p", 1.0), "top_k": asked.get("top_k", 0), "seed": time}
        generation = Generation(
            max_new_tokens=asked["max_gen_toks"],
            min_new_tokens=0,
            temperature=asked["temperature"] if is_sampled else 0.0,
            **(sampling if is_sampled else {}),
        )
        # An engine takes one text; the others cut the answer when it is there, which is the same.
        special = set(self.tokenizer.all_special_tokens)
        stop = next((text for text in until if text not in special), "")
        key = _fingerprint(context, json.dumps(asked, sort_keys=True), time if is_sampled else 1)
        return _Prompt(key, _place(request), context, generation, until, stop)

    def _generate(self, prompts: Sequence[_Prompt]) -> None:
        """Keep the engine busy until all are answered. Raises EngineError."""
        answers, sent, kept = _ArrivingAnswers(len(prompts)), 0, 0
        lengths: list[int] = []
        try:
            while kept < len(prompts):
                if sent < len(prompts) and sent - kept < _AT_ONCE:
                    together = prompts[sent : sent + _SENT_TOGETHER]
                    self._send(sent, together, lengths, answers)
                    sent += len(together)
                else:
                    answers.wait(
                        self._engine, self._silence_s, until_waiting=len(prompts) - kept - 1
                    )
                kept += self._keep(prompts, lengths, answers)
        except BaseException:
            self._engine.abort()
            self._keep(prompts, lengths, answers)
            raise

    def _send(
        self, first: int, prompts: Sequence[_Prompt], lengths: list[int], answers: _ArrivingAnswers
    ) -> None:
        """Submit prompts, numbered from `first`; add their `lengths` in tokens."""
        encoded = [array("I", self.tok_encode(prompt.context)) for prompt in prompts]
        for prompt, ids in zip(prompts, encoded, strict=True):
            self._check_room(prompt.place, len(ids), prompt.generation.max_new_tokens)
        lengths += map(len, encoded)
        requests = [
            (prompt.generation, Request(number, ids, prompt.stop))
            for number, (prompt, ids) in enumerate(zip(prompts, encoded, strict=True), first)
        ]
        for generation, alike in itertools.groupby(requests, lambda pair: pair[0]):
            batch = [request for _, request in alike]
            self._engine.submit(batch, generation, answers, stream=False)

    def _keep(
        self, prompts: Sequence[_Prompt], lengths: Sequence[int], answers: _ArrivingAnswers
    ) -> int:
        """Put what arrived into the journal; return how many."""
        count = 0
        while answers.arrived:
            number, ids = answers.arrived.popleft()
            prompt = prompts[number]
            text, ended = self._text(ids, prompt.until)
            cut = not ended and len(ids) >= prompt.generation.max_new_tokens
            answer = TaskAnswer(text, lengths[number], 0, len(ids), cut)
            self._take(prompt.key, prompt.place, answer)
            count += 1
        return count

    def _text(self, ids: Sequence[int], until: Sequence[str]) -> tuple[str, bool]:
        """An answer's text before the first of its ends, and whether there was one."""
        own = list(ids[:-1]) if ids and ids[-1] in self._end_ids else list(ids)
        text: str = self.tokenizer.decode(
            own,
            skip_special_tokens=False,
            clean_up_tokenization_spaces=False,
            spaces_between_special_tokens=False,
        )
        kept = min((text.partition(end)[0] for end in until if end), key=len, default=text)
        return kept, len(own) < len(ids) or len(kept) < len(text)

    def _take(self, key: str, place: str, answer: TaskAnswer) -> None:
        self._journal.add(key, answer)
        self._on_answer(place)

    @property
    def cached_prompt_tokens(self) -> int:
        """The engine's count of generated answers' prompt tokens from its prefix cache."""
        engine = self._engine
        return engine.cached_prompt_tokens if isinstance(engine, CountsCachedTokens) else 0


def _place(request: Instance) -> str:
    # lm-eval numbers the documents that were drawn.
    return f"{request.task_name}, document {request.doc_id + 1} of this run"


def _fingerprint(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
