"""Compare scorers of the suite with the official ones, on made answers.

    python -m scripts.compare_scorers whisper --checkout INFERENCE --python PYTHON

--checkout is a checkout of github.com/mlcommons/inference, --python an interpreter with the
packages of the official scorer: numpy and openai-whisper for whisper. The official code runs in
that interpreter, from the checkout. The number of cases and of differences is printed; the exit
status is 1 if there are differences.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.scorers.whisper import english_normalizer, word_errors

Case = tuple[str, str]
"""An answer and its reference."""
Figures = Sequence[object]
"""What a scorer says of a case; compared with ==."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scorer: its made cases, our figures of each, and the official program.

    `program` reads the cases from stdin as JSON and prints the figures of each; it is run in
    `folder` of the checkout.
    """

    cases: Callable[[random.Random, int], list[Case]]
    ours: Callable[[Sequence[Case]], list[Figures]]
    folder: str
    program: str


# Whisper

_VOCABULARY = """
the a of and to in he she it was not did colour color grey any one anyone every body everybody
twenty one hundred thousand million third 3rd 21 4 point five half dollars pounds percent $3 20% +5
-7 o'clock don't won't can't i'm he's they'd let's mr mrs dr st uh um hmm okay to day today mean
while meanwhile cannot can not double triple zero oh seven and a half 1.5 naïve café (laughs)
[noise] ma'am y'all gonna wanna ' - %
"""
_WORDS = ("", *_VOCABULARY.split())
_NOISE = ("", " ", "\n", "\u00e9", "\u65e5", "\u0130", "\u200b", ".", ",", "?", "<|en|>", "\x00")


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(0, 30)))


def _heard(chance: random.Random, text: str) -> str:
    """What a model might make of a text: words dropped, swapped, joined, split, in capitals."""
    words = text.split(" ")
    for _ in range(chance.randint(0, 6)):
        place = chance.randrange(len(words))
        change = chance.randrange(7)
        if change == 0:
            words[place : place + 1] = []
        elif change == 1:
            words.insert(place, chance.choice(_WORDS))
        elif change == 2:
            words[place : place + 2] = ["".join(words[place : place + 2])]
        elif change == 3:
            cut = chance.randint(0, len(words[place]))
            words[place : place + 1] = [words[place][:cut], words[place][cut:]]
        elif change == 4:
            words[place] = words[place].upper()
        elif change == 5:
            words[place] += chance.choice(_NOISE)
        else:
            words[place] = chance.choice(_WORDS)
        words = words or [""]
    return " ".join(words)


def transcripts(chance: random.Random, count: int) -> list[Case]:
    """References, a few with capital letters or empty, and what was heard."""
    cases = []
    for _ in range(count):
        text = _sentence(chance)
        reference = text.title() if chance.random() < 0.05 else text
        heard = _sentence(chance) if chance.random() < 0.1 else _heard(chance, text)
        cases.append((heard, reference))
    return cases


def _our_word_errors(cases: Sequence[Case]) -> list[Figures]:
    normalize = english_normalizer()
    return [list(word_errors(*case, normalize)) for case in cases]


_OFFICIAL_WORD_ERRORS = """
import json, os, sys, tempfile
cases = json.load(sys.stdin)
sys.argv[1:] = []
sys.path.insert(0, os.getcwd())
import accuracy_eval
from manifest import Manifest
labels = accuracy_eval.labels
numbers = {letter: number for number, letter in enumerate(labels)}
with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    entry = {"files": [], "original_duration": 1.0}
    json.dump([{**entry, "transcript": reference} for _, reference in cases], file)
    file.flush()
    manifest = Manifest("", [file.name], labels, len(labels), max_duration=30.0)
gather = vars(accuracy_eval)["__gather_predictions"]
figures = []
for place, (answer, _) in enumerate(cases):
    # As reference_SUT.py passes an answer to LoadGen.
    passed = [numbers[letter] for letter in answer.lower().strip() if letter in numbers]
    texts = gather([[passed, manifest[place]["transcript"]]], labels=labels)
    # A word that is right keeps the rate of an empty reference from being a division by zero.
    _, errors, words = accuracy_eval.word_error_rate([texts[0], "a"], [texts[1], "a"])
    figures.append([errors, words - 1])
json.dump(figures, sys.stdout)
"""

COMPARISONS: Mapping[str, Comparison] = {
    "whisper": Comparison(transcripts, _our_word_errors, "speech2text", _OFFICIAL_WORD_ERRORS),
}


def official_figures(
    comparison: Comparison, cases: Sequence[Case], checkout: Path, python: str
) -> list[Figures]:
    """What the official program says. Raises CalledProcessError if it fails."""
    run = subprocess.run(
        [python, "-c", comparison.program],
        input=json.dumps(cases),
        cwd=checkout / comparison.folder,
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    figures: list[Figures] = json.loads(run.stdout)
    return figures


def compare(name: str, count: int, seed: int, checkout: Path, python: str) -> int:
    """Print the cases that differ and how many there are of each kind; return the differences."""
    comparison = COMPARISONS[name]
    chance = random.Random(seed)  # noqa: S311 - no secret
    cases = comparison.cases(chance, count)
    theirs = official_figures(comparison, cases, checkout, python)
    ours = comparison.ours(cases)
    differences = 0
    for case, mine, official in zip(cases, ours, theirs, strict=True):
        if list(mine) != list(official):
            differences += 1
            print(f"differs: ours {mine}, official {official}: {case!r}")
    print(f"{name}: {len(cases)} made answers (seed {seed}), {differences} differences")
    return differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("scorer", choices=sorted(COMPARISONS))
    parser.add_argument("--checkout", type=Path, required=True, help="of the official repository")
    parser.add_argument("--python", default=sys.executable, help="with the scorer's packages")
    parser.add_argument("--cases", type=int, default=800)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    checkout = options.checkout.absolute()
    return min(1, compare(options.scorer, options.cases, options.seed, checkout, options.python))


if __name__ == "__main__":
    sys.exit(main())
