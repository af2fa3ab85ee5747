"""Made data of the benchmarks of sound and pictures."""

from __future__ import annotations

import json
import random
import wave
from io import BytesIO
from pathlib import Path

from evidence.submission.made_data import Made, Prepared, Published, one_in
from evidence.submission.model import WORDS, ModelTokens, write_json
from mlperf_suite.features.multimodal.qwen3_vl import QWEN3_VL
from mlperf_suite.features.multimodal.whisper import RATE_HZ, WHISPER


def write_manifest(rows: list[dict[str, object]], path: Path) -> None:
    """A manifest and its clips, which are the samples' `pcm`."""
    entries = []
    for number, row in enumerate(rows):
        name = f"made/clip-{number:04}.wav"
        clip = path.parent / name
        clip.parent.mkdir(exist_ok=True)
        with wave.open(str(clip), "wb") as file:
            file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
            pcm = row["pcm"]
            assert isinstance(pcm, bytes)
            file.writeframes(pcm)
        entries.append({"transcript": row["transcript"], "files": [{"fname": name}]})
    write_json(path, entries)


def _speech(rng: random.Random, number: int) -> Made:
    """Twenty-five words, one of them heard wrong in every third clip."""
    *words, other = rng.sample(WORDS, 26)
    heard = [other, *words[1:]] if one_in(number, 3) else words
    row = {"transcript": " ".join(words), "pcm": number.to_bytes(4, "little") * 200}
    return Made(row, Prepared(" ".join(heard), "", 0))


def _product(rng: random.Random, number: int) -> Made:
    """A picture that tells the number, and a category of which two of three levels are right in
    every fifth answer."""
    *path, other, title = rng.sample(WORDS, 5)
    category = " > ".join(path)
    answer = " > ".join([*path[:2], other]) if one_in(number, 5) else category
    row = {
        "product_title": title,
        "product_description": title,
        "potential_product_categories": [category],
        "product_image": {"bytes": _numbered_picture(number)},
        "ground_truth_category": category,
    }
    text = json.dumps({"category": answer, "brand": title, "is_secondhand": False})
    return Made(row, Prepared(text, "", 0))


def _numbered_picture(number: int) -> bytes:
    from PIL import Image

    file = BytesIO()
    Image.frombytes("RGB", (2, 2), number.to_bytes(12, "little")).save(file, format="PNG")
    return file.getvalue()


_WHISPER_IDS = {
    **{"<|endoftext|>": 50_257, "<|startoftranscript|>": 50_258, "<|en|>": 50_259},
    **{"<|transcribe|>": 50_360, "<|notimestamps|>": 50_364},
}
_CLIPS, _PRODUCTS = "dev-all-repack.json", "train-00000-of-00001.parquet"
PUBLISHED = (
    Published(
        WHISPER,
        ModelTokens(_WHISPER_IDS, end="<|endoftext|>"),
        {_CLIPS: [(_speech, WHISPER.samples)]},
        dict.fromkeys(("accuracy", "performance", "test01"), _CLIPS),
        write=write_manifest,
    ),
    Published(
        QWEN3_VL,
        ModelTokens(
            {"<|endoftext|>": 151_643, "<|im_start|>": 151_644, "<|im_end|>": 151_645},
            end="<|im_end|>",
            chat_template=(
                "{% for message in messages %}<|im_start|>{% if message.content is string %}"
                "{{ message.content }}{% else %}{{ message.content[0].text }}{% endif %}"
                "<|im_end|>{% endfor %}"
            ),
            vocabulary=151_936,
        ),
        {_PRODUCTS: [(_product, QWEN3_VL.samples)]},
        dict.fromkeys(("accuracy", "performance"), _PRODUCTS),
    ),
)
