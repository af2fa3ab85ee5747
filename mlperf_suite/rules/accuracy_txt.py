"""The accuracy.txt of a submission: the output of its accuracy script, and the log's hash."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mlperf_suite.benchmarks.definition import COUNTED_IN_A_SENTENCE

# As in the official checker: a name in quotes, its figure with or without quotes.
_FIGURE = re.compile(r"'([\w-]+)':\s+'?(\d+(?:\.\d+)?)'?(?=[,}\s]|$)")
_SENTENCE = re.compile(rf"^({COUNTED_IN_A_SENTENCE}): (\d+)\s*$", re.MULTILINE)
_HASH = re.compile(r"^hash=([0-9a-f]{64})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AccuracyTxt:
    """A parsed accuracy.txt: figures by name, shares in percent; the log's SHA-256, if present.

    A figure that appears twice with different values is not in `scores` but in `ambiguous`.
    """

    scores: Mapping[str, float]
    hash: str | None
    ambiguous: frozenset[str] = frozenset()


def parse_accuracy_txt(text: str) -> AccuracyTxt:
    """Parse the text of an accuracy.txt; never raises because of its content."""
    values: dict[str, set[float]] = {}
    for name, figure in (*_FIGURE.findall(text), *_SENTENCE.findall(text)):
        values.setdefault(name, set()).add(float(figure))
    found = _HASH.search(text)
    return AccuracyTxt(
        {name: min(figures) for name, figures in values.items() if len(figures) == 1},
        found.group(1) if found else None,
        frozenset(name for name, figures in values.items() if len(figures) > 1),
    )
