"""The product catalogue: published columns, pictures as they are, and prompts of both rounds."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mlperf_suite.datasets.media import MediaPrompt, PictureFile
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError, UsageError
from mlperf_suite.features.multimodal.product_prompts import (
    ProductPrompt,
    Version,
    picture_tokens,
    schema_of,
    texts_of,
)
from mlperf_suite.features.multimodal.qwen3_vl import load_products


def picture_file(color: str = "red", form: str = "JPEG") -> bytes:
    file = BytesIO()
    Image.new("RGB", (20, 10), color).save(file, format=form)
    return file.getvalue()


def row(**changes: Any) -> dict[str, Any]:
    return {
        "product_title": "a shoe",
        "product_description": "<p>red</p>",
        "product_image": {"bytes": picture_file(), "path": None},
        "potential_product_categories": ["Apparel > Shoes", "Toys"],
        "ground_truth_category": "Apparel > Shoes",
    } | changes


def write(path: Path, *rows: dict[str, Any]) -> str:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return str(path)


def test_a_row_is_read_and_its_picture_is_not_changed(tmp_path: Path) -> None:
    (sample,) = load_products(write(tmp_path / "a.parquet", row())).items
    assert sample.reference == "Apparel > Shoes"
    assert sample.media == PictureFile(picture_file())
    unseen = ("product_image", "ground_truth_category")
    assert json.loads(sample.input) == {k: v for k, v in row().items() if k not in unseen}


def test_train_stands_before_test_and_files_in_their_order(tmp_path: Path) -> None:
    for name in ("test-00000-of-00001", "train-00001-of-00002", "train-00000-of-00002"):
        write(tmp_path / f"{name}.parquet", row(product_title=name))
    titles = [json.loads(s.input)["product_title"] for s in load_products(str(tmp_path)).items]
    assert titles == ["train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"]
    with pytest.raises(DatasetError, match="the folder holds no train-"):
        (tmp_path / "empty").mkdir()
        load_products(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"product_title": None}, "row 1: column 'product_title' is not a text"),
        ({"ground_truth_category": 3}, "row 1: column 'ground_truth_category' is not a text"),
        ({"potential_product_categories": "Toys"}, "'potential_product_categories' is not a list"),
        ({"product_image": "a.jpg"}, "row 1: column 'product_image' holds no picture"),
        (
            {"product_image": {"bytes": b"no picture"}},
            "'product_image': not a picture of the formats",
        ),
        ({"product_image": {"bytes": bytes(20_000_001)}}, "'product_image': 20,000,001 bytes, and"),
        (
            {"product_image": {"bytes": picture_file(form="PNG")[:-20]}},
            "'product_image': a picture whose file is damaged or ends early",
        ),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        load_products(write(tmp_path / "a.parquet", row(**changes)))


def test_another_picture_has_the_same_size_and_other_content() -> None:
    for sample in load_products("embedded").items:
        picture = sample.media
        assert isinstance(picture, PictureFile)
        other = picture.other()
        assert other.image().size == picture.image().size
        assert other.image().tobytes() != picture.image().tobytes()
    file = BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, format="PNG")
    with pytest.raises(ValueError, match=r"pixels|not a picture"):
        PictureFile(file.getvalue()).check()


def test_the_rounds_prompts_differ_where_the_official_ones_do() -> None:
    sample = load_products("embedded").items[0]
    old, new = (texts_of(sample, version) for version in ("v6.0", "v6.1"))
    assert "specifc" in old[0] and "followng" in old[0]
    assert "specific" in new[0] and "following" in new[0]
    assert "['Toys > Balls', " in old[1] and '["Toys > Balls", ' in new[1]
    properties: Any = schema_of("v6.0")["properties"]
    assert "description" in properties["brand"]
    assert all(title in texts[1] for texts in (old, new) for title in ("a red ball",))


class Tokenizer:
    """`place`: Qwen3-VL's token of a picture, if the model is one."""

    chat_template: str | None = "a template"
    place: int | None = None

    def apply_chat_template(self, chats: Any, **options: Any) -> list[str]:
        assert options == {"add_generation_prompt": True, "tokenize": False}
        assert [part["type"] for part in chats[0][1]["content"]] == ["text", "image"]
        return ["x" * (3 + number) for number, _ in enumerate(chats)]

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return {"<|image_pad|>": self.place}[token]

    def __call__(self, texts: list[str], add_special_tokens: bool) -> dict[str, Any]:
        assert not add_special_tokens
        return {"input_ids": [[7, 8, *[7] * (len(text) - 2)] for text in texts]}


@pytest.mark.parametrize("version", ["v6.0", "v6.1"])
def test_a_prompt_carries_its_samples_picture(version: Version) -> None:
    samples, tokenizer = load_products("embedded").items[:4], Tokenizer()
    prompts = ProductPrompt(version).encode(samples, tokenizer)
    assert all(isinstance(prompt, MediaPrompt) for prompt in prompts)
    assert [prompt.media for prompt in prompts] == [sample.media for sample in samples]
    assert [len(prompt) for prompt in prompts] == [3, 4, 5, 6]
    assert {prompt.counted for prompt in prompts} == {None}
    # A Qwen3-VL gets known tokens: of 96 x 96 pixels as many as the least size has.
    for place, counted in ((8, 2 + 64), (9, None)):
        tokenizer.place = place
        assert ProductPrompt(version).encode(samples, tokenizer)[0].counted == counted
    tokenizer.chat_template = None
    with pytest.raises(UsageError, match="no chat template"):
        ProductPrompt(version).encode(samples, tokenizer)
    with pytest.raises(DatasetError, match="sample 0 has no picture"):
        ProductPrompt(version).check([Sample("{}", "Toys")])


def test_tokens_of_a_picture() -> None:
    """As smart_resize of transformers 5 says (factor 32)."""
    sizes = {(32, 32): 64, (2095, 13): 102, (640, 480): 300, (333, 777): 240, (5000, 4000): 16_302}
    assert {size: picture_tokens(*size) for size in sizes} == sizes
