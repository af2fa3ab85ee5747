"""The frames between the engine and its clients."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.endpoint.messages import (
    Drop,
    Failed,
    First,
    Sampling,
    Submit,
    from_client,
    to_client,
)
from mlperf_suite.engines.frames import Frames, frame

told = st.lists(
    st.builds(First, st.integers(0, 2**40), st.lists(st.integers(0, 2**31)), st.floats(0, 1e9))
    | st.builds(Failed, st.integers(0, 2**40), st.text(), st.booleans()),
    min_size=1,
)


@given(st.lists(told, max_size=5), st.integers(1, 50))
def test_messages_arrive_as_they_were_sent_in_pieces_of_any_size(
    batches: list[list[First | Failed]], size: int
) -> None:
    stream, frames = b"".join(map(frame, batches)), Frames()
    heard = []
    for start in range(0, len(stream), size):
        heard += [from_client.decode(c) for c in frames.feed(stream[start : start + size])]
    assert heard == batches


def test_what_a_client_is_told_is_known_by_its_kind() -> None:
    submit = Submit([7], [0], [b"\x01\0\0\0"], Sampling(8, 1, 0.0, 1.0, 1, 42, True, 0))
    for message in (submit, Drop()):
        (content,) = Frames().feed(frame(message))
        assert to_client.decode(content) == message
