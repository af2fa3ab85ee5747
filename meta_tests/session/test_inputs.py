"""What runs are made of: which reference accuracy holds, what departs, which data is taken."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.session.scripted_session import inputs, own_data, own_model
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.engines.model_files import weight_fault
from mlperf_suite.errors import DatasetError, UsageError
from mlperf_suite.session.engine_source import EngineSource

LLAMA = "llama3.1-8b-instruct"
EDGE = LLAMA3_1_8B_EDGE


def why_no_reference(benchmark: Benchmark, samples: int, **options: Any) -> str:
    """Empty: the benchmark's own holds, official or, in a smoke run, that of the small model."""
    run_inputs = inputs(**options)
    reference, why = run_inputs.reference(benchmark, samples)
    own = benchmark if "profile" in options else benchmark.smoke
    assert own is not None and (reference is own.reference) is not bool(why)
    return why


def test_the_official_reference_is_of_the_official_model_and_its_whole_data(tmp_path: Path) -> None:
    data, samples = own_data(tmp_path, EDGE.samples), EDGE.samples

    def why(**options: str) -> str:
        values = {"profile": "official", "model": LLAMA, "dataset": data, **options}
        taken = int(values.get("total_sample_count", samples))
        return why_no_reference(EDGE, taken, **values)

    assert why() == why(model=own_model(tmp_path / "copy", torch_dtype="bfloat16")) == ""
    assert why(dataset="embedded") == "no reference accuracy is known for the data embedded"
    assert why(dataset=own_data(tmp_path, 84))
    # Luck would decide: 20 samples scatter by several percent.
    partly = f"20 of {samples:,} samples: the gate holds for the whole data set"
    assert why(total_sample_count="20") == partly
    other = own_model(tmp_path / "other", hidden_size=2048)
    assert why(model=other) == f"no reference accuracy is known for the model {other}"
    (tmp_path / "none").mkdir()
    assert why(model=str(tmp_path / "none"))


def test_the_embedded_reference_is_of_the_embedded_model_and_data_alone(tmp_path: Path) -> None:
    assert why_no_reference(EDGE, 84) == ""
    partly = "0 of 84 samples: the gate holds for the whole data set"
    assert why_no_reference(EDGE, 0) == partly
    assert "the data" in why_no_reference(EDGE, 84, dataset=own_data(tmp_path, 84))
    assert "the model" in why_no_reference(EDGE, 84, model=own_model(tmp_path / "model"))


def deviations(
    row: Benchmark = LLAMA3_1_8B,
    scenario: str = "Offline",
    engine: Any = None,
    mode: Any = "performance",
    context: int | None = None,
    **options: Any,
) -> tuple[str, ...]:
    run_inputs = inputs(benchmark=[row.id], **options)
    return run_inputs.deviations(
        row, row.scenario(scenario), engine or {}, mode=mode, max_model_len=context
    )


def test_other_generation_than_the_benchmarks_departs() -> None:
    assert deviations() == deviations(max_new_tokens="128") == ()
    assert deviations(max_new_tokens="130") == ("at most 130 new tokens, not 128",)
    assert deviations(engine={"enable_prefix_caching": True}) == ("a prefix cache",)
    assert deviations(engine={"enable_prefix_caching": False}) == ()
    # The engine would cut the longest answer at the context's end and say nothing.
    longest = max(map(len, inputs().prompts(LLAMA3_1_8B)))
    assert deviations(context=longest + 128) == ()
    cut = ("at most 127 new tokens fit the context, not 128",)
    assert deviations(context=longest + 127) == cut


def test_the_context_is_the_benchmarks_own_need_wherever_it_runs() -> None:
    """Without it a Llama takes its own 131,072 tokens, which no GPU of 24 GB can hold."""
    assert inputs().context_needed == inputs(profile="official").context_needed == 8192


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


