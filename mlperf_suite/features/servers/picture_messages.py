"""Prompts with pictures as a chat server is sent them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import msgspec

from mlperf_suite.datasets.media import MediaPrompt, Message, PictureFile
from mlperf_suite.errors import SuiteError

MAX_MEDIA_BYTES = 20_000_000
"""The most bytes of a picture in a message, before base64."""
_json = msgspec.json.Encoder()
_TRIAL_PIXELS = (64, 64)


def chat_prompt(prompt: Sequence[int], text_of: Callable[[list[int]], str]) -> bytes:
    """The messages of a prompt as JSON, its picture as it is in its file.

    One without messages, as the caching audit's, becomes a user's text, which `text_of` makes.
    """
    if isinstance(prompt, MediaPrompt) and prompt.messages is not None:
        return _json.encode(with_picture(prompt.messages(), prompt.media))
    return _json.encode([{"role": "user", "content": text_of(list(prompt))}])


def with_picture(messages: Sequence[Message], picture: object) -> list[Message]:
    """The messages with a picture where a part of the type "image" stands for it."""
    assert isinstance(picture, PictureFile)
    part = picture_part(picture.content, picture.kind)
    shown: list[Message] = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            content = [part if old["type"] == "image" else old for old in content]
        shown.append({**message, "content": content})
    return shown


def trial_prompt() -> MediaPrompt:
    """A short question with a white picture."""
    from PIL import Image

    file = BytesIO()
    Image.new("RGB", _TRIAL_PIXELS, "white").save(file, format="PNG")
    parts = [{"type": "text", "text": "Which color?"}, {"type": "image"}]
    messages = [{"role": "user", "content": parts}]
    return MediaPrompt([0], PictureFile(file.getvalue()), lambda: messages)


def picture_part(data: bytes, kind: str) -> dict[str, Any]:
    """A picture as it is in its file, never resized. Raises SuiteError if it is too large."""
    if len(data) > MAX_MEDIA_BYTES:
        raise SuiteError(
            f"a picture of {len(data):,} bytes in a message: at most {MAX_MEDIA_BYTES:,} are sent"
        )
    url = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": url}}
