"""Which settings may be tried together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning.conditions import conditions_of
from mlperf_suite.features.tuning.search import TuningSearch
from mlperf_suite.features.tuning.space import Choice, Space, Trial

SPACE: Space = {
    "seqs": (None, 16, 64, 256),
    "tokens": (None, 32, 128),
    "eager": (None, True, False),
    "graph": (None, 8, 512),
}


ORDER = '[[when]]\nseqs = [16, 64]\nonly = "tokens >= seqs"'


def file_with(folder: Path, text: str) -> Path:
    file = folder / "space.toml"
    file.write_text(f"{text}\n")
    return file


def test_an_order_of_two_settings(tmp_path: Path) -> None:
    (condition,) = conditions = conditions_of(file_with(tmp_path, ORDER), SPACE)
    others = {"eager": None, "graph": None}
    held = {
        (seqs, tokens): condition.holds({"seqs": seqs, "tokens": tokens, **others})
        for seqs in SPACE["seqs"]
        for tokens in SPACE["tokens"]
    }
    assert [pair for pair, holds in held.items() if not holds] == [(64, 32)]
    rows = np.array([[2, 1, 0, 0], [2, 2, 0, 0], [3, 1, 0, 0]])
    assert condition.allowed(rows).tolist() == [False, True, True]
    search = TuningSearch(SPACE, 0, conditions)
    for number in range(25):
        settings = search.following(number / 25)
        assert condition.holds(settings), "a search proposes only what goes together"
        search.add(Trial(settings, 100.0 + number, 0.05))


@pytest.mark.parametrize(
    ("only", "refused"),
    [
        ("eager in [null, false]", [True]),
        ("eager != true", [True]),
        ("eager == null", [True, False]),
    ],
)
def test_values_of_another_setting(tmp_path: Path, only: str, refused: list[bool]) -> None:
    text = f'[[when]]\ngraph = 512\nonly = "{only}"'
    (condition,) = conditions_of(file_with(tmp_path, text), SPACE)
    settings = {"seqs": None, "tokens": None, "graph": 512}
    assert [e for e in SPACE["eager"] if not condition.holds({**settings, "eager": e})] == refused
    assert condition.holds({**settings, "graph": 8, "eager": True})


def test_vllm_refuses_more_sequences_than_tokens_and_more_ranks_than_gpus() -> None:
    space: Space = {
        "max_num_seqs": (None, 64, 2048),
        "max_num_batched_tokens": (None, 1024, 4096),
        "tensor_parallel_size": (None, 1, 2, 4),
        "data_parallel_size": (None, 2, 4),
        "enforce_eager": (None, True),
        "max_cudagraph_capture_size": (None, 64),
    }
    default: dict[str, Choice] = dict.fromkeys(space)
    conditions = conditions_of(None, space)

    def may(**settings: Choice) -> bool:
        return all(c.holds({**default, **settings}) for c in conditions)

    assert may(max_num_seqs=2048) and may(max_num_seqs=2048, max_num_batched_tokens=4096)
    assert not may(max_num_seqs=2048, max_num_batched_tokens=1024)
    assert may(tensor_parallel_size=2, data_parallel_size=2)
    assert not may(tensor_parallel_size=2, data_parallel_size=4)
    assert not may(enforce_eager=True, max_cudagraph_capture_size=64)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('when = "seqs"', "must be a list of tables"),
        ("[[when]]\nseqs = [16]", "needs only = "),
        ('[[when]]\nonly = "speed >= 3"', "speed is not searched"),
        ('[[when]]\nspeed = [1]\nonly = "seqs >= 3"', "speed is not searched"),
        ('[[when]]\nseqs = [17]\nonly = "tokens >= 3"', "seqs = 17 is no choice"),
        ('[[when]]\nonly = "tokens >= elsewhere"', "elsewhere is not a name of the space or a"),
        ('[[when]]\nonly = "tokens in 32"', "32 is not a list in JSON"),
        ('[[when]]\nonly = "tokens in [32]"', "leaves out the default settings"),
        ('[[when]]\nonly = "tokens <= 100"', "tokens = 128 is never tried"),
        ('[[when]]\nonly = "tokens >= \\"a\\""', "cannot be compared"),
    ],
)
def test_an_impossible_condition_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        conditions_of(file_with(tmp_path, text), SPACE)
    assert reason in str(caught.value) and "\n" not in str(caught.value)
