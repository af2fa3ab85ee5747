"""Estimates how long each step takes, how many samples a run can have, and at which rate. Pure.

Computed from an engine's speed, which a probe measures or an earlier run supplies. Estimates only
size the plan and tell the user how long it takes; no figure of a result comes from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mlperf_suite.benchmarks.audits import TEST06, Audit, Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import (
    LOADGEN,
    MIN_DURATION_MS,
    Benchmark,
    Generation,
    Scenario,
)
from mlperf_suite.loadgen.load_plan import AUDIT_MODES, SMOKE, RunKey
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.session.run_kind import Selection, Step, kind_of

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

PROBE_S = 5.0
"""How long a probe may take, in s, unless even the least work takes longer."""
AFTER_RUN_S = 2.0
"""Time to judge a run and write its reports, in s."""
_OFFLINE_SLACK = 1.1
"""LoadGen issues a tenth more samples than the rate and the minimum duration ask for."""


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """An engine's speed.

    `prefill_s`: seconds per prompt token. A decode step of B requests, which makes one token for
    each, takes `step_s` + B x `request_s`. `at_once`: the most requests in a step, None if no limit
    is known. `probe_s`: how long the probe took.
    """

    prefill_s: float
    step_s: float
    request_s: float
    at_once: int | None = None
    probe_s: float = 0.0

    def batch_s(self, prompt_tokens: Sequence[int], answer_tokens: float) -> float:
        """Seconds for requests that are submitted all at once, as in Offline.

        `prompt_tokens`: the length of each prompt. `answer_tokens`: the mean length of their
        answers. Each token of each answer has its share of a step. The number of steps is the
        length of one answer times the rounds needed if not all requests fit into a step.
        """
        count = len(prompt_tokens)
        rounds = max(1.0, count / self.at_once) if self.at_once else 1.0
        steps_s = self.step_s * rounds * answer_tokens
        decoded = count * max(0.0, answer_tokens - 1)
        return self.prefill_s * sum(prompt_tokens) + steps_s + self.request_s * decoded

    def one_s(self, prompt_tokens: int, answer_tokens: float) -> float:
        """Seconds for a single request, as in SingleStream."""
        return self.batch_s([prompt_tokens], answer_tokens)


# The rates that runs are planned for

SERVER_SHARE = 0.8
RATE_HEADROOM = 1.05
"""Offline is planned for slightly more than the measured rate, so that it cannot end too early."""
TAIL_HEADROOM = 1.5
"""The same if a few answers are much longer than the mean: they alone run at the end of a run of
few samples, whose rate is then too low. Too long a run only costs time, too short a one is INVALID.
"""
_RATE_PROBE_SAMPLES = {True: 16, False: 1024}
"""Samples that measure the rate if no accuracy run did, by whether the run is a smoke run."""
_LATENCY_PROBES = 3


def server_qps(offline_samples_per_s: float) -> float:
    """Server's target QPS, to four digits, after Offline reached this many samples/s.

    This is 0.8 x tokens/s / mean tokens per answer, not a number of tokens/s.
    """
    return float(f"{SERVER_SHARE * offline_samples_per_s:.4g}")


def offline_qps(samples_per_s: float, *, tail: bool = False) -> float:
    """Samples/s that Offline is planned for, from the measured rate.

    `tail`: whether answers can be much longer than their mean.
    """
    return round(samples_per_s * (TAIL_HEADROOM if tail else RATE_HEADROOM), 3)


def rate_probe_samples(scenario: Scenario, *, smoke: bool) -> int:
    """The number of samples that estimate the rate; SingleStream sends them one by
    one."""
    one_by_one = scenario.loadgen_scenario == "SingleStream"
    return _LATENCY_PROBES if one_by_one else _RATE_PROBE_SAMPLES[smoke]


# Warm-ups

SMOKE_REQUESTS, OFFICIAL_REQUESTS = 4, 64
WARM_UP_ANSWER_TOKENS = 256
"""The longest answer of a warm-up, in tokens."""
SMOKE_ANSWER_TOKENS, SMOKE_WARM_UP_S = (32, 16, 8), 6.0
"""A smoke run's warm-up uses the longest of these answers, in tokens, with which it fits this
time, in s: each of its steps takes as long as a step of the run."""
_ONE_BY_ONE = 2
"""SingleStream is warm after this few requests, since it sends each alone."""


def warm_up_requests(
    scenario: Scenario, count: int | None, *, smoke: bool, engines: int = 1
) -> int:
    """How many requests warm up a run of this scenario.

    `count`: what the user gave, or None. `engines`: how many share the requests; each should
    be as warm as a single one.
    """
    if count is not None:
        return count
    if scenario.loadgen_scenario == "SingleStream":
        return _ONE_BY_ONE * engines
    return (SMOKE_REQUESTS if smoke else OFFICIAL_REQUESTS) * engines


# Times


@dataclass(frozen=True, slots=True)
class TokenLengths:
    """The lengths of a benchmark's prompts, in order, and the mean length of its answers, in
    tokens."""

    prompts: Sequence[int]
    answer: float

    def first(self, count: int) -> list[int]:
        """The lengths of the first `count` prompts, starting over after the last one."""
        return [self.prompts[i % len(self.prompts)] for i in range(count)]

    @property
    def prompt(self) -> int:
        return round(sum(self.prompts) / len(self.prompts))


@dataclass(frozen=True, slots=True)
class RunTimes:
    """How long the runs of a scenario take on an engine of this speed.

    `server_qps`: Server's target QPS, None if it follows from Offline's rate.
    """

    scenario: Scenario
    speed: EngineSpeed
    lengths: TokenLengths
    smoke: bool
    server_qps: float | None = None

    def run_s(self, mode: Mode, samples: int, audit_queries: int | None = None) -> float:
        """Seconds of one LoadGen run over `samples` samples, with judging and reports."""
        if mode in AUDIT_MODES:
            queries = audit_queries or TEST06.queries
        elif mode == "accuracy":
            queries = samples
        else:
            shortened = SMOKE[self.scenario.loadgen_scenario]
            least_ms = shortened.min_duration_ms if self.smoke else MIN_DURATION_MS
            least_queries = shortened.min_query_count if self.smoke else 1
            slack = RATE_HEADROOM * _OFFLINE_SLACK if self.scenario.name == "Offline" else 1.0
            at_rate = self.rate(samples) * least_ms / 1000 * slack
            # Equal issue mode sends whole multiples of the samples.
            queries = math.ceil(max(least_queries, at_rate, 1) / samples) * samples
        return AFTER_RUN_S + self._answered_s(samples, queries)

    def rate(self, samples: int) -> float:
        """The queries/s that a performance run is sent or answers."""
        match self.scenario.loadgen_scenario:
            case "Server":
                return self.server_qps or SERVER_SHARE * self._offline_rate(samples)
            case "SingleStream":
                return 1 / self._query_s
            case _:
                return self._offline_rate(samples)

    def _offline_rate(self, samples: int) -> float:
        return samples / self.at_once_s(samples)

    def at_once_s(self, queries: int) -> float:
        return self.speed.batch_s(self.lengths.first(queries), self.lengths.answer)

    @property
    def _query_s(self) -> float:
        return self.speed.one_s(self.lengths.prompt, self.lengths.answer)

    def _answered_s(self, samples: int, queries: int) -> float:
        match self.scenario.loadgen_scenario:
            case "Server":
                return queries / self.rate(samples) + self._query_s
            case "SingleStream":
                return queries * self._query_s
            case _:
                return self.at_once_s(queries)

    def warm_up_s(self, requests: int, rate_qps: float | None = None) -> float:
        """Seconds of an untimed warm-up. `rate_qps`: queries/s of Server's warm-up."""
        if self.scenario.loadgen_scenario == "SingleStream":
            return requests * self._query_s
        at_once_s = self.at_once_s(requests)
        if self.scenario.loadgen_scenario == "Server" and rate_qps:
            return max((requests - 1) / rate_qps + self._query_s, at_once_s)
        return at_once_s


