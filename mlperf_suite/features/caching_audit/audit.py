"""Runs the caching audit on a session's engine: pairs of LoadGen blocks until the interval decides.

A block is one Offline query. In one block of a pair, LoadGen repeats the benchmark's sample of
median length; in the other, it issues prompts of the same length that were never sent before.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mlperf_suite.features.caching_audit.block_times import (
    ANSWER_TOKENS,
    LOOKS,
    MIX,
    MODE,
    SAME,
    Block,
    Caching,
    Interval,
    Kind,
    interval_of,
)
from mlperf_suite.features.caching_audit.block_times import at_once as samples_of_block
from mlperf_suite.features.caching_audit.caching import CachingFacts
from mlperf_suite.features.caching_audit.figures import CachingFigures
from mlperf_suite.loadgen.load_plan import RunKey, plan_run
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.results.record import Result, RunRecord
from mlperf_suite.results.run_folder import BLOCKS_FOLDER
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import SessionFacts, gives_text_alone
from mlperf_suite.session.load_run import Observation, Prompts, StepMaker
from mlperf_suite.session.run_kind import Step

_POOL = 256
"""The number of prompts that pieces are drawn from."""
_PIECE = 16
"""Tokens per piece: enough to read like the data, and at most the smallest block that a prefix
cache keeps."""


class CachingAudits(StepMaker):
    """Makes the audit, writes each block's logs to Caching/ and completes its record."""

    def make(self, step: Step, result: Result) -> RunRecord:
        """Make the blocks until the interval decides, and judge them. Raises what a run raises."""
        record = result.runs[MODE]
        own = self.inputs.prompts(result.benchmark, MODE)
        sample = median_sample(own)
        prompt, at_once = own[sample], samples_of_block(self.sizing.estimator, result.benchmark)
        seed = secrets.randbits(32)
        chance = random.Random(seed)  # noqa: S311 - no secret, and kept to make the audit again
        key: RunKey = step.key
        self.display.begin(f"{key.benchmark}: caching audit")
        observation = Observation(self.engine, str(key), key.mode)

        def make(kind: Kind, pair: int) -> Block:
            prompts: Sequence[Sequence[int]] = [prompt]
            if kind == "mix":
                prompts = new_prompts(own, len(prompt), at_once, chance)
            return Block(kind, self._block(result, kind, prompts, at_once, f"{pair:02}-{kind}"))

        blocks, interval = self._pairs(make, at_once, chance)
        # Not kept in the record: a submission is refused only for the runs that it contains.
        cached_tokens = observation.cached_tokens(observation.remote())
        audit = Caching(tuple(blocks), at_once, cached_tokens)
        part: Any = result.parts["caching audit"]
        part.figures = _figures(audit, interval, sample, len(prompt), seed)
        record.verdicts = judge(
            CachingFacts(
                result.benchmark,
                result.scenario,
                MODE,
                self.settings.round,
                blocks[-1].logs,
                smoke=self.settings.smoke,
                session=SessionFacts(),
                text_alone=gives_text_alone(self.engine.description.settings),
                blocks=tuple(block.logs for block in blocks),
                caching=audit,
            )
        )
        return record

    def _pairs(
        self, make: Callable[[Kind, int], Block], at_once: int, chance: random.Random
    ) -> tuple[list[Block], Interval | None]:
        """Make pairs of blocks until a look decides, at most until the last look."""
        # Not counted: they warm the system up and fill a cache if there is one.
        make("mix", 0)
        make("same", 0)
        blocks: list[Block] = []
        interval = None
        for pair in range(1, LOOKS[-1] + 1):
            kinds: list[Kind] = ["mix", "same"]
            chance.shuffle(kinds)
            self.display.begin(f"caching audit, pair {pair}")
            blocks += [make(kind, pair) for kind in kinds]
            if pair in LOOKS:
                interval = interval_of(Caching(tuple(blocks), at_once).pairs)
                if interval is not None and interval.finding != "cannot tell":
                    break
        return blocks, interval

    def _block(
        self, result: Result, kind: Kind, prompts: Sequence[Sequence[int]], at_once: int, name: str
    ) -> RunLogs:
        plan = plan_run(
            result.benchmark,
            result.scenario,
            MODE,
            self.settings.round,
            len(prompts),
            audit=(SAME if kind == "same" else MIX).of(at_once),
        )
        own = self.inputs.generation(result.benchmark, MODE)
        generation = replace(
            own, max_new_tokens=ANSWER_TOKENS, min_new_tokens=ANSWER_TOKENS, stops=()
        )
        folder = result.folder.path / BLOCKS_FOLDER / name
        return self.load_run(result.benchmark, plan, folder, Prompts(prompts, generation)).logs


def _figures(
    audit: Caching, interval: Interval | None, sample: int, tokens: int, seed: int
) -> CachingFigures:
    return CachingFigures(
        interval.finding if interval else "cannot tell",
        _share(interval.faster) if interval else None,
        _share(interval.low) if interval else None,
        _share(interval.high) if interval else None,
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
    by_length = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    middle = len(prompts[by_length[(len(by_length) - 1) // 2]])
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
    mix = []
    for _ in range(count):
        middle: list[int] = []
        room = length - len(head) - len(tail)
        while len(middle) < room:
            (body,) = chance.choices(bodies, weights)
            start = chance.randrange(max(1, len(body) - _PIECE + 1))
            middle += body[start : start + _PIECE]
        mix.append([*head, *middle[:room], *tail])
    return mix


def _common(prompts: Sequence[list[int]]) -> list[int]:
    """The tokens that all prompts begin with; empty for fewer than two prompts."""
    if len(prompts) < 2:
        return []
    low, high = min(prompts), max(prompts)
    length = next(
        (place for place, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low)
    )
    return list(low[:length])
