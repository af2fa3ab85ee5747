"""The fixtures of every test of tracking."""

import pytest

from meta_tests.features.tracking.fake_mlflow import client
from meta_tests.features.tracking.kept_results import TOKEN
from mlperf_suite import secrets

__all__ = ["client"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are known only here, and no tracker of whoever runs the tests is used."""
    monkeypatch.setattr(secrets, "_secrets", set())
    monkeypatch.setenv("OF_A_TOKEN", TOKEN)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