@dataclass(frozen=True, slots=True)
class Estimator:
    """Estimates the steps of a session under its settings, on an engine of this speed.

    `speed` None: nothing is known, and a smoke run takes all that it may. `lengths`: of a
    benchmark's prompts and answers in a mode. `available`: how many samples its data has here.
    `of_baselines`: by benchmark id and scenario, the samples of the run that is compared with.
    `of_kind`: what a kind of run has read of its own; None before. `of_kept`: by benchmark id and
    scenario, the samples of the newest kept run that is alike.
    """

    settings: Settings
    speed: EngineSpeed | None
    lengths: Callable[[Benchmark, Mode], TokenLengths]
    available: Callable[[Benchmark, Mode], int]
    of_baselines: Mapping[tuple[str, str], int]
    of_kind: Callable[[str], Any]
    of_kept: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def times(
        self, benchmark: Benchmark, scenario: Scenario, mode: Mode = "performance"
    ) -> RunTimes:
        assert self.speed is not None
        settings, lengths = self.settings, self.lengths(benchmark, mode)
        return RunTimes(scenario, self.speed, lengths, settings.smoke, settings.server_target_qps)

    # Sizes

    def size(self, benchmark: Benchmark, scenario: Scenario, mode: Mode = "performance") -> Size:
        """The samples that the runs of a scenario take: all, unless a smoke run takes fewer.

        A mode with separate data takes all of it, as does an audit that issues each sample once.
        """
        available = self.available(benchmark, mode)
        audit = benchmark.audit(mode)
        own = mode in self.settings.workload(benchmark).parts
        if benchmark.run_kind != LOADGEN or own or (audit and audit.unique):
            return Size(available)
        if not self.settings.smoke or self.settings.total_sample_count is not None:
            return Size(available)
        then = self.of_baselines.get((benchmark.id, scenario.name))
        if then is not None and then <= available:
            return Size(then, "as many as the baseline's" if then < available else "")
        most = min(available, SMOKE[scenario.loadgen_scenario].samples or available)
        if self.speed is None:
            return Size(most)
        modes: tuple[Mode, ...] = ("accuracy", "performance")

        def seconds(samples: int) -> float:
            """Mean of both runs: a performance run's duration may not depend on its samples."""
            return sum(self.times(benchmark, scenario, m).run_s(m, samples) for m in modes) / 2

        size = size_that_fits(most, seconds)
        kept = self.of_kept.get((benchmark.id, scenario.name), 0)
        if (
            kept <= most
            and seconds(kept or most) <= _LONGEST_S
            and kept >= min(size.samples, _FEWEST)
        ):
            return replace(size, samples=kept, why=f"{kept} of {most} samples, as the last run")
        return size

    def audit_size(self, benchmark: Benchmark, scenario: Scenario, audit: Audit) -> Size:
        """The queries of an audit: its own number, or fewer for TEST06 in a smoke run on a slow
        machine. One that is compared with a performance run takes that run's samples. An audit
        that issues each sample once has no more queries than the data has samples."""
        samples = self.size(benchmark, scenario, audit.mode).samples
        if audit.compares:
            return Size(samples)
        if audit.unique and samples < audit.queries:
            return Size(samples, f"{samples} of {audit.queries:,} queries: all of this data")
        if audit.unique or not self.settings.smoke or self.speed is None:
            return Size(audit.queries)
        times = self.times(benchmark, scenario, audit.mode)
        return size_that_fits(
            TEST06.queries,
            lambda queries: times.run_s(audit.mode, samples, queries),
            AUDIT_RUNGS,
            "queries",
        )

    def warm_up_generation(
        self, benchmark: Benchmark, scenario: Scenario, generation: Generation
    ) -> Generation:
        """How the answers of a warm-up are generated: like the run's own, but cut."""
        most = generation.max_new_tokens
        if not self.settings.smoke:
            # Longer answers would not make the engine any warmer.
            return replace(generation, max_new_tokens=min(most, WARM_UP_ANSWER_TOKENS))
        for tokens in SMOKE_ANSWER_TOKENS:
            cut = replace(generation, max_new_tokens=min(most, tokens))
            if self.speed is None or self._warm_up_s(benchmark, scenario, cut) <= SMOKE_WARM_UP_S:
                break
        return cut

    # Times

    def _warm_up_s(self, benchmark: Benchmark, scenario: Scenario, generation: Generation) -> float:
        settings, times = self.settings, self.times(benchmark, scenario)
        engines = source_of(settings).engines(settings)
        requests = warm_up_requests(
            scenario, settings.warmup, smoke=settings.smoke, engines=engines
        )
        rate = None
        if scenario.loadgen_scenario == "Server":
            rate = times.rate(self.size(benchmark, scenario).samples)
        answer = min(times.lengths.answer, generation.max_new_tokens)
        cut = replace(times, lengths=replace(times.lengths, answer=answer))
        return cut.warm_up_s(requests, rate)

    def seconds(self, step: Step) -> float | None:
        """How long a step of the plan takes; None if that is not known."""
        if step.kind == "load":
            return source_of(self.settings).load_s
        if step.kind == "probe":
            return PROBE_S
        # Whether there is a meter, and how many replicas, is known once the engine is loaded.
        if step.key is None:
            return None
        kind = kind_of(step.key)
        if self.speed is None and not kind.knows_seconds(step):
            return None
        return kind.seconds(step, step.key, self)

    def run_s(self, step: str, key: RunKey) -> float:
        """Seconds of a LoadGen run, or of the `rate` probe or the `warm-up` before it."""
        benchmark = BENCHMARKS[key.benchmark]
        scenario = benchmark.scenario(key.scenario)
        if step == "rate":
            count = rate_probe_samples(scenario, smoke=self.settings.smoke)
            count = min(count, self.available(benchmark, "performance"))
            return self.times(benchmark, scenario).warm_up_s(count)
        if step == "warm-up":
            own = self.settings.workload(benchmark).generation
            cut = self.warm_up_generation(benchmark, scenario, own)
            return self._warm_up_s(benchmark, scenario, cut)
        samples = self.size(benchmark, scenario, key.mode).samples
        audit = benchmark.audit(key.mode)
        queries = self.audit_size(benchmark, scenario, audit).samples if audit else None
        mode = "performance" if audit and audit.compares else key.mode
        return self.times(benchmark, scenario, key.mode).run_s(mode, samples, queries)


