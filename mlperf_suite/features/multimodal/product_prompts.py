"""Qwen3-VL's prompts, which are part of the rules, in v6.0 and in v6.1.

Sources, whose words are kept with their slips: formulate_loaded_sample in
multimodal/qwen3-vl/src/mlperf_inf_mm_q3vl/task.py of mlcommons/inference (v6.0), and
shopify_product_catalogue/presets.py of mlcommons/endpoints (v6.1). They differ in two words, in the
descriptions of the JSON schema, and in how the list of categories is written: as Python shows it
(v6.0) or as JSON. `python -m scripts.compare_scorers qwen3-vl-prompts-v6.0` compares them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from mlperf_suite.datasets.media import MediaPrompt, PictureFile
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError, UsageError

Version = Literal["v6.0", "v6.1"]
_SYSTEM = """Please analyze the product from the user prompt
and provide the following fields in a valid JSON object:
- category
- brand
- is_secondhand

You must choose only one, which is the most appropriate, correct, and {specific}
category out of the list of possible product categories.

The description of the product sometimes contains various types of source code
(e.g., JavaScript, CSS, HTML, etc.), where useful product information is embedded
somewhere inside the source code. For this task, you should extract the useful
product information from the source code and leverage it, and discard the
programmatic parts of the source code.

Your response should only contain a valid JSON object and nothing more, e.g.,
you should not fence the JSON object inside a ```json code block.
The JSON object should match the {following} JSON schema:
```json
{schema}
```
"""
_USER = """The title of the product is the following:
```text
{title}
```

The description of the product is the following:
```text
{description}
```

The following are the possible product categories:
```json
{categories}
```
"""
_WORDS: Mapping[Version, Mapping[str, str]] = {
    "v6.0": {"specific": "specifc", "following": "followng"},
    "v6.1": {"specific": "specific", "following": "following"},
}
_KINDS = {"category": "string", "brand": "string", "is_secondhand": "boolean"}
_EXPLAINED = {
    "category": "The complete category of the product, e.g.,\n"
    '"Clothing & Accessories > Clothing > Shirts > Polo Shirts".\n'
    'Each categorical level is separated by " > ".',
    "brand": 'The brand of the product, e.g., "giorgio armani".',
    "is_secondhand": "True if the product is second-hand, False otherwise.",
}
_ABOUT: Mapping[Version, str] = {
    "v6.0": "Json format for the expected responses from the VLM.",
    "v6.1": "JSON format for expected VLM responses (matches MLCommons Q3VL schema).\n\n"
    "Reference: https://github.com/mlcommons/inference/blob/master/multimodal/qwen3-vl/src/"
    "mlperf_inf_mm_q3vl/schema.py",
}


_PLACE = "<|image_pad|>"
"""Stands in Qwen3-VL's prompts for all tokens of the picture."""
_TOKEN_PX = 32
"""A token's square: 2 x 2 patches of 16 pixels."""
_PIXELS = (65_536, 16_777_216)
"""The fewest and the most that the model gets of a picture."""


def picture_tokens(width: int, height: int) -> int:
    """The tokens that Qwen3-VL's own processor makes of a picture of that size.

    Source: smart_resize of Qwen2-VL's image processor in transformers, with patch_size, merge_size
    and size of the model's preprocessor_config.json.
    """
    least, most = _PIXELS
    rows, columns = (round(side / _TOKEN_PX) for side in (height, width))
    pixels = rows * columns * _TOKEN_PX**2
    if pixels > most:
        scale = math.sqrt(height * width / most) * _TOKEN_PX
        rows, columns = (max(1, math.floor(side / scale)) for side in (height, width))
    elif pixels < least:
        scale = math.sqrt(least / (height * width)) / _TOKEN_PX
        rows, columns = (math.ceil(side * scale) for side in (height, width))
    return rows * columns


def _counted(tokens: Sequence[int], place: int | None, picture: PictureFile) -> int | None:
    """The tokens of a prompt with its picture; None if the model is no Qwen3-VL."""
    if place is None or list(tokens).count(place) != 1:
        return None
    return len(tokens) - 1 + picture_tokens(*picture.size)


def schema_of(version: Version) -> dict[str, object]:
    """The JSON schema of an answer, as pydantic writes that of the official class."""
    properties = {
        name: {
            **({"description": _EXPLAINED[name]} if version == "v6.0" else {}),
            "title": name.replace("_", " ").title(),
            "type": kind,
        }
        for name, kind in _KINDS.items()
    }
    return {
        "additionalProperties": False,
        "description": _ABOUT[version],
        "properties": properties,
        "required": list(_KINDS),
        "title": "ProductMetadata",
        "type": "object",
    }


def texts_of(sample: Sample, version: Version) -> tuple[str, str]:
    """The system's and the user's text for a sample, whose input is the JSON of its texts."""
    product = json.loads(sample.input)
    categories = product["potential_product_categories"]
    system = _SYSTEM.format(schema=json.dumps(schema_of(version), indent=2), **_WORDS[version])
    user = _USER.format(
        title=product["product_title"],
        description=product["product_description"],
        categories=categories if version == "v6.0" else json.dumps(categories),
    )
    return system, user


@dataclass(frozen=True, slots=True)
class ProductPrompt:
    """The prompt of a round in the model's chat template: text first, then the picture."""

    version: Version

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise DatasetError for a sample without a picture."""
        for index, sample in enumerate(samples):
            if not isinstance(sample.media, PictureFile):
                raise DatasetError(f"--dataset: sample {index} has no picture")

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> list[MediaPrompt]:
        """Each sample's prompt, with one placeholder for its picture.

        Raises DatasetError for a sample without a picture, and UsageError for a model without a
        chat template.
        """
        self.check(samples)
        if not tokenizer.chat_template:
            raise UsageError("--model: its tokenizer has no chat template, which puts the picture")
        texts = tokenizer.apply_chat_template(
            [self._messages(sample) for sample in samples],
            add_generation_prompt=True,
            tokenize=False,
        )
        ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
        place = tokenizer.convert_tokens_to_ids(_PLACE)
        return [
            MediaPrompt(
                tokens,
                sample.media,
                partial(self._messages, sample),
                _counted(tokens, place, sample.media),
            )
            for tokens, sample in zip(ids, samples, strict=True)
            if isinstance(sample.media, PictureFile)
        ]

    def _messages(self, sample: Sample) -> list[dict[str, object]]:
        system, user = texts_of(sample, self.version)
        parts = [{"type": "text", "text": user}, {"type": "image"}]
        return [{"role": "system", "content": system}, {"role": "user", "content": parts}]

    def as_json(self) -> dict[str, object]:
        return {"prompt": f"qwen3-vl-235b-a22b's of {self.version}", "chat_template": True}
