"""What each of MLPerf's audits must fulfil, besides what every log must."""

from mlperf_suite.rules import accuracy_rules, audit_rules


def test_settings(audit_run):
    """LoadGen applied the audit's settings: samples, queries and which answers it logs."""
    audit_run.obeys(audit_rules.settings)


def test_answers(audit_run):
    """Each answer has tokens, all of them the model's, and they are not one answer for all."""
    audit_run.obeys(accuracy_rules.answers)
