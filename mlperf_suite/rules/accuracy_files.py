"""A submission's accuracy.txt, and its accuracy log, of which the entries at its two ends are left.

Sources: the patterns of the official submission checker; truncate_accuracy_log.py of
github.com/mlcommons/inference, which keeps 4,096 bytes of each end and "..." between them, and the
416 accuracy logs of language models in the v5.1 results, some of which have other line ends.
LoadGen's format: logging.cc.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from mlperf_suite.benchmarks.definition import COUNTED_IN_A_SENTENCE, F1, WORD_ACCURACY
from mlperf_suite.loadgen.logs import LoggedSample, logged_answers

ACCURACY_TXT = "accuracy.txt"
MAX_ACCURACY_LOG_BYTES = 10 * 1024
"""A submission's accuracy log is truncated to less (MAX_ACCURACY_LOG_SIZE of the official
checker)."""
# As in the official checker: a name in quotes, its figure with or without quotes.
_FIGURE = re.compile(
    r"'([\w-]+)':\s+'?(?:np\.float(?:32|64)\()?(\d{1,15}(?:\.\d{1,20})?)\)?'?(?=[,}\s]|$)"
)
"""NumPy 2 prints its own numbers as np.float64(38.7)."""
_NAMED_VALUE = re.compile(r"'([\w-]+)':\s+'?([^',}\s]+)")
_IN_DOUBLE_QUOTES = re.compile(r'"([\w-]+)":')
"""A name that the checker does not read: beside one that it reads, which of them counts?"""
_SENTENCE = re.compile(rf"^({COUNTED_IN_A_SENTENCE}): (\d+)\s*$", re.MULTILINE)
_WORD_RATE = re.compile(
    r"^Word Error Rate: .{1,40}, accuracy=(\d{1,15}(?:\.\d{1,20})?)%\s*$", re.MULTILINE
)
"""What accuracy_eval.py of whisper prints; the figure is `word_accuracy`."""
_F1_SHARE = re.compile(r'"f1":\s*(\d(?:\.\d{1,20})?)\b')
"""In a line of JSON that evaluation.py of qwen3-vl writes, a share; the figure is `f1`, in
percent."""
_HASH = re.compile(r"^hash=([0-9a-f]{64})\s*$", re.MULTILINE)
_ENTRY = re.compile(
    r'\{ "seq_id" : (\d{1,19}), "qsl_idx" : (\d{1,19}), "data" : "([0-9A-F]*)"'
    r'(?:, "token_data" : "([0-9A-F]*)")?(?:, "token_count" : (\d{1,19}))? \}'
)
_BEGINNING = re.compile(r'\A\s*\[\s*\{ "seq_id" : (\d{1,19}), "qsl_idx" : (\d{1,19}), "data" : "')
_END = re.compile(
    r'["0-9A-F\n]"(?:, "token_data" : "[0-9A-F]*")?(?:, "token_count" : \d{1,19})? \}\s*\]\s*\Z'
)
"""The remaining tail of a long answer may begin with its closing quote."""
_ENTRY_BEGINNING = re.compile(r'\{ "seq_id" : (\d{1,19}), "qsl_idx" : (\d{1,19}), "data"')
_ANSWER = re.compile(r'\{ "seq_id" : \d{1,19}, "qsl_idx" : (\d{1,19}), "data" : "([0-9A-F]*)("?)')
_HEX_ALONE = bytes(c if chr(c) in "0123456789ABCDEF" else ord(" ") for c in range(256))
_CUT = re.compile(r"^\.\.\.\r?$", re.MULTILINE)
_OF_INT64 = 16
"""The hex digits of the widest token."""


@dataclass(frozen=True, slots=True)
class AccuracyTxt:
    """A parsed accuracy.txt: figures by name, shares in percent; the log's SHA-256, if present.

    `unclear`: the names of scores that are not a number (nan), or have several.
    """

    scores: Mapping[str, float]
    hash: str | None
    unclear: frozenset[str] = frozenset()


def _f1_shares(text: str) -> Iterator[float]:
    """The last share of each line that is one JSON object."""
    for line in text.split("\n"):
        is_object = line.startswith("{") and line.rstrip().endswith("}")
        # One expression for the whole line would take the square of its length.
        if is_object and (shares := _F1_SHARE.findall(line)):
            yield float(shares[-1])


@lru_cache(maxsize=8)
def parse_accuracy_txt(text: str) -> AccuracyTxt:
    """Parse the text of an accuracy.txt; never raises because of its content."""
    values: dict[str, set[float]] = {}
    rates = [(WORD_ACCURACY, figure) for figure in _WORD_RATE.findall(text)]
    rates += [(F1, str(100 * share)) for share in _f1_shares(text)]
    for name, figure in (*_FIGURE.findall(text), *_SENTENCE.findall(text), *rates):
        values.setdefault(name, set()).add(float(figure))
    numbers = Counter(name for name, _ in _FIGURE.findall(text))
    names = Counter(name for name, _ in _NAMED_VALUE.findall(text))
    names.update(name for name in _IN_DOUBLE_QUOTES.findall(text) if name in numbers)
    unclear = {n for n, count in names.items() if numbers[n] < count or len(values[n]) > 1}
    digest = _HASH.search(text)
    return AccuracyTxt(
        {n: min(each) for n, each in values.items() if len(each) == 1 and n not in unclear},
        digest.group(1) if digest else None,
        frozenset(unclear),
    )


class CutEntry(msgspec.Struct, frozen=True, gc=False):
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
    whose beginning is present. `whole`: whether the log is short and was not truncated. `longest`:
    the hex digits of the longest answer, as far as it is there.
    """

    begins: bool
    ends: bool
    whole: bool
    entries: tuple[CutEntry, ...]
    places: tuple[tuple[int, int], ...]
    longest: int


def answers_in(text: str) -> Sequence[LoggedSample]:
    """The answers whose beginning is in a truncated accuracy log, the last one of an end as far as
    it goes; parts of tokens are left out."""
    answers = [
        {"qsl_idx": int(i), "data": data if closed else data[: len(data) - len(data) % _OF_INT64]}
        for i, data, closed in _ANSWER.findall(text)
        if closed or len(data) >= _OF_INT64
    ]
    return logged_answers(answers).samples


@lru_cache(maxsize=8)
def parse_cut_log(text: str) -> CutLog:
    """Parse the ends of a truncated accuracy log; never raises because of its content."""
    entries = tuple(
        CutEntry(int(m[1]), int(m[2]), m[3], m[4], None if m[5] is None else int(m[5]))
        for m in _ENTRY.finditer(text)
    )
    return CutLog(
        _BEGINNING.match(text) is not None,
        # What comes before the last answer is no part of the end.
        _END.search(text, max(text.rfind('"data"'), 0)) is not None,
        _CUT.search(text, text.find("...")) is None if "..." in text else True,
        entries,
        tuple((int(m[1]), int(m[2])) for m in _ENTRY_BEGINNING.finditer(text)),
        max(map(len, text.encode("ascii", "replace").translate(_HEX_ALONE).split()), default=0),
    )
