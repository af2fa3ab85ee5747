"""Every rule of a run: one function each, with what it examines and what it requires.

One module per subject. Sources: the MLPerf Inference rules, and the official submission checker
(tools/submission/submission_checker in github.com/mlcommons/inference), named where they differ. A
rule never raises because of a log's content: unreadable content fails it.
"""

# ruff: noqa: I001 - the rules of a run are told in the order in which the modules stand here.
from mlperf_suite.rules import (
    accuracy,
    cut_log,
    scores,
    validity,
    latency,
    length,
    client,
    clock,
    seeded,
    figures,
    origin,
    lines,
    test06,
    test07,
    test09,
    caching,
    power_rules,
    submission_rules,
)
from mlperf_suite.rules.registry import (
    RULES,
    Rule,
    accuracy_verdict,
    judge,
    rule,
    rule_name,
    rule_named,
    rule_of,
    rules_for,
)

__all__ = [
    "RULES",
    "Rule",
    "accuracy",
    "accuracy_verdict",
    "caching",
    "client",
    "clock",
    "cut_log",
    "figures",
    "judge",
    "latency",
    "length",
    "lines",
    "origin",
    "power_rules",
    "rule",
    "rule_name",
    "rule_named",
    "rule_of",
    "rules_for",
    "scores",
    "seeded",
    "submission_rules",
    "test06",
    "test07",
    "test09",
    "validity",
]
