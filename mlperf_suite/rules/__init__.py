"""Every rule: one function each, with what it demands, where that comes from and the usual fix.

One module per subject; docs/rules.md lists them. Sources: the MLPerf Inference rules, and the
official submission checker (tools/submission/submission_checker in github.com/mlcommons/inference),
named where they differ. A rule never raises because of a log's content: unreadable content fails
it.
"""

from importlib import import_module

# ruff: noqa: I001 - rules are reported in the order in which the modules stand here.
from mlperf_suite.rules import (
    validity,
    accuracy_rules,
    limits,
    clock,
    seeded,
    figures,
    loadgen_verdict,
    provenance,
    audit_rules,
    test06,
    mmlu_rules,
    benchmark_rules,
    client_rules,
    package_rules,
    agentic_rules,
    chat_rules,
)
from mlperf_suite.feature import features
from mlperf_suite.rules.registry import accuracy_verdict, judge, rule_named, rules_for

for _feature in features():
    for _module in _feature.rules:
        import_module(_module)

__all__ = [
    "accuracy_rules",
    "accuracy_verdict",
    "agentic_rules",
    "audit_rules",
    "benchmark_rules",
    "chat_rules",
    "client_rules",
    "clock",
    "figures",
    "judge",
    "limits",
    "loadgen_verdict",
    "mmlu_rules",
    "package_rules",
    "provenance",
    "rule_named",
    "rules_for",
    "seeded",
    "test06",
    "validity",
]
