"""What each of MLPerf's audits must fulfil, besides what every log must."""

from mlperf_suite.rules import audit_rules


def test_settings(audit_run):
    """LoadGen applied the audit's settings: samples, queries and which answers it logs."""
    audit_run.obeys(audit_rules.settings)


def test_log_agrees(audit_run):
    """The detail log is consistent with itself and with the logged answers."""
    audit_run.obeys(audit_rules.log_agrees)
