"""vLLM in this process: AsyncLLM on an event loop in its own thread.

Supports vLLM 0.22 and later. Only the modules `vllm_*` import vllm, inside functions.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import itertools
import math
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.datasets.media import MediaPrompt, Sound
from mlperf_suite.engines.hang_detector import POLL_S, HangDetector, LoadWatch, end_processes
from mlperf_suite.engines.model_files import MODEL_FILES, model_files_sha256
from mlperf_suite.engines.protocol import (
    DECODE,
    FRONT_END,
    PREFILL,
    QUEUE,
    EngineDescription,
    EngineTrace,
    Listener,
    Request,
    RequestList,
    RequestTimestamps,
    Score,
    ScoreRequest,
    Steps,
    trace_files,
)
from mlperf_suite.engines.vllm_arguments import (
    ChosenArguments,
    VllmConfig,
    choose_arguments,
    engine_settings,
    usage_context,
)
from mlperf_suite.engines.vllm_core import EarlyCore, early_core
from mlperf_suite.engines.vllm_environment import (
    allowed_cpus,
    cpu_list,
    loggers_to,
    output_to,
    root_cause,
    runs_on_cpu,
    vllm_environment,
)
from mlperf_suite.engines.vllm_scoring import score_one
from mlperf_suite.errors import EngineDiedError, EngineError, one_line

_SHUTDOWN_S = 15.0
_PROFILE_S = 1800.0
"""Writing the trace of a long run takes minutes."""
_SCORED_AT_ONCE = 128
"""Requests to score that the engine holds at once: enough to fill every step."""
_VLLM_TIMES = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
_PARTS = (FRONT_END, QUEUE, PREFILL, DECODE)
_Result = TypeVar("_Result")


class VllmEngine:
    """A loaded vLLM engine. Create it with `VllmEngine.load`."""

    def __init__(self, config: VllmConfig) -> None:
        self._config = config
        self._ids = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self.cached_prompt_tokens = 0
        """Tokens of submitted prompts that came from the prefix cache, which is off by default."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        self._llm: Any = None
        self._tracer = Tracer()
        self._sockets = tempfile.TemporaryDirectory(
            prefix="mlperf-suite-", ignore_cleanup_errors=True
        )
        self._closed = False
        self._processes: list[psutil.Process] = []
        self._workers: list[psutil.Process] = []
        self._description: EngineDescription | None = None
        self._older_traces: set[Path] = set()

    @classmethod
    def load(cls, config: VllmConfig) -> VllmEngine:
        """Load the model and return when it can answer.

        Raises EngineError if vLLM is not installed, an argument is unknown, the model does not
        load, or loading hangs (see `LoadWatch`) or takes longer than `load_timeout_s`.
        """
        engine = cls(config)
        try:
            engine._load()
        except BaseException:
            engine.close()
            raise
        return engine

    def _load(self) -> None:
        watch = LoadWatch(self._config.log_file)
        with (
            vllm_environment(self._config.model, self._config.profiler, self._sockets.name),
            output_to(self._config.log_file),
            early_core(self._config.extra) as core,
            loggers_to(self._config.log_file),
            cpu_list(),
        ):
            start = time.monotonic()
            try:
                choice = choose_arguments(self._config)
                llm = _make(choice.arguments, self._tracer if self._config.traced else None, core)
                self._llm = self._loaded(llm, watch)
            except EngineError:
                raise
            except TimeoutError as error:
                raise EngineError(
                    f"vLLM did not load {self._config.model} within "
                    f"{self._config.load_timeout_s:.0f} s ({self._see_log})"
                ) from error
            # vLLM raises many kinds of errors while it loads; the user needs the reason in a line.
            except Exception as error:
                raise EngineError(
                    f"vLLM could not load {self._config.model}: "
                    f"{self._cause(error)} ({self._see_log})"
                ) from error
            finally:
                self._processes = watch.processes
        self._workers = _workers(self._processes)
        self._description = _describe(self._llm, choice, time.monotonic() - start)

    def _loaded(self, making: Coroutine[Any, Any, Any], watch: LoadWatch) -> Any:
        """What `making` makes on the engine's own loop. Raises EngineError if it hangs and
        TimeoutError after `load_timeout_s`."""
        future = asyncio.run_coroutine_threadsafe(making, self._loop)
        until_s = time.monotonic() + self._config.load_timeout_s
        while not future.done():
            if time.monotonic() > until_s:
                raise TimeoutError
            if why := watch.hangs():
                # First: the loop waits for them and cannot be stopped.
                end_processes(watch.processes, patience_s=1.0)
                raise EngineError(f"{why} while {self._config.model} loads ({self._see_log})")
            concurrent.futures.wait([future], POLL_S)
        return future.result()

    @property
    def description(self) -> EngineDescription:
        if self._description is None:
            raise EngineError("the engine is not loaded")
        return self._description

    @property
    def alive(self) -> bool:
        return self._llm is not None and not self._llm.errored

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        params = {
            stop: _sampling_params(generation, stream, stop) for stop in {r.stop for r in requests}
        }
        self._loop.call_soon_threadsafe(self._start, requests, params, listener)

    def _start(
        self, requests: Sequence[Request], params: Mapping[str, Any], listener: Listener
    ) -> None:
        for request in requests:
            task = self._loop.create_task(self._answer(request, params[request.stop], listener))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request, params: Any, listener: Listener) -> None:
        from vllm.sampling_params import RequestOutputKind

        streams = params.output_kind is RequestOutputKind.DELTA
        name = str(next(self._ids))
        token_ids: list[int] = []
        cached, output = 0, None
        try:
            # A picture takes milliseconds to decode, during which others are answered.
            has_media = isinstance(request.prompt_token_ids, MediaPrompt)
            prompt = (
                await asyncio.to_thread(_prompt, request.prompt_token_ids)
                if has_media
                else _prompt(request.prompt_token_ids)
            )
            async for output in self._llm.generate(prompt, params, name):
                # Each output of a streamed answer repeats the number.
                cached = output.num_cached_tokens or cached
                new_ids = output.outputs[0].token_ids
                if streams and new_ids and not token_ids:
                    listener.first_tokens([(request.tag, new_ids)])
                token_ids.extend(new_ids)
        # A refused prompt raises ValueError, a dead engine EngineDeadError, a bug anything else.
        # Each ends the run with its own message.
        except Exception as error:
            listener.failed(request.tag, self._explained(error))
        else:
            self.cached_prompt_tokens += cached
            if self._config.traced:
                # Before the listener is called, which can end the run.
                self._tracer.end(request.tag, getattr(output, "metrics", None))
            listener.finished([(request.tag, token_ids)])

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        """Yield each request's tag and score as they come; see `ScoringEngine`."""
        outcomes: queue.SimpleQueue[tuple[int, Score | Exception]] = queue.SimpleQueue()
        futures = set()

        async def answer(request: ScoreRequest) -> None:
            outcome: Score | Exception
            try:
                outcome = await score_one(self._llm, lambda: str(next(self._ids)), request)
            # As in `_answer`: any error ends the run with its own message.
            except Exception as error:
                outcome = error
            outcomes.put((request.tag, outcome))

        watch, answers, outstanding = HangDetector(self, self._config.silence_s), 0, 0
        try:
            for request in itertools.chain(requests, [None]):
                most = _SCORED_AT_ONCE - 1 if request is not None else 0
                while outstanding > most or not outcomes.empty():
                    try:
                        tag, outcome = outcomes.get(timeout=min(POLL_S, self._config.silence_s))
                    except queue.Empty:
                        if hangs := watch.hangs(answers, outstanding, "requests"):
                            watch.end()
                            raise EngineDiedError(f"{hangs} ({self._see_log})") from None
                        continue
                    if isinstance(outcome, Exception):
                        raise self._explained(outcome) from outcome
                    answers, outstanding = answers + 1, outstanding - 1
                    yield tag, outcome
                if request is not None:
                    future = asyncio.run_coroutine_threadsafe(answer(request), self._loop)
                    futures.add(future)
                    future.add_done_callback(futures.discard)
                    outstanding += 1
        finally:
            for future in list(futures):
                future.cancel()

    def _explained(self, error: Exception) -> EngineError:
        if self._llm is None or self._llm.errored:
            return EngineDiedError(
                f"the engine died while answering: {self._cause(error)} ({self._see_log})"
            )
        return EngineError(f"{type(error).__name__}: {one_line(error)}")

    def _cause(self, error: BaseException) -> str:
        return root_cause(error, self._config.log_file)

    @property
    def _see_log(self) -> str:
        return f"see {self._config.log_file}" if self._config.log_file else "see its output above"

    def abort(self) -> None:
        def cancel() -> None:
            for task in list(self._tasks):
                task.cancel()

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(cancel)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._llm is not None:
            with contextlib.suppress(Exception):
                self.call(self._shut_down(), _SHUTDOWN_S + 5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        if not self._loop.is_running():
            self._loop.close()
        end_processes(self._processes)
        self._sockets.cleanup()

    async def _shut_down(self) -> None:
        """Runs on the engine's own loop: elsewhere vLLM leaves a task that complains at exit."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        llm, self._llm = self._llm, None
        handler = getattr(llm, "output_handler", None)
        # Without a timeout vLLM kills its processes after 5 s, which a loaded machine can take.
        takes_timeout = "timeout" in inspect.signature(llm.shutdown).parameters
        llm.shutdown(**({"timeout": _SHUTDOWN_S} if takes_timeout else {}))
        if handler is not None:
            await asyncio.gather(handler, return_exceptions=True)

    @property
    def processes(self) -> Sequence[psutil.Process]:
        """vLLM's engine core and its workers."""
        return self._workers

    @property
    def uses_gpu(self) -> bool:
        return not runs_on_cpu()

    @property
    def steps_made(self) -> int:
        """The steps that vLLM reported since it was loaded."""
        return self._tracer.steps_made

    def take_trace(self) -> EngineTrace:
        """What vLLM reported about its steps and finished requests since the last call."""
        return self._tracer.take()

    def start_profile(self) -> None:
        """See `ProfilingEngine`."""
        self._older_traces = self._traces()
        self._profile("start_profile")

    def stop_profile(self, folder: Path) -> None:
        """See `ProfilingEngine`."""
        self._profile("stop_profile")
        folder.mkdir(parents=True, exist_ok=True)
        # vLLM writes the traces of every run to one folder.
        for path in self._traces() - self._older_traces:
            if path.parent != folder.absolute():
                shutil.move(path, folder / path.name)

    def _traces(self) -> set[Path]:
        folder = self._config.profile_folder
        return set() if folder is None else set(trace_files(folder))

    def _profile(self, method: str) -> None:
        try:
            self.call(getattr(self._llm, method)(), _PROFILE_S)
        # As in `_answer`: vLLM raises every kind of error.
        except Exception as error:
            raise EngineError(f"vLLM's {method}: {one_line(error)} ({self._see_log})") from error

    @property
    def async_llm(self) -> Any:
        """vLLM's AsyncLLM, for what the protocol does not cover; use it through `call`."""
        return self._llm

    def call(self, coroutine: Coroutine[Any, Any, _Result], timeout_s: float) -> _Result:
        """Run a coroutine on the engine's own loop and wait for its result. Raises TimeoutError."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout_s)


class Tracer:
    """Stores what vLLM reports about each step and each finished request, a few bytes for each."""

    def __init__(self) -> None:
        self.steps_made = 0
        self._steps = Steps()
        self._timestamps = RequestTimestamps(*_PARTS)

    def keep(self, scheduler: Any, stats: Any, replica: int) -> None:
        """Take vLLM's SchedulerStats, or None, and IterationStats; missing fields count as 0."""
        steps = self._steps
        steps.ended_s.append(time.monotonic())
        steps.tokens.append(getattr(stats, "num_generation_tokens", 0))
        steps.prompt_tokens.append(getattr(stats, "num_prompt_tokens", 0))
        steps.preempted.append(getattr(stats, "num_preempted_reqs", 0))
        # The running requests no longer include those that finished in the step.
        finished = len(getattr(stats, "finished_requests", ()))
        steps.finished.append(finished)
        steps.running.append(getattr(scheduler, "num_running_reqs", 0) + finished)
        steps.waiting.append(getattr(scheduler, "num_waiting_reqs", 0))
        steps.kv_share.append(getattr(scheduler, "kv_cache_usage", 0.0))
        drafts = getattr(scheduler, "spec_decoding_stats", None)
        steps.drafted.append(getattr(drafts, "num_draft_tokens", 0))
        steps.accepted.append(getattr(drafts, "num_accepted_tokens", 0))
        steps.replica.append(replica)

    def end(self, tag: int, stats: Any) -> None:
        """Take vLLM's RequestStateStats of an answer, None if it keeps none.

        Its times are 0 until they are known. They come from the engine core's process, which has
        the same monotonic clock.
        """
        self._timestamps.keep(
            tag,
            getattr(stats, "num_preemptions", 0),
            *[getattr(stats, name, 0.0) or math.nan for name in _VLLM_TIMES],
        )

    def take(self) -> EngineTrace:
        trace = EngineTrace(self._steps, self._timestamps)
        self._steps, self._timestamps = Steps(), RequestTimestamps(*_PARTS)
        return trace


def stat_logger(tracer: Tracer) -> Any:
    """The factory of a vLLM stat logger that feeds the tracer."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Logger(StatLoggerBase):  # type: ignore[misc]
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            self._replica = engine_index

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any
        ) -> None:
            tracer.steps_made += 1
            if iteration_stats is not None:
                tracer.keep(scheduler_stats, iteration_stats, self._replica)

        def log_engine_initialized(self) -> None:
            """Nothing to log."""

    return Logger


async def _make(arguments: Any, tracer: Tracer | None, core: EarlyCore | None) -> Any:
    from vllm.v1.engine.async_llm import AsyncLLM

    loggers = [stat_logger(tracer)] if tracer is not None else []
    with core.taken_by_vllm() if core else contextlib.nullcontext():
        return AsyncLLM.from_engine_args(
            arguments, stat_loggers=loggers, usage_context=usage_context()
        )


def _workers(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """The processes that produce vLLM's answers, recognized by their process titles."""
    title = os.environ.get("VLLM_PROCESS_NAME_PREFIX", "VLLM") + "::"
    workers = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.name().startswith(title):
                workers.append(process)
    return workers


def _prompt(token_ids: Sequence[int]) -> Any:
    """A prompt as vLLM takes it, with its media if it has any."""
    from vllm.inputs import TokensPrompt

    prompt = TokensPrompt(prompt_token_ids=list(token_ids))
    if isinstance(token_ids, MediaPrompt):
        media = token_ids.media
        prompt["multi_modal_data"] = (
            {"audio": (media.waveform(), media.rate_hz)}
            if isinstance(media, Sound)
            else {"image": media.image()}
        )
    return prompt


def _sampling_params(generation: Generation, stream: bool, stop: str) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=generation.temperature,
        top_p=generation.top_p,
        top_k=generation.top_k,
        seed=generation.seed,
        max_tokens=generation.max_new_tokens,
        min_tokens=generation.min_new_tokens,
        # LoadGen and TEST06 take token ids; text is made once, after the run, unless a text ends
        # the answer.
        detokenize=bool(stop),
        stop=[stop] if stop else None,
        include_stop_str_in_output=bool(stop),
        output_kind=RequestOutputKind.DELTA if stream else RequestOutputKind.FINAL_ONLY,
    )


def _describe(llm: Any, choice: ChosenArguments, load_s: float) -> EngineDescription:
    import vllm

    config, arguments = llm.vllm_config, choice.arguments
    parallel = config.parallel_config
    gpus = parallel.world_size * parallel.data_parallel_size
    return EngineDescription(
        name="vLLM",
        version=vllm.__version__,
        model=arguments.model,
        stand_in=False,
        max_model_len=config.model_config.max_model_len,
        settings={
            **engine_settings(config),
            "dtype_why": choice.precision.why,
            "tensor_parallel_size": arguments.tensor_parallel_size,
            "tensor_parallel_why": choice.tensor_parallel.why,
            "idle_gpus": max(0, choice.gpus - gpus),
            "gpus_used": gpus if choice.gpus else 0,
            "stream_interval": arguments.stream_interval,
            "omp_threads_bind": os.environ.get("VLLM_CPU_OMP_THREADS_BIND") or allowed_cpus(),
            MODEL_FILES: model_files_sha256(arguments.model),
            **({"profiler": choice.profiler} if choice.profiler else {}),
            "load_s": round(load_s, 1),
        },
    )
