"""vLLM in this process: AsyncLLM on an event loop in its own thread.

Supports vLLM 0.22 and later. Only this module and `vllm_scoring` import vllm, inside functions.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import logging
import math
import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import psutil

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.choices import choose_tensor_parallel
from mlperf_suite.engines.model_files import MODEL_FILES, model_files_sha256
from mlperf_suite.engines.processes import descendants, end_processes
from mlperf_suite.engines.protocol import (
    DECODE,
    FRONT_END,
    PREFILL,
    QUEUE,
    SILENCE_S,
    EngineDescription,
    EngineTrace,
    Listener,
    Marks,
    Profiler,
    Request,
    Steps,
)
from mlperf_suite.engines.scoring import Score, ScoreRequest
from mlperf_suite.engines.vllm_scoring import score_one
from mlperf_suite.engines.watch import LOOK_S, Watch
from mlperf_suite.errors import EngineDiedError, EngineError
from mlperf_suite.hardware import Chosen, Precision, choose_precision
from mlperf_suite.hardware import gpus as listed_gpus
from mlperf_suite.profiling.trace import trace_files
from mlperf_suite.secrets import scrub

VLLM_DTYPES: dict[Precision, str] = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "auto": "auto",
}

_CPU_KV_CACHE_GIB = "2"
"""The CPU build's KV cache holds 93,000 tokens of the embedded model and fits a laptop."""

_SHUTDOWN_S = 15.0

_PROFILE_S = 1800.0
"""Writing the trace of a long run takes minutes."""

_SCORED_AT_ONCE = 128
"""Requests to score that the engine holds at once: enough to fill every step."""

_ERROR_LINE = re.compile(r"\b[A-Za-z_.]*(?:Error|Exception): \S.*")

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

