"""Compare ROUGE of a full data set: the official method on one core, the suite's on all cores.

    python -m perf.rouge [--pairs 2000] [--rounds 3] [--data FILE]

The official method is language/llama3.1-8b/evaluation.py of github.com/mlcommons/inference: strip,
NLTK's sentence splitter, rouge_score's scorer for each pair (as `evaluate` calls it), one core.
Pairs are parts of a news article of about 128 tokens, and its highlights. The embedded data has few
different words, and the suite saves time by stemming each word once. Made-up words therefore
replace some words of each pair, until 13,368 pairs have about as many different words (50,000) as
that much news. Both methods alternate, each in its own process. Exits with 1 if they differ.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from mlperf_suite.datasets.news import load_news
from mlperf_suite.scorers.rouge import ROUGE_NAMES, PairScore, check_punkt, mean_scores, score_rouge
from mlperf_suite.scorers.scorer import Scores
from perf.pairs import in_turn, middle, print_header, print_row

_ANSWER_WORDS = 95
"""The words in 128 tokens of English."""
_NEW_WORDS = 4
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "ar", "en")]
_ENDINGS = ("", "", "", "s", "ing", "ed", "er", "ation", "ly")

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Timed:
    """The scores of one way and the seconds it took."""

    scores: Scores
    seconds: float


def make_pairs(number: int, source: str) -> list[tuple[str, str]]:
    """Predictions and their references, the same in every call."""
    chance, items = random.Random(1), load_news(source).items  # noqa: S311 - no secret
    pairs = []
    for place in range(number):
        item = items[place % len(items)]
        article, reference = item.input.split(), item.reference.split()
        start = chance.randrange(max(1, len(article) - _ANSWER_WORDS))
        answer = article[start : start + _ANSWER_WORDS]
        for _ in range(_NEW_WORDS):
            word = "".join(chance.choices(_SYLLABLES, k=3)) + chance.choice(_ENDINGS)
            for side in chance.sample((answer, reference), chance.choice((1, 2))):
                side[chance.randrange(len(side))] = word
        pairs.append((" ".join(answer), " ".join(reference)))
    return pairs


def official(pairs: Pairs) -> Scores:
    """The official computation, one pair after another."""
    import nltk
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(ROUGE_NAMES), use_stemmer=True)
    rows = []
    for pair in pairs:
        prediction, target = ("\n".join(nltk.sent_tokenize(text.strip())) for text in pair)
        scores = scorer.score(target, prediction)
        measures = tuple(scores[name].fmeasure for name in ROUGE_NAMES)
        rows.append(PairScore(measures, len(prediction)))
    return mean_scores(rows)


def suite_way(pairs: Pairs) -> Scores:
    """The suite's computation, with as many processes as it chooses."""
    return score_rouge([p for p, _ in pairs], [r for _, r in pairs])


def time_of(way: Callable[[Pairs], Scores], pairs: Pairs) -> Timed:
    """Run one way in a new process, which has nothing left from an earlier round."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_timed_here, way, pairs).result()


def _timed_here(way: Callable[[Pairs], Scores], pairs: Pairs) -> Timed:
    check_punkt()
    way(pairs[:1])
    start_s = time.perf_counter()
    scores = way(pairs)
    return Timed(scores, time.perf_counter() - start_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2000, help="13368 is the full set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="embedded", help="a file that --dataset would take")
    options = parser.parse_args()
    pairs = make_pairs(options.pairs, options.data)
    words = {word.lower() for pair in pairs for text in pair for word in text.split()}
    lengths = [statistics.mean(len(pair[side]) for pair in pairs) for side in (0, 1)]
    print(
        f"{len(pairs):,} pairs, characters on average {lengths[0]:.0f} and {lengths[1]:.0f}, "
        f"{len(words):,} different words"
    )
    print_header("round", "official, one core, s", "suite, s", "ratio")
    sides = {
        "official": partial(time_of, official, pairs),
        "suite": partial(time_of, suite_way, pairs),
    }
    ratios = []
    for pair in in_turn(sides, options.rounds):
        reference, suite = pair.results["official"], pair.results["suite"]
        if reference.scores != suite.scores:
            print(f"the two differ: {reference.scores.values} and {suite.scores.values}")
            return 1
        ratios.append(suite.seconds / reference.seconds)
        cells = f"{reference.seconds:.2f}", f"{suite.seconds:.2f}", f"{ratios[-1]:.3f}"
        print_row(pair.number, *cells)
    print_row("median", "", "", middle(ratios, "at most 0.30"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
