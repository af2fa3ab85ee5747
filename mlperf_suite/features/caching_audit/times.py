"""How large a block of the audit is, and how long the audit takes."""

from __future__ import annotations

from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.features.caching_audit.block_times import ANSWER_TOKENS, LOOKS, MODE
from mlperf_suite.session.timing.estimate import AFTER_RUN_S, EngineSpeed, Estimator

_BLOCK_OVERHEAD_S = 0.05
"""Time for LoadGen to begin and end a run and for the suite to read its logs, in s."""
_BLOCK_S = {True: 0.4, False: 2.0}
"""How long a block should last, in s, by whether the profile is smoke."""
_AT_ONCE = (2, 256)
"""The fewest and the most samples of a block."""


def at_once(estimator: Estimator, benchmark: Benchmark) -> int:
    """The samples of a block: enough to take a measurable time.

    At least two, so that sharing between concurrent requests shows as well.
    """
    fewest, most = _AT_ONCE
    if estimator.speed is None:
        return fewest
    one_s = estimator.speed.prefill_s * _prompt_tokens(estimator, benchmark)
    fitting = round(_BLOCK_S[estimator.settings.smoke] / one_s) if one_s > 0 else most
    return min(most, max(fewest, fitting))


def audit_s(estimator: Estimator, benchmark: Benchmark) -> float:
    """Seconds of an audit whose first look decides, with judging and reports."""
    assert estimator.speed is not None
    tokens = _prompt_tokens(estimator, benchmark)
    return blocks_s(estimator.speed, tokens, at_once(estimator, benchmark))


def blocks_s(speed: EngineSpeed, prompt_tokens: int, samples: int) -> float:
    """The same, with prompts of so many tokens and so many samples in a block."""
    block_s = _BLOCK_OVERHEAD_S + speed.batch_s([prompt_tokens] * samples, ANSWER_TOKENS)
    return AFTER_RUN_S + 2 * (1 + LOOKS[0]) * block_s


def _prompt_tokens(estimator: Estimator, benchmark: Benchmark) -> int:
    prompts = sorted(estimator.lengths(benchmark, MODE).prompts)
    return prompts[(len(prompts) - 1) // 2]
