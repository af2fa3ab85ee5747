"""The demonstrations pass the user's options on; what they start is evidence."""

import signal
from contextlib import nullcontext
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
