"""Compliance tests: the settings under which LoadGen makes an audit run.

Source: compliance/TEST06/audit.config of github.com/mlcommons/inference.
"""

from __future__ import annotations

from collections.abc import Mapping

TEST06_AUDIT: Mapping[str, int] = {
    "mode": 2,
    "accuracy_log_rng_seed": 720381539243781796,
    "accuracy_log_sampling_target": 100,
    "min_query_count": 100,
    "min_duration": 0,
    "sample_concatenate_permutation": 0,
}
"""TEST06's audit.config, by LoadGen's keys: a short performance run that logs its answers."""

TEST06_TOOK: Mapping[str, object] = {
    "effective_accuracy_log_rng_seed": TEST06_AUDIT["accuracy_log_rng_seed"],
    "effective_accuracy_log_sampling_target": TEST06_AUDIT["accuracy_log_sampling_target"],
    # Offline turns the effective count into one query of as many samples.
    "requested_min_query_count": TEST06_AUDIT["min_query_count"],
    "effective_min_duration_ms": TEST06_AUDIT["min_duration"],
    "effective_sample_concatenate_permutation": False,
}
"""What the detail log says, by its keys, when LoadGen found that audit.config."""
