"""The rules of the core: one function each, with what it demands, its source and the usual fix.

One module per subject; docs/rules.md lists them. Sources: the MLPerf Inference rules, and the
official submission checker (tools/submission/submission_checker in github.com/mlcommons/inference),
named where they differ. A rule never raises because of a log's content: unreadable content fails
it.
"""

# ruff: noqa: I001 - rules are reported in the order in which the modules stand here.
from mlperf_suite.rules import (
    validity,
    accuracy_rules,
    limits,
    clock,
    kept_logs,
    audit_rules,
    test06,
    benchmark_rules,
)
from mlperf_suite.rules.registry import accuracy_verdict, judge, rule_named, rules_for

__all__ = [
    "accuracy_rules",
    "accuracy_verdict",
    "audit_rules",
    "benchmark_rules",
    "clock",
    "judge",
    "kept_logs",
    "limits",
    "rule_named",
    "rules_for",
    "test06",
    "validity",
]
