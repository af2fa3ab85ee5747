"""Articles and their reference summaries, from several sources.

One loader, `load_news`, reads the items embedded in the package, CNN/DailyMail 3.0.0 from the
Hugging Face hub, the official `cnn_eval.json`, and any local JSON, JSONL or parquet file of that
shape, or a folder of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mlperf_suite.datasets.samples import (
    Sample,
    Samples,
    hub_table,
    json_rows,
    jsonl_rows,
    parquet_rows,
)
from mlperf_suite.errors import DatasetError

EMBEDDED_NEWS = Path(__file__).parent / "embedded" / "news.jsonl"
HUB_NAMES = {
    "cnn_dailymail": "abisee/cnn_dailymail",
    "abisee/cnn_dailymail": "abisee/cnn_dailymail",
}
_HUB_CONFIG, _HUB_SPLIT = "3.0.0", "validation"
# The official preparation renames the hub's columns: article to input, highlights to output.
_FIELDS = (("article", "highlights"), ("input", "output"))
_FULL_SPLIT, _EDGE_SAMPLES, _EDGE_SEED = 13_368, 5_000, 42


def edge_draw(news: Samples) -> Samples:
    """The edge benchmark's 5,000 samples of the full validation split; other data is unchanged.

    Drawn like the official preparation: `datasets.Dataset.shuffle(seed=42)`, which is NumPy's
    permutation.
    """
    if len(news.items) != _FULL_SPLIT:
        return news
    import numpy as np

    order = np.random.default_rng(_EDGE_SEED).permutation(_FULL_SPLIT)[:_EDGE_SAMPLES]
    return Samples(news.name, tuple(news.items[i] for i in order))


def load_news(source: str, token: str | None = None) -> Samples:
    """Load a data set: `embedded`, `cnn_dailymail` (from the hub), or a file or folder.

    Raises DatasetError that names the file, the row and the field.
    """
    if source == "embedded":
        return Samples("embedded", _items(EMBEDDED_NEWS, _rows(EMBEDDED_NEWS)))
    if source in HUB_NAMES:
        repository = HUB_NAMES[source]
        table = hub_table("--dataset", repository, _HUB_CONFIG, _HUB_SPLIT, token, "FILE")
        rows = ((f"row {number}", row) for number, row in enumerate(table, 1))
        return Samples("cnn_dailymail", _items(Path(repository), rows))
    path = Path(source).expanduser()
    if not path.exists():
        names = ", ".join(["embedded", *HUB_NAMES])
        raise DatasetError(
            f"--dataset {source}: no such file or folder, and not one of the names {names}"
        )
    files = _data_files(path)
    items = tuple(item for file in files for item in _items(file, _rows(file)))
    return Samples(path.name, items)


def _data_files(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in _READERS:
            suffixes = ", ".join(_READERS)
            raise DatasetError(f"--dataset {path}: unknown kind of file, must be one of {suffixes}")
        return [path]
    files = sorted(p for p in path.rglob("*") if p.suffix in _READERS and p.is_file())
    # A copy of the hub repository also has the other splits, and versions 1.0.0 and 2.0.0.
    files = [p for p in files if p.name.startswith(_HUB_SPLIT)] or files
    files = [p for p in files if _HUB_CONFIG in p.relative_to(path).parts] or files
    if not files:
        raise DatasetError(f"--dataset {path}: the folder holds no {', '.join(_READERS)} file")
    return files


_READERS = {".json": json_rows, ".jsonl": jsonl_rows, ".parquet": parquet_rows}


def _rows(path: Path) -> Iterator[tuple[str, object]]:
    """Each row of a file with a description of its place."""
    try:
        yield from _READERS[path.suffix]("--dataset", path)
    except OSError as error:
        raise DatasetError(f"--dataset {path}: cannot be read: {error.strerror}") from error


def _items(path: Path, rows: Iterable[tuple[str, object]]) -> tuple[Sample, ...]:
    items = tuple(_item(path, place, row) for place, row in rows)
    if not items:
        raise DatasetError(f"--dataset {path}: the file has no rows")
    return items


def _item(path: Path, place: str, row: object) -> Sample:
    if not isinstance(row, Mapping):
        raise DatasetError(
            f"--dataset {path}: {place}: expected an object with article and highlights, "
            f"found {type(row).__name__}"
        )
    article_field, highlights_field = next((f for f in _FIELDS if f[0] in row), _FIELDS[0])
    values = []
    for field in (article_field, highlights_field):
        value = row.get(field)
        if not isinstance(value, str) or not value.strip():
            problem = "is missing" if field not in row else "is not a text or is empty"
            raise DatasetError(f"--dataset {path}: {place}: field '{field}' {problem}")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            problem = f"is not valid Unicode at character {error.start}"
            raise DatasetError(f"--dataset {path}: {place}: field '{field}' {problem}") from error
        values.append(value)
    return Sample(input=values[0], reference=values[1])
