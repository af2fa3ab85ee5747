"""What the driver and its workers send each other arrives whole and in order."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.link import Frames, Link, frame
from mlperf_suite.engines.messages import (
    AskBeat,
    Drop,
    Failure,
    Sampling,
    ServerFirstTokens,
    Submit,
    from_worker,
    to_worker,
)

messages = st.lists(
    st.builds(
        ServerFirstTokens, st.integers(0, 2**40), st.lists(st.integers(0, 2**31)), st.floats(0, 1e9)
    )
    | st.builds(Failure, st.integers(0, 2**40), st.text(), st.booleans()),
    min_size=1,
)


@given(st.lists(messages, max_size=5), st.integers(1, 50))
def test_messages_arrive_as_they_were_sent_in_pieces_of_any_size(
    batches: list[list[ServerFirstTokens | Failure]], size: int
) -> None:
    stream, frames = b"".join(map(frame, batches)), Frames()
    batches_read = []
    for start in range(0, len(stream), size):
        batches_read += [from_worker.decode(c) for c in frames.feed(stream[start : start + size])]
    assert batches_read == batches


def test_what_a_client_is_told_is_known_by_its_kind() -> None:
    submit = Submit([7], [0], [-1], [b"\x01\0\0\0"], [], -1, Sampling(8, 1, 0.0, 1.0, 1, 42, True))
    for message in (submit, Drop()):
        (content,) = Frames().feed(frame(message))
        assert to_worker.decode(content) == message


def test_messages_are_sent_in_the_order_in_which_they_were_queued() -> None:
    own_end, peer_end = socket.socketpair()
    link, peer = Link(own_end), Link(peer_end)
    link.put(AskBeat(1))
    link.put(Drop())
    link.send(AskBeat(2))
    contents = [to_worker.decode(content) for content in peer.frames.feed(peer_end.recv(1000))]
    assert contents == [AskBeat(1), Drop(), AskBeat(2)]
    peer.close()
    with pytest.raises(OSError, match="Broken pipe"):
        link.send(Drop())
    link.close()
