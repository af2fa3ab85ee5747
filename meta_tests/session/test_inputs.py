"""What runs are made of: which reference accuracy holds, what departs, which data is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE, OFFICIAL
from mlperf_suite.errors import UsageError
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


# The tokenizer and the vocabulary of a model that is served elsewhere

TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def copied_model(folder: Path, *names: str, **changed: object) -> Path:
    """The embedded model's config.json, changed (None: left out), and these of its files."""
    folder.mkdir(parents=True)
    source = embedded_model_dir()
    content = json.loads((source / "config.json").read_text())
    content = {name: value for name, value in {**content, **changed}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(content))
    for name in names:
        (folder / name).symlink_to(source / name)
    return folder


def test_the_tokenizer_is_in_the_models_folder(tmp_path: Path) -> None:
    assert inputs().tokenizer_folder == embedded_model_dir()
    whole = copied_model(tmp_path / "whole", *TOKENIZER)
    assert inputs(model=str(whole)).tokenizer_folder == whole
    slow = copied_model(tmp_path / "slow", "tokenizer_config.json")
    assert inputs(model=str(slow)).tokenizer_folder is None


def test_the_tokenizer_of_a_hub_id_is_in_the_hubs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "models--owner--small"
    snapshot = copied_model(cached / "snapshots" / "0123abcd", *TOKENIZER)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0123abcd")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    found = inputs(model="owner/small")
    assert found.tokenizer_folder == snapshot
    assert found.vocabulary == 49152
    with pytest.raises(UsageError, match="--model owner/none: no tokenizer in this hub id"):
        _ = inputs(model="owner/none").tokenizer_folder


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"vocab_size": 50000}, 50000),
        ({"vocab_size": None, "text_config": {"vocab_size": 51000}}, 51000),
        ({"vocab_size": None}, 49152),
    ],
)
def test_the_vocabulary_is_the_models_or_else_the_tokenizers(
    tmp_path: Path, config: dict[str, object], size: int
) -> None:
    model = copied_model(tmp_path / "model", *TOKENIZER, **config)
    assert inputs(model=str(model)).vocabulary == size


@pytest.mark.parametrize(
    ("options", "advice"),
    [({}, "raise --max-model-len"), ({"endpoint": ["http://h"]}, "start the server with more")],
)
def test_a_prompt_too_long_says_what_to_do(options: dict[str, object], advice: str) -> None:
    with pytest.raises(UsageError, match=f"sample 0: .* context of 100: {advice} or leave it out"):
        inputs(**options).check_prompts(LLAMA3_1_8B, 100)
