"""The settings of an engine in a process of its own: nobody waits for it who need not."""

from __future__ import annotations

import time
from threading import Event, Timer

import psutil
import pytest

from mlperf_suite.engines.vllm_arguments import VllmConfig, settings_in_process

CONFIG = VllmConfig("model")


def test_it_ends_with_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Event()
    Timer(0.5, stop.set).start()
    began = time.monotonic()
    assert settings_in_process(CONFIG, stop) is None
    assert time.monotonic() - began < 60
    command_lines = [command_line.cmdline() for command_line in psutil.Process().children()]
    assert not [
        command_line
        for command_line in command_lines
        if "mlperf_suite.engines.vllm_arguments" in command_line
    ]


def test_one_that_cannot_tell_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert settings_in_process(CONFIG, Event()) is None
    monkeypatch.setattr("sys.executable", "/no/such/program")
    assert settings_in_process(CONFIG, Event()) is None
