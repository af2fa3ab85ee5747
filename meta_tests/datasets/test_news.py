"""The data loader: every shape it reads, every fault it names, the edge benchmark's selection."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import datasets
import pytest

from meta_tests.datasets.data_files import write_json, write_jsonl, write_parquet
from mlperf_suite.benchmarks.llama3_1_8b import EDGE, OFFICIAL
from mlperf_suite.datasets.news import load_news
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.errors import DatasetError

ROWS = [
    {"article": "Ängström & Søn sold 3 boats.\nTwo sank.", "highlights": "Boats sold.\nTwo sank."},
    {"article": "The bridge “opened” on Friday.", "highlights": "A bridge opened."},
    {"article": 'A mayor said "no" \\ twice.', "highlights": "Mayor says no."},
]
ITEMS = tuple(Sample(row["article"], row["highlights"]) for row in ROWS)


def the_error(source: object) -> str:
    """The one line that loading `source` ends with."""
    with pytest.raises(DatasetError) as caught:
        load_news(str(source))
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert str(source) in message
    return message


# What it reads


@pytest.mark.parametrize("write", [write_json, write_jsonl, write_parquet])
def test_reads_each_kind_of_file_in_both_shapes(
    tmp_path: Path, write: Callable[[Path, Sequence[Mapping[str, object]]], Path]
) -> None:
    """The hub's, and that of the official cnn_eval.json."""
    suffix = write.__name__.removeprefix("write_")
    # Its name may hold what globs mean.
    path = tmp_path / f"news[1]*.{suffix}"
    write(tmp_path / f"news1.{suffix}", ROWS[:1])
    assert load_news(str(write(path, ROWS))).items == ITEMS
    official = [
        {"instruction": "a", "input": r["article"], "tok_input": [1], "output": r["highlights"]}
        for r in ROWS
    ]
    assert load_news(str(write(path, official))).items == ITEMS
    if suffix == "jsonl":
        path.write_text(path.read_text().replace("\n", "\n\r\n") + "\n")
        assert load_news(str(path)).items == ITEMS


def test_a_copy_of_the_hubs_repository_gives_its_validation_split_in_order(tmp_path: Path) -> None:
    for part in (7, 2, 5, 0, 3, 6, 1, 4):
        row = {"article": f"article {part}", "highlights": "h"}
        write_parquet(tmp_path / "3" / f"validation-0000{part}-of-00008.parquet", [row])
    write_parquet(tmp_path / "3" / "train-00000-of-00001.parquet", ROWS * 2)
    write_parquet(tmp_path / "3" / "test-00000-of-00001.parquet", ROWS)
    articles = [item.input for item in load_news(str(tmp_path / "3")).items]
    assert articles == [f"article {part}" for part in range(8)]
    # Of all versions, the third is taken.
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        rows = [{**row, "article": f"{version} {row['article']}"} for row in ROWS]
        folder = tmp_path / "all" / version
        write_parquet(folder / "validation-00000-of-00001.parquet", rows)
    assert {item.input[:5] for item in load_news(str(tmp_path / "all")).items} == {"3.0.0"}


