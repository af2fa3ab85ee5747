"""TEST06: the tokens reported to LoadGen are those of the answer."""

from mlperf_suite.rules import test06


def test_test06_first_token(test06_run):
    """The first token reported is the first token of the answer."""
    test06_run.obeys(test06.first_token)


def test_test06_eos(test06_run):
    """An answer ends with at most one of the model's own EOS tokens."""
    test06_run.obeys(test06.eos)


def test_test06_token_count(test06_run):
    """The number of tokens reported is the length of the answer."""
    test06_run.obeys(test06.token_count)


def test_test06_sample_count(test06_run):
    """The log has as many answers as the audit asks for: 100."""
    test06_run.obeys(test06.sample_count)
