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
from dataclasses import dataclass, field

import numpy as np

from mlperf_suite.assets import nltk_data_dir
from mlperf_suite.benchmarks.tasks import ROUGE_NAMES

_PAIRS_PER_TASK = 256
"""Below this many pairs a pool of processes costs more than it saves (a start takes about 1 s)."""


@dataclass(frozen=True, slots=True)
class RougeScores:
    """The four mean F-measures in percent; the predictions' length in characters, and number.

    `samples`: by score, each prediction's F-measure in percent, in the order given.
    """

    rouge1: float
    rouge2: float
    rougeL: float  # noqa: N815 - the score's own name
    rougeLsum: float  # noqa: N815
    gen_len: int
    gen_num: int
    samples: dict[str, tuple[float, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def means(self) -> dict[str, float]:
        """The figures that rules judge, by name."""
        return {name: getattr(self, name) for name in (*ROUGE_NAMES, "gen_len", "gen_num")}

    @property
    def standard_errors(self) -> dict[str, float]:
        """By score, how far its mean would lie from another as large a sample's, in percent."""
        return {
            name: round(float(np.std(values, ddof=1)) / len(values) ** 0.5, 4)
            for name, values in self.samples.items()
            if len(values) > 1
        }


def score_rouge(
    predictions: Sequence[str], references: Sequence[str], processes: int | None = None
) -> RougeScores:
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
        scored = [_score_pairs(chunk) for chunk in chunks]
    else:
        # Not fork: the engine's threads live in this process.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            scored = list(pool.map(_score_pairs, chunks))
    rows = np.array([row for measures, _ in scored for row in measures])
    means = {
        name: round(float(np.mean(rows[:, column])) * 100, 4)
        for column, name in enumerate(ROUGE_NAMES)
    }
    samples = {
        name: tuple(round(float(value) * 100, 4) for value in rows[:, column])
        for column, name in enumerate(ROUGE_NAMES)
    }
    return RougeScores(
        **means, gen_len=sum(n for _, n in scored), gen_num=len(pairs), samples=samples
    )


def _score_pairs(pairs: Sequence[tuple[str, str]]) -> tuple[list[list[float]], int]:
    """The four F-measures (0 to 1) of each pair, and the predictions' length in characters."""
    import nltk
    from rouge_score.rouge_scorer import RougeScorer

    folder = str(nltk_data_dir())
    if folder not in nltk.data.path:
        nltk.data.path.insert(0, folder)
    scorer = RougeScorer(list(ROUGE_NAMES), use_stemmer=True)
    measures, characters = [], 0
    for prediction, reference in pairs:
        split = ["\n".join(nltk.sent_tokenize(text.strip())) for text in (prediction, reference)]
        scores = scorer.score(split[1], split[0])
        measures.append([scores[name].fmeasure for name in ROUGE_NAMES])
        characters += len(split[0])
    return measures, characters