def test_the_tokenizer_of_a_hub_id_is_cached(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    cached = tmp_path / "models--owner--small"
    snapshot = copied_model(cached / "snapshots" / "0123abcd", *TOKENIZER)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0123abcd")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    run_inputs = inputs(model="owner/small")
    assert run_inputs.tokenizer_folder == snapshot
    assert run_inputs.vocabulary == 49152
    with pytest.raises(UsageError, match="--model owner/none: no tokenizer in this hub id"):
        _ = inputs(model="owner/none").tokenizer_folder


def test_the_vocabulary_is_the_models_or_else_the_tokenizers(tmp_path: Path) -> None:
    for size, config in (
        (50000, {"vocab_size": 50000}),
        (51000, {"vocab_size": None, "text_config": {"vocab_size": 51000}}),
        (49152, {"vocab_size": None}),
    ):
        model = copied_model(tmp_path / f"{size}", *TOKENIZER, **config)
        assert inputs(model=str(model)).vocabulary == size


@pytest.mark.parametrize(
    ("is_remote", "advice", "least"),
    # An engine makes a token at least.
    [(False, "raise --max-model-len", 2), (True, "start the server with more", 0)],
)
def test_a_prompt_too_long_for_the_least_answer_says_what_to_do(
    monkeypatch: MonkeyPatch, is_remote: bool, advice: str, least: int
) -> None:
    monkeypatch.setattr(EngineSource, "is_remote", is_remote)
    own = inputs()
    needed = max(map(len, own.prompts(LLAMA3_1_8B))) + max(1, least)
    generation = replace(own.generation(LLAMA3_1_8B), min_new_tokens=least)
    monkeypatch.setattr(own, "generation", lambda *_: generation)
    own.check_prompts(LLAMA3_1_8B, needed)
    reason = f"context of {needed - 1:,}: {advice} or leave it out"
    with pytest.raises(UsageError, match=reason):
        own.check_prompts(LLAMA3_1_8B, needed - 1)


# Official data, and official runs of other models


def test_official_data_that_was_not_named_is_asked_for() -> None:
    for optional_benchmark in (b for b in BENCHMARKS.values() if not b.by_default):
        run_inputs = inputs(profile="official", benchmark=[optional_benchmark.id])
        with pytest.raises(DatasetError, match="name the benchmark's official data"):
            run_inputs.samples(optional_benchmark)


def test_an_official_run_of_another_model_is_refused(tmp_path: Path) -> None:
    other_model = own_model(tmp_path / "other", hidden_size=2048, num_hidden_layers=16)
    unreadable = Path(own_model(tmp_path / "unreadable"))
    (unreadable / "config.json").write_text("{")
    data = own_data(tmp_path, 10)

    def checked(model: str, **flags: bool) -> None:
        inputs(profile="official", model=model, dataset=data, **flags)._check_model(LLAMA3_1_8B)

    checked(own_model(tmp_path / "copy"))
    checked(other_model, allow_other_model=True)
    with pytest.raises(UsageError) as error:
        checked(other_model)
    assert str(error.value) == (
        f"--model {other_model}: not llama3.1-8b's model meta-llama/Llama-3.1-8B-Instruct "
        "(hidden_size 2048, not 4096, num_hidden_layers 16, not 32); --allow-other-model runs it "
        "without a reference accuracy"
    )
    with pytest.raises(UsageError, match=r"its config\.json cannot be read"):
        checked(str(unreadable))


def test_a_search_is_of_a_round_that_offers_its_benchmark() -> None:
    """As runs are: an official peak search of what the round does not offer is refused at once."""

    def checked(id_: str) -> None:
        inputs(profile="official", round="v6.1")._check_round(BENCHMARKS[id_], ["Server"])

    checked("llama2-70b-99.9")
    with pytest.raises(UsageError, match=r"--round v6\.1: llama2-70b-99 is part of v5\.1, v6\.0"):
        checked("llama2-70b-99")


def test_text_in_the_place_of_published_tokens_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "orca.jsonl"
    file.write_text(json.dumps({"input": "a question", "output": "an answer"}) + "\n")
    llama2 = BENCHMARKS["llama2-70b-99.9"]
    run_inputs = inputs(profile="official", benchmark=[llama2.id], dataset=str(file))
    with pytest.raises(DatasetError, match="sample 0 has no token ids"):
        run_inputs.workload(llama2).prompt.check(run_inputs.samples(llama2).items)


HEADER = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
WHOLE = len(HEADER).to_bytes(8, "little") + HEADER + bytes(8)
ONE, OTHER = "model-1-of-2.safetensors", "model-2-of-2.safetensors"
INDEX = json.dumps({"weight_map": {"a": ONE, "b": OTHER}}).encode()
INDEX_NAME = "model.safetensors.index.json"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
FOLDERS: dict[str, tuple[dict[str, bytes], str]] = {
    "whole": ({"model.safetensors": WHOLE}, ""),
    "indexed": ({INDEX_NAME: INDEX, ONE: WHOLE, OTHER: WHOLE}, ""),
    "no weights": ({"config.json": b"{}"}, "no weights: none of *.safetensors, "),
    "no shard": ({INDEX_NAME: INDEX, ONE: WHOLE}, f"names 2 files, and {OTHER} is missing"),
    "no index": ({INDEX_NAME: POINTER}, f"{INDEX_NAME}: a Git LFS pointer"),
    "pointer": ({"model.safetensors": POINTER}, "model.safetensors: a Git LFS pointer"),
    "a pickle's": ({"pytorch_model.bin": POINTER}, "pytorch_model.bin: a Git LFS pointer"),
    "one byte": ({"model.safetensors": WHOLE[:-1]}, f"says {len(WHOLE)}"),
    "header": ({"model.safetensors": WHOLE[:40]}, "ends before its header does"),
    "empty": ({"model.safetensors": b""}, "ends before its header does"),
    "no header": ({"model.safetensors": WHOLE.replace(b"{", b"[")}, "header cannot be read"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_wrong_with_a_folders_weights(tmp_path: Path, name: str) -> None:
    files, words = FOLDERS[name]
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    fault = weight_fault(tmp_path)
    assert words in fault and bool(words) == bool(fault)
