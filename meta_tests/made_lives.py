"""RequestParts of requests that were never made, for tests of what is made from them."""

from collections.abc import Sequence
from types import SimpleNamespace

from mlperf_suite.engines.protocol import (
    DECODE,
    FRONT_END,
    PREFILL,
    QUEUE,
    EngineTrace,
    RequestTimestamps,
    Steps,
)
from mlperf_suite.loadgen.request_parts import parts_of_requests
from mlperf_suite.loadgen.sut import Requests
from mlperf_suite.loadgen.timeline import Timeline, timeline_of

Row = tuple[float, float, float, int]
"""When a request was issued, had its first token and its last, in s, and its output tokens."""


def made_requests(rows: Sequence[Row]) -> Requests:
    """As the SUT sees them; the sample's index is the row's, the id a thousand more."""
    requests = Requests()
    for number, (issued_s, first, answer_s, tokens) in enumerate(rows):
        row = requests.add([SimpleNamespace(id=1000 + number, index=number)], issued_s)
        requests.handover_s[row] = issued_s
        requests.first_token_s[row], requests.answer_s[row] = first, answer_s
        requests.tokens[row] = tokens
    return requests


def made_marks(rows: Sequence[Row], queue_s: float = 0.01, preempted: int = 0) -> RequestTimestamps:
    """As vLLM tells them: each queued as it came, for so long."""
    timestamps = RequestTimestamps(FRONT_END, QUEUE, PREFILL, DECODE)
    for number, (issued_s, first, answer_s, _) in enumerate(rows):
        timestamps.keep(1000 + number, preempted, issued_s, issued_s + queue_s, first, answer_s)
    return timestamps


def made_steps(ended_s: Sequence[float], tokens: int) -> Steps:
    """Steps of an engine that tells of nothing but their tokens."""
    steps = Steps()
    for at in ended_s:
        steps.ended_s.append(at)
        steps.tokens.append(tokens)
    return steps


def made_timeline(
    rows: Sequence[Row], steps: Steps | None = None, timestamps: RequestTimestamps | None = None
) -> Timeline:
    """The timeline of these rows; the prompts have 10 tokens, 11, 12 …."""
    lives_of_requests = parts_of_requests(made_requests(rows), timestamps, None)
    assert lives_of_requests is not None
    trace = EngineTrace(steps or Steps(), timestamps)
    return timeline_of(lives_of_requests, trace, [10 + number for number in range(len(rows))])
