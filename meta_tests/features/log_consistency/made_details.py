"""Details of made-up logs that agree with themselves, LoadGen's seeds and its releases."""

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from meta_tests.made_details import Details, Load, sha1_sums
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.features.log_consistency.provenance import LABELS
from mlperf_suite.features.log_consistency.releases import lines_of
from mlperf_suite.features.log_consistency.schedule import (
    SampleOrderSettings,
    ScheduleSettings,
    first_samples,
    schedule,
    shuffled,
)

LOADGEN_FILES = sha1_sums(Path(__file__).with_name("loadgen-6.0.17.sha1"))
"""Of LoadGen's sources."""


class AgreeingDetails(Details):
    def loaded(self, seed: int, total: int) -> Sequence[int]:
        return shuffled(seed, total)

    def load(self, entries: dict[str, Any], loaded: int, accuracy: bool) -> Load:
        scenario, qps = entries["effective_scenario"], entries["effective_target_qps"]
        if scenario == "SingleStream":
            qps = 1e9 / entries["requested_single_stream_expected_latency_ns"]
        settings = ScheduleSettings(
            scenario,
            entries["effective_schedule_rng_seed"],
            qps,
            entries["effective_min_duration_ms"],
            entries["effective_min_query_count"],
            entries["effective_samples_per_query"],
            loaded,
            entries["effective_sample_concatenate_permutation"],
            accuracy,
            entries["effective_performance_issue_unique"],
        )
        return Load(*astuple(schedule(settings)))

    def issued(self, entries: dict[str, Any], accuracy: bool, count: int) -> tuple[int, ...]:
        settings = SampleOrderSettings(
            entries["effective_scenario"],
            accuracy,
            entries["effective_qsl_rng_seed"],
            entries["effective_sample_index_rng_seed"],
            entries["qsl_reported_total_count"],
            entries["effective_performance_sample_count"],
            entries["effective_min_query_count"],
            entries["effective_sample_concatenate_permutation"],
            entries["effective_performance_issue_unique"],
        )
        order = first_samples(settings, count)
        assert order is not None
        return order

    def every_line(
        self, entries: dict[str, Any], scenario: Scenario, accuracy: bool
    ) -> dict[str, Any]:
        """Each in LoadGen's place."""
        percentile = entries["effective_target_latency_percentile"]
        names = "accuracy_log_rng_seed accuracy_log_sampling_target performance_issue_unique"
        known_values = entries | {
            "loadgen_file_sha1": LOADGEN_FILES,
            **{f"requested_{name}": entries[f"effective_{name}"] for name in names.split()},
            "requested_server_target_latency_percentile": percentile,
            "requested_single_stream_target_latency_percentile": percentile,
            "requested_performance_sample_count_override": entries[
                "effective_performance_sample_count"
            ],
            "effective_max_async_queries": 0 if scenario.loadgen_scenario == "Server" else 1,
        }
        keys = lines_of(scenario.loadgen_scenario, accuracy, scenario.counts_tokens)
        absent = {_OF_INVALID} if entries.get("result_validity") != "INVALID" else set()
        return {key: known_values.get(key, _ELSE.get(key, 0)) for key in keys if key not in absent}

    def summary(self, entries: dict[str, Any]) -> str:
        streams = entries["effective_scenario"] != "Offline"
        lines = ["=" * 48, "MLPerf Results Summary", "=" * 48]
        for label, key in LABELS.items():
            if entries.get(key) is not None:
                words = int(entries[key]) if isinstance(entries[key], bool) else entries[key]
                if key.endswith("_met"):
                    words = "Yes" if words else "NO"
                lines.append(f"{label} : {words}")
        if streams and "result_validity" in entries:
            for name, key in (("", ""), ("TTFT ", "ttft_"), ("TPOT ", "tpot_")):
                if (text := entries.get(f"early_stopping_{key}result")) is not None:
                    lines += [f"{name}Early Stopping Result:", text.replace("  ", "\n ")]
            lines += ["", "=" * 48]
        lines += ["No warnings encountered during test.", "No errors encountered during test.", ""]
        return "\n".join(lines)


DETAILS = AgreeingDetails()
_FALSE = ("print_timestamps", "performance_issue_same")
_ELSE: dict[str, object] = {
    **{f"{kind}_{name}": False for kind in ("requested", "effective") for name in _FALSE},
    "requested_server_coalesce_queries": False,
    "loadgen_build_date_local": "2026-02-01T10:00:00.000000",
    "loadgen_git_log_message": "made up",
}
_OF_INVALID = "result_invalid_reason"
