"""Mixtral's texts, numbers and programs by its `evaluate-accuracy.py` and by the suite."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from evidence.code_grading.made_programs import MBXP_CHECK, MBXP_OTHERS, MBXP_PYTHON
from evidence.scorers.environments import PLACE, Comparison, Options, fresh_folder
from evidence.scorers.rouge_scripts import (
    ODD_TEXTS,
    OfficialScript,
    environment,
    made_tokenizer,
    official_figures,
    own_figures,
    write_log,
)
from mlperf_suite.datasets.news import load_news
from mlperf_suite.datasets.samples import Sample

SCRIPT = OfficialScript(
    "mixtral-8x7b",
    "language/mixtral-8x7b/evaluate-accuracy.py",
    "language/mixtral-8x7b/requirements.txt",
    "--checkpoint-path",
    on_sentence_pieces=True,
)
# More of those that one rule makes right than of those that it makes wrong, lest they cancel.
_NUMBERS = (
    "The answer is 12.",
    "It is 12.\nQ: and 99?",
    "\nQ: 12",
    "12\nQ: 3\nQ: 4",
    "1200.\nQ: 7 more",
    "1,200.00",
    "1,2.0",
    "$12.00 is the total",
    "The answer is 7. The answer is: 12 apples of 40",
    "The answer is twelve. 12",
    "The answer is",
    "twelve",
    "",
    "-12",
    "12.",
    ".12e2",
    "12,",
    "4 * 3 = 12.0",
    "١٢",
    "1200%",
    "9" * 400,
)


def compared(options: Options) -> Comparison:
    """Score one log by both. The script runs the made programs without a sandbox, as it does."""
    pairs = list(texts())
    samples = [sample for sample, _ in pairs]
    around = environment(SCRIPT)
    tokenizer = options.tokenizers.get(SCRIPT.benchmark)
    if tokenizer is None:
        corpus = [text for sample, text in pairs for text in (sample.reference, text)]
        tokenizer = made_tokenizer(SCRIPT, around.python, corpus)
    folder = fresh_folder("log-of-mixtral-8x7b")
    columns = {
        "dataset": [sample.kind for sample in samples],
        "gt_output": [sample.reference for sample in samples],
        "id": [sample.id for sample in samples],
        "input": [sample.input for sample in samples],
    }
    (folder / "data.json").write_text(json.dumps(columns))
    tokens = write_log(folder, tokenizer, [text for _, text in pairs])
    code = programs_code(options.mxeval)
    official = official_figures(SCRIPT, around.python, tokenizer, options.metric, folder, code)
    own = own_figures(SCRIPT, tokenizer, samples, tokens)
    figures = (len(samples), official, own)
    return Comparison(SCRIPT.benchmark, SCRIPT.path, around.packages, *figures)


def programs_code(checkout: Path | None) -> Path:
    """A copy of mxeval, changed by the line of Dockerfile.eval that calls `tsc` without npx.

    It writes its programs beside its own code.
    """
    if checkout is None or not (checkout / "mxeval" / "execution.py").is_file():
        raise SystemExit("--mxeval names no checkout of github.com/amazon-science/mxeval")
    copy = PLACE / "mxeval"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "data"))
    code = copy / "mxeval" / "execution.py"
    code.write_text(code.read_text().replace("npx tsc", "tsc"))
    return copy


def texts() -> Iterator[tuple[Sample, str]]:
    """Samples of the three parts, each with the text of an answer to it."""
    news = [replace(item, kind="OpenOrca", id=f"orca.{n}") for n, item in enumerate(_news())]
    for number, item in enumerate(news):
        yield item, f" {item.input[: 60 + 37 * (number % 20)]}"
        yield item, news[number - 1].reference
    for text in ODD_TEXTS:
        yield news[0], text
    for text in _NUMBERS:
        for reference in ("12", "1,200", "1200", "12.0"):
            yield Sample("How many?", reference, kind="GSM8K", id="train.1"), text
    for number, (language, text, tests) in enumerate(_programs()):
        name = f"{language}_add" if language == "python" else f"{language}_add_{number}"
        yield Sample("", tests, kind="MBXP", id=name), text


def _news() -> tuple[Sample, ...]:
    return load_news("embedded").items


def _programs() -> Iterator[tuple[str, str, str]]:
    """The language of each program, its text and its tests."""
    yield from MBXP_PYTHON
    tests = MBXP_CHECK
    yield "python", "  \n\ndef add(a, b):\n    return a + b\n```\nThis adds.", tests
    yield "python", "def add(a, b):\n    my\\_sum = a + b\n    return my\\_sum", tests
    yield "python", "```python\ndef add(a, b):\n    return a + b\n```", tests
    yield "python", "import sys\n\ndef add(a, b):\n    sys.exit(0)", tests
    for language, (tests, cases) in MBXP_OTHERS.items():
        for text in cases:
            yield language, text, tests
            yield language, f"{text}\n```\nAn explanation.", tests
            yield language, text.replace("add", "a\\_dd"), tests.replace("add", "a_dd")


COMPARISONS = {SCRIPT.benchmark: compared}
