"""ROUGE of single pairs as rouge-score gives it, unrounded."""

from __future__ import annotations

from collections.abc import Sequence

from mlperf_suite.scorers.rouge import ROUGE_NAMES, PairScore


def official_pairs(pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
    """Each pair's F-measures and characters, as rouge-score gives them, unrounded."""
    import nltk
    from rouge_score import rouge_scorer

    scorer = rouge_scorer.RougeScorer(list(ROUGE_NAMES), use_stemmer=True)
    rows = []
    for pair in pairs:
        prediction, target = ("\n".join(nltk.sent_tokenize(text.strip())) for text in pair)
        scores = scorer.score(target, prediction)
        measures = tuple(float(scores[name].fmeasure) for name in ROUGE_NAMES)
        rows.append(PairScore(measures, len(prediction)))
    return rows
