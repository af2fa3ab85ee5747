"""What a run of lm-eval's tasks must fulfil: every document answered, as the task asks."""

import pytest

pytestmark = pytest.mark.evals


def test_evals_all_answered(evals_run):
    """Every document of the task, or of --limit, has an answer and a score."""
    evals_run.obeys("evals_all_answered")


def test_evals_answers_as_asked(evals_run):
    """No server shortened or changed an answer."""
    evals_run.obeys("evals_answers_as_asked")
