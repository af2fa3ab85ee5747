"""Writes data sets that were made up for these tests, in the format of gsm8k, IFEval and MMLU-Pro.

    python -m evidence.evals.made_up_data FOLDER

The real data sets are not part of the repository. A folder of these is for --task-data: lm-eval's
own task definitions then run as published, on questions that measure nothing. Those of gsm8k and
MMLU-Pro are sums in words, the worked examples too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CATEGORIES = (
    *("biology", "business", "chemistry", "computer science", "economics", "engineering"),
    *("health", "history", "law", "math", "other", "philosophy", "physics", "psychology"),
)
THINGS = ("cells", "shelves", "flasks", "programs", "markets", "bridges", "nurses", "letters")
LETTERS = "ABCDEFGHIJ"
INSTRUCTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Write about the sea. Do not use any commas.", "punctuation:no_comma", {}),
    ("Say hello in capital letters only.", "change_case:english_capital", {}),
    (
        "Name two birds in fewer than 30 words.",
        "length_constraints:number_words",
        {"relation": "less than", "num_words": 30},
    ),
    (
        "Describe a lamp in fewer than 4 sentences.",
        "length_constraints:number_sentences",
        {"relation": "less than", "num_sentences": 4},
    ),
)
"""A prompt, the name of its instruction, and what that is given: one for each that needs another of
langdetect, NLTK and neither."""


def write_data(folder: Path) -> Path:
    """Write the three data sets below a folder; it is for --task-data."""
    sums = folder / "openai" / "gsm8k" / "main"
    _write(sums / "train.jsonl", map(_word_sum, range(20)))
    _write(sums / "test.jsonl", map(_word_sum, range(20, 28)))
    _write(folder / "google" / "IFEval" / "train.jsonl", _instructions())
    exams = folder / "TIGER-Lab" / "MMLU-Pro"
    for split, numbers in (("validation", range(5)), ("test", range(5, 7))):
        rows = [_exam(category, number) for category in CATEGORIES for number in numbers]
        _write(exams / f"{split}.jsonl", rows)
    return folder


def _write(path: Path, rows: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _word_sum(number: int) -> dict[str, Any]:
    first, second = 2 + number % 7, 3 + number % 5
    thing = THINGS[number % len(THINGS)]
    asked = f"How many {thing} are there?"
    return {
        "question": f"A room has {first} boxes with {second} {thing} each. {asked}",
        "answer": f"There are {first} * {second} = <<{first}*{second}={first * second}>>"
        f"{first * second} {thing}.\n#### {first * second}",
    }


def _instructions() -> Iterator[dict[str, Any]]:
    for key, (prompt, name, given) in enumerate(INSTRUCTIONS):
        # The real rows name every setting of each instruction, most of them null.
        every = dict.fromkeys(("relation", "num_words", "num_sentences")) | given
        yield {"key": key, "prompt": prompt, "instruction_id_list": [name], "kwargs": [every]}


def _exam(category: str, number: int) -> dict[str, Any]:
    first, second = 3 + number, 2 + len(category) % 6
    before = (number + len(category)) % len(LETTERS)
    options = [str(first + second - before + place) for place in range(len(LETTERS))]
    answer = LETTERS[options.index(str(first + second))]
    thing = THINGS[CATEGORIES.index(category) % len(THINGS)]
    return {
        "question_id": 100 * CATEGORIES.index(category) + number,
        "question": f"In {category}, how many are {first} {thing} and {second} more?",
        "options": options,
        "answer": answer,
        "answer_index": LETTERS.index(answer),
        "cot_content": f"A: Let's think step by step. {first} and {second} are "
        f"{first + second}. The answer is ({answer}).",
        "category": category,
        "src": "made up",
    }


if __name__ == "__main__":
    print(write_data(Path(sys.argv[1])))
