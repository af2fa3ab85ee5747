"""Compliance tests: the LoadGen settings of an audit run.

Sources: compliance/TEST06/audit.config, compliance/TEST07/gpt-oss-120b/audit.config,
compliance/TEST09/gpt-oss-120b/audit.config and compliance/TEST01/whisper/audit.config of
github.com/mlcommons/inference. Since July 2026 (pull request 2619), for v6.1, TEST07 and TEST09
issue each sample once; in v6.0 they draw with replacement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

ISSUED_ONCE = "effective_performance_issue_unique"
"""The detail log key that says whether each sample is issued once."""
Mode = str
"""The purpose of a LoadGen run: accuracy, performance, an audit of MLPerf's, or what a feature
adds."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One audit: a performance run that logs answers, a short one in most audits.

    `mode`: the name of the run mode. `queries`: the minimum that LoadGen issues. `logged`: about
    how many answers it logs. `unique`: whether each sample is issued once instead of drawn at
    random (performance_issue_unique). `drawn_in`: the rounds whose official audit.config lacks that
    setting, so that other systems' logs may have either; the suite's own runs issue each sample
    once in every round. `same`: whether one sample is issued over and over
    (performance_issue_same). `samples`: the size of the audit's own data set; None if it uses the
    benchmark's. `least_score`: a metric and the minimum score of the answers in it. `mean_tokens`:
    the minimum and maximum of the mean answer length. `compares`: whether it is a performance run
    of full length, whose answers and rate are compared with the result's other runs. `verified_in`:
    the file in which the official script reports its verdict, and `also_verified_in` a second one.
    """

    mode: Mode
    queries: int
    logged: int
    unique: bool = False
    drawn_in: tuple[str, ...] = ()
    same: bool = False
    samples: int | None = None
    least_score: tuple[str, float] | None = None
    mean_tokens: tuple[float, float] | None = None
    compares: bool = False
    verified_in: str = "verify_accuracy.txt"
    also_verified_in: str | None = None

    @property
    def name(self) -> str:
        """The official name."""
        return self.mode.upper()

    @property
    def conf(self) -> dict[str, float | int]:
        """The audit.config settings, by LoadGen's keys."""
        order = {"performance_issue_unique": 1} if self.unique else {}
        if self.same:
            order = {"performance_issue_same": 1, "performance_issue_same_index": 0}
        logging: dict[str, float | int] = {
            "mode": 2,
            "accuracy_log_rng_seed": LOG_SEED,
            "accuracy_log_sampling_target": self.logged,
        }
        if self.compares:
            return logging
        return {
            **logging,
            "min_query_count": self.queries,
            "min_duration": 0,
            **order,
            "sample_concatenate_permutation": 0,
        }

    @property
    def effective(self) -> Mapping[str, object]:
        """What the detail log contains, by its keys, if LoadGen found that audit.config."""
        order = {ISSUED_ONCE: True} if self.unique else {}
        if self.same:
            order = {"effective_performance_issue_same": True}
        logging = {
            "effective_accuracy_log_rng_seed": LOG_SEED,
            "effective_accuracy_log_sampling_target": self.logged,
        }
        if self.compares:
            return logging
        return {
            **logging,
            # Offline turns the effective count into one query of that many samples.
            "requested_min_query_count": self.queries,
            "effective_min_duration_ms": 0,
            **order,
            "effective_sample_concatenate_permutation": False,
        }

    def differences(self, log: Mapping[str, object], round_name: str | None) -> list[str]:
        """The detail log keys whose values differ from the round's audit.config.

        `round_name`: None if the round is unknown.
        """
        free = {ISSUED_ONCE} if round_name in self.drawn_in else set()
        return [
            key
            for key, value in self.effective.items()
            if type(log.get(key)) is not type(value) or (log.get(key) != value and key not in free)
        ]

    def of(self, queries: int) -> Audit:
        """The same audit with fewer queries, whose answers are all logged."""
        return replace(self, queries=queries, logged=queries)


LOG_SEED = 720381539243781796
TEST06 = Audit("test06", queries=100, logged=100)
"""Checks a model's first token, its EOS and its token counts."""
