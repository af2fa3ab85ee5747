"""Parses LoadGen's early stopping report of a performance run (EarlyStopping in results.cc).

SingleStream: LoadGen estimates a percentile that holds with a confidence of 99% for the number of
queries: it discards the n highest values, and the highest remaining one is the estimate. If LoadGen
counts tokens, it does so only for TTFT and TPOT, and its key early_stopping_latency_ss is that of
TTFT. n depends only on the number of queries, so the estimate of the latency, the figure that
decides in SingleStream, is computed here from the requests themselves.

Server: no estimate, only whether enough queries met the limit, and how many more are needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.schema import EarlyStopping
from mlperf_suite.rules.verdict import in_words

_SAYS = {
    "latency": "early_stopping_result",
    "ttft": "early_stopping_ttft_result",
    "tpot": "early_stopping_tpot_result",
}
"""By figure, the key of LoadGen's text on it: that of the latency, or if tokens are counted, those
of the other two."""
# SingleStream's text has a second estimate, to infer MultiStream; the first one decides.
_ESTIMATE = re.compile(r"percentile estimate: (\d+)")
_DISCARDED = re.compile(r"Would discard (\d+) highest latency queries")
_MORE = re.compile(r"at least (\d+) more queries")
_MOST_DIGITS = 19
"""LoadGen's integers have 64 bits; a longer one is not LoadGen's."""


def early_stopping(
    scenario: Scenario, detail: DetailLog, timeline: Timeline | None
) -> EarlyStopping | None:
    """The log's early stopping report; None if the scenario has none.

    A figure that the log does not mention is None; LoadGen omits TTFT if TPOT already failed.
    """
    if scenario.loadgen_scenario == "Offline":
        return None
    met = detail["early_stopping_met"]
    fraction = detail.number("effective_target_latency_percentile")
    says = {name: _words(detail[key]) for name, key in _SAYS.items()}
    return EarlyStopping(
        met=met if isinstance(met, bool) else None,
        percentile=None if fraction is None else round(fraction * 100, 4),
        estimates_ms=_estimates(says, detail, timeline),
        more_queries={name: _found(_MORE, words) for name, words in says.items()},
        says=says,
    )


def _words(value: object) -> str | None:
    """LoadGen's text as sentences on one line; it writes points, each after ` * `."""
    if not isinstance(value, str):
        return None
    sentences = [point.strip(" .") for point in in_words(value).split("* ")]
    return ". ".join(filter(None, sentences)) + "." if any(sentences) else None


def _found(pattern: re.Pattern[str], words: str | None) -> int | None:
    found = pattern.search(words or "")
    return int(found[1]) if found and len(found[1]) <= _MOST_DIGITS else None


def _estimates(
    says: Mapping[str, str | None], detail: DetailLog, timeline: Timeline | None
) -> dict[str, float | None]:
    """LoadGen's estimates; if it has none of the latency, one by the same rule."""
    found: dict[str, float | None] = {}
    for name, words in says.items():
        nanoseconds = _found(_ESTIMATE, words)
        found[name] = None if nanoseconds is None else nanoseconds / 1e6
    if found["latency"] is None:
        found["latency"] = _of_latency(_found(_DISCARDED, says["ttft"]), detail, timeline)
    return found


def _of_latency(
    discarded: int | None, detail: DetailLog, timeline: Timeline | None
) -> float | None:
    """The highest latency below the `discarded` highest ones, in ms, as the SUT saw the
    requests."""
    if discarded is None or timeline is None:
        return None
    latencies = sorted(timeline.latency_ms, reverse=True)
    if len(latencies) != detail["result_query_count"] or discarded >= len(latencies):
        return None
    return round(latencies[discarded], 3)
