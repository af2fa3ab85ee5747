"""Made-up caching audits that obey every rule."""

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from meta_tests.made_runs import MadeRun, line
from mlperf_suite.features.caching_audit.block_times import (
    ANSWER_TOKENS,
    LOOKS,
    MIX,
    MODE,
    SAME,
    Block,
    Caching,
    Kind,
)
from mlperf_suite.features.caching_audit.caching import CachingFacts
from mlperf_suite.loadgen.logs import AccuracyLog, LoggedSample, RunLogs, parse_detail
from mlperf_suite.rules.facts import RunFacts

AT_ONCE = 3
"""The samples of a made block of the caching audit."""


@dataclass
class MadeBlock:
    """A block of a caching audit: `entries` of its log beside the audit's, and its answers."""

    kind: Kind
    entries: dict[str, Any]
    answers: list[tuple[int, tuple[int, ...]]]


def made_blocks() -> list[MadeBlock]:
    """As few blocks as an audit has, none of a kind faster than the other."""
    tokens = tuple(range(11, 11 + ANSWER_TOKENS))
    kinds: tuple[Kind, ...] = ("mix", "same")
    return [
        MadeBlock(
            kind,
            {"result_max_latency_ns": 400_000_000},
            [(0 if kind == "same" else index, tokens) for index in range(AT_ONCE)],
        )
        for pair in range(LOOKS[0])
        for kind in kinds[:: 1 if pair % 2 else -1]
    ]


_parsed = lru_cache(maxsize=8)(parse_detail)
"""The logs of the blocks are two."""


class MadeAudit(MadeRun):
    """`caching`: the blocks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.caching = made_blocks()

    def _caching_facts(self) -> Caching:
        """The blocks, each with the run's own entries and lines in its log."""
        blocks = []
        lines = {key: line(key, value) for key, value in self.entries.items()}
        for block in self.caching:
            times = (SAME if block.kind == "same" else MIX).of(AT_ONCE).effective
            own = {key: line(key, value) for key, value in {**times, **block.entries}.items()}
            first, *rest = (lines | own).values()
            text = "\n".join([first, *self.broken_lines, *rest])
            answers = AccuracyLog(
                tuple(LoggedSample(i, tokens) for i, tokens in block.answers), self.accuracy_damage
            )
            logs = RunLogs(Path("made"), _parsed(text), "", answers, clock=self.clock)
            blocks.append(Block(block.kind, logs))
        return Caching(tuple(blocks), AT_ONCE, self.cached_tokens)

    def facts(self, detail_text: str | None = None) -> RunFacts:
        facts, caching = super().facts(detail_text), self._caching_facts()
        of_run = {field.name: getattr(facts, field.name) for field in fields(facts)}
        blocks = tuple(block.logs for block in caching.blocks)
        return CachingFacts(**of_run | {"blocks": blocks}, caching=caching)


MADE_RUNS = {MODE: MadeAudit}
