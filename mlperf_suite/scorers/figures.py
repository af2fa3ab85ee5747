"""Figures shared by several scorers: lengths, and shares of right answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlperf_suite.scorers.protocol import Answer, Score

EXACT_MATCH, TOKENS_PER_SAMPLE = "exact_match", "tokens_per_sample"
GEN_TOK_LEN = "gen_tok_len"


def token_figures(answers: Sequence[Answer], digits: int | None) -> tuple[Score, Score]:
    """Total and mean number of tokens as logged; the mean is rounded to `digits` decimals, if
    any."""
    tokens = sum(len(answer.token_ids) for answer in answers)
    mean = tokens / len(answers)
    return (
        Score(GEN_TOK_LEN, tokens, "tokens"),
        Score(TOKENS_PER_SAMPLE, mean if digits is None else round(mean, digits), "tokens"),
    )


def percentages(right: Iterable[bool]) -> tuple[float, ...]:
    """100 for each right answer, 0 for each wrong one."""
    return tuple(100.0 if one else 0.0 for one in right)


def among_all(
    places: Iterable[int], values: Iterable[float], answers: int
) -> tuple[float | None, ...]:
    """Figures of some answers, placed in the order of all answers; None for the others.

    `places`: the indices of the values' answers. `answers`: how many there are in all.
    """
    known = dict(zip(places, values, strict=True))
    return tuple(known.get(place) for place in range(answers))
