"""The verdict of a rule on what it judges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from mlperf_suite.untrusted_files import printable

Status = Literal["passed", "failed", "shortened", "not judged"]
_MAX_TEXT_LENGTH = 300
"""The maximum number of characters of a log's own text that a verdict repeats."""
_TINY = 1e-4
"""Python's general format writes a smaller number as a power of ten."""
_SECONDS_FROM_MS = 9_999.5
"""Ten seconds, rounded to a millisecond: from here on a time is written in seconds."""


# Not frozen: made some 160 times for each result, a frozen one takes four times as long to make.
@dataclass(slots=True, unsafe_hash=True)
class Verdict:
    """One rule applied once, never changed. `found`, `required` and `why` are words for the reader.

    "shortened": a smoke run that fails the full requirement, which smoke relaxes. "not judged":
    nothing to compare with; `why` says what is missing. Neither is a pass.
    """

    rule: str
    status: Status
    found: str
    required: str
    why: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def line(self) -> str:
        reason = f" ({self.why})" if self.why else ""
        words = f"found {self.found}, required {self.required}{reason}"
        return printable(f"{self.rule}: {self.status}: {words}")

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def with_status(verdicts: Iterable[Verdict], status: Status) -> list[Verdict]:
    """Those of the verdicts that have a status."""
    return [verdict for verdict in verdicts if verdict.status == status]


class VerdictError(Exception):
    """Ends a rule wherever it is: `verdict` says what is absent or wrong."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.line)
        self.verdict = verdict


def in_words(value: object) -> str:
    """A value from a log or a file, as one printable line."""
    # Most verdicts say nothing of what is required, nor why.
    if value == "":
        return ""
    text = value if isinstance(value, str) else _text_of(value)
    # Most texts are one printable line already.
    if "  " in text or text.strip() != text or not text.isprintable():
        text = printable(" ".join(text.split()))
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 1]}…"


def _text_of(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return str(value).lower() if isinstance(value, bool) else str(value)


def figure_words(value: float, digits: int = 4) -> str:
    """A figure in this many significant digits, a larger one whole: never as a power of ten."""
    whole = abs(value) >= 10 ** (digits - 1)
    if 0 < abs(value) < _TINY:
        return f"{value:.{digits - 1 - math.floor(math.log10(abs(value)))}f}"
    return f"{value:,.0f}" if whole else f"{value:,.{digits}g}"


def query_words(count: int) -> str:
    """A number of queries."""
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def lasted_words(seconds: float) -> str:
    """How long something lasted, rounded down: 599.97 s are no 600.0 s, which a rule requires."""
    return f"{math.floor(seconds * 10) / 10:,.1f} s"


def times_in_unit(values_ms: Iterable[float], *, exact: bool = False) -> tuple[list[str], str]:
    """Times given in ms as numbers of one unit, and that unit: ms, or s if one takes ten seconds or
    more. In three digits or more; `exact`: to the microsecond, without zeros at the end."""
    values = list(values_ms)
    most = max(map(abs, values), default=0.0)
    scale, unit = (1000, "s") if most >= _SECONDS_FROM_MS else (1, "ms")
    if exact:
        digits = 6 if unit == "s" else 3
        return [_without_zeros(f"{value / scale:,.{digits}f}") for value in values], unit
    return [f"{value / scale:,.{_digits(value, unit)}f}" for value in values], unit


def _digits(value_ms: float, unit: str) -> int:
    return 2 if unit == "s" or abs(value_ms) < 100 else 1 if abs(value_ms) < 1000 else 0


def time_words(value_ms: float, *, exact: bool = False) -> str:
    """A time given in ms, with its unit as in `times_in_unit`."""
    (number,), unit = times_in_unit([value_ms], exact=exact)
    return f"{number} {unit}"


def _without_zeros(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


# For a rule: its name is added, and what it requires where none is given.


def verdict(ok: bool, value: object, required: object = "", why: object = "") -> Verdict:
    """Passed or failed. `value`: what was found. `required`: what is required."""
    status: Status = "passed" if ok else "failed"
    return Verdict("", status, in_words(value), in_words(required), in_words(why))


def no_demand(why: object) -> Verdict:
    """Passed, since the rule demands nothing here: evidence of nothing. `why`: what is missing."""
    return verdict(True, f"nothing to judge: {why}", "nothing")


def not_judged(value: object, required: object = "", why: object = "") -> Verdict:
    """`why`: what is missing for a judgement."""
    return Verdict("", "not judged", in_words(value), in_words(required), in_words(why))


def failure(value: object, required: object = "", why: object = "") -> VerdictError:
    """To be raised: the rule fails."""
    return VerdictError(verdict(False, value, required, why))


def set_aside(verdicts: Sequence[Verdict], why: str) -> list[Verdict]:
    """Set the verdicts on figures that are not a result to "not judged"."""
    return [replace(verdict, status="not judged", why=why) for verdict in verdicts]


def set_aside_passed(verdicts: Sequence[Verdict], why: str) -> list[Verdict]:
    """The same for passed rules: what a party says of its own logs excuses no failure."""
    return [v if v.status == "failed" else set_aside([v], why)[0] for v in verdicts]