def test_a_folder_of_other_names_is_read_in_whole(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("about the data")
    assert "holds no .json" in the_error(tmp_path)
    message = the_error(tmp_path / "nowhere.json")
    assert "no such file" in message and "cnn_dailymail" in message
    write_jsonl(tmp_path / "b.jsonl", ROWS[2:])
    write_json(tmp_path / "a.json", ROWS[:2])
    assert load_news(str(tmp_path)).items == ITEMS
    missing: list[dict[str, object]] = [{"article": "b", "highlights": None}]
    message = the_error(write_parquet(tmp_path / "c.parquet", [*ROWS, *missing]))
    assert "row 4: field 'highlights'" in message


# What it refuses

_GOOD = json.dumps(ROWS[0])
_FAULTS = {
    "empty json": ("news.json", b"", ["is empty"]),
    "empty list": ("news.json", b"[]", ["no rows"]),
    "empty jsonl": ("news.jsonl", b"\n \n", ["no rows"]),
    "not JSON": ("news.json", b'[\n\n{"article" 1}]', ["line 3", "not JSON"]),
    "jsonl not JSON": ("news.jsonl", f"{_GOOD}\n\n{{]".encode(), ["line 3", "not JSON"]),
    "no list": ("news.json", b'{"article": "a"}', ["expected a list", "found dict"]),
    "row is not an object": ("news.json", f'[{_GOOD}, "text"]'.encode(), ["row 2", "found str"]),
    "line is not an object": ("news.jsonl", f"{_GOOD}\n[1]".encode(), ["line 2", "found list"]),
    "no article": ("news.json", b'[{"text": "a"}]', ["row 1", "'article' is missing"]),
    "no output": ("news.jsonl", b'{"input": "a"}', ["line 1", "'output' is missing"]),
    "null": ("news.json", b'[{"article": "a", "highlights": null}]', ["'highlights' is not a"]),
    "blank": ("news.json", b'[{"article": " ", "highlights": "h"}]', ["row 1", "is empty"]),
    "no Unicode": ("news.json", b'[{"article": "a \\ud83d"}]', ["'article'", "not valid Unicode"]),
    "not UTF-8": ("news.json", b'[{"article": "\xff"}]', ["not UTF-8"]),
    "jsonl not UTF-8": (
        "news.jsonl",
        f"{_GOOD}\n".encode() * 400 + b'"\xff"',
        ["line 401", "UTF-8"],
    ),
    "5,000 digits": ("news.json", b"[" + b"1" * 5000 + b"]", ["not JSON"]),
    "nested": ("news.json", b"[" * 100_000, ["nested too deeply"]),
    "not parquet": ("news.parquet", b"PAR1 but not really", ["not a readable parquet"]),
    "unknown kind": ("news.csv", b"article,highlights\n", ["unknown kind", ".parquet"]),
}


@pytest.mark.parametrize(("name", "content", "words"), _FAULTS.values(), ids=_FAULTS.keys())
def test_a_fault_is_one_line_that_names_file_row_and_field(
    tmp_path: Path, name: str, content: bytes, words: list[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    message = the_error(path)
    assert [part for part in words if part not in message] == [], message


# What a benchmark takes of it


def test_the_first_samples_are_taken_and_no_more_than_there_are() -> None:
    news = Samples("three", ITEMS)
    assert [news.first(count).items for count in (None, 2, 3)] == [ITEMS, ITEMS[:2], ITEMS]
    for count in (0, -1, 4):
        with pytest.raises(DatasetError, match=f"--total-sample-count {count}: .* 1 to 3"):
            news.first(count)


def test_edge_takes_its_5000_as_the_official_preparation_does() -> None:
    size = 13_368
    full = Samples("full", tuple(Sample(f"article {i}", f"highlights {i}") for i in range(size)))
    shuffled = datasets.Dataset.from_dict({"i": range(size)}).shuffle(seed=42).take(5000)
    assert EDGE.select(full).items == tuple(full.items[i] for i in shuffled["i"])
    assert OFFICIAL.select(full).items == full.items
    # Data of another size is taken as it is.
    assert EDGE.select(Samples("three", ITEMS)).items == ITEMS


def test_the_fingerprint_tells_contents_apart_and_not_names() -> None:
    digests = {
        Samples("a", items).sha256
        for items in (ITEMS, ITEMS[:2], ITEMS[::-1], (Sample("ab", "c"),), (Sample("a", "bc"),))
    }
    assert len(digests) == 5
    assert Samples("b", ITEMS).sha256 in digests


# The hub


def test_the_hub_is_asked_for_the_validation_split_of_3_0_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests: list[object] = []

    def load_dataset(*arguments: object, **options: object) -> datasets.Dataset:
        requests.append((*arguments, options))
        if options["token"] is None:
            raise ConnectionError("Couldn't reach the hub\nTraceback: and so on")
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for name in ("cnn_dailymail", "abisee/cnn_dailymail"):
        news = load_news(name, token="hf_secret")
        options = {"split": "validation", "token": "hf_secret"}
        assert requests.pop() == ("abisee/cnn_dailymail", "3.0.0", options)
        assert (news.name, news.items) == ("cnn_dailymail", ITEMS)
    message = the_error("cnn_dailymail")
    assert "Couldn't reach the hub" in message
    assert "--dataset FILE" in message
