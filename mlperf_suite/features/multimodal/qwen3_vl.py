"""qwen3-vl-235b-a22b: the category of a product from its texts and its picture.

Sources: multimodal/qwen3-vl/README.md of mlcommons/inference ("Reference Implementation
Specification": sampling, 48,289 samples, the reference's F1, Interactive's limit), mlperf.conf (no
token latencies, Server's target_latency), and examples/08_Qwen3-VL-235B-A22B_Example of
mlcommons/endpoints (v6.1: at most 150 tokens). LoadGen runs Server in v6.0 alone: since v6.1 the
official HTTP client measures it, and Interactive.

Data: titles, descriptions and pictures of products, and their categories.
Source: columns of Shopify/product-catalogue as multimodal/qwen3-vl (mlcommons/inference, task.py
and evaluation.py) reads them. Both splits are used, `train` before `test`.

Scorer: hierarchical F1 of product categories, of answers that are a JSON object.
Sources: multimodal/qwen3-vl/src/mlperf_inf_mm_q3vl/evaluation.py of mlcommons/inference (v6.0), and
ShopifyCategoryF1Scorer in evaluation/scoring.py of mlcommons/endpoints (v6.1). An answer is valid
as pydantic reads it in both: exactly these members, "yes" and 1 count as true. One that is not
valid counts as a path of the reference's length with nothing right. Nothing of an answer is
evaluated: it is parsed by a reader that limits how deep it may be nested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path

from mlperf_suite.benchmarks.definition import (
    F1,
    UNKNOWN_IDENTITY,
    Benchmark,
    Generation,
    ReferenceAccuracy,
    Scenario,
    Workload,
    at_least,
    from_a_file,
)
from mlperf_suite.benchmarks.model_identity import ModelIdentity, SiblingModel
from mlperf_suite.datasets.media import PictureFile
from mlperf_suite.datasets.samples import Sample, Samples, parquet_rows
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.multimodal.product_prompts import ProductPrompt
from mlperf_suite.random_models import RANDOM_BLIP2
from mlperf_suite.scorers.scorer import GEN_NUM, Answer, Score, Scores, token_figures

UNREADABLE = "unreadable_answers"
_MAX_TEXT_LENGTH = 1_000_000
"""A longer answer is not read: its category would have more levels than all the references."""


@dataclass(frozen=True, slots=True)
class HierarchicalF1Scorer:
    """`f1` in percent over the levels of all categories; and how many answers were not valid.

    `strips`: whether spaces at both ends of a category are dropped before it is split into levels
    (v6.1), and not only those of each level (v6.0): "Shoes > " is one level or two.
    """

    strips: bool = False
    name: str = "hierarchical_f1"

    def check(self) -> None:
        """Nothing is needed."""

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score the answers. An answer's own figure is not given: F1 is over all levels."""
        counts = [levels_of(a.text, a.sample.reference, strips=self.strips) for a in answers]
        right, given, wanted = (sum(count[place] for count in counts) for place in range(3))
        unreadable = sum(category_of(answer.text) is None for answer in answers)
        return Scores(
            (
                Score(F1, 100 * _f1(right / given, right / wanted), "%"),
                Score(UNREADABLE, unreadable, "answers"),
                Score(GEN_NUM, len(answers), "answers"),
                *token_figures(answers, 1),
            )
        )


def levels_of(text: str, reference: str, *, strips: bool) -> tuple[int, int, int]:
    """Of an answer: the levels that are right, all its levels, and those of the reference.

    A level is right if all levels above it are.
    """
    answer = category_of(text)
    if strips:
        answer, reference = answer and answer.strip(), reference.strip()
    wanted = _levels(reference)
    if answer is None:
        return 0, len(wanted), len(wanted)
    levels, right = _levels(answer), 0
    for mine, other in zip(levels, wanted, strict=False):
        if mine != other:
            break
        right += 1
    return right, len(levels), len(wanted)


def _levels(category: str) -> list[str]:
    return [level.strip() for level in category.split(" > ")]


def category_of(text: str) -> str | None:
    """The category of an answer, None if the answer is not valid."""
    if len(text) > _MAX_TEXT_LENGTH:
        return None
    try:
        return _reader()(text)
    # pydantic's ValidationError, and a text that cannot be encoded.
    except ValueError:
        return None


