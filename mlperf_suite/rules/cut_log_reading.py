"""A submission's truncated accuracy log: the entries left at its two ends.

Source: truncate_accuracy_log.py of github.com/mlcommons/inference, which keeps 4,096 bytes of each
end and "..." between them, and the 416 accuracy logs of language models in the v5.1 results, some
of which have other line ends. LoadGen's format: logging.cc.
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
"""The remaining tail of a long answer may begin with its closing quote."""
_BEGUN = re.compile(r'\{ "seq_id" : (\d{1,19}), "qsl_idx" : (\d{1,19}), "data"')


@dataclass(frozen=True, slots=True)
class CutEntry:
    """A complete entry in one of the ends. Answers are hex digits, as LoadGen dumps them.

    `place`: the sample's number in the order of issue (seq_id). `first`: the reported first tokens,
    None if none were reported. `tokens`: the reported number of tokens.
    """

    place: int
    index: int
    answer: str
    first: str | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class CutLog:
    """The ends of a truncated accuracy log.

    `entries`: the complete ones. `places`: number in the order of issue and sample of each entry
    whose beginning is present. `whole`: whether the log is short and was not truncated.
    """

    begins: bool
    ends: bool
    whole: bool
    entries: tuple[CutEntry, ...]
    places: tuple[tuple[int, int], ...]


@lru_cache(maxsize=8)
def parse_cut_log(text: str) -> CutLog:
    """Parse the ends of a truncated accuracy log; never raises because of its content."""
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
