"""Qwen3-VL's categories by `multimodal/qwen3-vl`'s evaluation and by the suite."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterator, Sequence

from evidence.from_elsewhere import INFERENCE
from evidence.scorers.environments import (
    Comparison,
    Environment,
    Options,
    fresh_folder,
    run_offline,
)
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.multimodal.qwen3_vl import UNREADABLE, HierarchicalF1Scorer
from mlperf_suite.scorers.scorer import Answer

_FOLDER = "multimodal/qwen3-vl"
_PATH = f"{_FOLDER}/src/mlperf_inf_mm_q3vl/evaluation.py"
_WORDS = ("Shoes", "Toys & Games", "Ünïcode", "한국어", "a>b", "Home", "  Kitchen", "Cups ", "")
_UNREADABLE = re.compile(r"(\d+) responses cannot be parsed")
_EVALUATE = """
import pathlib, sys
from mlperf_inf_mm_q3vl.evaluation import run_evaluation
from mlperf_inf_mm_q3vl.schema import Dataset
log, data = sys.argv[1:]
run_evaluation(random_seed=12345, filename=pathlib.Path(log), dataset=Dataset(repo_id=data))
"""
"""What its command `evaluate` does; the command itself needs a fork of pydantic-typer."""
_AS_PARQUET = """
import json, sys, pandas
for split, rows in json.load(open(sys.argv[1])).items():
    pandas.DataFrame(rows).to_parquet(f"{sys.argv[2]}/{split}-00000-of-00001.parquet")
"""


def environment() -> Environment:
    """What pyproject.toml asks for, which pins Python alone."""
    wants = "datasets loguru mlcommons-loadgen openai pydantic rapidfuzz scikit-learn tabulate"
    return Environment("qwen3-vl", {}, wants.split(), wants_python="3.12")


def compared(_: Options) -> Comparison:
    """Score one log by both, with the scorer of v6.0, whose reference this is."""
    pairs = list(texts())
    around = environment()
    folder = fresh_folder("log-of-qwen3-vl")
    log = [
        {"seq_id": n, "qsl_idx": n, "data": text.encode().hex()}
        for n, (text, _) in enumerate(pairs)
    ]
    (folder / "mlperf_log_accuracy.json").write_text(json.dumps(log))
    rows = [
        {
            "ground_truth_category": category,
            "ground_truth_brand": "Acme",
            "ground_truth_is_secondhand": n % 3 == 0,
            "potential_product_categories": [category, "Home > Cups"],
        }
        for n, (_, category) in enumerate(pairs)
    ]
    half = len(rows) // 2
    data = folder / "data"
    data.mkdir()
    as_json = folder / "rows.json"
    as_json.write_text(json.dumps({"train": rows[:half], "test": rows[half:]}))
    python = str(around.python)
    subprocess.run([python, "-c", _AS_PARQUET, str(as_json), str(data)], check=True)
    source = {"PYTHONPATH": str(INFERENCE / _FOLDER / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-c", _EVALUATE, str(folder / "mlperf_log_accuracy.json"), str(data)]
    done = run_offline(command, folder, _PATH, source)
    written = (folder / "accuracy.txt").read_text().splitlines()
    # The suite gives percent.
    official = {"f1": 100 * json.loads(written[2])["f1"]}
    official[UNREADABLE] = float(_UNREADABLE.findall(done.stderr)[-1])
    answers = [Answer(Sample("", category), (), text) for text, category in pairs]
    own = dict(HierarchicalF1Scorer().score(answers).values)
    return Comparison("qwen3-vl-235b-a22b", _PATH, around.packages, len(pairs), official, own)


def texts() -> Iterator[tuple[str, str]]:
    """Answers, each with the category of its product."""
    chance = random.Random(1)
    for _ in range(600):
        wanted = chance.choices(_WORDS, k=chance.randrange(1, 6))
        category = " > ".join(wanted)
        for said in (wanted, wanted[: len(wanted) // 2], [*wanted, "More"], wanted[::-1]):
            yield product(said), category
    whole = product(["Shoes", "Boots"])
    for text in _odd(whole):
        yield text, "Shoes > Boots"


def product(category: Sequence[str]) -> str:
    """A valid answer."""
    return json.dumps({"category": " > ".join(category), "brand": "Acme", "is_secondhand": False})


def _odd(whole: str) -> Iterator[str]:
    """Answers that are valid in one reading of the schema and not in another."""
    yield from ("", " ", "null", "[]", "{}", "Shoes > Boots", f"```json\n{whole}\n```")
    yield from (f" \n{whole}\t", f"\ufeff{whole}", f"{whole}.", f"{whole}{whole}", whole[:-1])
    for value in ("yes", "on", "1", "0", "maybe", "TRUE"):
        yield whole.replace("false", f'"{value}"')
    for value in ("1", "0", "2", "1.0", "0.5", "null", "NaN", "[]"):
        yield whole.replace("false", value)
    yield whole.replace('"Acme"', "null")
    yield whole.replace('"Acme"', "7")
    yield whole.replace('"Acme"', '"\\ud83d\\ude00"')
    yield whole.replace('"Acme"', '"\\ud83d"')
    yield whole.replace("}", ', "price": 3}')
    yield whole.replace("{", '{"category": "Toys", ')
    yield whole.replace('"brand"', '"Brand"')
    yield whole.replace('"Acme"', f'"{"x" * 100_000}"')
    yield whole.replace("Boots", "Boots > ")
    yield whole.replace("Shoes > ", "Shoes>")
    yield whole.replace("Shoes > ", "Shoes >  > ")
    yield whole.replace("Shoes", "\\u0053hoes")
    yield whole.replace("Shoes", "sho\\nes")
    yield whole.replace("Shoes", "Sho\nes")
    yield whole.replace('"', "'")
    yield whole.replace("}", ",}")


COMPARISONS = {"qwen3-vl-235b-a22b": compared}
