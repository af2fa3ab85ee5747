"""ROUGE as the official accuracy script computes it, on all cores.

The official computation (language/llama3.1-8b/evaluation.py): strip, one sentence per line with
NLTK's punkt, rouge-score with its stemmer, the mean of each sample's F-measure times 100 rounded to
four decimals; gen_len is the number of characters of the split predictions.

rouge-score tokenizes each text again for each measure, stems each word every time it occurs, and
fills tables cell by cell. Here each text is tokenized once, each word is stemmed once, and longest
common subsequences are computed on bits (Hyyrö, "Bit-Parallel LCS-length Computation Revisited",
2004). The figures equal those of rouge-score to the last bit.
"""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from mlperf_suite import IS_CLONE
from mlperf_suite.assets import SET_UP, nltk_data_dir, set_up_punkt
from mlperf_suite.errors import UsageError
from mlperf_suite.scorers.scorer import GEN_LEN, GEN_NUM, Answer, Score, Scores, token_figures

_ROWS_PER_TASK = 256
"""For fewer rows, a process pool costs more than it saves."""
_CHARACTERS_PER_PROCESS = 4_000_000
"""About 1.5 s of work; starting a process takes about 1 s."""
_WORDS_KEPT = 2**17
"""The number of cached stems, about 25 MB; texts of 1.6 million words have about 50,000."""
_Row = TypeVar("_Row")
_Scored = TypeVar("_Scored")
ROUGE_NAMES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


class RougeScorer:
    """The four ROUGE scores in percent; the predictions' length in characters, and their number."""

    name = "rouge"

    def check(self) -> None:
        """Raise UsageError if NLTK's sentence splitter is missing."""
        check_punkt()

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer's text against its sample's reference."""
        return score_rouge([a.text for a in answers], [a.sample.reference for a in answers])


class OpenOrcaScorer(RougeScorer):
    """As `RougeScorer`, with gen_tok_len and tokens_per_sample.

    Source: language/llama2-70b/evaluate-accuracy.py.
    """

    name = "open_orca"

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer's text against its sample's reference."""
        rouge = super().score(answers)
        return replace(rouge, scores=(*rouge.scores, *token_figures(answers, 1)))


@dataclass(frozen=True, slots=True)
class PairScore:
    """One prediction's F-measures (0 to 1, in the order of the requested names), and its length in
    characters after it is split into sentences."""

    measures: tuple[float, ...]
    characters: int


def score_rouge(
    predictions: Sequence[str],
    references: Sequence[str],
    processes: int | None = None,
) -> Scores:
    """Score each prediction against the reference at the same index.

    `processes`: how many score at once; by default as many cores as the texts keep busy. Raises
    ValueError if the two differ in length or are empty, LookupError if NLTK has no punkt.
    """
    if len(predictions) != len(references) or not predictions:
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
    pairs = list(zip(predictions, references, strict=True))
    if processes is None:
        characters = sum(map(len, predictions)) + sum(map(len, references))
        worth = 1 + characters // _CHARACTERS_PER_PROCESS
        processes = min(len(os.sched_getaffinity(0)), worth)
    return mean_scores(in_processes(score_pairs, pairs, processes))


def in_processes(
    score_chunk: Callable[[Sequence[_Row]], list[_Scored]], rows: Sequence[_Row], most: int
) -> list[_Scored]:
    """The scores of all rows, in their order, from at most that many processes."""
    chunks = [rows[i : i + _ROWS_PER_TASK] for i in range(0, len(rows), _ROWS_PER_TASK)]
    workers = min(most, len(chunks))
    if workers == 1:
        scored = [score_chunk(chunk) for chunk in chunks]
    else:
        # Not fork: the engine's threads live in this process.
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            scored = list(pool.map(score_chunk, chunks))
    return [row for part in scored for row in part]


def mean_scores(rows: Sequence[PairScore]) -> Scores:
    """The scores of a data set from those of its pairs, which have all measures."""
    import numpy as np

    measures = np.array([row.measures for row in rows])
    means = tuple(
        Score(name, round(float(np.mean(measures[:, column])) * 100, 4), "%")
        for column, name in enumerate(ROUGE_NAMES)
    )
    per_answer = {
        name: tuple(round(float(value) * 100, 4) for value in measures[:, column])
        for column, name in enumerate(ROUGE_NAMES)
    }
    characters = sum(row.characters for row in rows)
    lengths = Score(GEN_LEN, characters, "characters"), Score(GEN_NUM, len(rows), "answers")
    return Scores((*means, *lengths), per_answer)


def check_punkt() -> None:
    """Make sure of NLTK's sentence splitter, which scoring needs: without a clone it is downloaded.

    Raises UsageError if it is missing.
    """
    if not _has_punkt() and not IS_CLONE:
        set_up_punkt()
    if not _has_punkt():
        raise UsageError(
            f"NLTK's punkt_tab is missing in {nltk_data_dir()}: run {SET_UP}, "
            "or python -m nltk.downloader punkt_tab"
        )


def _has_punkt() -> bool:
    if (nltk_data_dir() / "tokenizers/punkt_tab/english").is_dir():
        # Seen without NLTK, whose import takes seconds before anything is loaded.
        return True
    import nltk

    _find_punkt()
    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        return False
    return True


def _find_punkt() -> None:
    import nltk

    folder = str(nltk_data_dir())
    if folder not in nltk.data.path:
        nltk.data.path.insert(0, folder)


