"""What function calling must fulfil: qwen3.6-27b (edge-agentic), BFCL v4's single turns."""

from mlperf_suite.features.chats import chat_rules


def test_accuracy_calling_settings(function_calls_run):
    """Every question is asked at temperature 0, seed 42 and at most 1,024 tokens, one at a time."""
    function_calls_run.obeys(chat_rules.calling_settings)


def test_accuracy_whole_questions(function_calls_run):
    """The questions are the 995 single turns of BFCL v4."""
    function_calls_run.obeys(chat_rules.whole_questions)


def test_accuracy_every_question(function_calls_run):
    """Every question was asked and answered."""
    function_calls_run.obeys(chat_rules.every_question)


def test_accuracy_calling_no_reasoning(function_calls_run):
    """No question is answered with reasoning, which the benchmark has switched off."""
    function_calls_run.obeys(chat_rules.calling_no_reasoning)


def test_accuracy_calling_counts(function_calls_run):
    """The server counts as many tokens of each question as the model's tokenizer makes of it."""
    function_calls_run.obeys(chat_rules.calling_counts)


# The gates


def test_accuracy_calls_checked(function_calls_run):
    """The calls are checked by bfcl-eval's own AST checker."""
    function_calls_run.obeys(chat_rules.calls_checked)


def test_accuracy_calling_overall(function_calls_run):
    """The share of right answers is at least 0.97 of the reference, 86.23%."""
    function_calls_run.obeys(chat_rules.calling_overall)


def test_accuracy_calling_normalized(function_calls_run):
    """The mean over non_live, live and hallucination is at least 0.97 of the reference, 87.96%."""
    function_calls_run.obeys(chat_rules.calling_normalized)