_NO_DEVICE = re.compile(r"Device string must not be empty|Failed to infer device type")
"""The words in which vLLM's GPU build reports that there is no GPU."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class VllmConfig:
    """How to load the engine.

    `precision`: auto means what the hardware computes (`choose_precision`). `tensor_parallel_size`:
    None means every GPU that the model can be split over. `context_needed`: the longest sequence
    needed, in tokens; if `max_model_len` is None, the smaller of that and the model's own maximum
    is used. `extra`: any of vLLM's AsyncEngineArgs, overriding all other settings. `token`: for the
    hub. `log_file`: where all of vLLM's output goes; None means this process's output. `role`: an
    engine for runs has no prefix cache, which would answer repeated samples; one for scoring has
    one, since few-shot prompts begin alike. `silence_s`: see `Watch`. `traced`: False makes the
    engine report nothing about its steps and requests, to measure what reporting costs. `profiler`:
    see `ProfilingEngine`; torch's writes its traces to `profile_folder`, an absolute path, from
    which `stop_profile` takes them.
    """

    model: str
    precision: Precision = "auto"
    tensor_parallel_size: int | None = 1
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    max_new_tokens: int = 128
    load_timeout_s: float = 600.0
    log_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    extra: dict[str, object] = field(default_factory=dict)
    role: Literal["runs", "scoring"] = "runs"
    context_needed: int | None = None
    silence_s: float = SILENCE_S
    traced: bool = True
    profiler: Profiler | None = None
    profile_folder: Path | None = None


def load_replica(config: VllmConfig, number: int, folder: Path) -> VllmEngine:
    """Load the engine of a replica with `VllmEngine.load`; its output goes to `folder`."""
    return VllmEngine.load(replace(config, log_file=folder / f"engine-{number}.log"))


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
        self._tracer = _Tracer()
        self._closed = False
        self._processes: list[psutil.Process] = []
        self._workers: list[psutil.Process] = []
        self._description: EngineDescription | None = None
        self._older_traces: set[Path] = set()

    @classmethod
    def load(cls, config: VllmConfig) -> VllmEngine:
        """Load the model and return when it can answer.

        Raises EngineError if vLLM is not installed, an argument is unknown, the model does not
        load, or loading takes longer than `load_timeout_s`.
        """
        engine = cls(config)
        try:
            engine._load()
        except BaseException:
            engine.close()
            raise
        return engine

    def _load(self) -> None:
        before = set(descendants())
        with vllm_environment(self._config), _output_to(self._config.log_file), cpus_listed():
            started = time.monotonic()
            try:
                chosen = choose_arguments(self._config)
                making = _make(chosen.arguments, self._tracer if self._config.traced else None)
                self._llm = self.call(making, self._config.load_timeout_s)
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
                self._processes = [one for one in descendants() if one not in before]
        self._workers = _workers(self._processes)
        self._description = _describe(self._llm, chosen, time.monotonic() - started)

    @property
    def description(self) -> EngineDescription:
        if self._description is None:
            raise EngineError("the engine is not loaded")
        return self._description

    @property
    def alive(self) -> bool:
        return self._llm is not None and not self._llm.errored

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
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
        from vllm.inputs import TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        streams = params.output_kind is RequestOutputKind.DELTA
        name = str(next(self._ids))
        prompt = TokensPrompt(prompt_token_ids=list(request.prompt_token_ids))
        token_ids: list[int] = []
        cached, output = 0, None
        try:
            async for output in self._llm.generate(prompt, params, name):
                # Each output of a streamed answer repeats the number.
                cached = output.num_cached_tokens or cached
                made = output.outputs[0].token_ids
                if streams and made and not token_ids:
                    listener.first_tokens([(request.tag, made)])
                token_ids.extend(made)
        # A refused prompt raises ValueError, a dead engine EngineDeadError, a bug anything else.
        # Each ends the run with its own message.
        except Exception as error:
            listener.failed(request.tag, self._explained(error))
        else:
            self.cached_prompt_tokens += cached
            if self._config.traced:
                # Before the listener is called, which can end the run.
                self._tracer.ended(request.tag, getattr(output, "metrics", None))
            listener.finished([(request.tag, token_ids)])

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        """Yield each request's tag and score as they come; see `ScoringEngine`."""
        answered: queue.SimpleQueue[tuple[int, Score | Exception]] = queue.SimpleQueue()
        futures = set()

        async def answer(request: ScoreRequest) -> None:
            try:
                found = await score_one(self._llm, lambda: str(next(self._ids)), request)
            # As in `_answer`: any error ends the run with its own message.
            except Exception as error:
                answered.put((request.tag, error))
            else:
                answered.put((request.tag, found))

        watch, heard = Watch(self, self._config.silence_s), 0

        def next_answer() -> tuple[int, Score]:
            nonlocal heard
            while True:
                with contextlib.suppress(queue.Empty):
                    tag, found = answered.get(timeout=min(LOOK_S, self._config.silence_s))
                    if isinstance(found, Exception):
                        raise self._explained(found) from found
                    heard += 1
                    return tag, found
                hangs = watch.hangs(heard, waiting, "requests")
                if hangs:
                    watch.end()
                    raise EngineDiedError(f"{hangs} ({self._see_log})")

        waiting = 0
        try:
            for request in requests:
                while waiting >= _SCORED_AT_ONCE or not answered.empty():
                    yield next_answer()
                    waiting -= 1
                future = asyncio.run_coroutine_threadsafe(answer(request), self._loop)
                futures.add(future)
                future.add_done_callback(futures.discard)
                waiting += 1
            for _ in range(waiting):
                yield next_answer()
        finally:
            for future in list(futures):
                future.cancel()

    def _explained(self, error: Exception) -> EngineError:
        if self._llm is None or self._llm.errored:
            return EngineDiedError(
                f"the engine died while answering: {self._cause(error)} ({self._see_log})"
            )
        return EngineError(f"{type(error).__name__}: {_one_line(error)}")

    def _cause(self, error: BaseException) -> str:
        return _root_cause(error, self._config.log_file)

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
        return not _runs_on_cpu()

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
        own = self._config.profile_folder
        return set() if own is None else set(trace_files(own))

    def _profile(self, what: str) -> None:
        try:
            self.call(getattr(self._llm, what)(), _PROFILE_S)
        # As in `_answer`: vLLM raises every kind of error.
        except Exception as error:
            raise EngineError(f"vLLM's {what}: {_one_line(error)} ({self._see_log})") from error

    @property
    def async_llm(self) -> Any:
        """vLLM's AsyncLLM, for what the protocol does not cover; use it through `call`."""
        return self._llm

    def call(self, coroutine: Coroutine[Any, Any, _Result], timeout_s: float) -> _Result:
        """Run a coroutine on the engine's own loop and wait for its result. Raises TimeoutError."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout_s)


class _Tracer:
    """Stores what vLLM reports about each step and each finished request, a few bytes for each."""

    def __init__(self) -> None:
        self.steps_made = 0
        self._steps = Steps()
        self._marks = _marks()

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
        steps.replica.append(replica)

    def ended(self, tag: int, stats: Any) -> None:
        """Take vLLM's RequestStateStats of an answer, None if it keeps none.

        Its times are 0 until they are known. They come from the engine core's process, which has
        the same monotonic clock.
        """
        self._marks.keep(
            tag,
            getattr(stats, "num_preemptions", 0),
            *[getattr(stats, name, 0.0) or math.nan for name in _VLLM_TIMES],
        )

    def take(self) -> EngineTrace:
        trace = EngineTrace(self._steps, self._marks)
        self._steps, self._marks = Steps(), _marks()
        return trace


_VLLM_TIMES = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")


def _marks() -> Marks:
    return Marks(FRONT_END, QUEUE, PREFILL, DECODE)


def _stat_logger(tracer: _Tracer) -> Any:
    """The factory of a vLLM stat logger that feeds the tracer."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Logger(StatLoggerBase):  # type: ignore[misc]
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            self._replica = engine_index

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, *others: Any, **named: Any
        ) -> None:
            tracer.steps_made += 1
            if iteration_stats is not None:
                tracer.keep(scheduler_stats, iteration_stats, self._replica)

        def log_engine_initialized(self) -> None:
            """Nothing to log."""

    return Logger


