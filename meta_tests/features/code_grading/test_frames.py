"""The published data of these benchmarks, and this project's own small data for each."""

from pathlib import Path

import pytest

from meta_tests.datasets.data_files import write_parquet
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.features.code_grading.frames import DEEPSEEK_R1, GPT_OSS_120B, MIXTRAL_8X7B

FORMATS = {form.name: form for form in (MIXTRAL_8X7B, DEEPSEEK_R1, GPT_OSS_120B)}
ROWS: dict[str, dict[str, object]] = {
    "mixtral_8x7b": {
        "input": "ä", "tok_input": [1], "dataset": "MBXP", "gt_output": "test", "id": "cpp_f",
    },
    "deepseek_r1": {
        "text_input": "Q", "ground_truth": "7", "dataset": "AIME1983", "question": "q",
    },
    "gpt_oss_120b": {"input_tokens": [9], "dataset": "gpqa", "ground_truth": "B"},
}  # fmt: skip
SAMPLES = {
    "mixtral_8x7b": Sample("ä", "test", (1,), "MBXP", "cpp_f"),
    "deepseek_r1": Sample("Q", "7", None, "AIME1983"),
    "gpt_oss_120b": Sample("", "B", (9,), "gpqa"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_published_form_is_read(name: str, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "data.parquet", [ROWS[name]] * 3)
    assert FORMATS[name].load(str(path)) == Samples(path.name, (SAMPLES[name],) * 3)


def test_older_names_and_missing_references(tmp_path: Path) -> None:
    for form, row, sample in (
        (
            GPT_OSS_120B,
            {"tok_input": [3], "dataset": "x", "ground_truth": None},
            Sample("", "", (3,), "x"),
        ),
        (GPT_OSS_120B, {"input_tokens": [3], "tok_input": [4]}, Sample("", "", (3,))),
        (
            DEEPSEEK_R1,
            {"text_input": "Q", "gt_output": 7, "dataset": "aime"},
            Sample("Q", "7", None, "aime"),
        ),
    ):
        path = write_parquet(tmp_path / "a.parquet", [row])
        assert form.load(str(path)).items == (sample,)


@pytest.mark.parametrize("name", FORMATS)
def test_the_embedded_data_has_every_kind(name: str) -> None:
    data = FORMATS[name].load("embedded")
    assert 6 <= len(data.items) <= 9
    kinds = {item.kind for item in data.items}
    assert kinds == set(FORMATS[name].kinds or kinds)
    assert all(item.input and item.reference and item.token_ids is None for item in data.items)
    assert len({item.input for item in data.items}) == len(data.items)
