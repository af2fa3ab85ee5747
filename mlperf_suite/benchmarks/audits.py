"""Compliance tests: the settings under which LoadGen makes an audit run.

Sources: compliance/TEST06/audit.config, compliance/TEST07/gpt-oss-120b/audit.config and
compliance/TEST09/gpt-oss-120b/audit.config of github.com/mlcommons/inference. The last two issue
each sample once since July 2026 (pull request 2619), for v6.1: v6.0's draw with replacement. The
caching audit is this suite's own, after the intent of compliance/TEST04 there, which MLPerf asks of
no language model; docs/caching-audit.md says how it differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

ISSUED_ONCE = "effective_performance_issue_unique"
"""The detail log's key of whether each sample is issued once."""
AuditMode = Literal["test06", "test07", "test09", "caching"]
Mode = Literal["accuracy", "performance"] | AuditMode
"""What a LoadGen run is made for."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One audit: a short performance run that logs answers.

    `mode`: what a run of it is called. `queries`: the least that LoadGen issues. `logged`: about
    how many answers it logs. `unique`: whether each sample is issued once, in place of a draw
    (performance_issue_unique). `drawn_in`: the rounds whose official audit.config has no such
    setting, so that logs of others may have either; the suite's own runs issue each sample once in
    every round. `samples`: of the audit's own data set; None is the benchmark's.
    `least_score`: a metric and what the answers must score in it. `mean_tokens`: the least and the
    most of an answer's mean length. `verified_in`: the file in which the official script says what
    it found.
    """

    mode: AuditMode
    queries: int
    logged: int
    unique: bool = False
    drawn_in: tuple[str, ...] = ()
    same: bool = False
    samples: int | None = None
    least_score: tuple[str, float] | None = None
    mean_tokens: tuple[float, float] | None = None
    verified_in: str = "verify_accuracy.txt"

    @property
    def name(self) -> str:
        """The official name."""
        return self.mode.upper()

    @property
    def log_seed(self) -> int:
        """accuracy_log_rng_seed."""
        return _LOG_SEED

    @property
    def conf(self) -> dict[str, float | int]:
        """Its audit.config, by LoadGen's keys."""
        issued = {"performance_issue_unique": 1} if self.unique else {}
        if self.same:
            issued = {"performance_issue_same": 1, "performance_issue_same_index": 0}
        return {
            "mode": 2,
            "accuracy_log_rng_seed": _LOG_SEED,
            "accuracy_log_sampling_target": self.logged,
            "min_query_count": self.queries,
            "min_duration": 0,
            **issued,
            "sample_concatenate_permutation": 0,
        }

    @property
    def took(self) -> Mapping[str, object]:
        """What the detail log says, by its keys, when LoadGen found that audit.config."""
        issued = {ISSUED_ONCE: True} if self.unique else {}
        if self.same:
            issued = {"effective_performance_issue_same": True}
        return {
            "effective_accuracy_log_rng_seed": _LOG_SEED,
            "effective_accuracy_log_sampling_target": self.logged,
            # Offline turns the effective count into one query of as many samples.
            "requested_min_query_count": self.queries,
            "effective_min_duration_ms": 0,
            **issued,
            "effective_sample_concatenate_permutation": False,
        }

    def differing(self, log: Mapping[str, object], round_name: str | None) -> list[str]:
        """The keys of a detail log whose values are not those of the round's audit.config.

        `round_name`: None is a round that is not known.
        """
        either = {ISSUED_ONCE} if round_name in self.drawn_in else set()
        return [
            key
            for key, wanted in self.took.items()
            if type(log.get(key)) is not type(wanted)
            or (log.get(key) != wanted and key not in either)
        ]

    def of(self, queries: int) -> Audit:
        """The same audit of fewer queries, whose answers are all logged."""
        return replace(self, queries=queries, logged=queries)


_LOG_SEED = 720381539243781796
TEST06 = Audit("test06", queries=100, logged=100)
"""What a model says: its first token, its EOS, its number of tokens."""
MIX = Audit("caching", queries=1, logged=1, unique=True)
SAME = Audit("caching", queries=1, logged=1, same=True)
"""The two kinds of block of the caching audit: other samples each time, and one over and over.
Each has as many queries as the machine is fast."""
