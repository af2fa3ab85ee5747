"""The released LoadGens: the entries and settings that they log, and their sources.

The entries of a run's detail log are always the same for a scenario and mode, except for messages,
and in the same order. Sources: version.cc, loadgen.cc, test_settings_internal.cc, logging.cc and
results.cc of LoadGen 5.0 to 6.0, and the logs of 862 runs of the public v5.1 results; each run that
ended has them in this order.

A log also lists the SHA-1 of each file of LoadGen's folder when it was built (loadgen_file_sha1),
whose fingerprints are compared. One version may have several: its number is raised some commits
after its sources change, and one commit of 5.1.0 (3cebd5ee48, which made 32 public logs) has the
sources of 5.0.21. Source: the history of loadgen/ in github.com/mlcommons/inference, from 5.0.15
(round v5.1) on; 854 of the 862 public v5.1 logs have the files of the very commit that they name, 8
those of another one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from mlperf_suite.rules.facts import version_numbers

_EXTREMES = ("min", "max", "mean")
_PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_STATISTICS = (*_EXTREMES, *(f"{percent}_percentile" for percent in _PERCENTILES))
_FIRST = (
    "loadgen_version",
    "loadgen_build_date_local",
    "loadgen_build_date_utc",
    "loadgen_git_commit_date",
    "loadgen_git_log_message",
    "loadgen_git_status_message",
    "loadgen_file_sha1",
    "test_datetime",
    "sut_name",
    "get_sut_name_duration_ns",
    "qsl_name",
    "qsl_reported_total_count",
    "qsl_reported_performance_count",
    "requested_scenario",
    "requested_test_mode",
)
_ASKED = {
    "Offline": ("requested_offline_expected_qps",),
    "Server": (
        "requested_server_target_qps",
        "requested_server_target_latency_ns",
        "requested_server_target_latency_percentile",
        "requested_server_coalesce_queries",
        "requested_server_find_peak_qps_decimals_of_precision",
        "requested_server_find_peak_qps_boundary_step_size",
        "requested_server_max_async_queries",
        "requested_server_num_issue_query_threads",
    ),
    "SingleStream": (
        "requested_single_stream_expected_latency_ns",
        "requested_single_stream_target_latency_percentile",
    ),
}
_LENGTH = ("min_duration_ms", "max_duration_ms", "min_query_count", "max_query_count")
CHOICE = (
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "print_timestamps",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
)
"""Settings for drawing and logging samples, in the order of their lines."""
_LIMITS = ("requested_server_ttft_latency", "requested_server_tpot_latency")
_EFFECTIVE = (
    "scenario",
    "test_mode",
    "samples_per_query",
    "target_qps",
    "target_latency_ns",
    "target_latency_percentile",
    "max_async_queries",
    "target_duration_ms",
    *_LENGTH,
    "min_sample_count",
    *CHOICE,
    "performance_sample_count",
)
_ISSUED = (
    "loaded_qsl_set",
    "generated_query_count",
    "generated_samples_per_query",
    "generated_query_duration",
    "logger_swap_request_slots_retry_count",
    "logger_swap_request_slots_retry_retry_count",
    "logger_swap_request_slots_retry_reencounter_count",
    "logger_start_reading_entries_retry_count",
    "logger_tls_total_log_cas_fail_count",
    "logger_tls_total_swap_buffers_slot_retry_count",
    "power_begin",
    "power_end",
)
_RATES = {
    "Offline": ("result_samples_per_second",),
    "Server": (
        "result_overlatency_query_count",
        "result_scheduled_samples_per_sec",
        "result_completed_samples_per_sec",
    ),
    "SingleStream": (
        "result_qps_with_loadgen_overhead",
        "result_qps_without_loadgen_overhead",
        "early_stopping_latency_ss",
        "early_stopping_latency_ms",
    ),
}
_REASON = "result_invalid_reason"
_ACCURACY_COUNT = {"requested_accuracy_sample_count_override", "effective_accuracy_sample_count"}
_ERRORS = "num_errors"
_OLDEST, _NEWEST = (5, 0), (6, 0)
_COUNTS_ERRORS, _COUNTS_ACCURACY = (5, 0, 16), (6, 0)
_LAST_WITHOUT = (5, 0, 15)
"""Some builds of this version count errors, others do not: the change came between two releases."""


def is_known(version: str) -> bool:
    """Whether the entries of this LoadGen version are known."""
    numbers = version_numbers(version)
    return numbers is not None and _OLDEST <= numbers[:2] <= _NEWEST


@lru_cache(maxsize=32)
def lines_of(scenario: str, accuracy: bool, counts_tokens: bool = True) -> tuple[str, ...]:
    """The keys of a log's entries in their order, including those that not every LoadGen writes.

    `scenario`: LoadGen's name. `counts_tokens`: see `Scenario`. A run with several loaded sets
    repeats `ISSUED` for each.
    """
    requested = (
        *_ASKED.get(scenario, ()),
        *(f"requested_{name}" for name in (*_LENGTH, *CHOICE)),
        "requested_performance_sample_count_override",
        "requested_accuracy_sample_count_override",
        "requested_sample_concatenate_permutation",
        "requested_use_token_latencies",
        *(_LIMITS if scenario != "Offline" else ()),
    )
    effective = (
        *(f"effective_{name}" for name in _EFFECTIVE),
        "effective_accuracy_sample_count",
        "effective_sample_concatenate_permutation",
    )
    results = () if accuracy else _results(scenario)
    keys = (*_FIRST, *requested, *effective, *_ISSUED, *results)
    if counts_tokens:
        return tuple(key for key in keys if key != _STOPPING)
    return tuple(key for key in keys if not _OF_TOKENS.search(key))


_STOPPING = "early_stopping_result"
_OF_TOKENS = re.compile("token|ttft|tpot")
"""In the keys that a log has only if tokens are counted; otherwise it has `_STOPPING`."""
ISSUED = frozenset(_ISSUED)
"""The keys that an accuracy run has once for each set of samples that it loads."""


def _results(scenario: str) -> tuple[str, ...]:
    streams = scenario != "Offline"
    of_tokens = (
        *(f"result_first_token_{statistic}_latency_ns" for statistic in _STATISTICS),
        "result_token_throughput_with_loadgen_overhead",
        "result_token_throughput",
        *(f"result_time_per_output_token_{percent}_percentile_ns" for percent in _PERCENTILES),
        *(f"result_time_to_output_token_{extreme}" for extreme in _EXTREMES),
        "result_completed_tokens_per_second",
    )
    return (
        "result_validity",
        *(("result_perf_constraints_met",) if scenario == "Server" else ()),
        "result_min_duration_met",
        "result_min_queries_met",
        "early_stopping_met",
        _REASON,
        _STOPPING,
        "early_stopping_ttft_result",
        "early_stopping_tpot_result",
        "result_query_count",
        *_RATES.get(scenario, ()),
        *(f"result_{statistic}_latency_ns" for statistic in _STATISTICS),
        *(of_tokens if streams else ("result_tokens_per_second",)),
        _ERRORS,
    )


@lru_cache(maxsize=1)
def _every_line() -> frozenset[str]:
    of_all = (lines_of(name, accuracy=False) for name in _ASKED)
    return frozenset(key for keys in of_all for key in keys)


@lru_cache(maxsize=8)
def out_of_place(
    keys: tuple[str, ...],
    scenario: str,
    version: str,
    *,
    accuracy: bool,
    valid: bool,
    counts_tokens: bool = True,
) -> str:
    """Describe the first entry that is missing, unexpected or out of order; "" if there is none.

    `keys`: of the log's entries, in order; messages and keys that no known LoadGen writes are
    ignored. `valid`: whether the log calls the result valid. `counts_tokens`: see `Scenario`.
    """
    written = lines_of(scenario, accuracy, counts_tokens)
    first, end = written.index(_ISSUED[0]), written.index(_ISSUED[-1]) + 1
    of_sets = written[first:end] * max(1, keys.count(_ISSUED[0]))
    absent = _not_written(keys, version, valid=valid)
    keys_due = [key for key in (*written[:first], *of_sets, *written[end:]) if key not in absent]
    numbers = [key for key in keys if key in _every_line() or key in written]
    for place, key in enumerate(keys_due):
        if place == len(numbers) or numbers[place] != key:
            if key not in numbers:
                return f"no line of {key}"
            return f"a line of {numbers[place]} where that of {key} belongs"
    return f"a line of {numbers[len(keys_due)]} too many" if len(numbers) > len(keys_due) else ""


def _not_written(keys: Collection[str], version: str, *, valid: bool) -> set[str]:
    """The keys that a LoadGen of this version does not write, or not into such a log."""
    numbers = version_numbers(version) or (0, 0, 0)
    absent = {_REASON} if valid else set()
    if numbers[:2] < _COUNTS_ACCURACY:
        absent |= _ACCURACY_COUNT
    if numbers < _COUNTS_ERRORS and (numbers < _LAST_WITHOUT or _ERRORS not in keys):
        absent.add(_ERRORS)
    return absent


# The effective settings that LoadGen derives from the requested ones
#
# Source: test_settings_internal.cc of LoadGen. On each of 900 logs tried (862 public ones of v5.1,
# 38 of 6.0), the effective settings are those that these functions give.

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
    """Describe the first effective setting that does not follow from the requested settings; "" if
    none.

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
        yield "min_query_count", *_whole_set_counts(log, least, duration_ms)
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


