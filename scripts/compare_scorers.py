"""Compare scorers of the suite with the official ones, on made answers.

    python -m scripts.compare_scorers whisper --checkout INFERENCE --python PYTHON

--checkout is a checkout of github.com/mlcommons/inference, for qwen3-vl-v6.1 of
github.com/mlcommons/endpoints. --python is an interpreter with the packages of the official scorer:
numpy and openai-whisper for whisper, those of multimodal/qwen3-vl/pyproject.toml for qwen3-vl-v6.0,
the official client (make endpoints-client) for qwen3-vl-v6.1. The official code runs in that
interpreter, from the checkout. The number of cases and of differences is printed; the exit status
is 1 if there are differences.
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

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.multimodal.product_prompts import Version, texts_of
from mlperf_suite.features.multimodal.qwen3_vl import HierarchicalF1Scorer, category_of
from mlperf_suite.features.multimodal.whisper import (
    WordAccuracyScorer,
    english_normalizer,
    word_errors,
)
from mlperf_suite.scorers.scorer import Answer

Case = tuple[str, str]
"""An answer and its reference."""
Figures = Sequence[object]
"""What a scorer says of a case; compared with ==."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scorer: its made cases, our figures of each and of all, and the official program.

    `program` reads the cases from stdin as JSON and prints the figures of each and then those of
    all; it is run in `folder` of the checkout.
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
    answers = [Answer(Sample("", reference), (), text) for text, reference in cases]
    each: list[Figures] = [list(word_errors(*case, normalize)) for case in cases]
    return [*each, [WordAccuracyScorer().score(answers).values["word_error_rate"]]]


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
figures, decoded = [], []
for place, (answer, _) in enumerate(cases):
    # As reference_SUT.py passes an answer to LoadGen.
    passed = [numbers[letter] for letter in answer.lower().strip() if letter in numbers]
    texts = gather([[passed, manifest[place]["transcript"]]], labels=labels)
    # A word that is right keeps the rate of an empty reference from being a division by zero.
    _, errors, words = accuracy_eval.word_error_rate([texts[0], "a"], [texts[1], "a"])
    figures.append([errors, words - 1])
    decoded.append(texts)
rate, _, _ = accuracy_eval.word_error_rate(*zip(*decoded))
figures.append([rate * 100])
json.dump(figures, sys.stdout)
"""

# Qwen3-VL

_LEVELS = ("Apparel", "Shoes", "Boots & Clogs", "Home > Garden", "", " Toys", "caf\u00e9", "a>b")
_VALUES = (
    *(
        "true",
        "false",
        "True",
        "1",
        "0",
        "2",
        "1.0",
        "1e400",
        "NaN",
        "null",
        '"yes"',
        '"no"',
        '"t"',
    ),
    *('"TRUE"', '"off"', '""', "[]", "{}", '"maybe"', "-0", "9" * 400, "9" * 5000, '"\\ud800"'),
)
_CHANGES = (
    *("", " ", "\n", "\ufeff", "```json\n", "```", "{", "}", '"', ",", "\\", "\x00", "'", "//x"),
    *('"extra": 1,', '"category": "Shoes",', "[" * 300, "}" * 3, "<|im_end|>", "\U0001f3a4"),
)


def _category(chance: random.Random) -> str:
    separator = chance.choice([" > "] * 8 + [">", " >  ", ", "])
    path = separator.join(chance.choices(_LEVELS, k=chance.randint(1, 5)))
    return chance.choice([""] * 9 + [" ", " > "]) + path + chance.choice([""] * 9 + [" ", " > "])


def _product(chance: random.Random, category: str) -> str:
    """A model's answer: mostly valid, with members missing, more, twice or of other kinds."""
    value = chance.choice(_VALUES) if chance.random() < 0.4 else "false"
    members = [
        f'"category": {json.dumps(category, ensure_ascii=chance.random() < 0.5)}',
        f'"brand": {chance.choice(_VALUES) if chance.random() < 0.2 else json.dumps("a brand")}',
        f'"is_secondhand": {value}',
    ]
    if chance.random() < 0.1:
        del members[chance.randrange(3)]
    chance.shuffle(members)
    text = "{" + chance.choice([",", ", ", ",\n  "]).join(members) + "}"
    if chance.random() < 0.25:
        cut = chance.randrange(len(text) + 1)
        rest = "" if chance.random() < 0.4 else text[cut:]
        text = text[:cut] + chance.choice(_CHANGES) + rest
    return text


def products(chance: random.Random, count: int) -> list[Case]:
    """Categories, and what a model might answer: right, partly right, wrong or broken JSON."""
    cases = []
    for _ in range(count):
        reference = _category(chance)
        levels = reference.split(" > ")
        near = " > ".join([*levels[: chance.randint(0, len(levels))], chance.choice(_LEVELS)])
        answer = chance.choice([reference, near, near, _category(chance)])
        cases.append((_product(chance, answer), reference))
    return cases


def _our_levels(strips: bool) -> Callable[[Sequence[Case]], list[Figures]]:
    """For each answer whether it is valid and the F1 of itself alone; last, the F1 of all."""

    def figures(cases: Sequence[Case]) -> list[Figures]:
        scorer = HierarchicalF1Scorer(strips=strips)
        answers = [Answer(Sample("", reference), (), text) for text, reference in cases]
        f1 = [scorer.score([answer]).values["f1"] for answer in answers]
        valid = [category_of(answer.text) is not None for answer in answers]
        each: list[Figures] = [list(row) for row in zip(valid, f1, strict=True)]
        return [*each, [scorer.score(answers).values["f1"]]]

    return figures


