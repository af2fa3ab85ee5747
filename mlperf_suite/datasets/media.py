"""Sound and pictures that belong to samples, and prompts that carry them to the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL import Image

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
MAX_PICTURE_BYTES = 20_000_000
"""Of a picture's file: a request holds it as text."""
_MAX_PIXELS = 100_000_000
"""A few bytes can stand for endless pixels."""


@dataclass(frozen=True)
class Sound:
    """A clip of one channel: 16-bit samples, little-endian. `rate_hz`: samples per second."""

    pcm: bytes = field(repr=False)
    rate_hz: int

    @property
    def seconds(self) -> float:
        return len(self.pcm) / 2 / self.rate_hz

    @cached_property
    def sha256(self) -> str:
        """A fingerprint of the content."""
        return hashlib.sha256(b"%d " % self.rate_hz + self.pcm).hexdigest()

    def waveform(self) -> npt.NDArray[np.float32]:
        """The samples between -1 and 1, as audio libraries read a 16-bit file."""
        import numpy as np

        return np.frombuffer(self.pcm, dtype="<i2").astype(np.float32) / np.float32(32768)

    def other(self) -> Sound:
        """A clip of the same length with different content: this one backwards."""
        import numpy as np

        return Sound(np.frombuffer(self.pcm, dtype="<i2")[::-1].tobytes(), self.rate_hz)


@dataclass(frozen=True)
class PictureFile:
    """A picture file as published, unchanged."""

    content: bytes = field(repr=False)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def check(self) -> None:
        """Raise ValueError for a file that is no picture, is too large, has too many pixels or is a
        PNG that ends early; the pixels themselves are not read."""
        if len(self.content) > MAX_PICTURE_BYTES:
            raise ValueError(
                f"{len(self.content):,} bytes, and at most {MAX_PICTURE_BYTES:,} are read"
            )
        image = self._open()
        width, height = image.size
        if not 0 < width * height <= _MAX_PIXELS:
            raise ValueError(f"{width:,} x {height:,} pixels, and at most {_MAX_PIXELS:,} are read")
        try:
            image.verify()
        # What Pillow raises for a file whose parts are damaged.
        except (OSError, SyntaxError, ValueError):
            raise ValueError("a picture whose file is damaged or ends early") from None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self._open().size

    @property
    def kind(self) -> str:
        """The format of a picture, as in the name of its MIME type."""
        return (self._open().format or "").lower()

    def _open(self) -> Image.Image:
        from PIL import Image, UnidentifiedImageError

        try:
            return Image.open(BytesIO(self.content), formats=_FORMATS)
        except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError):
            raise ValueError(f"not a picture of the formats {', '.join(_FORMATS)}") from None

    def image(self) -> Image.Image:
        """The pixels in three colors, neither scaled nor cut. Raises OSError for a broken file."""
        return self._open().convert("RGB")

    def other(self) -> PictureFile:
        """A picture of the same size with different content: this one turned upside down."""
        from PIL import Image

        file = BytesIO()
        self.image().transpose(Image.Transpose.ROTATE_180).save(file, format="PNG")
        return PictureFile(file.getvalue())


Media = Sound | PictureFile
Message = Mapping[str, Any]
"""Of a chat, in which a part of the type "image" stands for the prompt's picture."""


class MediaPrompt(tuple[int, ...]):
    """A prompt's token ids, with the media that the model gets beside them.

    `messages`: makes those that a chat server turns into these tokens; None if there are none.
    `counted`: the tokens that the model gets, its media's among them; None if that is not known.
    """

    media: Media
    messages: Callable[[], Sequence[Message]] | None
    counted: int | None

    def __new__(
        cls,
        token_ids: Iterable[int],
        media: Media,
        messages: Callable[[], Sequence[Message]] | None = None,
        counted: int | None = None,
    ) -> MediaPrompt:
        prompt = super().__new__(cls, token_ids)
        prompt.media, prompt.messages, prompt.counted = media, messages, counted
        return prompt

    def other(self) -> MediaPrompt:
        """A prompt of the same length with different content.

        Its tokens are the same: they tell the model what to do, and where the media belongs.
        """
        return MediaPrompt(self, self.media.other(), self.messages, self.counted)


def identity_of(prompt: Sequence[int]) -> tuple[int, ...]:
    """The identity of a sample's prompt: its media, or else its tokens."""
    if isinstance(prompt, MediaPrompt):
        return tuple(bytes.fromhex(prompt.media.sha256))
    return tuple(prompt)