def score_pairs(
    pairs: Iterable[tuple[str, str]], names: Sequence[str] = ROUGE_NAMES
) -> list[PairScore]:
    """Score each pair of a prediction and its reference, on one core.

    `names`: which of ROUGE_NAMES; only rougeLsum needs the reference split. Raises ValueError for
    another name, LookupError if NLTK has no punkt.
    """
    import nltk

    unknown = [name for name in names if name not in ROUGE_NAMES]
    if unknown:
        raise ValueError(f"{unknown[0]}: must be one of {', '.join(ROUGE_NAMES)}")
    _find_punkt()
    by_sentence = "rougeLsum" in names
    rows = []
    for prediction, reference in pairs:
        sides = [nltk.sent_tokenize(prediction.strip())]
        # Sentences end in punctuation, so the words are the same without the split.
        sides.append(nltk.sent_tokenize(reference.strip()) if by_sentence else [reference])
        characters = sum(map(len, sides[0])) + max(0, len(sides[0]) - 1)
        measures = _measures(_Words(sides[0]), _Words(sides[1]), names)
        rows.append(PairScore(measures, characters))
    return rows


_WORD = re.compile("[a-z0-9]+")
"""What rouge_score.tokenize takes as a token, after lower(); anything else separates tokens."""


class _Words:
    """A text's tokens as rouge_score.tokenize makes them, line by line and all together."""

    def __init__(self, sentences: Iterable[str]) -> None:
        stem = _stems()
        self.lines = [
            # A sentence can contain line breaks.
            [stem(word) if len(word) > 3 else word for word in _WORD.findall(line)]
            for sentence in sentences
            for line in sentence.lower().split("\n")
        ]
        self.tokens = [token for line in self.lines for token in line]


@functools.cache
def _stems() -> Any:
    """rouge-score's stemmer with a cache."""
    from nltk.stem.porter import PorterStemmer

    return functools.lru_cache(_WORDS_KEPT)(PorterStemmer().stem)


@functools.cache
def _ngram_scorer(names: tuple[str, ...]) -> Any:
    """rouge-score's own scorer, modified to take tokens instead of texts."""
    from rouge_score.rouge_scorer import RougeScorer as LibraryScorer

    class TakenApart:
        def tokenize(self, tokens: list[str]) -> list[str]:
            return tokens

    return LibraryScorer(list(names), tokenizer=TakenApart())


def _measures(prediction: _Words, reference: _Words, names: Sequence[str]) -> tuple[float, ...]:
    ngrams = tuple(name for name in names if not name.startswith("rougeL"))
    measures = {}
    if ngrams:
        scores = _ngram_scorer(ngrams).score(reference.tokens, prediction.tokens)
        measures = {name: scores[name].fmeasure for name in ngrams}
    if "rougeL" in names:
        common = _common_length(reference.tokens, prediction.tokens)
        measures["rougeL"] = _f_measure(common, prediction, reference)
    if "rougeLsum" in names:
        common = _union_length(reference.lines, prediction.lines)
        measures["rougeLsum"] = _f_measure(common, prediction, reference)
    return tuple(float(measures[name]) for name in names)


def _f_measure(common: int, prediction: _Words, reference: _Words) -> float:
    from rouge_score.scoring import fmeasure

    if not common:
        return 0.0
    return float(fmeasure(common / len(prediction.tokens), common / len(reference.tokens)))


def _places(tokens: Sequence[str]) -> dict[str, int]:
    """By token, a bit for each position where it occurs."""
    places: dict[str, int] = {}
    for place, token in enumerate(tokens):
        places[token] = places.get(token, 0) | 1 << place
    return places


def _common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    # Numbers with a bit per token of the shorter text: an endless answer then takes time and memory
    # linear in its length.
    short, long = sorted((first, second), key=len)
    places, all_bits = _places(short), (1 << len(short)) - 1
    level = all_bits
    for token in long:
        if match := places.get(token):
            met = level & match
            level = (level + met | level ^ met) & all_bits
    return len(short) - level.bit_count()


def _union_length(reference: Sequence[Sequence[str]], prediction: Sequence[Sequence[str]]) -> int:
    """The sum over the reference's lines of the tokens in a longest common subsequence with any
    line of the prediction; each token counts at most as often as the prediction has it."""
    union: Counter[str] = Counter()
    for tokens in reference:
        places, all_bits = _places(tokens), (1 << len(tokens)) - 1
        bits = 0
        for candidate in prediction:
            bits |= _common_places(places, all_bits, candidate)
        union.update(token for place, token in enumerate(tokens) if bits >> place & 1)
    return (union & Counter(token for line in prediction for token in line)).total()


def _common_places(places: Mapping[str, int], all_bits: int, candidate: Sequence[str]) -> int:
    """Which longest common subsequence of a line and a candidate rouge-score takes, as a bit for
    each of the line's positions.

    `places`, `all_bits`: the line, from `_places` and with a bit for each position. rouge-score
    walks back from the end of its tables: it always takes a match; else it goes back one token in
    the line if that loses nothing, and else one token in the candidate.
    """
    level, steps = all_bits, list[tuple[int, int]]()
    for token in candidate:
        if match := places.get(token):
            met = level & match
            level = (level + met | level ^ met) & all_bits
            steps.append((match, all_bits ^ level))
        elif steps and steps[-1][0]:
            # Several of them in a row take the walk no further than one.
            steps.append((0, steps[-1][1]))
    bits, ahead = 0, all_bits
    for match, gains in reversed(steps):
        stops = (match | gains) & ahead
        if not stops:
            break
        place = 1 << stops.bit_length() - 1
        if match & place:
            bits |= place
            ahead = place - 1
        else:
            ahead = (place << 1) - 1
    return bits
