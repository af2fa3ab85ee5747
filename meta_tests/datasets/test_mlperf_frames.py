"""The readers of MLPerf's language data, and this project's own small data for each."""

from pathlib import Path

import pytest

from meta_tests.datasets.data_files import write_jsonl, write_parquet
from mlperf_suite.datasets import samples
from mlperf_suite.datasets.mlperf_frames import LLAMA2_70B, LLAMA3_1_405B
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.errors import DatasetError

FORMATS = {form.name: form for form in (LLAMA2_70B, LLAMA3_1_405B)}
ROWS: dict[str, dict[str, object]] = {
    "llama2_70b": {"tok_input": [1, 2, 300_000], "output": "a"},
    "llama3_1_405b": {
        "input": "long", "tok_input": [5, 6], "tok_input_len": 2, "gt_output": "x",
        "metric": "qa_em",
    },
}  # fmt: skip
SAMPLES = {
    "llama2_70b": Sample("", "a", (1, 2, 300_000)),
    "llama3_1_405b": Sample("", "x", (5, 6), "qa_em"),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_each_published_form_is_read(name: str, kind: str, tmp_path: Path) -> None:
    write = {"parquet": write_parquet, "jsonl": write_jsonl}[kind]
    path = write(tmp_path / f"data.{kind}", [ROWS[name]] * 3)
    assert FORMATS[name].load(str(path)) == Samples(path.name, (SAMPLES[name],) * 3)


FAULTS: list[tuple[str, dict[str, object], str]] = [
    ("llama2_70b", {"tok_input": []}, "row 2: column 'tok_input' is an empty list"),
    ("llama2_70b", {"tok_input": [1, -1]}, "row 2: column 'tok_input' has the token id -1"),
    ("llama2_70b", {"tok_input": [2**31]}, "row 2: column 'tok_input' has the token id 2147483648"),
    ("llama2_70b", {"tok_input": [1, None]}, "row 2: column 'tok_input' has a missing id among"),
    ("llama2_70b", {"output": None}, "row 2: column 'output' is missing"),
    ("llama2_70b", {"output": " "}, "row 2: column 'output' is empty"),
    ("llama3_1_405b", {"metric": "em"}, "row 2: column 'metric' is 'em', must be one of rouge"),
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


@pytest.mark.parametrize(
    ("name", "column"),
    [("llama2_70b", "tok_input"), ("llama2_70b", "output"), ("llama3_1_405b", "metric")],
)
def test_a_missing_column_is_named(name: str, column: str, tmp_path: Path) -> None:
    row = {key: value for key, value in ROWS[name].items() if key != column}
    path = write_parquet(tmp_path / "data.parquet", [row])
    with pytest.raises(DatasetError, match=f"column '{column}' is missing, the file has"):
        FORMATS[name].load(str(path))


@pytest.mark.parametrize("tokens", [[1.0, 2.0], ["1"], "1 2"])
def test_tokens_of_another_type_are_named(tokens: object, tmp_path: Path) -> None:
    rows = [{"tok_input": tokens, "output": "a"}]
    with pytest.raises(DatasetError, match="column 'tok_input' is not lists of token ids, but "):
        LLAMA2_70B.load(str(write_parquet(tmp_path / "data.parquet", rows)))
    with pytest.raises(DatasetError, match=r"line 1: column 'tok_input' (has|is not a list)"):
        LLAMA2_70B.load(str(write_jsonl(tmp_path / "data.jsonl", rows)))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    for name, content, message in (
        ("none.parquet", None, "no such file"),
        ("", None, "a folder"),
        ("a.csv", "a", "unknown kind of file"),
        ("a.jsonl", "\n", "has no rows"),
        *((f"a{of}", "a", "convert it to parquet") for of in (".pkl", ".pickle")),
    ):
        if content:
            (tmp_path / name).write_text(content)
        with pytest.raises(DatasetError, match=message):
            LLAMA2_70B.load(str(tmp_path / name))


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
