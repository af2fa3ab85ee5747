"""The models that the set-up brings, and how it brings them."""

import json
import os
from pathlib import Path

import pytest

from mlperf_suite.assets import _no_bars_in_a_log, embedded_model_dir, own_model_dir
from mlperf_suite.errors import UsageError
from mlperf_suite.random_models import RANDOM_MODELS


def test_progress_bars_stay_out_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("TQDM_DISABLE", "HF_HUB_DISABLE_PROGRESS_BARS")
    for name in names:
        monkeypatch.setenv(name, "0")
    _no_bars_in_a_log()
    assert [os.environ[name] for name in names] == ["1", "1"]


def test_a_model_of_the_set_up_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_model_dir("OWNER/NAME") is None
    monkeypatch.setenv("MLPERF_SUITE_ASSETS", str(tmp_path))
    for name in ("embedded", *RANDOM_MODELS):
        with pytest.raises(UsageError, match=r"is missing at .* run 'make setup'"):
            own_model_dir(name)


def test_the_embedded_models_special_tokens_are_its_own() -> None:
    """With transformers 5.17 the conversion alone ends a text with <|im_start|>."""
    tokenizer = json.loads((embedded_model_dir() / "tokenizer_config.json").read_bytes())
    tokens = [tokenizer[f"{name}_token"] for name in ("bos", "eos", "pad", "unk")]
    assert tokens == ["<|im_start|>", "<|im_end|>", "<|im_end|>", "<|endoftext|>"]
