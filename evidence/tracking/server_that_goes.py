"""A plugin that kills MLflow's server once the session has read its baseline."""

import contextlib
import os
import signal

import pytest


def pytest_runtestloop(session: pytest.Session) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(int(os.environ["SERVER_GROUP"]), signal.SIGKILL)
