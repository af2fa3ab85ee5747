"""Llama 2 70B on OpenOrca: ROUGE and answer lengths.

Source: language/llama2-70b/evaluate-accuracy.py. Its ROUGE is that of Llama 3.1 8B.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlperf_suite.scorers.figures import token_figures
from mlperf_suite.scorers.protocol import Answer, Scores
from mlperf_suite.scorers.rouge import check_punkt, score_rouge


class OpenOrcaScorer:
    """The four ROUGE scores in percent, gen_len, gen_num, gen_tok_len and tokens_per_sample."""

    name = "open_orca"

    def check(self) -> None:
        """Raise UsageError if NLTK's sentence splitter is missing."""
        check_punkt()

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer's text against its sample's reference."""
        rouge = score_rouge([a.text for a in answers], [a.sample.reference for a in answers])
        return dataclasses.replace(rouge, scores=(*rouge.scores, *token_figures(answers, 1)))
