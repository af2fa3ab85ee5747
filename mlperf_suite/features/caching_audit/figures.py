"""What the audit found, as summary.json has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from mlperf_suite.features.caching_audit.block_times import Finding
from mlperf_suite.results.schema import Summary

PART = "run.caching"
"""The name of the figures in summary.json."""


@dataclass(frozen=True, slots=True)
class CachingFigures:
    """The caching audit: `faster` is how much faster a repeated sample is than different samples,
    with the interval from `low` to `high`, as shares; None if there are too few pairs.

    `sample`: the index of the repeated sample; `prompt_tokens`: the prompt length of every sample.
    `at_once`: samples per block. `mix_ms`, `same_ms`: the block times of each pair, with different
    samples and with the repeated one. `seed`: of the different samples' prompts and the order of
    the blocks. `cached_tokens`: prompt tokens that the engine took from a cache, None if it does
    not count them.
    """

    finding: Finding = "cannot tell"
    faster: float | None = None
    low: float | None = None
    high: float | None = None
    sample: int | None = None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    at_once: int | None = None
    seed: int | None = None
    cached_tokens: int | None = None
    mix_ms: tuple[float, ...] = ()
    same_ms: tuple[float, ...] = ()


@dataclass(slots=True)
class CachingPart:
    """The audit of a result; `figures` are None until its blocks were made."""

    figures: CachingFigures | None = None
    failure: str | None = None
    optional: ClassVar[bool] = False
    complete: bool = True
    spoiled: bool = False

    def summed_up(self, summary: Summary) -> Summary:
        parts = {} if self.figures is None else {PART: self.figures}
        return replace(summary, parts={**summary.parts, **parts})
