"""Runs the caching audit on a session's engine: pairs of LoadGen blocks until the interval decides.

A block is one Offline query. In one block of a pair, LoadGen repeats the benchmark's sample of
median length; in the other, it issues prompts of the same length that were never sent before.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from mlperf_suite.benchmarks.audits import MIX, SAME
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.engines.protocol import Engine, RunObserver
from mlperf_suite.loadgen.load_plan import CACHING, plan_run
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.results.record import Result, RunKey, RunRecord
from mlperf_suite.results.schema import CachingFigures
from mlperf_suite.rules import judge
from mlperf_suite.rules.caching_figures import (
    ANSWER_TOKENS,
    LOOKS,
    Block,
    Caching,
    Interval,
    Kind,
    interval_of,
)
from mlperf_suite.rules.facts import RunFacts, gives_text_alone
from mlperf_suite.session.executor import Executor, Made, cached_tokens_since, remote_run
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.timing.pace import Pace
from mlperf_suite.session.watcher import Watcher

_POOL = 256
"""The number of prompts that pieces are drawn from."""
_PIECE = 16
"""Tokens per piece: enough to read like the data, and at most the smallest block that a prefix
cache keeps."""


class CachingRun:
    """Makes the audit, writes each block's logs to Caching/ and the figures to the summary.

    `settings_of_engine`: the engine's own description of its settings.
    """

    def __init__(
        self,
        inputs: Inputs,
        recorder: Recorder,
        executor: Executor,
        pace: Pace,
        watcher: Watcher,
        settings_of_engine: Callable[[], dict[str, object]],
    ) -> None:
        self._inputs = inputs
        self._recorder = recorder
        self._executor = executor
        self._pace = pace
        self._watch = watcher
        self._settings_of_engine = settings_of_engine

    def maker(self, key: RunKey) -> Made:
        """Return what the executor calls to make an audit."""
        result = self._recorder.result(BENCHMARKS[key.benchmark], key.scenario)
        record = result.runs[CACHING] = RunRecord()

        def keep(failure: str | None) -> None:
            record.failure = failure
            self._recorder.write(result)

        return Made(lambda: self._audit(key, result, record), keep, result.folder.path)

    def _audit(self, key: RunKey, result: Result, record: RunRecord) -> None:
        self._recorder.write(result)
        engine = self._executor.engine_for(result)
        own = self._inputs.prompts(result.benchmark, CACHING)
        sample = median_sample(own)
        prompt, at_once = own[sample], self._pace.caching_at_once(result.benchmark)
        seed = secrets.randbits(32)
        chance = random.Random(seed)  # noqa: S311 - no secret, and kept to make the audit again
        if isinstance(engine, RunObserver):
            engine.run_begins(str(key), key.mode)
        self._watch.begin(f"{key.benchmark}: caching audit")
        remote_run(engine)
        cached = cached_tokens_since(engine)

        def make(kind: Kind, pair: int) -> Block:
            prompts: Sequence[Sequence[int]] = [prompt]
            if kind == "mix":
                prompts = new_prompts(own, len(prompt), at_once, chance)
            name = f"{pair:02}-{kind}"
            return Block(kind, self._block(engine, result, kind, prompts, at_once, name))

        with self._executor.timed("run", key):
            blocks, found = self._pairs(make, at_once, chance)
        # Not kept in the record: a submission is refused only for the runs that it contains.
        audit = Caching(tuple(blocks), at_once, cached(remote_run(engine)))
        record.figures = _figures(audit, found, sample, len(prompt), seed)
        record.verdicts = judge(
            RunFacts(
                result.benchmark,
                result.scenario,
                CACHING,
                self._inputs.settings.round,
                blocks[-1].logs,
                smoke=self._inputs.settings.smoke,
                departures=(),
                text_alone=gives_text_alone(self._settings_of_engine()),
                caching=audit,
            )
        )

    def _pairs(
        self, make: Callable[[Kind, int], Block], at_once: int, chance: random.Random
    ) -> tuple[list[Block], Interval | None]:
        """Make pairs of blocks until a look decides, at most until the last look."""
        # Not counted: they warm the system up and fill a cache if there is one.
        make("mix", 0)
        make("same", 0)
        blocks: list[Block] = []
        found = None
        for pair in range(1, LOOKS[-1] + 1):
            kinds: list[Kind] = ["mix", "same"]
            chance.shuffle(kinds)
            self._watch.begin(f"caching audit, pair {pair}")
            blocks += [make(kind, pair) for kind in kinds]
            if pair in LOOKS:
                found = interval_of(Caching(tuple(blocks), at_once).pairs)
                if found is not None and found.finding != "cannot tell":
                    break
        return blocks, found

    def _block(
        self,
        engine: Engine,
        result: Result,
        kind: Kind,
        prompts: Sequence[Sequence[int]],
        at_once: int,
        name: str,
    ) -> RunLogs:
        settings = self._inputs.settings
        plan = plan_run(
            result.benchmark,
            result.scenario,
            CACHING,
            settings.round,
            len(prompts),
            audit=(SAME if kind == "same" else MIX).of(at_once),
        )
        own = self._inputs.generation(result.benchmark, CACHING)
        generation = replace(
            own, max_new_tokens=ANSWER_TOKENS, min_new_tokens=ANSWER_TOKENS, stops=()
        )
        folder = result.folder.of_mode(CACHING) / name
        silence_s = settings.engine_silence
        return run_loadgen(plan, engine, prompts, generation, folder, silence_s=silence_s).logs


def _figures(
    audit: Caching, found: Interval | None, sample: int, tokens: int, seed: int
) -> CachingFigures:
    return CachingFigures(
        found.finding if found else "cannot tell",
        _share(found.faster) if found else None,
        _share(found.low) if found else None,
        _share(found.high) if found else None,
        sample,
        tokens,
        ANSWER_TOKENS,
        audit.at_once,
        seed,
        audit.cached_tokens,
        tuple(round(mix * 1000, 3) for mix, _ in audit.pairs),
        tuple(round(same * 1000, 3) for _, same in audit.pairs),
    )


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def median_sample(prompts: Sequence[Sequence[int]]) -> int:
    """The index of the first prompt of median length."""
    ordered = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    middle = len(prompts[ordered[(len(ordered) - 1) // 2]])
    return next(index for index, prompt in enumerate(prompts) if len(prompt) == middle)


def new_prompts(
    prompts: Sequence[Sequence[int]], length: int, count: int, chance: random.Random
) -> list[list[int]]:
    """Prompts of `length` tokens each, made from the data's text, that were never sent before.

    They begin and end like all prompts of the data (the template), with at most a quarter of the
    length on each side, and contain random pieces of the data in between. No cache filled in this
    or an earlier session can answer them.
    """
    pool = [list(prompt) for prompt in prompts[:_POOL]]
    most = length // 4
    head = _common(pool)[:most]
    tail = _common([prompt[::-1] for prompt in pool])[:most][::-1]
    bodies = [prompt[len(head) : len(prompt) - len(tail)] for prompt in pool]
    bodies = [body for body in bodies if body] or [prompt for prompt in pool if prompt]
    weights = [len(body) for body in bodies]
    made = []
    for _ in range(count):
        middle: list[int] = []
        wanted = length - len(head) - len(tail)
        while len(middle) < wanted:
            (body,) = chance.choices(bodies, weights)
            start = chance.randrange(max(1, len(body) - _PIECE + 1))
            middle += body[start : start + _PIECE]
        made.append([*head, *middle[:wanted], *tail])
    return made


def _common(prompts: Sequence[list[int]]) -> list[int]:
    """The tokens that all prompts begin with; empty for fewer than two prompts."""
    if len(prompts) < 2:
        return []
    low, high = min(prompts), max(prompts)
    length = next(
        (place for place, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low)
    )
    return list(low[:length])
