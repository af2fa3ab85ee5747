"""What the replay of recorded conversations must fulfil: edge-agentic, without LoadGen."""

from mlperf_suite.features.chats import chat_rules


def test_replay_settings(replay_run):
    """Every turn is asked for at temperature 0, seed 42 and at most 1,024 tokens, one at a time."""
    replay_run.obeys(chat_rules.replay_settings)


def test_whole_sessions(replay_run):
    """The replay has the 20 published conversations, with 1,007 turns to answer."""
    replay_run.obeys(chat_rules.whole_sessions)


def test_every_turn(replay_run):
    """Every turn of every conversation was asked for and answered."""
    replay_run.obeys(chat_rules.every_turn)


def test_most_duration(replay_run):
    """The replay takes at most four hours."""
    replay_run.obeys(chat_rules.most_duration)


# The server


def test_context_length(replay_run):
    """The server's context holds 32,768 tokens."""
    replay_run.obeys(chat_rules.context_length)


def test_replay_no_reasoning(replay_run):
    """No turn is answered with reasoning, which the benchmark has switched off."""
    replay_run.obeys(chat_rules.replay_no_reasoning)


def test_replay_counts(replay_run):
    """The server counts as many tokens of each turn as the model's tokenizer makes of it."""
    replay_run.obeys(chat_rules.replay_counts)


def test_replay_streamed(replay_run):
    """The answers of turns arrive as they are made."""
    replay_run.obeys(chat_rules.replay_streamed)


def test_chat_generation(replay_run):
    """The engine answers with the benchmark's model, unchanged."""
    replay_run.obeys(chat_rules.chat_generation)


def test_calling_passed(replay_run):
    """Function calling of the same system passed; without it, performance does not count."""
    replay_run.obeys(chat_rules.calling_passed)
