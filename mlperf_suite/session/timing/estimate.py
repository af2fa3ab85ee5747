"""Estimates how long each step takes and how many samples a run can have. Pure.

Computed from an engine's speed, which a probe measures or an earlier run supplies. Estimates only
size the plan and tell the user how long it takes; no figure of a result comes from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlperf_suite.benchmarks.audits import TEST06, Audit, Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, Benchmark, Generation, Scenario
from mlperf_suite.loadgen.load_plan import AUDIT_MODES, CACHING, SEARCH, SEARCH_SAMPLES, SMOKE
from mlperf_suite.results.record import RunKey
from mlperf_suite.rules.caching_figures import ANSWER_TOKENS, LOOKS
from mlperf_suite.session.plan import Kind, SearchKey, Step
from mlperf_suite.session.timing.probe import PROBE_S, Speed
from mlperf_suite.session.timing.rates import RATE_HEADROOM, SERVER_SHARE
from mlperf_suite.session.warm_up import (
    SMOKE_ANSWER_TOKENS,
    SMOKE_WARM_UP_S,
    WARM_UP_ANSWER_TOKENS,
    warm_up_requests,
)
from mlperf_suite.settings import EngineKind, Settings

_LOAD_S: Mapping[EngineKind, float] = {"vllm": 30.0, "endpoint": 2.0}
"""Time to load an engine, or to connect to one, in s."""
_AFTER_RUN_S = 2.0
"""Time to judge a run and write its reports, in s."""
_OFFLINE_SLACK = 1.1
"""LoadGen issues a tenth more samples than the rate and the minimum duration ask for."""
_SEARCH_RUNS = 11
"""Short runs that a search usually makes; one at full length follows."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths of a benchmark's prompts, in order, and the mean length of its answers, in
    tokens."""

    prompts: Sequence[int]
    answer: float

    def first(self, count: int) -> list[int]:
        """The lengths of the first `count` prompts, starting over after the last one."""
        return [self.prompts[i % len(self.prompts)] for i in range(count)]

    @property
    def prompt(self) -> int:
        """The mean length of a prompt."""
        return round(sum(self.prompts) / len(self.prompts))


def offline_rate(speed: Speed, lengths: Lengths, samples: int) -> float:
    """Samples/s of a run that issues this many samples at once."""
    return samples / speed.batch_s(lengths.first(samples), lengths.answer)


def run_s(
    scenario: Scenario,
    mode: Mode,
    speed: Speed,
    lengths: Lengths,
    samples: int,
    *,
    smoke: bool,
    server_qps: float | None = None,
    audit_queries: int | None = None,
) -> float:
    """Seconds of one LoadGen run over `samples` samples, with judging and reports.

    `server_qps`: Server's target QPS, None if it follows from Offline's rate.
    """
    least_s, least_queries = _least(scenario, smoke)
    if mode in AUDIT_MODES:
        queries = audit_queries or TEST06.queries
    elif mode == "accuracy":
        queries = samples
    else:
        rate = _rate(scenario, speed, lengths, samples, server_qps)
        slack = RATE_HEADROOM * _OFFLINE_SLACK if scenario.name == "Offline" else 1.0
        requests_given = max(least_queries, rate * least_s * slack, 1)
        # Equal issue mode sends whole multiples of the samples.
        queries = math.ceil(requests_given / samples) * samples
    return _AFTER_RUN_S + _answered_s(scenario, speed, lengths, samples, queries, server_qps)


def _least(scenario: Scenario, smoke: bool) -> tuple[float, int]:
    """The least duration in s and number of queries of a performance run."""
    if not smoke:
        return MIN_DURATION_MS / 1000, 1
    shortened = SMOKE[scenario.loadgen_scenario]
    return shortened.min_duration_ms / 1000, shortened.min_query_count


def _rate(
    scenario: Scenario, speed: Speed, lengths: Lengths, samples: int, server_qps: float | None
) -> float:
    if scenario.loadgen_scenario == "Server":
        return server_qps or SERVER_SHARE * offline_rate(speed, lengths, samples)
    if scenario.loadgen_scenario == "SingleStream":
        return 1 / speed.one_s(lengths.prompt, lengths.answer)
    return offline_rate(speed, lengths, samples)


def _answered_s(
    scenario: Scenario,
    speed: Speed,
    lengths: Lengths,
    samples: int,
    queries: int,
    server_qps: float | None,
) -> float:
    if scenario.loadgen_scenario == "Offline":
        return speed.batch_s(lengths.first(queries), lengths.answer)
    one_s = speed.one_s(lengths.prompt, lengths.answer)
    if scenario.loadgen_scenario == "Server":
        return queries / _rate(scenario, speed, lengths, samples, server_qps) + one_s
    return queries * one_s


def warm_up_s(
    scenario: Scenario,
    speed: Speed,
    lengths: Lengths,
    requests: int,
    rate_qps: float | None = None,
) -> float:
    """Seconds of an untimed warm-up. `rate_qps`: queries/s of Server's warm-up."""
    one_s = speed.one_s(lengths.prompt, lengths.answer)
    if scenario.loadgen_scenario == "SingleStream":
        return requests * one_s
    at_once = speed.batch_s(lengths.first(requests), lengths.answer)
    if scenario.loadgen_scenario == "Server" and rate_qps:
        return max((requests - 1) / rate_qps + one_s, at_once)
    return at_once


