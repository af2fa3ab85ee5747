"""The readers of MLPerf's language data, and this project's own small data for each."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.datasets.data_files import write_jsonl, write_parquet
from mlperf_suite.datasets import samples
from mlperf_suite.datasets.mlperf_frames import (
    DEEPSEEK_R1,
    EMBEDDED,
    GPT_OSS_120B,
    LLAMA2_70B,
    LLAMA3_1_405B,
    MIXTRAL_8X7B,
)
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.errors import DatasetError

FORMATS = {
    form.name: form for form in (LLAMA2_70B, MIXTRAL_8X7B, LLAMA3_1_405B, DEEPSEEK_R1, GPT_OSS_120B)
}
ROWS: dict[str, dict[str, object]] = {
    "llama2_70b": {"tok_input": [1, 2, 300_000], "output": "a"},
    "mixtral_8x7b": {
        "input": "ä", "tok_input": [1], "dataset": "MBXP", "gt_output": "test", "id": "cpp_f",
    },
    "llama3_1_405b": {
        "input": "long", "tok_input": [5, 6], "tok_input_len": 2, "gt_output": "x",
        "metric": "qa_em",
    },
    "deepseek_r1": {
        "text_input": "Q", "ground_truth": "7", "dataset": "AIME1983", "question": "q",
    },
    "gpt_oss_120b": {"input_tokens": [9], "dataset": "gpqa", "ground_truth": "B"},
}  # fmt: skip
SAMPLES = {
    "llama2_70b": Sample("", "a", (1, 2, 300_000)),
    "mixtral_8x7b": Sample("ä", "test", (1,), "MBXP", "cpp_f"),
    "llama3_1_405b": Sample("", "x", (5, 6), "qa_em"),
    "deepseek_r1": Sample("Q", "7", None, "AIME1983"),
    "gpt_oss_120b": Sample("", "B", (9,), "gpqa"),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_each_published_form_is_read(name: str, kind: str, tmp_path: Path) -> None:
    write = {"parquet": write_parquet, "jsonl": write_jsonl}[kind]
    path = write(tmp_path / f"data.{kind}", [ROWS[name]] * 3)
    assert FORMATS[name].load(str(path)) == Samples(path.name, (SAMPLES[name],) * 3)


def test_older_names_and_missing_references(tmp_path: Path) -> None:
    old = [{"tok_input": [3], "dataset": "x", "ground_truth": None}]
    assert GPT_OSS_120B.load(str(write_parquet(tmp_path / "a.parquet", old))).items == (
        Sample("", "", (3,), "x"),
    )
    bare = [{"input_tokens": [3], "tok_input": [4]}]
    assert GPT_OSS_120B.load(str(write_parquet(tmp_path / "b.parquet", bare))).items == (
        Sample("", "", (3,)),
    )
    gt_output = [{"text_input": "Q", "gt_output": 7, "dataset": "aime"}]
    assert DEEPSEEK_R1.load(str(write_parquet(tmp_path / "c.parquet", gt_output))).items == (
        Sample("Q", "7", None, "aime"),
    )


FAULTS: list[tuple[str, dict[str, object], str]] = [
    ("llama2_70b", {"tok_input": None}, "row 2: column 'tok_input' is missing"),
    ("llama2_70b", {"tok_input": []}, "row 2: column 'tok_input' is an empty list"),
    ("llama2_70b", {"tok_input": [1, -1]}, "row 2: column 'tok_input' has the token id -1"),
    ("llama2_70b", {"tok_input": [2**31]}, "row 2: column 'tok_input' has the token id 2147483648"),
    ("llama2_70b", {"tok_input": [1, None]}, "row 2: column 'tok_input' has a missing id among"),
    ("llama2_70b", {"output": None}, "row 2: column 'output' is missing"),
    ("llama2_70b", {"output": " "}, "row 2: column 'output' is empty"),
    (
        "mixtral_8x7b",
        {"dataset": "MMLU"},
        "row 2: column 'dataset' is 'MMLU', must be one of OpenOrca",
    ),
    ("mixtral_8x7b", {"dataset": "gsm8k"}, "row 2: column 'dataset' is 'gsm8k'"),
    ("mixtral_8x7b", {"id": None}, "row 2: column 'id' is missing"),
    ("llama3_1_405b", {"metric": "bleu"}, "row 2: column 'metric' is 'bleu', must be one of rouge"),
    ("deepseek_r1", {"text_input": ""}, "row 2: column 'text_input' is empty"),
    ("deepseek_r1", {"ground_truth": None}, "row 2: column 'ground_truth' is missing"),
    ("gpt_oss_120b", {"input_tokens": None}, "row 2: column 'input_tokens' is missing"),
]


@pytest.mark.parametrize(("name", "change", "message"), FAULTS)
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_faulty_cell_is_named(
    name: str, change: dict[str, object], message: str, kind: str, tmp_path: Path
) -> None:
    write = {"parquet": write_parquet, "jsonl": write_jsonl}[kind]
    path = write(tmp_path / f"data.{kind}", [ROWS[name], ROWS[name] | change])
    if kind == "jsonl":
        message = message.replace("row 2", "line 2")
    with pytest.raises(DatasetError) as caught:
        FORMATS[name].load(str(path))
    assert str(caught.value).startswith(f"--dataset {path}: {message}")


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_column_is_named(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    columns = [*form.tokens[:1], *form.id, *(form.kind if form.kinds else ())]
    columns += form.reference[:1] if form.needs_reference else ()
    columns += () if form.tokens else form.input
    for column in columns:
        row = {key: value for key, value in ROWS[name].items() if key != column}
        if column in form.tokens:
            row.pop("input", None)
        path = write_parquet(tmp_path / "data.parquet", [row])
        with pytest.raises(DatasetError, match=f"column '{column}' is missing, the file has"):
            FORMATS[name].load(str(path))


@pytest.mark.parametrize("tokens", [[1.0, 2.0], ["1"], "1 2", 7])
def test_tokens_of_another_type_are_named(tokens: object, tmp_path: Path) -> None:
    rows = [{"tok_input": tokens, "output": "a"}]
    with pytest.raises(DatasetError, match="column 'tok_input' is not lists of token ids, but "):
        LLAMA2_70B.load(str(write_parquet(tmp_path / "data.parquet", rows)))
    with pytest.raises(DatasetError, match=r"line 1: column 'tok_input' (has|is not a list)"):
        LLAMA2_70B.load(str(write_jsonl(tmp_path / "data.jsonl", rows)))


@pytest.mark.parametrize("suffix", [".pkl", ".pickle"])
def test_a_pickle_is_not_opened(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"data{suffix}"
    with pytest.raises(DatasetError) as caught:
        MIXTRAL_8X7B.load(str(path))
    assert f"python -m mlperf_suite convert {path} data.parquet" in str(caught.value)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a")
    (tmp_path / "a.parquet").write_text("a")
    (tmp_path / "a.jsonl").write_text("\n")
    (tmp_path / "b.jsonl").write_text("{\n")
    (tmp_path / "c.jsonl").write_text("[1]\n")
    for name, message in {
        "none.parquet": "no such file",
        "": "a folder",
        "a.csv": "unknown kind of file",
        "a.parquet": "not a readable parquet file",
        "a.jsonl": "has no rows",
        "b.jsonl": "line 1: not JSON",
        "c.jsonl": "line 1: expected an object",
    }.items():
        with pytest.raises(DatasetError, match=message):
            LLAMA2_70B.load(str(tmp_path / name))


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1), min_size=1))
def test_tokens_come_out_as_they_went_in(tokens: list[list[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows: list[dict[str, object]] = [{"tok_input": ids, "output": "a"} for ids in tokens]
        path = write_parquet(Path(folder) / "data.parquet", rows)
        items = LLAMA2_70B.load(str(path)).items
    assert [item.token_ids for item in items] == [tuple(ids) for ids in tokens]
    assert all(type(token) is int for item in items for token in item.token_ids or ())


def test_rows_of_every_batch_keep_their_order_and_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "_ROWS_AT_ONCE", 4)
    rows: list[dict[str, object]] = [
        {"tok_input": [n + 1] * 3, "output": f"{n}"} for n in range(11)
    ]
    items = LLAMA2_70B.load(str(write_parquet(tmp_path / "a.parquet", rows))).items
    assert items == tuple(Sample("", f"{n}", (n + 1,) * 3) for n in range(11))
    rows[9]["tok_input"] = None
    with pytest.raises(DatasetError, match="row 10: column 'tok_input' is missing"):
        LLAMA2_70B.load(str(write_parquet(tmp_path / "a.parquet", rows)))


# The data of this project.


@pytest.mark.parametrize("name", FORMATS)
def test_the_embedded_data_has_every_kind(name: str) -> None:
    data = FORMATS[name].load("embedded")
    assert data.name == "embedded"
    assert 6 <= len(data.items) <= 9
    kinds = {item.kind for item in data.items}
    assert kinds == set(FORMATS[name].kinds or kinds)
    assert all(item.input and item.reference and item.token_ids is None for item in data.items)
    assert len({item.input for item in data.items}) == len(data.items)


def test_the_embedded_references_are_of_their_graders_form() -> None:
    for item in MIXTRAL_8X7B.load("embedded").items:
        if item.kind == "GSM8K":
            assert float(item.reference) >= 0
        if item.kind == "MBXP":
            language, name = item.id.split("_", 1)
            assert language in ("python", "javascript")
            assert name in item.input and name in item.reference
    for item in LLAMA3_1_405B.load("embedded").items:
        if item.kind == "niah_em":
            assert re.fullmatch(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}", item.reference)
            assert item.input.count(item.reference) == 1
        if item.kind == "qa_em":
            assert any(answer in item.input for answer in item.reference.split("|"))


def test_the_embedded_python_tests_tell_right_from_wrong() -> None:
    right = {
        "python_count_vowels": "def count_vowels(t):\n    return sum(c in 'aeiou' for c in t)\n",
        "python_middle": "def middle(n):\n    return sorted(n)[1]\n",
    }
    for item in MIXTRAL_8X7B.load("embedded").items:
        if item.id.startswith("python_"):
            solution = right[item.id]
            wrong = solution.split("return")[0] + "return 3\n"
            for code, passes in ((solution, True), (wrong, False)):
                with contextlib.nullcontext() if passes else pytest.raises(AssertionError):
                    exec(code + item.reference, {})


def test_the_embedded_problems_are_those_that_the_data_names() -> None:
    lines = (EMBEDDED / "live_code_bench.jsonl").read_text(encoding="utf-8").splitlines()
    problems = {row["question_id"]: row for row in map(json.loads, lines)}
    items = [*DEEPSEEK_R1.load("embedded").items, *GPT_OSS_120B.load("embedded").items]
    graded = [item for item in items if item.kind == "livecodebench"]
    assert {item.reference for item in graded} == problems.keys()
    for item in graded:
        assert problems[item.reference]["question_content"] in item.input
    for problem in problems.values():
        for column in ("public_test_cases", "private_test_cases"):
            for case in json.loads(problem[column]):
                assert case["testtype"] == ("functional" if problem["starter_code"] else "stdin")
                assert isinstance(case["input"], str) and isinstance(case["output"], str)
        function = json.loads(problem["metadata"]).get("func_name")
        assert (function is not None) == bool(problem["starter_code"])
