"""Rules on how a server's answers arrived; the suite's own, since no log of LoadGen shows it."""

from __future__ import annotations

from functools import partial

from mlperf_suite.benchmarks.definition import limit_name
from mlperf_suite.features.servers.streams import MEMORY_SHARE
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.limits import arrival_words, held_back
from mlperf_suite.rules.registry import ONE_BY_ONE, SERVER, rule
from mlperf_suite.rules.verdict import Verdict, no_demand, not_judged, time_words, verdict

MAX_FROM_MEMORY = 0.1
"""The share of repeated answers that may look like answers from memory, by chance."""
MIN_TTFT_RATIO, MIN_PAIRS = 1 / 3, 64
"""Of so many pairs, chance moves the median of TTFTs by a sixth, and not to a third."""
_NO_STREAM = "no answers of a server were streamed"

_stream_rule = partial(
    rule,
    "performance",
    official=False,
    source="docs/endpoints.md: how answers arrive",
    of_tokens=True,
    session_only=True,
)


@_stream_rule(
    fix="Turn off buffering between the server and the client (nginx: proxy_buffering off).",
    scenarios=SERVER,
)
def streamed_answers(run: RunFacts) -> Verdict:
    """Answers arrive as they are made: TPOT is below its limit also without the tokens that came
    with the first one, and less than 1% of the answers come in one piece.

    LoadGen divides the time after the first token by all other tokens. What a proxy or a server
    holds back and sends with the first token takes no time, so TPOT is too short: 0 for an answer
    in one piece. Fails only where that decides: a TPOT that is at its limit fails its own rule.
    Answers of at most 8 tokens may come in one piece: speculative decoding makes as many in a step.
    """
    limit_ms = run.scenario.limits["tpot"]
    required = (
        f"{limit_name('tpot')} below {time_words(limit_ms, exact=True)} without the tokens of "
    )
    required += "the first event, less than 1% of the answers in one piece"
    stream = run.in_session.remote.stream if run.in_session.remote else None
    if stream is None:
        return no_demand(_NO_STREAM)
    return verdict(not held_back(stream, limit_ms), arrival_words(stream), required)


@_stream_rule(
    fix="Turn off every cache of answers in the server and any gateway; the caching audit "
    "(docs/caching-audit.md) shows whether that did it.",
    scenarios=ONE_BY_ONE,
)
def repeated_samples(run: RunFacts) -> Verdict:
    """A sample's later answers are computed as its first one was: at most 10% of them are the same
    text in one piece in less than a tenth of the time.

    Not judged where repeated samples have less than a third of the TTFT of new ones nearby: a
    prefix cache that is not reported looks like that. docs/caching-audit.md finds out.
    """
    required = f"at most {MAX_FROM_MEMORY:.0%} of the repeated answers at once and in less than "
    required += f"{MEMORY_SHARE:.0%} of the first one's time"
    stream = run.in_session.remote.stream if run.in_session.remote else None
    if stream is None:
        return no_demand(_NO_STREAM)
    if not stream.repeats:
        return no_demand("no sample was repeated")
    words = f"{stream.from_memory:,} of {stream.repeats:,} repeated answers"
    if stream.from_memory > MAX_FROM_MEMORY * stream.repeats:
        return verdict(False, words, required, "answered from memory: see the caching audit")
    ratio, pairs = stream.repeat_ttft or (1.0, 0)
    if ratio < MIN_TTFT_RATIO and pairs >= MIN_PAIRS:
        why = f"repeated samples have {ratio:.0%} of the TTFT of new ones: run the caching audit"
        return not_judged(words, required, why)
    return verdict(True, words, required)