_RATE_PROBE_SAMPLES = {True: 16, False: 1024}
"""Samples that measure the rate if no accuracy run did, by whether the run is a smoke run."""
_LATENCY_PROBES = 3


def rate_probe_samples(scenario: Scenario, *, smoke: bool) -> int:
    """The number of samples that measure the rate to plan for; SingleStream sends them one by
    one."""
    return (
        _LATENCY_PROBES
        if scenario.loadgen_scenario == "SingleStream"
        else (_RATE_PROBE_SAMPLES[smoke])
    )


def search_s(scenario: Scenario, speed: Speed, lengths: Lengths, *, smoke: bool) -> float:
    """Seconds that a search for the highest valid rate usually takes."""
    short = SEARCH[smoke]
    samples = min(len(lengths.prompts), SEARCH_SAMPLES)
    rate = offline_rate(speed, lengths, samples)
    trial_s = max(short.min_duration_ms / 1000, samples / rate) + _AFTER_RUN_S
    full = run_s(scenario, "performance", speed, lengths, samples, smoke=smoke)
    return _SEARCH_RUNS * trial_s + full


def mmlu_s(speed: Speed, questions: int, shots: int) -> float:
    """Seconds of scoring: the questions' own tokens, with examples mostly from the cache."""
    tokens = _QUESTION_TOKENS * (1 + shots * _UNCACHED_SHARE)
    return questions * speed.batch_s([round(tokens)], 1.0)


def caching_s(speed: Speed, prompt_tokens: int, at_once: int) -> float:
    """Seconds of the caching audit if its first look decides, with judging and reports.

    `prompt_tokens`: of each prompt. `at_once`: the samples of a block.
    """
    block_s = _BLOCK_OVERHEAD_S + speed.batch_s([prompt_tokens] * at_once, ANSWER_TOKENS)
    return _AFTER_RUN_S + 2 * (1 + LOOKS[0]) * block_s


