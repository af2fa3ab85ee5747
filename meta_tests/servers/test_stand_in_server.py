"""The stand-in server fails as it is told to, and always ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import psutil
import pytest

from meta_tests.servers.options import FAULTS, StandIn
from meta_tests.servers.replies import COMPLETIONS, read_request, reply
from meta_tests.servers.stand_in_server import stand_in_server
from meta_tests.suite_runs import ROOT, still_running
from mlperf_suite.errors import SuiteError

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


def test_nothing_is_left_when_the_parent_is_killed() -> None:
    program = (
        "from meta_tests.servers.stand_in_server import stand_in_server\n"
        "with stand_in_server() as server:\n"
        "    print(server.process.pid, flush=True)\n"
        "    input()\n"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program]
    parent = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))
    assert still_running([server])
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    psutil.wait_procs([server], timeout=30)
    assert still_running([server]) == []


def test_a_server_that_does_not_start_says_so() -> None:
    with pytest.raises(SuiteError, match="did not start"):
        stand_in_server(StandIn(certificate="/none")).__enter__()
