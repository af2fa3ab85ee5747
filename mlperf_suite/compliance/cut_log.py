"""A submission's accuracy log, which is cut: the entries that its two ends still have.

Source: truncate_accuracy_log.py of github.com/mlcommons/inference, which keeps 4,096 bytes of each
end and "..." between them, and the 416 accuracy logs of language models in the v5.1 results, some
of which were written with other line ends. What LoadGen writes: logging.cc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_ENTRY = re.compile(
    r'\{ "seq_id" : (\d{1,19}), "qsl_idx" : (\d{1,19}), "data" : "([0-9A-F]*)"'
    r'(?:, "token_data" : "([0-9A-F]*)")?(?:, "token_count" : (\d{1,19}))? \}'
)
_BEGINNING = re.compile(r'\s*\[\s*\{ "seq_id" : (\d{1,19}), "qsl_idx" : (\d{1,19}), "data" : "')
_END = re.compile(
    r'["0-9A-F\n]"(?:, "token_data" : "[0-9A-F]*")?(?:, "token_count" : \d{1,19})? \}\s*\]\s*\Z'
)
"""The tail that is left of a long answer may begin with the quote that ends it."""
_BEGUN = re.compile(r'\{ "seq_id" : (\d{1,19}), "qsl_idx" : (\d{1,19}), "data"')


@dataclass(frozen=True, slots=True)
class CutEntry:
    """An entry that lies whole in one of the ends. Answers are hex digits, as LoadGen dumps them.

    `place`: the sample's number in the order of issue (seq_id). `first`: what was reported as its
    first tokens, None where nothing was. `tokens`: as many as were reported.
    """

    place: int
    index: int
    answer: str
    first: str | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class CutLog:
    """The ends of a cut accuracy log.

    `entries`: those that are whole. `places`: number in the order of issue and sample of each entry
    whose beginning is there. `whole`: whether the log was not cut, since it is short.
    """

    begins: bool
    ends: bool
    whole: bool
    entries: tuple[CutEntry, ...]
    places: tuple[tuple[int, int], ...]


@lru_cache(maxsize=8)
def parse_cut_log(text: str) -> CutLog:
    """Read the ends of a cut accuracy log; never raises for what is in it."""
    entries = tuple(
        CutEntry(int(m[1]), int(m[2]), m[3], m[4], None if m[5] is None else int(m[5]))
        for m in _ENTRY.finditer(text)
    )
    return CutLog(
        _BEGINNING.match(text) is not None,
        _END.search(text) is not None,
        re.search(r"^\.\.\.\r?$", text, re.MULTILINE) is None,
        entries,
        tuple((int(m[1]), int(m[2])) for m in _BEGUN.finditer(text)),
    )