_BLOCK_OVERHEAD_S = 0.05
"""Time for LoadGen to begin and end a run and for the suite to read its logs, in s."""
_CACHING_BLOCK_S = {True: 0.4, False: 2.0}
"""How long a block of the caching audit should last, in s, by whether the profile is smoke."""
_CACHING_AT_ONCE = (2, 256)
"""The fewest and the most samples of a block."""
_QUESTION_TOKENS = 110
"""The mean length of a question with its choices, in tokens."""
_UNCACHED_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Estimator:
    """Estimates the steps of a session under its settings, on an engine of this speed.

    `speed` None: nothing is known, and a smoke run takes all that it may. `lengths`: of a
    benchmark's prompts and answers in a mode. `available`: how many samples its data has here.
    `of_baselines`: by benchmark id and scenario, the samples of the run that is compared with.
    `questions` and `shots` are MMLU's.
    """

    settings: Settings
    speed: Speed | None
    lengths: Callable[[Benchmark, Mode], Lengths]
    available: Callable[[Benchmark, Mode], int]
    of_baselines: Mapping[tuple[str, str], int]
    questions: int
    shots: int

    def size(self, benchmark: Benchmark, scenario: Scenario, mode: Mode = "performance") -> Size:
        """The samples that the runs of a scenario take: all, unless a smoke run takes fewer.

        A mode with separate data takes all of it, as does an audit that issues each sample once.
        """
        available = self.available(benchmark, mode)
        audit = benchmark.audit(mode)
        if mode in self.settings.workload(benchmark).parts or (audit and audit.unique):
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
            return sum(self._run_s(benchmark, scenario, mode, samples) for mode in modes) / 2

        return samples_that_fit(most, seconds)

    def audit_size(self, benchmark: Benchmark, scenario: Scenario, audit: Audit) -> Size:
        """The queries of an audit: its own number, or fewer for TEST06 in a smoke run on a slow
        machine. An audit that issues each sample once has no more queries than the data has
        samples."""
        samples = self.size(benchmark, scenario, audit.mode).samples
        if audit.unique and samples < audit.queries:
            return Size(samples, f"{samples} of {audit.queries:,} queries: all of this data")
        if audit.unique or not self.settings.smoke or self.speed is None:
            return Size(audit.queries)
        return audit_queries_that_fit(
            lambda queries: self._run_s(benchmark, scenario, audit.mode, samples, queries)
        )

    def caching_at_once(self, benchmark: Benchmark) -> int:
        """The samples of a block of the caching audit: enough to take a measurable time.

        At least two, so that sharing between concurrent requests shows as well.
        """
        if self.speed is None:
            return _CACHING_AT_ONCE[0]
        one_s = self.speed.prefill_s * self._caching_prompt(benchmark)
        fewest, most = _CACHING_AT_ONCE
        fitting = round(_CACHING_BLOCK_S[self.settings.smoke] / one_s) if one_s > 0 else most
        return min(most, max(fewest, fitting))

    def _caching_prompt(self, benchmark: Benchmark) -> int:
        prompts = sorted(self.lengths(benchmark, CACHING).prompts)
        return prompts[(len(prompts) - 1) // 2]

    def _run_s(
        self,
        benchmark: Benchmark,
        scenario: Scenario,
        mode: Mode,
        samples: int,
        audit_queries: int | None = None,
    ) -> float:
        assert self.speed is not None
        return run_s(
            scenario,
            mode,
            self.speed,
            self.lengths(benchmark, mode),
            samples,
            smoke=self.settings.smoke,
            server_qps=self.settings.server_target_qps,
            audit_queries=audit_queries,
        )

    def warm_up_generation(
        self, benchmark: Benchmark, scenario: Scenario, generation: Generation
    ) -> Generation:
        """How the answers of a warm-up are generated: like the run's own, but cut."""
        if not self.settings.smoke:
            # Longer answers would not make the engine any warmer.
            most = min(generation.max_new_tokens, WARM_UP_ANSWER_TOKENS)
            return replace(generation, max_new_tokens=most)
        for tokens in SMOKE_ANSWER_TOKENS:
            cut = replace(generation, max_new_tokens=min(generation.max_new_tokens, tokens))
            if (self._warm_up_s(benchmark, scenario, cut) or 0.0) <= SMOKE_WARM_UP_S:
                break
        return cut

    def _warm_up_s(
        self, benchmark: Benchmark, scenario: Scenario, generation: Generation
    ) -> float | None:
        if self.speed is None:
            return None
        requests_given, smoke = self.settings.warmup, self.settings.smoke
        lengths = self.lengths(benchmark, "performance")
        answer = min(lengths.answer, generation.max_new_tokens)
        replicas = self.settings.replicas
        engines = replicas if isinstance(replicas, int) else 1
        requests = warm_up_requests(scenario, requests_given, smoke=smoke, engines=engines)
        rate = None
        if scenario.loadgen_scenario == "Server":
            samples = self.size(benchmark, scenario).samples
            rate = _rate(scenario, self.speed, lengths, samples, self.settings.server_target_qps)
        return warm_up_s(scenario, self.speed, replace(lengths, answer=answer), requests, rate)

    def seconds(self, step: Step) -> float | None:
        """How long a step of the plan takes; None if the speed is not known."""
        key = step.key
        if step.kind == "load":
            return _LOAD_S[self.settings.engine_kind]
        if step.kind == "probe":
            return PROBE_S
        # Whether there is a meter, and how many replicas, is known once the engine is loaded.
        if self.speed is None or step.kind in ("idle power", "scaling"):
            return None
        if not isinstance(key, RunKey | SearchKey):
            return mmlu_s(self.speed, self.questions, self.shots)
        benchmark = BENCHMARKS[key.benchmark]
        scenario, smoke = benchmark.scenario(key.scenario), self.settings.smoke
        if isinstance(key, SearchKey):
            return search_s(
                scenario, self.speed, self.lengths(benchmark, "performance"), smoke=smoke
            )
        return self._of_run(step.kind, benchmark, scenario, key.mode)

    def _of_run(self, kind: Kind, benchmark: Benchmark, scenario: Scenario, mode: Mode) -> float:
        """Seconds of a LoadGen run, or of the rate probe or warm-up before it."""
        assert self.speed is not None
        if kind == "rate":
            count = rate_probe_samples(scenario, smoke=self.settings.smoke)
            count = min(count, self.available(benchmark, "performance"))
            return warm_up_s(scenario, self.speed, self.lengths(benchmark, "performance"), count)
        if kind == "warm-up":
            own = self.settings.workload(benchmark).generation
            cut = self.warm_up_generation(benchmark, scenario, own)
            return self._warm_up_s(benchmark, scenario, cut) or 0.0
        if mode == CACHING:
            at_once = self.caching_at_once(benchmark)
            return caching_s(self.speed, self._caching_prompt(benchmark), at_once)
        samples = self.size(benchmark, scenario, mode).samples
        audit = benchmark.audit(mode)
        queries = self.audit_size(benchmark, scenario, audit).samples if audit else None
        return self._run_s(benchmark, scenario, mode, samples, queries)


# How many samples a smoke run takes
#
# The rungs are tried in order: the first with time for its least number of samples decides, so that
# a slow machine takes longer instead of using too few samples to be meaningful. Sizes come from a
# fixed list, so that two sessions on one machine mostly take the same number and can be compared;
# near an edge, the probe may decide either way.


SIZES = (84, 64, 48, 32, 24, 16, 12, 8)
"""Numbers of samples, or of an audit's queries if its own 100 do not fit."""
RUNGS: tuple[tuple[float, int], ...] = ((17.0, 48), (45.0, 24), (75.0, 8))
"""Seconds that a run may last, and the fewest samples for which it gets no more time."""
AUDIT_RUNGS: tuple[tuple[float, int], ...] = ((26.0, 100), (45.0, 24), (75.0, 8))
_NO_GAIN = 1.1
"""Fewer samples are not worth it if they save less than this factor: SingleStream's least number
of queries takes its time however few samples they are drawn from."""


@dataclass(frozen=True, slots=True)
class Size:
    """A number of samples and, if it is not all of them, why."""

    samples: int
    why: str = ""


def samples_that_fit(available: int, seconds_of: Callable[[int], float]) -> Size:
    """The samples of an accuracy or performance run.

    `seconds_of`: how long a run of this many samples is expected to last.
    """
    sizes = [available, *(size for size in SIZES if size < available)]
    return _fitting(sizes, RUNGS, seconds_of, "samples")


def audit_queries_that_fit(seconds_of: Callable[[int], float]) -> Size:
    """The queries of TEST06: its own 100 if they fit."""
    own = TEST06.queries
    return _fitting([own, *(s for s in SIZES if s < own)], AUDIT_RUNGS, seconds_of, "queries")


def _fitting(
    sizes: list[int],
    rungs: tuple[tuple[float, int], ...],
    seconds_of: Callable[[int], float],
    noun: str,
) -> Size:
    seconds_by_size = {size: seconds_of(size) for size in sizes}
    least = min(seconds_by_size.values())
    for seconds, floor in rungs:
        limit = max(seconds, _NO_GAIN * least)
        largest = next(size for size in sizes if seconds_by_size[size] <= limit)
        if largest >= min(floor, sizes[0]):
            break
    return _size_of(largest, sizes[0], seconds_by_size[largest], noun)


def _size_of(samples: int, available: int, seconds: float, noun: str) -> Size:
    if samples == available:
        return Size(samples)
    return Size(
        samples, f"{samples} of {available} {noun}: about {seconds:.0f} s a run on this machine"
    )
