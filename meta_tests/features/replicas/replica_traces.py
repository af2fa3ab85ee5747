"""What replicas tell of the parts of requests, made up."""

from array import array
from collections.abc import Sequence
from dataclasses import fields

from mlperf_suite.engines.messages import TraceReply
from mlperf_suite.engines.protocol import DECODE, FRONT_END, PREFILL, QUEUE, Steps

PARTS = [FRONT_END, QUEUE, PREFILL, DECODE]


def trace(
    numbers: Sequence[int] = (),
    arrivals: Sequence[float] = (),
    times: Sequence[Sequence[float]] = ((), (), (), ()),
    *,
    ended_s: Sequence[float] = (),
    parts: Sequence[str] = PARTS,
) -> TraceReply:
    """What a replica tells: each request's timestamps, a column for each part, and its steps."""
    steps = {field.name: b"" for field in fields(Steps)}
    steps |= {
        "ended_s": array("d", ended_s).tobytes(),
        "tokens": array("i", range(len(ended_s))).tobytes(),
        "replica": array("i", [0] * len(ended_s)).tobytes(),
    }
    return TraceReply(
        1,
        steps,
        array("Q", numbers).tobytes(),
        array("d", arrivals).tobytes(),
        list(parts),
        array("Q", numbers).tobytes(),
        [array("d", column).tobytes() for column in times],
        array("i", [2] * len(numbers)).tobytes(),
    )
