"""Shopify's product catalogue: titles, descriptions and pictures of products, and their categories.

Source: columns of Shopify/product-catalogue as multimodal/qwen3-vl (mlcommons/inference, task.py
and evaluation.py) reads them. Both splits are used, `train` before `test`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

from mlperf_suite.datasets.media import PictureFile
from mlperf_suite.datasets.samples import Sample, Samples, parquet_rows
from mlperf_suite.errors import DatasetError

_TITLE, _DESCRIPTION, _CATEGORIES = (
    *("product_title", "product_description"),
    "potential_product_categories",
)
_PICTURE, _CATEGORY = "product_image", "ground_truth_category"
_SPLITS = ("train", "test")


def load_products(source: str, token: str | None = None) -> Samples:
    """Read a parquet file, a folder of the published ones, or (`embedded`) drawings made now.

    A sample's input is the JSON object of its texts. `token` is unused because the files are local.
    Raises DatasetError that names the file, the row and the column.
    """
    if source == "embedded":
        return Samples("embedded", tuple(_drawn_products()))
    path = Path(source).expanduser()
    items = tuple(sample for file in _files(path) for sample in _samples(file))
    if not items:
        raise DatasetError(f"--dataset {path}: no rows")
    return Samples(path.name, items)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [file for split in _SPLITS for file in sorted(path.rglob(f"{split}-*.parquet"))]
    if not files:
        raise DatasetError(f"--dataset {path}: the folder holds no train-*.parquet")
    return files


def _samples(path: Path) -> Iterator[Sample]:
    for place, row in parquet_rows("--dataset", path):
        where = f"--dataset {path}: {place}"
        categories = row.get(_CATEGORIES)
        if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
            raise DatasetError(f"{where}: column '{_CATEGORIES}' is not a list of texts")
        title, description = (_text(where, row, name) for name in (_TITLE, _DESCRIPTION))
        content = _input(title, description, categories)
        yield Sample(content, _text(where, row, _CATEGORY), media=_picture(where, row))


def _input(title: str, description: str, categories: list[str]) -> str:
    return json.dumps({_CATEGORIES: categories, _DESCRIPTION: description, _TITLE: title})


def _text(where: str, row: Mapping[str, object], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise DatasetError(f"{where}: column '{name}' is not a text")
    return value


def _picture(where: str, row: Mapping[str, object]) -> PictureFile:
    cell = row.get(_PICTURE)
    content = cell.get("bytes") if isinstance(cell, Mapping) else cell
    if not isinstance(content, bytes):
        raise DatasetError(f"{where}: column '{_PICTURE}' holds no picture")
    picture = PictureFile(content)
    try:
        picture.check()
    except ValueError as error:
        raise DatasetError(f"{where}: column '{_PICTURE}': {error}") from None
    return picture


# Drawings

_DRAWINGS = (
    ("a red ball", "Toys > Balls", (200, 30, 30)),
    ("a blue cup", "Home > Kitchen > Cups", (30, 30, 200)),
    ("a green scarf", "Apparel > Scarves", (30, 160, 30)),
    ("a yellow lamp", "Home > Lighting > Lamps", (220, 200, 30)),
)
"""Title, category and color of this project's own products."""
_SHAPES = 8


def _drawn_products() -> Iterator[Sample]:
    """Each product in several shapes: as many samples as show a rate that holds for more."""
    categories = [category for _, category, _ in _DRAWINGS]
    for number in range(len(_DRAWINGS) * _SHAPES):
        title, category, color = _DRAWINGS[number % len(_DRAWINGS)]
        content = _input(title, f"A drawing of {title} on a white ground.", categories)
        yield Sample(content, category, media=PictureFile(_drawing(number, color)))


def _drawing(number: int, color: tuple[int, int, int]) -> bytes:
    """An ellipse of a color, in a shape of its own for each number, as a PNG file."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (96, 96), "white")
    ImageDraw.Draw(image).ellipse((8, 8 + number, 88, 88 - number), fill=color)
    file = BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()
