"""TEST07: a performance run answers as accurately as an accuracy run must."""

from mlperf_suite.rules import audit_rules


def test_test07_every_sample(test07_run):
    """Each sample of the audit's data set was issued and its answer logged."""
    test07_run.obeys(audit_rules.every_sample)


def test_test07_score(test07_run):
    """The answers score at least 60.698% exact match (gpt-oss-120b, on GPQA)."""
    test07_run.obeys(audit_rules.score)
