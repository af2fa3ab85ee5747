"""The runs of a benchmark of messages: recorded conversations, and function calling.

LoadGen has no part in them: one request is in flight at a time, and the suite times it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.errors import RunError
from mlperf_suite.features.chats.agent_replay import (
    TurnFigures,
    replay,
    replay_summary,
    stream_of,
    turn_timeout_s,
)
from mlperf_suite.features.chats.agent_sessions import sessions_of
from mlperf_suite.features.chats.chat import ChatRequest
from mlperf_suite.features.chats.chat_client import ChatEndpoint, ChatServer, ChatTurn
from mlperf_suite.features.chats.chat_prompts import ChatMessages
from mlperf_suite.features.chats.chat_rules import CONCURRENCY, ChatFacts
from mlperf_suite.features.chats.figures import PART, ReplayFigures, TurnTimes
from mlperf_suite.features.chats.function_calls import BFCL_CHECKER, FunctionCallScorer, question_of
from mlperf_suite.features.chats.token_chat import ReadAnswer, TokenChat, plain_answer
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.results.record import Result, RunRecord
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import MetricFigure, PerformanceFigures
from mlperf_suite.rules import accuracy_verdict, judge
from mlperf_suite.rules.facts import besides_length
from mlperf_suite.scorers.scorer import Answer
from mlperf_suite.session.load_run import StepMaker
from mlperf_suite.session.run_kind import Step

REPLAY_JSON, CALLS_JSON = "replay.json", "calls.json"
_LOST_IN_A_ROW = 3
"""So many requests without an answer, one after another, end a run: each of the next ones could
take its whole time-out."""
_T = TypeVar("_T")


@dataclass
class _Watched:
    """A server, and the outcome of each request. `connect`: makes the server, in the event loop
    that asks it. `progress`: called after each request with the number of all and of failed
    requests.
    """

    connect: Callable[[], ChatServer]
    progress: Callable[[int, int], None]
    failures: list[str] = field(default_factory=list)
    asked: int = 0
    reasoned: int = 0
    _in_a_row: int = 0
    _server: ChatServer | None = None

    def run(self, work: Callable[[ChatServer], Coroutine[Any, Any, _T]]) -> _T:
        """Have the server asked, in an event loop of its own."""

        async def connected() -> _T:
            self._server = self.connect()
            with closing(self):
                return await work(self)

        return asyncio.run(connected())

    async def ask(self, request: ChatRequest) -> ChatTurn:
        """As `ChatServer`. Raises RunError if several requests in a row have no answer."""
        assert self._server is not None
        turn = await self._server.ask(request)
        self.asked += 1
        self.reasoned += bool(turn.answer.reasoning)
        self._in_a_row = self._in_a_row + 1 if turn.failure else 0
        if turn.failure:
            self.failures.append(turn.failure)
        if self._in_a_row == _LOST_IN_A_ROW:
            raise RunError(f"{_LOST_IN_A_ROW} requests in a row have no answer: {turn.failure}")
        self.progress(self.asked, len(self.failures))
        return turn

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


@dataclass(frozen=True, slots=True)
class _Counts:
    """What a server counted of an answer: the tokens of the prompt, None if it does not say, and
    what is wrong with those of the answer."""

    prompt_tokens: int | None
    mismatch: str


@dataclass(frozen=True, slots=True)
class _CallAnswer:
    """A question's answer, or why it has none. `calls`: as in a message of the assistant. Tokens as
    the server counts them."""

    id: str
    calls: list[dict[str, Any]]
    content: str
    prompt_tokens: int | None
    mismatch: str
    tokens: int | None
    latency_s: float
    failure: str = ""


class ChatRuns(StepMaker):
    """Makes a run of a benchmark of messages, judges it and fills in its record."""

    def make(self, step: Step, result: Result) -> RunRecord:
        """Make a run and complete its record. Answers are kept if the run fails.

        Raises SuiteError or OSError.
        """
        key: RunKey = step.key
        record = result.runs[key.mode]
        if key.mode == "performance":
            self._replay(result, record)
        else:
            self._calls(result, record)
        return record

    # Recorded conversations

    def _replay(self, result: Result, record: RunRecord) -> None:
        benchmark = result.benchmark
        sessions = sessions_of(self.inputs.samples(benchmark).items)
        every = sum(len(session.turns) for session in sessions)
        sampling = self.inputs.generation(benchmark)
        turns: list[TurnFigures] = []

        async def ask_all(server: ChatServer) -> list[TurnFigures]:
            return await replay(
                server,
                sessions,
                timeout_s=self._timeout_s,
                sampling=sampling,
                progress=turns.append,
            )

        server, began = self._watched(benchmark, "performance", every), time.monotonic()
        try:
            turns = server.run(ask_all)
        finally:
            seconds = time.monotonic() - began
            summary = replay_summary(turns)
            content = {"expected": every, "seconds": round(seconds, 3), **summary}
            _write(result.folder.log_folder("performance"), REPLAY_JSON, content)
        record.parts[PART] = _replay_figures(summary, len(sessions))
        record.figures = _performance_figures(summary, turns, seconds)
        accuracy = result.runs.get("accuracy")
        description = self.engine.description
        tells_context = description.settings.get("context_said", True)
        facts = self._facts(result, "performance", server, list(map(_turn_counts, turns)))
        record.verdicts = judge(
            replace(
                facts,
                conversations=len(sessions),
                context=description.max_model_len if tells_context else None,
                deviations=self._deviations(result),
                accuracy_passed=accuracy_verdict(accuracy.verdicts) if accuracy else None,
                seconds=seconds,
                stream=stream_of(turns),
            )
        )

    def _deviations(self, result: Result) -> tuple[str, ...]:
        """How the engine differs from the benchmark's, which allows a prefix cache."""
        settings = self.engine.description.settings
        found = self.inputs.deviations(result.benchmark, result.scenario, settings)
        return tuple(words for words in besides_length(found) if words != "a prefix cache")

    # Function calling

    def _calls(self, result: Result, record: RunRecord) -> None:
        benchmark = result.benchmark
        samples = self.inputs.samples(benchmark, "accuracy").items
        sampling = self.inputs.generation(benchmark, "accuracy")
        answers: list[_CallAnswer] = []

        async def ask_all(server: ChatServer) -> None:
            for sample in samples:
                messages, tools = question_of(sample)
                request = ChatRequest(messages, sampling, tools, self._timeout_s)
                turn = await server.ask(request)
                answers.append(_call_answer(sample.id, turn))

        server, began = self._watched(benchmark, "accuracy", len(samples)), time.monotonic()
        try:
            server.run(ask_all)
        finally:
            content = [asdict(answer) for answer in answers]
            _write(result.folder.accuracy, CALLS_JSON, content)
        record.rate = len(answers) / (time.monotonic() - began)
        scorer = self.inputs.scorer(benchmark)
        assert isinstance(scorer, FunctionCallScorer)
        texts = ["" if answer.failure else json.dumps(answer.calls) for answer in answers]
        scores = scorer.score([Answer(s, (), t) for s, t in zip(samples, texts, strict=True)])
        counts = [None if a.failure else _Counts(a.prompt_tokens, a.mismatch) for a in answers]
        facts = self._facts(result, "accuracy", server, counts)
        record.verdicts = judge(
            replace(
                facts,
                scores=scores.values,
                ungated=self.inputs.reference(benchmark, len(samples))[1],
                checker=scorer.checker,
                bfcl=scorer.checker == BFCL_CHECKER,
            )
        )
        from mlperf_suite.reports.writing import write_samples

        reference, _ = self.inputs.reference(benchmark, len(samples))
        self.keep_scores(
            result,
            record,
            scores,
            reference,
            len(samples),
            accuracy_verdict(record.verdicts),
            checker=scorer.checker,
        )
        texts = [a.content or t for a, t in zip(answers, texts, strict=True)]
        write_samples(result.folder.accuracy, range(len(samples)), texts, samples)

    # What both share

    @property
    def _timeout_s(self) -> float:
        return turn_timeout_s(smoke=self.settings.smoke)

    def _watched(self, benchmark: Benchmark, mode: str, total: int) -> _Watched:
        """The engine of the runs as a server, with the run's progress shown."""
        self.display.begin(f"{benchmark.id} {mode}", total)
        return _Watched(
            lambda: self._server(benchmark),
            lambda asked, failed: self.display.requests(asked, total, failed),
        )

    def _server(self, benchmark: Benchmark) -> ChatServer:
        engine, tokenizer = self.engine, self.inputs.tokenizer
        if isinstance(engine, ChatEndpoint):
            return engine.chat()
        prompt = self.inputs.workload(benchmark).prompt
        assert isinstance(prompt, ChatMessages)
        return TokenChat(
            engine,
            lambda messages, tools: prompt.tokens_of(messages, tools, tokenizer),
            tokenizer,
            self.inputs.eos_token_ids,
            self._reader(prompt),
            self.settings.engine_silence,
        )

    def _reader(self, prompt: ChatMessages) -> ReadAnswer:
        """The reader of the engine's answers: vLLM's parsers, or nothing for another engine."""
        if not prompt.tool_parser or self.engine.description.name != "vLLM":
            return plain_answer
        from mlperf_suite.features.chats.token_chat import vllm_reader

        return vllm_reader(self.inputs.tokenizer, prompt.tool_parser, prompt.reasoning_parser)

    def _facts(
        self,
        result: Result,
        mode: Literal["performance", "accuracy"],
        server: _Watched,
        counts: Sequence[_Counts | None],
    ) -> ChatFacts:
        """What rules need of both kinds. `counts`: of each sample, None without an answer."""
        generation = self.inputs.generation(result.benchmark, mode)
        answered = [of_answer for of_answer in counts if of_answer is not None]
        return ChatFacts(
            result.benchmark,
            mode,
            sent={
                "temperature": generation.temperature,
                "seed": generation.seed,
                "max_tokens": generation.max_new_tokens,
                "concurrency": CONCURRENCY,
            },
            asked=len(counts),
            answered=len(answered),
            expected=len(self.inputs.samples(result.benchmark, mode).items),
            why_missing=next(iter(server.failures), ""),
            reasoned=server.reasoned,
            miscounted=self._miscounted(result.benchmark, mode, counts),
            smoke=self.settings.smoke,
        )

    def _miscounted(
        self, benchmark: Benchmark, mode: str, counts: Sequence[_Counts | None]
    ) -> tuple[str, ...] | None:
        """Where the server's counts differ from the tokenizer's; None if it counts nothing."""
        prompts, words, counted = self.inputs.prompts(benchmark, mode), list[str](), False
        for prompt, given in zip(prompts, counts, strict=True):
            if given is None or given.prompt_tokens is None:
                continue
            counted = True
            if given.prompt_tokens != len(prompt):
                words.append(f"a prompt of {len(prompt):,} tokens is {given.prompt_tokens:,}")
            elif given.mismatch:
                words.append(given.mismatch)
        return tuple(words) if counted else None


