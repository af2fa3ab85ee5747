"""The variables that vLLM reads while it loads."""

import os

import pytest

from mlperf_suite.engines.vllm_environment import vllm_environment

_NAME = "VLLM_RPC_BASE_PATH"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_NAME, raising=False)


@pytest.mark.parametrize(("length", "fits"), [(70, True), (71, False)])
def test_a_folder_whose_sockets_would_have_too_long_a_path_is_left(length: int, fits: bool) -> None:
    folder = "/" + (length - 1) * "a"
    with vllm_environment("a/model", sockets=folder):
        assert (os.environ.get(_NAME) == folder) is fits
    assert _NAME not in os.environ


def test_the_users_own_folder_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_NAME, "/mine")
    with vllm_environment("a/model", sockets="/sockets"):
        assert os.environ[_NAME] == "/mine"
    assert os.environ[_NAME] == "/mine"
