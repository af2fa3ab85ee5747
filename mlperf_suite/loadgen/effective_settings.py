"""Computes the effective settings that LoadGen derives from the requested ones; its log has both.

Source: test_settings_internal.cc of LoadGen. On each of 900 logs tried (862 public ones of v5.1, 38
of 6.0), the effective settings are those that these functions give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlperf_suite.loadgen.releases import CHOICE

_KEPT = (
    "scenario",
    "test_mode",
    "min_duration_ms",
    "max_duration_ms",
    "max_query_count",
    *CHOICE,
    "sample_concatenate_permutation",
)
"""Settings whose effective value is the requested one."""
_OF_SERVER = {
    "target_qps": "server_target_qps",
    "target_latency_ns": "server_target_latency_ns",
    "target_latency_percentile": "server_target_latency_percentile",
    "max_async_queries": "server_max_async_queries",
    "min_query_count": "min_query_count",
}
_SLACK_OF_OFFLINE, _SLACK_OF_SINGLE_STREAM = 1.1, 2.0
_HALF_A_DIGIT = 6e-6
"""How far a rate that the log prints with six digits may differ from the one set, as a share."""


def unfollowed_setting(log: Mapping[str, Any]) -> str:
    """Describe the first effective setting that does not follow from those requested; "" if none.

    `log`: the detail log's values by key.
    """
    try:
        return next(_differences(log), "")
    except _AbsentError as error:
        return f"no {error.args[0]}"
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return "a setting is of another type"


class _AbsentError(Exception):
    pass


def _get(log: Mapping[str, Any], key: str) -> Any:
    if log.get(key) is None:
        raise _AbsentError(key)
    return log[key]


def _count(log: Mapping[str, Any], key: str) -> int:
    """A count. Raises TypeError if the value is not one."""
    count = _get(log, key)
    if type(count) is not int:
        raise TypeError(key)
    return count


def _differences(log: Mapping[str, Any]) -> Any:
    """Yield each difference, in words. Raises if a setting is absent or of another type."""
    pairs = [(name, f"requested_{name}") for name in _KEPT]
    scenario = _get(log, "effective_scenario")
    if scenario == "Server":
        pairs += [(name, f"requested_{key}") for name, key in _OF_SERVER.items()]
    if scenario == "Offline":
        pairs.append(("target_qps", "requested_offline_expected_qps"))
    if scenario == "SingleStream":
        key = "requested_single_stream_target_latency_percentile"
        pairs.append(("target_latency_percentile", key))
    for name, key in pairs:
        value, requested = _get(log, f"effective_{name}"), _get(log, key)
        if type(value) is not type(requested) and isinstance(value, bool | str):
            yield f"effective_{name} {value!r}, {key} {requested!r}"
        elif value != requested:
            yield f"effective_{name} {value}, {key} {requested}"
    for name, least, most in _computed(log, scenario):
        value = _get(log, f"effective_{name}")
        if isinstance(value, bool) or not least <= value <= most:
            bounds = f"{least:,}" if least == most else f"{least:,} to {most:,}"
            yield f"effective_{name} {value}, by what was requested {bounds}"


def _computed(log: Mapping[str, Any], scenario: str) -> Any:
    """The settings that LoadGen computes, each with the lowest and highest value it may have."""
    duration_ms = _get(log, "requested_min_duration_ms")
    yield "target_duration_ms", *_same(0 if scenario == "Offline" else duration_ms)
    loaded = _count(log, "requested_performance_sample_count_override")
    loaded = loaded or _count(log, "qsl_reported_performance_count")
    yield "performance_sample_count", *_same(loaded)
    if "effective_accuracy_sample_count" in log:
        scored = _count(log, "requested_accuracy_sample_count_override")
        yield "accuracy_sample_count", *_same(scored or _count(log, "qsl_reported_total_count"))
    least, samples = _count(log, "requested_min_query_count"), (1, 1)
    if scenario == "Offline":
        samples = _in_one_query(log, least, duration_ms, loaded)
        yield "max_async_queries", 1, 1
        yield "min_query_count", 1, 1
    elif scenario == "SingleStream":
        yield "max_async_queries", 1, 1
        yield "min_query_count", *_of_whole_sets(log, least, duration_ms)
    yield "samples_per_query", *samples
    if scenario != "Server":
        yield "target_latency_ns", 0, 0
    if scenario == "Offline":
        yield "target_latency_percentile", 0.99, 0.99
    queries = _count(log, "effective_min_query_count")
    yield "min_sample_count", *_same(queries * _count(log, "effective_samples_per_query"))


def _same(value: Any) -> tuple[Any, Any]:
    return value, value


def _in_one_query(
    log: Mapping[str, Any], least: int, duration_ms: float, loaded: int
) -> tuple[int, int]:
    """Offline's one query has the samples expected for the duration, and a tenth more."""
    if _get(log, "requested_performance_issue_unique"):
        return loaded, loaded
    qps = _get(log, "requested_offline_expected_qps")
    samples = [
        int(_SLACK_OF_OFFLINE * duration_ms / 1e3 * qps * (1 + off))
        for off in (-_HALF_A_DIGIT, _HALF_A_DIGIT)
    ]
    return max(least, samples[0]), max(least, samples[1])


def _of_whole_sets(log: Mapping[str, Any], least: int, duration_ms: float) -> tuple[int, int]:
    """SingleStream asks for whole data sets if each sample is issued equally often."""
    if not _get(log, "requested_sample_concatenate_permutation"):
        return least, least
    qps = 1e9 / _get(log, "requested_single_stream_expected_latency_ns")
    size = _count(log, "qsl_reported_performance_count")
    least = max(least, int(_SLACK_OF_SINGLE_STREAM * duration_ms / 1e3 * qps))
    return _same(least + size - least % size)
