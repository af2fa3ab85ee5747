"""What LoadGen's early stopping says of a performance run (EarlyStopping in LoadGen's results.cc).

SingleStream: a percentile is estimated from so few queries that it holds with a confidence of 99%:
the n highest values are thrown away, and the highest that is left is the estimate. Where LoadGen
counts tokens it does so for TTFT and TPOT only, and its key early_stopping_latency_ss is TTFT's. n
depends on the number of queries alone, so the same estimate of the latency, the figure that
SingleStream is compared by, follows from the requests themselves.

Server: no estimate, but whether enough queries were under the limit, and how many more it takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.compliance.verdict import in_words
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.schema import EarlyStopping

_SAYS = {
    "latency": "early_stopping_result",
    "ttft": "early_stopping_ttft_result",
    "tpot": "early_stopping_tpot_result",
}
"""By figure, the key of LoadGen's words on it: the latency's, or where tokens are counted both
others."""
# SingleStream's words have a second estimate, for inferring MultiStream; the first one decides.
_ESTIMATE = re.compile(r"percentile estimate: (\d+)")
_DISCARDED = re.compile(r"Would discard (\d+) highest latency queries")
_MORE = re.compile(r"at least (\d+) more queries")
_MOST_DIGITS = 19
"""LoadGen's integers have 64 bits; a longer one is not its own."""


def early_stopping(
    scenario: Scenario, detail: DetailLog, timeline: Timeline | None
) -> EarlyStopping | None:
    """What the log says of early stopping; None where the scenario has none.

    A figure that the log does not speak of is None; LoadGen is silent on TTFT where TPOT already
    failed.
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
    """LoadGen's words as sentences on one line; it writes them as points, each after ` * `."""
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
    """LoadGen's own; that of the latency by the same rule where LoadGen makes none."""
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
    """The highest latency after the highest `discarded`, in ms, as the SUT saw the requests."""
    if discarded is None or timeline is None:
        return None
    latencies = sorted(timeline.latency_ms, reverse=True)
    if len(latencies) != detail["result_query_count"] or discarded >= len(latencies):
        return None
    return round(latencies[discarded], 3)
