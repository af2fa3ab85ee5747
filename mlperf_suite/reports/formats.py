"""How figures are written in every report."""

from __future__ import annotations

from mlperf_suite.results.schema import ScoreFigures

NOT_REPORTED = "not reported"


def decimal(value: float | None, digits: int = 2) -> str:
    """A figure with this many digits after the point."""
    return NOT_REPORTED if value is None else f"{value:,.{digits}f}"


def significant(value: float | None) -> str:
    """A figure in four significant digits, large ones whole: a token can take 0.0001 J or 100 J."""
    if value is None:
        return "not known"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percentage(share: float | None) -> str:
    """A share in percent with one decimal."""
    return NOT_REPORTED if share is None else f"{share * 100:,.1f}%"


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration in a suitable unit."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def score_value(score: ScoreFigures) -> str:
    """A score's value: percentages with four decimals, as in the rules; whole numbers whole."""
    return in_unit(score.value, score.unit)


def in_unit(value: float, unit: str) -> str:
    """A score or its limit, formatted as in every report, without its unit."""
    whole = unit != "%" and float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:,.4f}"
