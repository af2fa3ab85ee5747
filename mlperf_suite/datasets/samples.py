"""A data set as runs use it: samples in their order, independent of the task."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from mlperf_suite.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: `input` goes into the prompt, `reference` is what the scorer compares with.

    `token_ids` is the whole prompt of data that is published tokenized; the tokenizer is then not
    used. `kind` names the part of a mixed data set that the sample is from, `id` is the sample's
    own id, if its data set has one.
    """

    input: str
    reference: str
    token_ids: tuple[int, ...] | None = None
    kind: str = ""
    id: str = ""


@dataclass(frozen=True)
class Samples:
    """A data set in its order: a sample's index in `items` is its index in LoadGen's QSL."""

    name: str
    items: tuple[Sample, ...]

    @cached_property
    def sha256(self) -> str:
        """A fingerprint of the content that shows whether two runs used the same data."""
        digest = hashlib.sha256()
        for item in self.items:
            content: list[object] = [item.input, item.reference]
            if item.token_ids is not None or item.kind or item.id:
                content += [item.token_ids, item.kind]
            if item.id:
                content.append(item.id)
            digest.update(json.dumps(content).encode())
        return digest.hexdigest()

    def first(self, count: int | None) -> Samples:
        """The first `count` samples; None means all. Raises DatasetError if there are fewer."""
        if count is None:
            return self
        if not 1 <= count <= len(self.items):
            raise DatasetError(
                f"--total-sample-count {count}: {self.name} has {len(self.items)} samples, "
                f"allowed is 1 to {len(self.items)}, or auto"
            )
        return Samples(self.name, self.items[:count])
