"""Derives the rates that runs are planned for from earlier measurements. Pure, but reads runs.

A given rate is used as it is. Offline is planned for the rate of its accuracy run or of a probe,
Server for a share of what Offline reached.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mlperf_suite.results.comparability import differences, identity_of
from mlperf_suite.results.run_folder import read_config, read_summary, run_folders
from mlperf_suite.results.schema import Config

SERVER_SHARE = 0.8
RATE_HEADROOM = 1.05
"""Offline is planned for slightly more than the measured rate, so that it cannot end too early."""


def server_qps(offline_samples_per_s: float) -> float:
    """Server's target QPS, to four digits, after Offline reached this many samples/s.

    This is 0.8 x tokens/s / mean tokens per answer, not a number of tokens/s.
    """
    return float(f"{SERVER_SHARE * offline_samples_per_s:.4g}")


TAIL_HEADROOM = 1.5
"""The same if a few answers are much longer than the mean: they alone run at the end of a run of
few samples, whose rate is then too low. Too long a run only costs time, too short a one is INVALID.
"""


def offline_qps(samples_per_s: float, *, tail: bool = False) -> float:
    """Samples/s that Offline is planned for, from the measured rate.

    `tail`: whether answers can be much longer than their mean.
    """
    return round(samples_per_s * (TAIL_HEADROOM if tail else RATE_HEADROOM), 3)


def kept_rate(results_dir: Path, benchmark: str, config: Config) -> float | None:
    """The samples/s of the newest valid Offline run of a benchmark that was kept and is of the same
    system and measurement; None if there is none.

    `config`: of this session, as far as it is known: without an engine until that is loaded.
    """
    if not results_dir.is_dir():
        return None
    # Settings count as given, whatever an engine makes of auto: the plan, which is made before the
    # engine is loaded, and the session take the same rate.
    identity = replace(identity_of(config), reports={})
    for folder in run_folders(results_dir):
        summary = read_summary(folder)
        if summary is None or summary.run.performance is None or summary.no_result:
            continue
        same_kind = (summary.meta.benchmark, summary.meta.scenario) == (benchmark, "Offline")
        rate = summary.run.performance.samples_per_sec
        if same_kind and summary.run.performance.valid and rate:
            config_kept = Config.read(read_config(folder))
            not_loaded = config.engine is None
            if config_kept.settings and not differences(
                identity_of(config_kept), identity, known_to_both=not_loaded
            ):
                return rate
    return None