async def _make(arguments: Any, tracer: _Tracer | None) -> Any:
    from vllm.v1.engine.async_llm import AsyncLLM

    loggers = [_stat_logger(tracer)] if tracer is not None else []
    return AsyncLLM.from_engine_args(
        arguments, stat_loggers=loggers, usage_context=_usage_context()
    )


def _usage_context() -> Any:
    """vLLM uses it to choose max_num_seqs and max_num_batched_tokens: as for its server, 1,024 and
    8,192 on an H100; without a context it knows, it takes 128 and 2,048 on any device."""
    from vllm.usage.usage_lib import UsageContext

    return UsageContext.OPENAI_API_SERVER


def settings_of(config: VllmConfig) -> dict[str, object]:
    """What vLLM chooses for a configuration, as in the description of a loaded engine.

    Raises EngineError as `choose_arguments` does; vLLM itself raises many kinds of errors.
    """
    return _settings_of(choose_arguments(config).arguments.create_engine_config(_usage_context()))


def _settings_of(config: Any) -> dict[str, object]:
    return {
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "enable_prefix_caching": bool(config.cache_config.enable_prefix_caching),
        "enforce_eager": bool(config.model_config.enforce_eager),
        "kv_cache_dtype": str(config.cache_config.cache_dtype),
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "speculative": _speculation(config),
    }


@dataclass(frozen=True, slots=True)
class ChosenArguments:
    """vLLM's arguments and the choices made for them. `gpus`: the GPUs that vLLM sees."""

    arguments: Any
    precision: Chosen[Precision]
    tensor_parallel: Chosen[int]
    gpus: int
    profiler: Profiler | None = None


