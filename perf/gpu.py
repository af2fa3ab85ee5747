"""Measure a GPU with vLLM, and what the suite adds, in stages and without network.

    python -m perf.gpu [smoke] [warm-up] [offline] [server]
        [--precision bf16 fp8] [--minutes 9] [--out perf/gpu.md] [--logs results/perf-gpu]

Creates a model of Llama-3.1-8B's shape locally: configuration and tokenizer; vLLM fills the weights
with random numbers (`load_format="dummy"`). Speed and memory are those of the real model; answers
are meaningless and always have 128 tokens. Without stages, all are measured, for each precision:

- smoke: two layers of the model load and answer, in seconds: whether the build works at all;
- warm-up: TTFT of a fresh engine's first queries, and of the same queries after the suite's
  warm-up;
- offline: tokens/s of the bare engine (AsyncLLM.generate on all prompts at once) and of the suite's
  Offline, alternating, and the energy per token if the GPU counts it (NVML);
- server: at a third and at two thirds of that rate: TTFT and TPOT p99 of the bare engine and of the
  suite, which sends the same prompts at the same times; the difference is what the suite adds.

All but smoke share one engine for each precision; the time to load it and its GPU memory are kept
too. After each stage the page is written, with its figures as JSON beside it; a later call on the
same device and build adds to them. A stage that fails or for which no time is left is named on the
page, and the next one goes on. The engine's output and LoadGen's logs stay in --logs.

With vLLM's CPU build, the embedded model and a few prompts only show that the program works.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.engines.hang_detector import terminated_like_interrupted
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.engines.vllm_environment import runs_on_cpu
from mlperf_suite.errors import SuiteError, one_line
from mlperf_suite.hardware import (
    GpuMeter,
    accelerators,
    are_numbered_by_bus,
    describe_system,
    gpus_named,
    open_gpu_meters,
)
from perf.gpu_engine import Prompts, Subject, make_model, make_prompts
from perf.gpu_page import ANSWER, MEAN_PROMPT, Latency, PrecisionFigures, Record, Smoke

_MAX_PROMPT_LENGTH = 2500
"""About the benchmark's longest, in tokens."""
_SHARES = ((1, "a third"), (2, "two thirds"))
_NO_TIME = "no time was left"
_WRITING_S = 30.0
"""Of the minutes given, for stopping the engines and writing the page."""
_PRECISIONS: dict[str, dict[str, object]] = {
    "bf16": {"load_format": "dummy"},
    "fp8": {"load_format": "dummy", "quantization": "fp8"},
}
"""vLLM's arguments for each on a GPU."""
_TWO_LAYERS: dict[str, object] = {
    "hf_overrides": {"num_hidden_layers": 2},
    "enforce_eager": True,
    "gpu_memory_utilization": 0.3,
}


@dataclass(frozen=True)
class Sizes:
    """How much is measured. `least`, `most`: prompts of an Offline run; `cold`: queries of a cold
    start, `cold_qps`: their rate; `pairs` of Offline runs; seconds of an Offline and a Server run;
    `warm_up` prompts."""

    least: int
    most: int
    cold: int
    cold_qps: float
    pairs: int
    offline_s: float
    server_s: float
    warm_up: int


ON_GPU = Sizes(
    least=128, most=2048, cold=32, cold_qps=4.0, pairs=2, offline_s=12.0, server_s=15.0, warm_up=64
)
ON_CPU = Sizes(
    least=8, most=12, cold=4, cold_qps=1.0, pairs=1, offline_s=8.0, server_s=8.0, warm_up=4
)


