"""The tiny models with random weights, where the set-up did not make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlperf_suite.assets import own_model_dir
from mlperf_suite.errors import UsageError
from mlperf_suite.random_models import RANDOM_MODELS


def test_a_model_of_the_set_up_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_model_dir("OWNER/NAME") is None
    monkeypatch.setenv("MLPERF_SUITE_ASSETS", str(tmp_path))
    for name in ("embedded", *RANDOM_MODELS):
        with pytest.raises(UsageError, match=r"is missing at .* run 'make setup'"):
            own_model_dir(name)