def choose_arguments(config: VllmConfig) -> ChosenArguments:
    """vLLM's arguments for a configuration.

    Raises EngineError if vLLM is not installed, an argument is unknown, or there is no device that
    this build of vLLM can use.
    """
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
    except ImportError as error:
        raise _not_imported(error) from error
    known = AsyncEngineArgs.__dataclass_fields__
    for name in config.extra:
        if name not in known:
            raise EngineError(f"--engine-arg {name}: vLLM's engine has no such argument")
    on_cpu = _runs_on_cpu()
    gpus = 0 if on_cpu else _visible_gpus()
    by_hand = Chosen(config.precision, "as asked with --engine-arg")
    precision = by_hand if "dtype" in config.extra else choose_precision(config.precision, on_cpu)
    arguments: dict[str, object] = {
        "model": config.model,
        "dtype": VLLM_DTYPES[precision.value],
        "max_model_len": config.max_model_len,
        "trust_remote_code": False,
        # Repeated samples would be answered from the cache, which would inflate throughput.
        "enable_prefix_caching": config.role == "scoring",
        "disable_log_stats": True,
        # A streamed request wakes this process twice: at its first token and at its end.
        "stream_interval": config.max_new_tokens,
        # On the CPU, compiling adds 35 s to every start for 10% of speed, and needs a compiler.
        "enforce_eager": on_cpu,
    }
    if config.gpu_memory_utilization is not None:
        arguments["gpu_memory_utilization"] = config.gpu_memory_utilization
    if config.token:
        arguments["hf_token"] = config.token
    if config.profiler is not None:
        arguments["profiler_config"] = _profiler_config(config, on_cpu)
    arguments |= config.extra
    if on_cpu and not arguments["enforce_eager"] and not shutil.which("g++"):
        raise EngineError(
            "--engine-arg enforce_eager=false: vLLM compiles the model with g++ on the CPU, "
            "and there is none: install g++ or leave the argument out"
        )
    given = {name: value for name, value in arguments.items() if value is not None}
    asked = config.tensor_parallel_size
    if "tensor_parallel_size" in config.extra:
        asked = int(str(config.extra["tensor_parallel_size"]))
    heads = kv_heads = 1
    fits_context = config.context_needed is None or "max_model_len" in given
    if not fits_context or (asked is None and gpus > 1):
        model = AsyncEngineArgs(**given).create_model_config()
        heads = model.hf_text_config.num_attention_heads
        kv_heads = model.get_total_num_kv_heads()
        if not fits_context and config.context_needed is not None:
            given["max_model_len"] = min(model.max_model_len, config.context_needed)
    tensor_parallel = choose_tensor_parallel(gpus // _gpus_per_rank(config), heads, kv_heads, asked)
    given["tensor_parallel_size"] = tensor_parallel.value
    arguments_of_vllm = AsyncEngineArgs(**given)
    return ChosenArguments(arguments_of_vllm, precision, tensor_parallel, gpus, config.profiler)


def _profiler_config(config: VllmConfig, on_cpu: bool) -> Any:
    """vLLM's ProfilerConfig, which replaced VLLM_TORCH_PROFILER_DIR in 0.13."""
    from vllm.config import ProfilerConfig

    if config.profiler == "cuda":
        if on_cpu:
            raise EngineError(
                "--profile-run cuda: vLLM's CPU build does not use CUDA: use --profile-run torch"
            )
        return ProfilerConfig(profiler="cuda")
    assert config.profile_folder is not None
    return ProfilerConfig(
        profiler="torch",
        torch_profiler_dir=str(config.profile_folder),
        # Python's stacks make the trace several times as large and the run slower.
        torch_profiler_with_stack=False,
        # Otherwise it also profiles this process, on whose threads LoadGen and the SUT work.
        ignore_frontend=True,
    )


def _not_imported(error: ImportError) -> EngineError:
    return EngineError(
        f"vLLM cannot be imported ({_one_line(error)}): run `make clean` and `make setup`"
    )


def _runs_on_cpu() -> bool:
    try:
        from vllm.platforms import current_platform
    except ImportError as error:
        raise _not_imported(error) from error
    return bool(current_platform.is_cpu())


def _visible_gpus() -> int:
    """The GPUs that vLLM can use. Raises EngineError if there are none."""
    import torch
    from vllm.platforms import current_platform

    count = torch.accelerator.device_count() if current_platform.device_type else 0
    if not count:
        raise EngineError(no_usable_gpu())
    return count


def no_usable_gpu() -> str:
    """One line saying that the GPU build of vLLM finds no GPU, what was checked and what to do."""
    import torch

    cuda = f"CUDA {torch.version.cuda}" if torch.version.cuda else "its runtime"
    found = listed_gpus()
    if found:
        names = ", ".join(sorted({gpu.name for gpu in found}))
        looked = f"the driver lists {names} (driver {found[0].driver}) and {cuda} can use none"
    else:
        looked = f"neither the driver (NVML, libnvidia-ml.so.1) nor {cuda} lists one"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        looked += f", with CUDA_VISIBLE_DEVICES={hidden}"
    return (
        f"no usable GPU: this is the GPU build of vLLM, and {looked}; check that nvidia-smi lists "
        "the GPU and a driver that is new enough (CUDA 13: 580), start a container with "
        "--gpus all, or install the CPU build with `BUILD=cpu make setup`"
    )


def _gpus_per_rank(config: VllmConfig) -> int:
    """How many sets of tensor-parallel GPUs pipeline and data parallelism need."""
    ranks = 1
    for name in ("pipeline_parallel_size", "data_parallel_size"):
        ranks *= max(1, int(str(config.extra.get(name, 1))))
    return ranks


def _workers(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """The processes that produce vLLM's answers, recognized by their process titles."""
    title = os.environ.get("VLLM_PROCESS_NAME_PREFIX", "VLLM") + "::"
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.name().startswith(title):
                found.append(process)
    return found


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


def _speculation(config: Any) -> str | None:
    """What proposes tokens ahead of the model, in vLLM's terms; None if nothing does."""
    speculative = getattr(config, "speculative_config", None)
    return None if speculative is None else str(getattr(speculative, "method", "") or "on")


def _describe(llm: Any, chosen: ChosenArguments, load_s: float) -> EngineDescription:
    import vllm

    config, arguments = llm.vllm_config, chosen.arguments
    parallel = config.parallel_config
    used = parallel.world_size * parallel.data_parallel_size
    return EngineDescription(
        name="vLLM",
        version=vllm.__version__,
        model=arguments.model,
        stand_in=False,
        max_model_len=config.model_config.max_model_len,
        settings={
            **_settings_of(config),
            "dtype_why": chosen.precision.why,
            "tensor_parallel_size": arguments.tensor_parallel_size,
            "tensor_parallel_why": chosen.tensor_parallel.why,
            "idle_gpus": max(0, chosen.gpus - used),
            "stream_interval": arguments.stream_interval,
            "omp_threads_bind": os.environ.get("VLLM_CPU_OMP_THREADS_BIND") or _allowed_cpus(),
            MODEL_FILES: model_files_sha256(arguments.model),
            **({"profiler": chosen.profiler} if chosen.profiler else {}),
            "load_s": round(load_s, 1),
        },
    )


def vllm_variables(model: str, profiler: Profiler | None = None) -> dict[str, str]:
    """The environment variables that vLLM reads while it loads, without those the user has set.

    `model`: a hub id or a folder.
    """
    defaults = {
        # By default, vLLM leaves every second core of this kind of machine idle.
        "VLLM_CPU_OMP_THREADS_BIND": _allowed_cpus(),
        "VLLM_CPU_KVCACHE_SPACE": _CPU_KV_CACHE_GIB,
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        # This process has threads, so its children must not be forked.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if Path(model).is_dir():
        defaults["HF_HUB_OFFLINE"] = "1"
    if profiler == "cuda":
        # vLLM's own ranges, in addition to the suite's.
        defaults["VLLM_NVTX_SCOPES_FOR_PROFILING"] = "1"
    if not shutil.which("g++") and _runs_on_cpu():
        # Even in eager mode, vLLM compiles the code that counts log-probabilities, which needs a
        # compiler here.
        defaults["TORCHDYNAMO_DISABLE"] = "1"
    return {name: value for name, value in defaults.items() if name not in os.environ}


@contextlib.contextmanager
def vllm_environment(config: VllmConfig) -> Iterator[None]:
    """Set the variables that vLLM reads while it loads; restore them and the signal handlers."""
    missing = vllm_variables(config.model, config.profiler)
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    logging.getLogger("vllm").setLevel(os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"))
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)


_LSCPU = ("lscpu", "--json", "--extended=CPU,CORE,NODE", "--online")
"""The query that vLLM's CPU worker makes when it starts (vllm/utils/cpu_resource_utils.py)."""


@contextlib.contextmanager
def cpus_listed() -> Iterator[None]:
    """Provide a program `lscpu` that answers vLLM's CPU worker, if the system has none.

    It is missing on a system without util-linux and fails without /sys (a sandbox, a chroot); the
    worker would end with its error. The replacement lists each CPU as a core of its own on the
    first memory node, as vLLM does if lscpu knows no more.
    """
    if not _runs_on_cpu() or _lists_cpus():
        yield
        return
    before = os.environ.get("PATH", os.defpath)
    cpus = [{"cpu": n, "core": n, "node": 0} for n in sorted(os.sched_getaffinity(0))]
    with tempfile.TemporaryDirectory(prefix="lscpu-") as folder:
        program = Path(folder) / "lscpu"
        program.write_text(f"#!/bin/sh\necho '{json.dumps({'cpus': cpus})}'\n")
        program.chmod(0o755)
        os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
        try:
            yield
        finally:
            os.environ["PATH"] = before


def _lists_cpus() -> bool:
    try:
        subprocess.run(_LSCPU, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@contextlib.contextmanager
def _output_to(log_file: Path | None) -> Iterator[None]:
    """Send vLLM's output to a file: its processes inherit it, and its loggers here keep it."""
    if log_file is None:
        yield
        return
    try:
        import vllm.logger  # noqa: F401 - sets up the loggers that are redirected below
    except ImportError as error:
        raise _not_imported(error) from error
    log_file.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log_file)
    _log_only_to(handler)
    file = log_file.open("a")
    saved = [(number, os.dup(number)) for number in (1, 2)]
    for number, _ in saved:
        os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, copy in saved:
            os.dup2(copy, number)
            os.close(copy)
        file.close()
        # vLLM sets up its loggers again while it loads.
        _log_only_to(handler)


def _log_only_to(handler: logging.Handler) -> None:
    logger = logging.getLogger("vllm")
    logger.propagate = False
    logger.handlers = [handler]


def _allowed_cpus() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def last_error(log_file: Path) -> str | None:
    """The last error in a log of vLLM, as one line; None if there is none."""
    try:
        lines = log_file.read_text(errors="replace").splitlines()
    except OSError:
        return None
    found = ""
    for number, line in enumerate(lines):
        match = _ERROR_LINE.search(_COLOURS.sub("", line))
        # vLLM's last error often only points to the first one.
        if match and not _only_points(line):
            # pydantic puts the error on its own line, and the reason on the indented line after it.
            rest = itertools.takewhile(lambda one: one[:1].isspace(), lines[number + 1 :])
            found = " ".join([match[0], *map(str.strip, rest)])
    if _NO_DEVICE.search(found):
        return no_usable_gpu()
    # Redact before cutting: part of a key would no longer be recognized.
    return scrub(found)[:300] or None


def _only_points(text: str) -> bool:
    """Whether an error of vLLM only refers to another one written before it."""
    return "root cause" in text or "EngineCore encountered an issue" in text


def _root_cause(error: BaseException, log_file: Path | None) -> str:
    """The error in one line; the log's last one if vLLM only refers to an earlier error."""
    text = _one_line(error)
    if _NO_DEVICE.search(text):
        return no_usable_gpu()
    if not _only_points(text) or log_file is None:
        return text
    return last_error(log_file) or text


def _one_line(error: BaseException) -> str:
    text = " ".join(scrub(str(error)).split())
    return text[:300] or type(error).__name__
