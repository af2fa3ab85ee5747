"""The official computation of ROUGE (llama3.1-8b/evaluation.py), restated plainly."""

from collections.abc import Sequence

import numpy as np

from mlperf_suite.assets import nltk_data_dir
from mlperf_suite.scorers.rouge import ROUGE_NAMES, PairScore


def official(predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """The official script's postprocess_text and compute, one pair after another."""
    pairs = official_pairs(list(zip(predictions, references, strict=True)))
    columns = zip(ROUGE_NAMES, zip(*(pair.measures for pair in pairs), strict=True), strict=True)
    means = {name: round(float(np.mean(values) * 100), 4) for name, values in columns}
    return {**means, "gen_len": sum(pair.characters for pair in pairs), "gen_num": len(pairs)}


def official_pairs(pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
    """Each pair's F-measures and characters, as rouge-score gives them, unrounded."""
    # Here, as each of pytest-xdist's workers collects whoever imports this.
    import nltk
    from rouge_score import rouge_scorer

    if str(nltk_data_dir()) not in nltk.data.path:
        nltk.data.path.insert(0, str(nltk_data_dir()))
    scorer = rouge_scorer.RougeScorer(list(ROUGE_NAMES), use_stemmer=True)
    rows = []
    for pair in pairs:
        prediction, target = ("\n".join(nltk.sent_tokenize(text.strip())) for text in pair)
        scores = scorer.score(target, prediction)
        measures = tuple(float(scores[name].fmeasure) for name in ROUGE_NAMES)
        rows.append(PairScore(measures, len(prediction)))
    return rows