@lru_cache(maxsize=1)
def _reader() -> Callable[[str], str]:
    """Takes an answer's category; raises ValueError if the answer is not valid."""
    from pydantic import BaseModel, ConfigDict

    class Product(BaseModel):
        model_config = ConfigDict(extra="forbid")
        category: str
        brand: str
        is_secondhand: bool

    return lambda text: Product.model_validate_json(text).category


def _f1(precision: float, recall: float) -> float:
    both = precision + recall
    return 2 * (precision * recall) / both if both else 0.0


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


_ID, _SAMPLES, _OWN_SAMPLES, _SMOKE_TOKENS = "qwen3-vl-235b-a22b", 48_289, 32, 48
_SERVER_MS = 12_000
_REFERENCE = ReferenceAccuracy((at_least(F1, 79.03),), _SAMPLES)
_V6_0 = Workload(
    model="Qwen/Qwen3-VL-235B-A22B-Instruct",
    model_identity=ModelIdentity(
        shape={
            "model_type": "qwen3_vl_moe",
            "text_config": {
                "hidden_size": 4096,
                "num_hidden_layers": 94,
                "num_experts": 128,
                "num_experts_per_tok": 8,
                "vocab_size": 151936,
            },
        },
        siblings=(
            SiblingModel("Qwen/Qwen3-VL-30B-A3B-Instruct", "text_config"),
            SiblingModel("Qwen/Qwen3-VL-235B-A22B-Thinking"),
        ),
    ),
    load=from_a_file("the folder of Shopify/product-catalogue's parquet files", load_products),
    prompt=ProductPrompt("v6.0"),
    # The reference limits no answer; a valid one has some fifty tokens.
    generation=Generation(
        max_new_tokens=2048, min_new_tokens=0, temperature=0.7, top_p=0.8, top_k=20, seed=None
    ),
    scorer=HierarchicalF1Scorer(),
    reference=_REFERENCE,
    # Neither is published.
    mean_tokens=60,
    prompt_tokens=1500,
    context=32_768,
    media="picture",
)


def _as_in_v6_1(workload: Workload) -> Workload:
    """With the prompt, the answer limit and the scorer of mlcommons/endpoints."""
    longest = min(150, workload.generation.max_new_tokens)
    return replace(
        workload,
        prompt=ProductPrompt("v6.1"),
        generation=replace(workload.generation, max_new_tokens=longest),
        scorer=HierarchicalF1Scorer(strips=True),
    )


def _offline_samples(model: str) -> Scenario:
    """Offline of a benchmark whose tokens LoadGen does not count."""
    metric, unit = "result_samples_per_second", "samples/s"
    return Scenario("Offline", model, "Offline", metric, unit, counts_tokens=False)


def _samples_at_a_rate(
    name: str, model: str, latency_ms: float, rounds: tuple[str, ...]
) -> Scenario:
    """Server or Interactive of a benchmark whose tokens LoadGen does not count."""
    metric, limits = "result_completed_samples_per_sec", {"latency": latency_ms}
    return Scenario(name, model, "Server", metric, "samples/s", limits, rounds, counts_tokens=False)


QWEN3_VL = Benchmark(
    _ID,
    "datacenter",
    _SAMPLES,
    (_offline_samples(_ID), _samples_at_a_rate("Server", _ID, _SERVER_MS, ("v6.0",))),
    ("v6.0", "v6.1"),
    # The ids of <|im_end|> and <|endoftext|>.
    (151645, 151643),
    _REFERENCE,
    workload=_V6_0,
    smoke=replace(
        _V6_0,
        model=RANDOM_BLIP2,
        model_identity=UNKNOWN_IDENTITY,
        load=load_products,
        dataset="embedded",
        generation=replace(_V6_0.generation, max_new_tokens=_SMOKE_TOKENS),
        mean_tokens=_SMOKE_TOKENS,
        context=4096,
        ungated="random weights of another architecture: no answer is meant",
        own_samples=_OWN_SAMPLES,
    ),
    by_round={"v6.1": _as_in_v6_1},
    answers_as_text=True,
    of_client=(
        _samples_at_a_rate("Server", _ID, _SERVER_MS, ("v6.1",)),
        _samples_at_a_rate("Interactive", _ID, 1_500, ("v6.1",)),
    ),
)
BENCHMARKS = (QWEN3_VL,)
