"""What runs are made of: which reference accuracy holds, what departs, which data is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE, OFFICIAL
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings

LLAMA = "llama3.1-8b-instruct"
EDGE = LLAMA3_1_8B_EDGE


def inputs(**options: Any) -> Inputs:
    return Inputs(resolve_settings(options, {}), [LLAMA3_1_8B, LLAMA3_1_8B_EDGE])


def own_data(folder: Path, samples: int) -> str:
    file = folder / f"{samples}.json"
    file.write_text(json.dumps([{"article": "a", "highlights": "b"}] * samples))
    return str(file)


def own_model(folder: Path, **changed: object) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**OFFICIAL.shape, **changed}))
    return str(folder)


@pytest.mark.parametrize("profile", ["smoke", "official"])
def test_the_official_reference_is_of_the_official_data_alone(tmp_path: Path, profile: str) -> None:
    def known(dataset: str) -> tuple[bool, str]:
        found = inputs(profile=profile, model=LLAMA, dataset=dataset)
        reference, why = found.reference(EDGE, EDGE.samples)
        return reference is EDGE.reference, why

    assert known("embedded") == (False, "no reference accuracy is known for the data embedded")
    assert not known(own_data(tmp_path, 84))[0]
    assert known(own_data(tmp_path, EDGE.samples)) == (True, "")


def test_a_subset_is_not_judged_by_the_gate_of_the_whole_set(tmp_path: Path) -> None:
    """Luck would decide: 20 of 13,368 samples scatter by several percent."""
    data = own_data(tmp_path, LLAMA3_1_8B.samples)
    found = inputs(profile="official", dataset=data, total_sample_count="20")
    assert found.reference(LLAMA3_1_8B, 20) == (
        None,
        "20 of 13,368 samples: the gate holds for the whole data set",
    )


def test_another_model_has_no_reference_accuracy(tmp_path: Path) -> None:
    data = own_data(tmp_path, LLAMA3_1_8B.samples)

    def known(folder: str) -> tuple[bool, str]:
        found = inputs(profile="official", model=folder, dataset=data)
        reference, why = found.reference(LLAMA3_1_8B, LLAMA3_1_8B.samples)
        return reference is not None, why

    assert known(own_model(tmp_path / "copy", torch_dtype="bfloat16")) == (True, "")
    other = own_model(tmp_path / "other", hidden_size=2048)
    assert known(other) == (False, f"no reference accuracy is known for the model {other}")
    (tmp_path / "none").mkdir()
    assert not known(str(tmp_path / "none"))[0]


def test_the_embedded_reference_is_of_the_embedded_model_and_data_alone(tmp_path: Path) -> None:
    whole = LLAMA3_1_8B.smoke
    assert whole is not None
    assert inputs().reference(EDGE, 84) == (whole.reference, "")
    reference, why = inputs(dataset=own_data(tmp_path, 84)).reference(EDGE, 84)
    assert reference is None
    assert "the data" in why
    reference, why = inputs(model=own_model(tmp_path / "model")).reference(EDGE, 84)
    assert reference is None
    assert "the model" in why


def test_a_subset_of_the_embedded_data_has_a_gate_as_much_wider() -> None:
    few, _ = inputs().reference(LLAMA3_1_8B, 21)
    every, _ = inputs().reference(LLAMA3_1_8B, 84)
    assert few is not None
    assert every is not None
    for one in few.expected[:4]:
        whole = every.of(one.name)
        assert whole is not None
        # A quarter of the answers: their mean scatters twice as much.
        assert 1 - one.share == pytest.approx(2 * (1 - whole.share))


def test_other_generation_than_the_benchmarks_departs() -> None:
    def departures(engine: dict[str, object] | None = None, **options: Any) -> tuple[str, ...]:
        return inputs(**options).departures(LLAMA3_1_8B, engine or {})

    assert departures() == departures(max_new_tokens="128") == ()
    assert departures(max_new_tokens="130") == ("at most 130 new tokens, not 128",)
    assert departures({"enable_prefix_caching": True}) == ("a prefix cache",)
    assert departures({"enable_prefix_caching": False}) == ()


def test_the_context_is_the_benchmarks_own_need_wherever_it_runs() -> None:
    """Without it a Llama takes its own 131,072 tokens, which no GPU of 24 GB can hold."""
    for options in ({}, {"model": LLAMA}, {"profile": "official"}):
        assert inputs(**options).context_needed == 8192
