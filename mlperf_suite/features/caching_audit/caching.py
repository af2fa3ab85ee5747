"""Rules of the caching audit: one repeated sample is no faster than samples never seen.

The suite's own, following the intent of compliance/TEST04 of github.com/mlcommons/inference, which
MLPerf does not require of language models: their samples differ in length, and so in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from mlperf_suite.features.caching_audit.block_times import (
    ANSWER_TOKENS,
    LOOKS,
    MAX_SPEEDUP,
    MIX,
    MODE,
    SAME,
    Caching,
    interval_of,
)
from mlperf_suite.loadgen.load_plan import PERFORMANCE_ONLY
from mlperf_suite.rules import clock
from mlperf_suite.rules.audit_rules import AUDIT_CONF_IS_READ
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.validity import cached_tokens_verdict
from mlperf_suite.rules.verdict import Verdict, failure, not_judged, verdict

_caching_rule = partial(
    rule,
    MODE,
    official=False,
    source="docs/caching-audit.md, after compliance/TEST04",
    session_only=True,
)
_TOO_SHORT = "Number of tokens need to be greater than 1"
"""LoadGen's error for an answer of one token, which a server that returns only text can give."""
_CLOCKS_DIFFER = "PerfClock and system_clock differ by more than 1%"
"""LoadGen's comparison of its clocks in whole ms: of a block of a few ms it says nothing. The rule
`loadgen_clock` judges them."""


@_caching_rule(
    required=f"at most {MAX_SPEEDUP:.0%} faster, by the suite's own audit",
    fix="Turn off every cache of answers and prefixes, in the engine, the server and any proxy.",
)
def speed(run: CachingFacts) -> Verdict:
    """One repeated sample is at most 10% faster than new samples (not an MLPerf rule).

    Not judged where the noise leaves both possible: the interval is in `found`.
    """
    pairs = run.caching.pairs
    interval = interval_of(pairs)
    if interval is None:
        raise failure("no pair of blocks", why="no block's time is in the logs")
    words = interval.in_words(len(pairs))
    if interval.finding == "cannot tell":
        why = f"cannot tell: the noise of {len(pairs)} pairs leaves both possible"
        return not_judged(words, why=why)
    return verdict(interval.finding == "no caching", words)


@_caching_rule(fix="Turn prefix caching off in the engine or the server.")
def prompt_tokens(run: CachingFacts) -> Verdict:
    """The engine reports no cached prompt tokens during the audit."""
    return cached_tokens_verdict(run.caching.cached_tokens)


@_caching_rule(fix="Repeat the audit; every request must be answered.")
def samples(run: CachingFacts) -> Verdict:
    """LoadGen alternately issued one sample repeatedly, and different samples once each."""
    audit = run.caching
    required = f"{audit.at_once} times one sample, and {audit.at_once} samples once, by turns"
    for number, block in enumerate(audit.blocks, 1):
        indices = [sample.index for sample in block.logs.accuracy.samples]
        order = [0] * audit.at_once if block.kind == "same" else list(range(audit.at_once))
        if sorted(indices) != order:
            counts = f"{len(indices)} answers to {len(set(indices))} samples"
            return verdict(False, f"block {number} ({block.kind}): {counts}", required)
    kinds = [{a.kind, b.kind} for a, b in zip(audit.blocks[::2], audit.blocks[1::2], strict=False)]
    whole = len(audit.blocks) == 2 * len(kinds) >= 2 * LOOKS[0]
    by_turns = whole and all(kind == {"mix", "same"} for kind in kinds)
    return verdict(by_turns, required if by_turns else f"{len(audit.blocks)} blocks", required)


@_caching_rule(fix="Let the server honour max_tokens and min_tokens, and repeat the audit.")
def answers(run: CachingFacts) -> Verdict:
    """Every answer of the audit has the same length, so that all blocks do the same work."""
    required = f"{ANSWER_TOKENS} tokens each"
    logs = (block.logs.accuracy for block in run.caching.blocks)
    lengths = {len(sample.token_ids) for log in logs for sample in log.samples}
    if lengths == {ANSWER_TOKENS}:
        return verdict(True, required, required)
    words = f"{min(lengths)} to {max(lengths)} tokens" if lengths else "no answer"
    if run.text_alone and lengths:
        return not_judged(words, required, "the server returns text only: its tokens are not known")
    return verdict(False, words, required)


@_caching_rule(fix="Repeat the audit; remove other audit.config files from LoadGen's folder.")
def settings(run: CachingFacts) -> Verdict:
    """Each block was a performance run of this scenario under the audit's settings."""
    required = "the audit's settings"
    for number, block in enumerate(run.caching.blocks, 1):
        values = {
            **(SAME if block.kind == "same" else MIX).of(run.caching.at_once).effective,
            "effective_scenario": run.scenario.loadgen_scenario,
            "effective_test_mode": PERFORMANCE_ONLY,
        }
        detail = block.logs.detail
        for key, value in values.items():
            if type(detail[key]) is not type(value) or detail[key] != value:
                return verdict(False, f"block {number}: {key} {detail[key]}", required)
    return verdict(True, required, required)


@_caching_rule(fix="Repeat the audit without interrupting it.")
def log_is_whole(run: CachingFacts) -> Verdict:
    """The logs of every block can be read in full."""
    for number, block in enumerate(run.caching.blocks, 1):
        damage = [*block.logs.detail.damage, *block.logs.accuracy.damage]
        if block.logs.detail["num_errors"] is None:
            damage.append("the last entries are missing")
        if damage:
            return verdict(False, f"block {number}: {damage[0]}", "whole")
    return verdict(True, "whole", "whole")


@_caching_rule(
    fix="Read the error in the block's mlperf_log_detail.txt, remove its cause and repeat "
    "the audit."
)
def no_loadgen_errors(run: CachingFacts) -> Verdict:
    """LoadGen logged no error in any block, except about the audit.config that it requires and the
    clocks of a block of a few ms."""
    allowed_texts = [
        *(AUDIT_CONF_IS_READ, _CLOCKS_DIFFER),
        *([_TOO_SHORT] if run.text_alone else []),
    ]
    for number, block in enumerate(run.caching.blocks, 1):
        errors = [
            error
            for error in block.logs.detail.errors
            if not any(text in error for text in allowed_texts)
        ]
        if errors:
            words = f"block {number}: {len(errors)} errors"
            return verdict(False, words, "0 errors", errors[0])
    return verdict(True, "0 errors", "0 errors")


@clock.clock_rule(MODE)
def loadgen_clock(run: CachingFacts) -> Verdict:
    """LoadGen's clock kept time during the run: it was not set, and its rate was right."""
    return clock.loadgen_clock(run)


@dataclass(frozen=True, slots=True)
class CachingFacts(RunFacts):
    """The facts of an audit. `caching`: its measurements."""

    caching: Caching = field(default_factory=partial(Caching, (), 0))
