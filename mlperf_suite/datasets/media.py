"""Sound that belongs to a sample, and prompts that carry it to the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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


Media = Sound


class MediaPrompt(tuple[int, ...]):
    """A prompt's token ids, with the media that the model gets beside them."""

    media: Media

    def __new__(cls, token_ids: Iterable[int], media: Media) -> MediaPrompt:
        prompt = super().__new__(cls, token_ids)
        prompt.media = media
        return prompt

    def other(self) -> MediaPrompt:
        """A prompt of the same length with different content.

        Its tokens are the same: they tell the model what to do, and where the media belongs.
        """
        return MediaPrompt(self, self.media.other())
