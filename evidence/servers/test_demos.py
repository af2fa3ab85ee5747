"""The demonstrations pass the user's options on; what they start is evidence."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from scripts import demos


@pytest.mark.parametrize("name", ["endpoint", "cluster"])
def test_a_demonstration_passes_the_users_options_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, nodes = (
        SimpleNamespace(url="http://here"),
        SimpleNamespace(address="here", variables={}),
    )
    monkeypatch.setattr(demos, "vllm_server", lambda: nullcontext(server))
    monkeypatch.setattr(demos, "local_nodes", lambda cores: nullcontext(nodes))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    run_pytest = Mock(return_value=5)
    monkeypatch.setattr(demos, "run_pytest", run_pytest)
    assert demos.main(name, ["--smoke"]) == 5
    *options, last = run_pytest.call_args.args[0]
    assert last == "--smoke" and len(set(options)) == len(options)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("wait", "status"), [(interrupt, 0), (lambda: 0, 3)])
def test_a_server_alone_says_how_to_measure_it_until_it_is_ended(
    wait: Callable[[], None],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C ends it well; its own end is an error."""
    log = tmp_path / "log"
    log.write_text("out of memory\n")
    server = SimpleNamespace(url="http://here", launcher=SimpleNamespace(wait=wait), log_file=log)
    started = Mock(return_value=nullcontext(server))
    monkeypatch.setattr(demos, "vllm_server", started)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    assert demos.main("serve", ["--model", "my model", "--seed", "1"]) == status
    started.assert_called_once_with("my model", ["--seed", "1"], 8000)
    out, err = capsys.readouterr()
    selection = '-m "(offline or server) and datacenter"'
    assert f"pytest {selection} --endpoint http://here --model 'my model'\n" in out
    assert err == ("" if status == 0 else "vLLM's server ended: out of memory\n")


def test_a_port_in_use_is_a_usage_error_before_a_server_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert demos.main("serve", ["--port", port]) == 4
    assert capsys.readouterr().err.startswith(f"--port {port}: cannot be used: ")