def _whole_set_counts(log: Mapping[str, Any], least: int, duration_ms: float) -> tuple[int, int]:
    """SingleStream asks for whole data sets if each sample is issued equally often."""
    if not _get(log, "requested_sample_concatenate_permutation"):
        return least, least
    qps = 1e9 / _get(log, "requested_single_stream_expected_latency_ns")
    size = _count(log, "qsl_reported_performance_count")
    queries = [
        max(least, int(_SLACK_OF_SINGLE_STREAM * duration_ms / 1e3 * qps * (1 + off)))
        for off in (-_HALF_A_DIGIT, _HALF_A_DIGIT)
    ]
    return queries[0] + size - queries[0] % size, queries[1] + size - queries[1] % size


# Fingerprints

_GENERATED = "/mlperf_conf.h"
"""Generated from mlperf.conf when LoadGen is built."""
_DIGITS = 16
RELEASES: dict[str, tuple[str, ...]] = {
    "5.0.15": ("ca508ceae78f1332", "78ce91a58d39f6fb"),
    "5.0.16": ("78ce91a58d39f6fb",),
    "5.0.17": ("78ce91a58d39f6fb", "3e2ef5d6c7e23ae7"),
    "5.0.18": ("3e2ef5d6c7e23ae7", "bee43ad9b6bc1e09"),
    "5.0.19": ("bee43ad9b6bc1e09", "836d0e2cd1564401"),
    "5.0.20": ("836d0e2cd1564401", "ab85edc6507048c5"),
    "5.0.21": ("ab85edc6507048c5", "39d740642c9c9a91"),
    "5.0.22": ("39d740642c9c9a91", "308b3fb63540a3a7"),
    "5.0.23": ("308b3fb63540a3a7", "a85c932519fc62e8"),
    "5.0.24": ("a85c932519fc62e8", "f5e0b4a5bdd3f758"),
    "5.0.25": ("f5e0b4a5bdd3f758",),
    "5.1.0": ("f5e0b4a5bdd3f758", "822ed51c9c1b424f", "39d740642c9c9a91"),
    "5.1.1": ("822ed51c9c1b424f",),
    "5.1.2": ("822ed51c9c1b424f",),
    "6.0.0": ("822ed51c9c1b424f", "33cd34b976fe29d5"),
    "6.0.1": ("33cd34b976fe29d5", "979efb602c268674"),
    "6.0.2": ("979efb602c268674",),
    "6.0.3": ("979efb602c268674", "325484157cd79648"),
    "6.0.4": ("325484157cd79648", "ab97fc234a371f08"),
    "6.0.5": ("ab97fc234a371f08", "92db8989fb4f0858"),
    "6.0.6": ("92db8989fb4f0858", "45b7d692ef58bdd4"),
    "6.0.7": ("45b7d692ef58bdd4", "50f6a7bfc3d3815e"),
    "6.0.8": ("50f6a7bfc3d3815e", "e8e29b5017509590"),
    "6.0.9": ("e8e29b5017509590", "ebdabd5fcfe177a8", "db3def01ed2e140f"),
    "6.0.10": ("db3def01ed2e140f",),
    "6.0.11": ("db3def01ed2e140f",),
    "6.0.12": ("db3def01ed2e140f",),
    "6.0.13": ("db3def01ed2e140f",),
    "6.0.14": ("db3def01ed2e140f", "52692541e69931c0"),
    "6.0.15": ("52692541e69931c0", "1eca247858099861"),
    "6.0.16": ("1eca247858099861", "ad0710685080c77f"),
    "6.0.17": ("ad0710685080c77f",),
}
"""The fingerprints of each version's sources; see `fingerprint`."""


def fingerprint(files: Mapping[str, str]) -> str:
    """A short hash of LoadGen's sources and its mlperf.conf. `files`: SHA-1 by path."""
    sources = sorted(
        path
        for path in files
        if path.endswith((".cc", ".h", "/mlperf.conf")) and path != _GENERATED
    )
    text = "".join(f"{path} {files[path]}\n" for path in sources)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:_DIGITS]
