"""What is sent arrives whole and in order."""

import socket
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.framed_socket import FrameDecoder, FramedSocket, frame
from mlperf_suite.engines.messages import (
    AskHeartbeat,
    Drop,
    Failure,
    ServerFirstTokens,
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
    stream, frames = b"".join(map(frame, batches)), FrameDecoder()
    batches_read = []
    for start in range(0, len(stream), size):
        batches_read += [from_worker.decode(c) for c in frames.feed(stream[start : start + size])]
    assert batches_read == batches


def test_an_end_that_takes_nothing_holds_up_nobody_who_does_not_wait() -> None:
    own_end, peer_end = socket.socketpair()
    framed_socket, peer = FramedSocket(own_end), FramedSocket(peer_end)
    failures = [Failure(number, "x" * 100_000, False) for number in range(40)]
    for failure in failures[:20]:
        framed_socket.put(failure)
    framed_socket.flush(wait=False)
    for failure in failures[20:]:
        framed_socket.put(failure)
    sender = threading.Thread(target=framed_socket.flush, daemon=True)
    sender.start()
    while not framed_socket._sending.locked():
        """The thread waits for the other end soon."""
    framed_socket.flush(wait=False)
    taken: list[Failure] = []
    while len(taken) < len(failures):
        for content in peer.frames.feed(peer.socket.recv(1 << 20)):
            taken.append(msgspec.msgpack.decode(content, type=Failure))
    sender.join(60)
    assert taken == failures and not sender.is_alive()
    framed_socket.close()
    peer.close()


def test_messages_are_sent_in_the_order_in_which_they_were_queued() -> None:
    own_end, peer_end = socket.socketpair()
    framed_socket, peer = FramedSocket(own_end), FramedSocket(peer_end)
    framed_socket.put(AskHeartbeat(1))
    framed_socket.put(Drop())
    framed_socket.send(AskHeartbeat(2))
    contents = [to_worker.decode(content) for content in peer.frames.feed(peer_end.recv(1000))]
    assert contents == [AskHeartbeat(1), Drop(), AskHeartbeat(2)]
    peer.close()
    with pytest.raises(OSError, match="Broken pipe"):
        framed_socket.send(Drop())
    framed_socket.close()
