"""TEST09: the answers of a performance run are as long as the reference's."""

from mlperf_suite.rules import audit_rules


def test_test09_every_sample(test09_run):
    """Each sample of the performance data set was issued and its answer logged."""
    test09_run.obeys(audit_rules.every_sample)


def test_test09_mean_tokens(test09_run):
    """An answer has 1,150.38 to 1,406.02 tokens on average (gpt-oss-120b)."""
    test09_run.obeys(audit_rules.mean_tokens)
