"""A listener that keeps what an engine tells it."""

import threading
from collections.abc import Sequence

from mlperf_suite.engines.protocol import Tokens
from mlperf_suite.errors import EngineError

Call = tuple[str, list[tuple[int, list[int]]]]


class RecordingListener:
    """Keeps what it is told: call by call, and by tag. Each request has one end, after its first
    token."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.first: dict[int, list[int]] = {}
        self.answers: dict[int, list[int]] = {}
        self.errors: dict[int, EngineError] = {}
        self._changed = threading.Condition()

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        self._keep("first", tokens, self.first)

    def finished(self, answers: Sequence[Tokens]) -> None:
        self._keep("answers", answers, self.answers)

    def _keep(self, kind: str, tokens: Sequence[Tokens], by_tag: dict[int, list[int]]) -> None:
        pairs = [(tag, list(token_ids)) for tag, token_ids in tokens]
        with self._changed:
            self.calls.append((kind, pairs))
            for tag, token_ids in pairs:
                assert tag not in self.answers and tag not in self.errors
                by_tag[tag] = token_ids
            self._changed.notify_all()

    def failed(self, tag: int, error: EngineError) -> None:
        with self._changed:
            assert tag not in self.answers and tag not in self.errors
            self.errors[tag] = error
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            have_ended = self._changed.wait_for(
                lambda: len(self.answers) + len(self.errors) >= count, 120
            )
        assert have_ended, (self.calls, self.errors)
