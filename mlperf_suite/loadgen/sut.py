"""The system under test (SUT): passes LoadGen's queries to the engine, and its tokens back.

LoadGen calls `issue` on its thread, which returns at once; the engine calls the listener's methods
on its own thread with all that it has to report. There is no queue, no polling and no waiting for
more in between: batching is up to the engine.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Sequence
from typing import Protocol

import mlperf_loadgen as lg
import numpy as np
import numpy.typing as npt

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import Engine, Request, TakesPrompts, Tokens
from mlperf_suite.errors import EngineDiedError, EngineError

_FAILED_QUERY_PAUSE_S = 0.01
"""After a failure, every query is answered at once; without a pause, SingleStream would spin."""

_LOGGED_AT_ONCE, _LOG_TURNS_S = 100, 0.25
"""LoadGen collects each thread's log entries every 10 ms. It uses freed memory, and the process
crashes, if a thread ends within the turn in which it first logged more than 1,024 entries
(`TlsLogger::FinishReadingEntries` and `Logger::IOThread` in LoadGen's logging.cc). An answer makes
two entries, a first token two more, and the thread may have logged others just before."""


class _QuerySample(Protocol):
    """What LoadGen passes to `issue`: `id` names the response, `index` the sample."""

    id: int
    index: int


class Requests:
    """The record of each request, in the order of issue: 48 bytes each, and no objects.

    Times in s of time.monotonic, nan until they are known: `receipt_s`, when the query came from
    LoadGen; `handover_s`, when the engine was given it; `first_token_s` and `answer_s`, when
    LoadGen got the first token and the answer. `tags` name the requests to the engine,
    `samples` are indices of the QSL, `tokens` counts the tokens of each answer.
    """

    __slots__ = (
        "answer_s",
        "first_token_s",
        "handover_s",
        "receipt_s",
        "samples",
        "tags",
        "tokens",
    )

    def __init__(self) -> None:
        self.tags: array[int] = array("Q")
        self.samples: array[int] = array("i")
        self.receipt_s: array[float] = array("d")
        self.handover_s: array[float] = array("d")
        self.first_token_s: array[float] = array("d")
        self.answer_s: array[float] = array("d")
        self.tokens: array[int] = array("i")

    def __len__(self) -> int:
        return len(self.answer_s)

    def add(self, samples: Sequence[_QuerySample], now: float) -> int:
        """Add a row for each sample of a query; returns the first row's number."""
        begin, count = len(self.answer_s), len(samples)
        if count == 1:
            # Queries of Server and SingleStream, of which there are many.
            (sample,) = samples
            self.tags.append(sample.id)
            self.samples.append(sample.index)
            self.receipt_s.append(now)
            self.handover_s.append(math.nan)
            self.first_token_s.append(math.nan)
            self.answer_s.append(math.nan)
            self.tokens.append(0)
            return begin
        self.tags.extend([sample.id for sample in samples])
        self.samples.extend([sample.index for sample in samples])
        self.receipt_s.extend(array("d", (now,)) * count)
        self.handover_s.extend(_UNKNOWN * count)
        self.first_token_s.extend(_UNKNOWN * count)
        self.answer_s.extend(_UNKNOWN * count)
        self.tokens.extend(_NONE * count)
        return begin

    def hand(self, row: int, count: int, at: float) -> None:
        """Note when the engine was given the requests of `count` rows, beginning at `row`."""
        if count == 1:
            self.handover_s[row] = at
        else:
            self.handover_s[row : row + count] = array("d", (at,)) * count


_UNKNOWN, _NONE = array("d", (math.nan,)), array("i", (0,))


class Sut:
    """Answers LoadGen's queries with an engine.

    `prompts`: the token ids of each sample, by index. `stream`: whether LoadGen gets the first
    token. `stops`: the text after which each sample's answer ends, by index; empty if none has one.
    `end_ids`: token ids that are removed from the end of an answer before LoadGen gets it.
    `with_times`: False keeps no times, to measure what keeping them costs. After a failure, all
    outstanding and later queries get empty answers, since LoadGen cannot be stopped from outside;
    `failure` then holds the reason, and `failure_event` is set.
    """

    def __init__(
        self,
        engine: Engine,
        prompts: Sequence[Sequence[int]],
        generation: Generation,
        *,
        stream: bool,
        stops: Sequence[str] = (),
        end_ids: Sequence[int] = (),
        with_times: bool = True,
    ) -> None:
        self._engine = engine
        self._prompts = prompts
        if isinstance(engine, TakesPrompts):
            engine.take_prompts(prompts)
        self._generation = generation
        self._stream = stream
        self._stops = stops
        self._end_ids = frozenset(end_ids)
        # Response id to sample index and row. Only the caller that pops an entry may answer it.
        self._outstanding: dict[int, tuple[int, int]] = {}
        self._begun: set[int] = set()
        """The ids of outstanding requests whose first token LoadGen got."""
        self._with_times = with_times
        self.requests = Requests()
        self._failing = threading.Lock()
        self.failure: str | None = None
        self.failure_event = threading.Event()
        self.samples_issued = 0
        self.samples_done = 0
        self.tokens_done = 0

    @property
    def samples_waiting(self) -> int:
        """The samples that the engine was given and has not answered."""
        return len(self._outstanding)

    @property
    def progress(self) -> tuple[int, int]:
        """Changes whenever the engine makes progress: outstanding first tokens, and answers."""
        return len(self._begun), self.samples_done

    def issue(self, samples: Sequence[_QuerySample]) -> None:
        """LoadGen's callback: a query to answer. An exception leaving it would end the process."""
        try:
            now, row, keep, stops = time.monotonic(), 0, self._with_times, self._stops
            requests = [
                Request(s.id, self._prompts[s.index], stops[s.index] if stops else "", s.index)
                for s in samples
            ]
            if keep:
                row = self.requests.add(samples, now)
            for number, sample in enumerate(samples, row):
                self._outstanding[sample.id] = sample.index, number
            self.samples_issued += len(requests)
            if self.failure is None:
                # Longest prompts first, so that no long one is left to run alone at the end.
                requests.sort(key=lambda request: len(request.prompt_token_ids), reverse=True)
                if keep:
                    self.requests.hand(row, len(requests), time.monotonic())
                self._engine.submit(requests, self._generation, self, stream=self._stream)
        except Exception as error:
            self.fail(f"the query could not be issued: {type(error).__name__}: {error}")
        if self.failure is not None:
            time.sleep(_FAILED_QUERY_PAUSE_S)
            self._answer_with_nothing()

    def flush(self) -> None:
        """LoadGen's callback: no more queries follow. Nothing is queued here, so nothing to do."""

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        responses, rows, arrays = [], [], []
        for tag, token_ids in tokens:
            request = self._outstanding.get(tag)
            if request is None:
                continue
            # A piece may also hold the end of its answer, with ids that are to be dropped.
            data = self._int32(token_ids[:1] if self._end_ids else token_ids)
            if data is None:
                # The run has failed, and all requests were answered with that.
                return
            responses.append(lg.QuerySampleResponse(tag, data.ctypes.data, data.nbytes))
            rows.append(request[1])
            arrays.append(data)
        if not responses:
            return
        # As close as possible to the moment at which LoadGen reads its clock.
        now = time.monotonic() if self._with_times else 0.0
        lg.FirstTokenComplete(responses)
        self._begun.update(response.id for response in responses)
        if self._with_times:
            for row in rows:
                self.requests.first_token_s[row] = now

    def finished(self, answers: Sequence[Tokens]) -> None:
        responses, rows, arrays = [], [], []
        for tag, token_ids in answers:
            data = self._int32(self._without_end(token_ids) if self._end_ids else token_ids)
            request = None if data is None else self._outstanding.pop(tag, None)
            if data is None or request is None:
                continue
            self._begun.discard(tag)
            responses.append(lg.QuerySampleResponse(tag, data.ctypes.data, data.nbytes, len(data)))
            rows.append(request[1])
            arrays.append(data)
        if not responses:
            return
        if self._with_times:
            # Before the report to LoadGen, which can end the run.
            now = time.monotonic()
            for row, data in zip(rows, arrays, strict=True):
                self.requests.tokens[row] = len(data)
                self.requests.answer_s[row] = now
        lg.QuerySamplesComplete(responses)
        self.samples_done += len(arrays)
        self.tokens_done += sum(map(len, arrays))

    def _without_end(self, token_ids: Sequence[int]) -> Sequence[int]:
        """An answer without the ids that end it; keeps its first token, which was reported."""
        length = len(token_ids)
        while length > 1 and token_ids[length - 1] in self._end_ids:
            length -= 1
        return token_ids[:length]

    def _int32(self, token_ids: Sequence[int]) -> npt.NDArray[np.int32] | None:
        """The tokens in LoadGen's format; None, and a failed run, if they are not token ids."""
        try:
            # NumPy would round numbers that are not whole.
            return np.asarray(array("i", token_ids))
        except (OverflowError, ValueError, TypeError) as error:
            self.fail(f"the engine returned something other than token ids: {error}")
            return None

    def failed(self, tag: int, error: EngineError) -> None:
        request = self._outstanding.get(tag)
        if request is None or isinstance(error, EngineDiedError):
            self.fail(str(error))
        else:
            self.fail(f"sample {request[0]}: {error}")

    def fail(self, reason: str) -> None:
        """Mark the run as failed, with the first reason given, and let LoadGen finish."""
        with self._failing:
            if self.failure is None:
                self.failure = reason
        self.failure_event.set()
        if self._answer_with_nothing() > _LOGGED_AT_ONCE:
            # Whatever thread this is, it may end now that all is lost.
            time.sleep(_LOG_TURNS_S)

    def _answer_with_nothing(self) -> int:
        """Answer what waits; returns how many that were."""
        count = 0
        for tag in list(self._outstanding):
            if self._outstanding.pop(tag, None) is not None:
                count += 1
                if self._stream and tag not in self._begun:
                    # LoadGen reads each answer's first-token time. If it never got one, as at
                    # the start of a run, it reads memory out of bounds.
                    lg.FirstTokenComplete([lg.QuerySampleResponse(tag, 0, 0)])
                lg.QuerySamplesComplete([lg.QuerySampleResponse(tag, 0, 0, 0)])
        return count
