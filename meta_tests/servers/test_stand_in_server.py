"""The stand-in server fails as it is told to; that it always ends is evidence."""

from __future__ import annotations

import json

from meta_tests.servers.options import FAULTS, StandIn
from meta_tests.servers.replies import COMPLETIONS, read_request, reply

ASKED = {"prompt": [7, 8, 9], "max_tokens": 6, "stream": True, "return_token_ids": True}
ASKED["stream_options"] = {"include_usage": True}


def test_every_fault_is_answered_with_something_else_than_a_right_answer() -> None:
    right = _bytes_sent(StandIn())
    for fault in FAULTS:
        if fault not in ("no-answer", "dies"):
            assert _bytes_sent(StandIn(fault=fault)) != right, fault


def _bytes_sent(options: StandIn) -> bytes:
    request = read_request(options, COMPLETIONS, json.dumps(ASKED).encode())
    answer = reply(options, request, options.fault)
    return answer.head + b"".join(answer.parts)
