"""The official computation of ROUGE (llama3.1-8b/evaluation.py), restated plainly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlperf_suite.assets import nltk_data_dir


def official(predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """The official script's postprocess_text and compute, one pair after another."""
    # Here, as each of pytest-xdist's workers collects whoever imports this.
    import nltk
    from rouge_score import rouge_scorer

    if str(nltk_data_dir()) not in nltk.data.path:
        nltk.data.path.insert(0, str(nltk_data_dir()))
    preds = ["\n".join(nltk.sent_tokenize(pred.strip())) for pred in predictions]
    targets = ["\n".join(nltk.sent_tokenize(target.strip())) for target in references]
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = rouge_scorer.RougeScorer(rouge_types=names, use_stemmer=True)
    scores: dict[str, list[float]] = {name: [] for name in names}
    for pred, target in zip(preds, targets, strict=True):
        for name, score in scorer.score(target, pred).items():
            scores[name].append(score.fmeasure)
    means = {name: round(float(np.mean(values) * 100), 4) for name, values in scores.items()}
    return {**means, "gen_len": sum(len(pred) for pred in preds), "gen_num": len(preds)}
