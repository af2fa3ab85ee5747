"""What vLLM reports about its steps and requests."""

from __future__ import annotations

import math
import time
from typing import Any

from mlperf_suite.engines.protocol import (
    DECODE,
    FRONT_END,
    PREFILL,
    QUEUE,
    EngineTrace,
    Marks,
    Steps,
)

_VLLM_TIMES = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")


class Tracer:
    """Stores what vLLM reports about each step and each finished request, a few bytes for each."""

    def __init__(self) -> None:
        self.steps_made = 0
        self._steps = Steps()
        self._marks = _new_marks()

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

    def end(self, tag: int, stats: Any) -> None:
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
        self._steps, self._marks = Steps(), _new_marks()
        return trace


def _new_marks() -> Marks:
    return Marks(FRONT_END, QUEUE, PREFILL, DECODE)


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