def _write(folder: Path, name: str, content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / name, content)


def _turn_counts(turn: TurnFigures) -> _Counts | None:
    return None if turn.failure else _Counts(turn.context_tokens, turn.count_mismatch)


def _call_answer(id_: str, turn: ChatTurn) -> _CallAnswer:
    answer = turn.answer
    return _CallAnswer(
        id_,
        [call.as_json() for call in answer.tool_calls],
        answer.content,
        answer.prompt_tokens,
        turn.count_mismatch(),
        turn.tokens,
        round(turn.latency_s, 4),
        turn.failure,
    )


def _replay_figures(summary: Mapping[str, Any], conversations: int) -> ReplayFigures:
    """For summary.json; see `replay_summary`."""
    named = {name: summary[name] for name in ("turns", "missing", "score", "scored")}
    return ReplayFigures(
        conversations=conversations,
        **named,
        reference_score=summary["reference_score"],
        cached_first=summary["cache_reuse"]["across"],
        by_turn={name: TurnTimes(**times) for name, times in summary["by_turn"].items()},
        by_context={name: TurnTimes(**times) for name, times in summary["by_context"].items()},
    )


def _performance_figures(
    summary: Mapping[str, Any], turns: Sequence[TurnFigures], seconds: float
) -> PerformanceFigures:
    """The figures over all turns that have an answer. Tokens per second are over the whole replay,
    one request after another."""
    answered = [turn for turn in turns if not turn.failure]
    tokens = sum(turn.tokens or 0 for turn in answered)
    times = summary["all"]
    rate = tokens / seconds
    return PerformanceFigures(
        tokens_per_sec=round(rate, 3),
        samples_per_sec=round(len(answered) / seconds, 4),
        latency_ms=times.get("latency_ms"),
        ttft_ms=times.get("ttft_ms"),
        tpot_ms=times.get("tpot_ms"),
        scenario="SingleStream",
        duration_s=round(seconds, 3),
        total_new_tokens=tokens,
        metric=MetricFigure("tokens_per_sec", round(rate, 3), "tokens/s"),
    )