_OFFICIAL_F1 = """
import json, os, sys
cases = json.load(sys.stdin)
sys.path.insert(0, os.getcwd())
{imports}
pairs = []
valid = []
for answer, reference in cases:
    valid.append(is_valid(answer))
    pairs.append((category(answer, reference), clean(reference)))
figures = [[ok, 100 * f1([pair])] for ok, pair in zip(valid, pairs)]
json.dump([*figures, [100 * f1(pairs)]], sys.stdout)
"""
_IS_VALID = """
from pydantic import ValidationError

def is_valid(answer):
    try:
        ProductMetadata.model_validate_json(answer)
    except ValidationError:
        return False
    return True
"""
# The step of v6.0 between both is in a function that also draws brands at random: _process_chunk,
# called with one answer.
_V6_0 = """
from mlperf_inf_mm_q3vl import evaluation
from mlperf_inf_mm_q3vl.schema import ProductMetadata
f1 = evaluation.calculate_hierarchical_f1
clean = lambda reference: reference

def category(answer, reference):
    row = dict(ground_truth_category=reference, potential_product_categories=["a"])
    row |= dict(ground_truth_brand="", ground_truth_is_secondhand=False)
    evaluation.init_worker([row])
    entry = dict(qsl_idx=0, data=answer.encode().hex())
    ((mine, _),) = evaluation._process_chunk(([entry], 1))["category_dataset_pred_src"]
    return mine
"""
_V6_1 = """
from inference_endpoint.evaluation import scoring
from inference_endpoint.dataset_manager.predefined.shopify_product_catalogue import ProductMetadata
f1 = scoring._calculate_hierarchical_f1
clean = str.strip  # As in ShopifyCategoryF1Scorer.score

def category(answer, reference):
    return scoring._parse_response_to_category(answer, clean(reference))
"""


def _f1_program(imports: str) -> str:
    return _OFFICIAL_F1.replace("{imports}", imports + _IS_VALID)


# Qwen3-VL's prompts

_TEXTS = (
    "",
    "a shoe",
    "{braces} {0} %s",
    "<script>x</script>",
    "caf\u00e9 \u65e5",
    "a\nb",
    '"quoted"',
    "it's",
)


def described_products(chance: random.Random, count: int) -> list[Case]:
    """Products as the data set describes them, without their pictures; each has no reference."""
    cases = []
    for _ in range(count):
        title, description = chance.choices(_TEXTS, k=2)
        product: dict[str, object] = {"product_title": title, "product_description": description}
        categories = chance.choices(_LEVELS + _TEXTS, k=chance.randint(0, 4))
        product["potential_product_categories"] = categories
        cases.append((json.dumps(product), ""))
    return cases


def _our_prompts(version: Version) -> Callable[[Sequence[Case]], list[Figures]]:
    def figures(cases: Sequence[Case]) -> list[Figures]:
        each: list[Figures] = [list(texts_of(Sample(text, ""), version)) for text, _ in cases]
        return [*each, [len(each)]]

    return figures


_PROMPTS_V6_0 = """
import json, os, sys
cases = json.load(sys.stdin)
sys.path.insert(0, os.getcwd())
from PIL import Image
from mlperf_inf_mm_q3vl.task import ShopifyGlobalCatalogue
image = Image.new("RGB", (2, 2))
image.format = "PNG"
prompts = []
for text, _ in cases:
    sample = ShopifyGlobalCatalogue.formulate_loaded_sample(
        json.loads(text) | dict(product_image=image)
    )
    system, user = sample.messages
    part, picture = user["content"]
    assert picture["type"] == "image_url"
    prompts.append([system["content"], part["text"]])
json.dump([*prompts, [len(prompts)]], sys.stdout)
"""
_PROMPTS_V6_1 = """
import json, os, sys
cases = json.load(sys.stdin)
sys.path.insert(0, os.getcwd())
from inference_endpoint.dataset_manager.predefined.shopify_product_catalogue.presets import q3vl
(formatter,) = q3vl()
prompts = []
for text, _ in cases:
    product = json.loads(text)
    categories = json.dumps(product["potential_product_categories"])
    row = product | dict(potential_product_categories=categories, product_image_base64="eA==")
    row = formatter.process_row(row)
    part, picture = row["prompt"]
    assert picture["type"] == "image_url"
    prompts.append([row["system"], part["text"]])
json.dump([*prompts, [len(prompts)]], sys.stdout)
"""

COMPARISONS: Mapping[str, Comparison] = {
    "whisper": Comparison(transcripts, _our_word_errors, "speech2text", _OFFICIAL_WORD_ERRORS),
    "qwen3-vl-v6.0": Comparison(
        products, _our_levels(False), "multimodal/qwen3-vl/src", _f1_program(_V6_0)
    ),
    "qwen3-vl-prompts-v6.0": Comparison(
        described_products, _our_prompts("v6.0"), "multimodal/qwen3-vl/src", _PROMPTS_V6_0
    ),
    "qwen3-vl-prompts-v6.1": Comparison(
        described_products, _our_prompts("v6.1"), "src", _PROMPTS_V6_1
    ),
    "qwen3-vl-v6.1": Comparison(products, _our_levels(True), "src", _f1_program(_V6_1)),
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
    for case, mine, official in zip([*cases, "all cases"], ours, theirs, strict=True):
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