def sized_by_rate(key: RunKey, selection: Selection) -> bool:
    """Whether LoadGen derives the length of a run from the expected rate of the engine."""
    scenario = BENCHMARKS[key.benchmark].scenario(key.scenario).loadgen_scenario
    if key.mode == "accuracy" or (scenario == "Offline" and selection.offline_rate_given):
        return False
    return scenario in ("Offline", "SingleStream")


# How many samples a smoke run takes
#
# As many as fit the time of a run; if that is too few to be meaningful, time is added up to a least
# number, so that a slower machine never takes more samples than a faster one. Sizes come from a
# fixed list. On a noisy machine equal commands would still take 8 samples one day and 48 the next,
# and could not be compared: a run takes as many as the last one, if these are enough or all that
# fit now, and a run of them is not too long.


Rungs = tuple[tuple[float, int], ...]
"""Seconds that a run may last, and the fewest samples for which it gets no more time; with the time
of the next rung, it takes no more than these."""
SIZES = (84, 64, 48, 32, 24, 16, 12, 8)
"""Numbers of samples, or of an audit's queries if its own 100 do not fit."""
_FEWEST, _LONGEST_S = 24, 75.0
RUNGS: Rungs = ((15.0, _FEWEST), (30.0, 16), (_LONGEST_S, 8))
"""24 samples are the fewest with which the gate sees each broken engine of
docs/evidence/smoke-gate.md."""
AUDIT_RUNGS: Rungs = ((13.0, 16), (75.0, 8))
_NO_GAIN = 1.1
"""Fewer samples are not worth it if they save less than this factor: SingleStream's least number
of queries takes its time however few samples they are drawn from."""


@dataclass(frozen=True, slots=True)
class Size:
    """A number of samples and, if it is not all of them, why."""

    samples: int
    why: str = ""


def size_that_fits(
    available: int, seconds_of: Callable[[int], float], rungs: Rungs = RUNGS, noun: str = "samples"
) -> Size:
    """The samples of an accuracy or performance run, or the queries of an audit: all if they fit.

    `seconds_of`: how long a run of this many is expected to last.
    """
    sizes = [available, *(size for size in SIZES if size < available)]
    seconds_by_size = {size: seconds_of(size) for size in sizes}
    least, most = min(seconds_by_size.values()), available
    for seconds, floor in rungs:
        limit = max(seconds, _NO_GAIN * least)
        fitting = (size for size in sizes if size <= most and seconds_by_size[size] <= limit)
        largest = next(fitting, sizes[-1])
        if largest >= min(floor, most):
            break
        most = min(floor, available)
    if largest == available:
        return Size(available)
    run_s = seconds_by_size[largest]
    return Size(
        largest, f"{largest} of {available} {noun}: about {run_s:.0f} s a run on this machine"
    )
