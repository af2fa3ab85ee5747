"""TEST01: a performance run gives the accuracy run's answers, at the performance run's rate."""

from mlperf_suite.rules import audit_rules


def test_test01_same_answers(test01_run):
    """Each logged answer is the accuracy run's."""
    test01_run.obeys(audit_rules.same_answers)


def test_test01_same_rate(test01_run):
    """The rate is within 10% of the performance run's."""
    test01_run.obeys(audit_rules.same_rate)


def test_test01_full_length(test01_run):
    """The audit lasts as long as a performance run."""
    test01_run.obeys(audit_rules.full_length)
