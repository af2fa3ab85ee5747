"""ROUGE as the official accuracy script computes it, on all cores.

The official computation (language/llama3.1-8b/evaluation.py): strip, one sentence a line with
NLTK's punkt, rouge-score with its stemmer, the mean of each sample's F-measure times 100 rounded
to four decimals; gen_len is the number of characters of the split predictions.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from mlperf_suite.assets import nltk_data_dir
from mlperf_suite.errors import UsageError
from mlperf_suite.scorers.protocol import Answer, Score, Scores

_PAIRS_PER_TASK = 256
"""Below this many pairs a pool of processes costs more than it saves (a start takes about 1 s)."""


ROUGE_NAMES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
GEN_LEN, GEN_NUM = "gen_len", "gen_num"


class RougeScorer:
    """The four ROUGE scores in percent; the predictions' length in characters, and their number."""

    name = "rouge"

    def check(self) -> None:
        """Raise UsageError where NLTK's sentence splitter is missing."""
        check_punkt()

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer's text against its sample's reference."""
        return score_rouge([a.text for a in answers], [a.sample.reference for a in answers])


@dataclass(frozen=True, slots=True)
class PairScore:
    """One prediction's F-measures (0 to 1, in the order of ROUGE_NAMES), and its characters."""

    measures: tuple[float, ...]
    characters: int


def score_rouge(
    predictions: Sequence[str], references: Sequence[str], processes: int | None = None
) -> Scores:
    """Score each prediction against the reference at the same index.

    `processes`: how many score at once, all cores by default. Raises ValueError where the two
    differ in length or are empty, LookupError where NLTK has no punkt.
    """
    if len(predictions) != len(references) or not predictions:
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
    pairs = list(zip(predictions, references, strict=True))
    chunks = [pairs[i : i + _PAIRS_PER_TASK] for i in range(0, len(pairs), _PAIRS_PER_TASK)]
    workers = min(processes or len(os.sched_getaffinity(0)), len(chunks))
    if workers == 1:
        scored = [score_pairs(chunk) for chunk in chunks]
    else:
        # Not fork: the engine's threads live in this process.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            scored = list(pool.map(score_pairs, chunks))
    return mean_scores([row for rows in scored for row in rows])


def mean_scores(rows: Sequence[PairScore]) -> Scores:
    """The scores of a set from those of its pairs."""
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
    """Raise UsageError where NLTK's sentence splitter is missing, which scoring needs."""
    import nltk

    _find_punkt()
    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        raise UsageError(
            f"NLTK's punkt_tab is missing in {nltk_data_dir()}: run 'make setup', "
            "or python -m nltk.downloader punkt_tab"
        ) from None


def _find_punkt() -> None:
    import nltk

    folder = str(nltk_data_dir())
    if folder not in nltk.data.path:
        nltk.data.path.insert(0, folder)


def score_pairs(pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
    """Score each pair of a prediction and its reference, on one core."""
    import nltk
    from rouge_score.rouge_scorer import RougeScorer

    _find_punkt()
    scorer = RougeScorer(list(ROUGE_NAMES), use_stemmer=True)
    rows = []
    for prediction, reference in pairs:
        split = ["\n".join(nltk.sent_tokenize(text.strip())) for text in (prediction, reference)]
        scores = scorer.score(split[1], split[0])
        measures = tuple(scores[name].fmeasure for name in ROUGE_NAMES)
        rows.append(PairScore(measures, len(split[0])))
    return rows