class Clock:
    """The remaining time. `now` returns seconds."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._end = now() + seconds

    @property
    def left_s(self) -> float:
        return self._end - self.now()

    def has(self, seconds: float) -> bool:
        """Whether this many seconds are left."""
        return self.left_s >= seconds

    def share(self, parts: int) -> Clock:
        """A clock of one of so many parts of the remaining time."""
        return Clock(self.left_s / parts, self.now)


class Device:
    """The GPU that the engine computes on: the first that it sees, as CUDA numbers them."""

    def __init__(self) -> None:
        self._meters = open_gpu_meters()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        seen = list(self._meters.gpus)
        if visible is not None:
            seen = gpus_named(seen, visible.split(","))
        by_number = visible is None or visible.partition(",")[0].isdecimal()
        if by_number and not are_numbered_by_bus(self._meters.gpus, os.environ):
            seen = []
        self._gpu: GpuMeter | None = seen[0] if seen else None

    def name(self) -> str:
        """Its name and driver."""
        for gpu in accelerators():
            if self._gpu is not None and gpu.uuid == self._gpu.uuid:
                return f"{gpu.name} (driver {gpu.driver})"
        return (
            f"a GPU that NVML does not name ({self._meters.problem or 'its number is not known'})"
        )

    def used_gib(self) -> float | None:
        """Its memory in use; None if its driver does not tell."""
        import pynvml

        def used_bytes() -> float:
            assert self._gpu is not None
            handle = pynvml.nvmlDeviceGetHandleByIndex(self._gpu.index)
            return float(pynvml.nvmlDeviceGetMemoryInfo(handle).used)

        return self._value(used_bytes, 2**30)

    def energy_j(self) -> float | None:
        """Joules since the driver was loaded; None if the GPU does not count them."""
        return self._value(lambda: self._gpu.energy_mj() if self._gpu else 0.0, 1000)

    def _value(self, read: Callable[[], float], unit: float) -> float | None:
        try:
            return read() / unit if self._gpu else None
        # Any error of the library or its driver only loses this figure.
        except Exception:
            return None


@dataclass
class Measurement:
    """The stages of one precision, which share an engine. `device`: None on a CPU."""

    config: VllmConfig
    figures: PrecisionFigures
    prompts: Prompts
    sizes: Sizes
    clock: Clock
    folder: Path
    device: Device | None
    load: Callable[[VllmConfig], VllmEngine] = VllmEngine.load
    _engines: list[VllmEngine] = field(default_factory=list)
    _warmed_up: bool = False
    _lost: str = ""

    @cached_property
    def subject(self) -> Subject:
        """The engine, loaded now. What loading takes is no part of a stage."""
        before = self.device.used_gib() if self.device else None
        start_s = self.clock.now()
        engine = self.load(self.config)
        self._engines.append(engine)
        self.figures.load_s = self.clock.now() - start_s
        after = self.device.used_gib() if self.device else None
        self.figures.memory_gib = None if before is None or after is None else after - before
        return Subject(engine, self.prompts, self.folder, max(60.0, self.clock.left_s))

    def make(self, stage: str) -> None:
        """Make a stage, and keep how long it took or why there is none."""
        self.figures.left_out.pop(stage, None)
        if self._lost and stage != "smoke":
            self.leave_out(stage, self._lost)
            return
        start_s = self.clock.now()
        try:
            if stage != "smoke":
                _ = self.subject
                start_s = self.clock.now()
            if self.clock.has(0.0):
                _STAGES[stage](self)
                self.figures.seconds[stage] = self.clock.now() - start_s
            else:
                self.leave_out(stage, _NO_TIME)
        # vLLM and torch raise many kinds of errors: one lost stage must not cost the others.
        except Exception as error:
            words = str(error) if isinstance(error, SuiteError) else one_line(error)
            self.leave_out(stage, f"{type(error).__name__}: {words}")
            if stage != "smoke" and not any(engine.alive for engine in self._engines):
                self._lost = "its engine ended" if self._engines else "its engine did not load"

    def leave_out(self, stage: str, words: str) -> None:
        self.figures.left_out.setdefault(stage, []).append(words)

    def close(self) -> None:
        for engine in self._engines:
            engine.close()

    def smoke(self) -> None:
        extra = self.config.extra | (_TWO_LAYERS if self.device else {})
        log_file = self.folder / "smoke-engine.log"
        start_s = self.clock.now()
        engine = self.load(replace(self.config, extra=extra, log_file=log_file))
        try:
            load_s = self.clock.now() - start_s
            subject = Subject(engine, self.prompts, self.folder / "smoke", self.clock.left_s)
            self.figures.smoke = Smoke(load_s, subject.bare_tokens(self.sizes.cold))
        finally:
            engine.close()

    def warm_up(self) -> None:
        # Only a fresh engine is cold. The queries come one by one.
        if self._warmed_up:
            raise RuntimeError("the engine is no longer cold")
        sizes = self.sizes
        self.figures.cold = self.subject.suite_server(sizes.cold_qps, sizes.cold)[0]
        self._warm()
        self.figures.warm = self.subject.suite_server(sizes.cold_qps, sizes.cold)[0]

    def _warm(self) -> None:
        if not self._warmed_up:
            self.subject.warm_up(self.sizes.warm_up)
            self._warmed_up = True

    def offline(self) -> None:
        self._warm()
        subject, sizes, figures = self.subject, self.sizes, self.figures
        speed = subject.bare_offline(sizes.least)
        count = prompts_for(sizes.offline_s, speed, sizes)
        once_s = count * ANSWER / speed
        # The first run of a size is slower: on an H200 it cost whichever came first 3%.
        subject.bare_offline(count)
        figures.prompts, figures.offline, figures.joules = count, [], None
        used_j, tokens = 0.0, 0
        for number in range(sizes.pairs):
            if number and not self.clock.has(2 * once_s + 2 * 2 * sizes.server_s):
                self.leave_out("offline", f"{number} of {sizes.pairs} pairs, {_NO_TIME}")
                break
            if number % 2:
                bare = subject.bare_offline(count)
            before = self._energy_j()
            suite = subject.suite_offline(count)
            after = self._energy_j()
            if not number % 2:
                bare = subject.bare_offline(count)
            figures.offline.append((bare, suite))
            if before is not None and after is not None:
                used_j, tokens = used_j + after - before, tokens + count * ANSWER
        figures.joules = used_j / tokens if tokens and used_j else None

    def _energy_j(self) -> float | None:
        return self.device.energy_j() if self.device else None

    def server(self) -> None:
        self._warm()
        subject, sizes, figures = self.subject, self.sizes, self.figures
        rates = [suite for _, suite in figures.offline]
        peak = (statistics.median(rates) if rates else subject.suite_offline(sizes.least)) / ANSWER
        figures.server = []
        for thirds, words in _SHARES:
            qps = peak * thirds / 3
            count = max(sizes.cold, round(qps * sizes.server_s))
            # The last answers arrive after the last query is sent.
            if not self.clock.has(3 * count / qps):
                self.leave_out("server", f"{words} of the peak: {_NO_TIME}")
                continue
            ttft, tpot, at_s = subject.suite_server(qps, count)
            bare_ttft, bare_tpot = subject.bare_server(at_s)
            figures.server.append(Latency(words, qps, (bare_ttft, ttft), (bare_tpot, tpot)))


_STAGES: dict[str, Callable[[Measurement], None]] = {
    "smoke": Measurement.smoke,
    "warm-up": Measurement.warm_up,
    "offline": Measurement.offline,
    "server": Measurement.server,
}
"""In the order in which they are made."""


def prompts_for(seconds: float, tokens_per_s: float, sizes: Sizes) -> int:
    """How many prompts an Offline run of this duration answers at this rate."""
    return max(sizes.least, min(sizes.most, round(seconds * tokens_per_s / ANSWER)))


@contextmanager
def measured(measurement: Measurement) -> Iterator[Measurement]:
    """The measurement, whose engine is stopped at the end, also by SIGTERM."""
    with terminated_like_interrupted():
        try:
            yield measurement
        finally:
            measurement.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line asks for. Returns 1 if a stage is missing, else 0."""
    parser = argparse.ArgumentParser(prog="perf.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(_STAGES))
    parser.add_argument("--precision", nargs="+", choices=_PRECISIONS, default=[*_PRECISIONS])
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--out", type=Path, default=Path("perf/gpu.md"))
    parser.add_argument("--logs", type=Path, default=Path("results/perf-gpu"))
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.stages if name not in _STAGES]:
        parser.error(f"no stage {', '.join(unknown)}: {', '.join(_STAGES)}")
    stages = [name for name in _STAGES if name in (options.stages or _STAGES)]
    clock = Clock(options.minutes * 60 - _WRITING_S)
    logs = options.logs.resolve()
    logs.mkdir(parents=True, exist_ok=True)
    # By the build: a machine with a GPU may have the build for CPUs.
    if runs_on_cpu():
        device, model, sizes = None, embedded_model_dir(), ON_CPU
        prompts = make_prompts(sizes.most, 40_000, 128, 400)
        extras: dict[str, dict[str, object]] = {"auto": {}}
    else:
        device, model, sizes = Device(), make_model(logs / "shape-8b"), ON_GPU
        prompts = make_prompts(sizes.most, 128_000, MEAN_PROMPT, _MAX_PROMPT_LENGTH)
        extras = {name: _PRECISIONS[name] for name in options.precision}
    record = Record(device.name() if device else None, describe_system()).continues(options.out)
    for number, (precision, extra) in enumerate(extras.items()):
        share = clock.share(len(extras) - number)
        folder = logs / precision
        folder.mkdir(exist_ok=True)
        config = VllmConfig(
            str(model),
            "bf16" if device else "auto",
            max_model_len=_MAX_PROMPT_LENGTH + ANSWER + 64,
            max_new_tokens=ANSWER,
            load_timeout_s=max(60.0, share.left_s / 2),
            log_file=folder / "engine.log",
            extra=extra,
        )
        figures = record.of(precision)
        with measured(
            Measurement(config, figures, prompts, sizes, share, folder, device)
        ) as measurement:
            for stage in stages:
                measurement.make(stage)
                record.write(options.out)
                seconds, faults = figures.seconds.get(stage), figures.left_out.get(stage, [])
                took = [] if seconds is None else [f"{seconds:.0f} s"]
                print(f"{precision} {stage}: {'; '.join([*took, *faults])}", flush=True)
    print(f"{options.out}; logs in {logs}")
    return int(any(figures.left_out for figures in record.precisions.values()))


if __name__ == "__main__":
    raise SystemExit(main())
