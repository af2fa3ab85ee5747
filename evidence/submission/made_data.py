"""Makes up data of official size for benchmarks whose data are published as files.

Prompts are a few tokens that identify the sample. An answer is a thought made of fillers, to reach
the official mean length, and a conclusion that is right, or wrong in a fixed share of samples, so
that scores are above their gates and no figure is 100%. No official file is needed or copied.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.submission.model import WORDS, ModelTokens, write_json, write_model
from mlperf_suite.benchmarks.definition import Benchmark

PROBLEMS = "problems.jsonl"
"""Made-up problems in LiveCodeBench's format, for --code-problems."""
_SEED = 20_261_122
WORDS_OF_AN_ANSWER = 40


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared answer: fillers between `opening` and `closing`, up to `tokens` in total.

    `tokens` includes the EOS; if the texts alone are longer, there are no fillers.
    """

    opening: str
    closing: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Made:
    """One sample: its row in the official file format and its answer."""

    row: Mapping[str, object]
    answer: Prepared


Sampler = Callable[[random.Random, int], Made]
"""Makes the sample with a number; each sample has its own random generator."""


def write_parquet(rows: list[dict[str, object]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


@dataclass(frozen=True, slots=True)
class Published:
    """How a benchmark's data are made.

    `files`: by the name of the official file, its samplers and how many samples each makes.
    `modes`: by mode, the file that it uses. `problems`: makes those for --code-problems. `write`:
    writes rows as such a file. `without_programs`: a scorer that runs no program of an answer, of
    one that does.
    """

    benchmark: Benchmark
    tokens: ModelTokens
    files: Mapping[str, Sequence[tuple[Sampler, int]]]
    modes: Mapping[str, str]
    problems: Callable[[], Iterator[dict[str, str]]] | None = None
    write: Callable[[list[dict[str, object]], Path], None] = write_parquet
    without_programs: Callable[[Any], Any] = lambda scorer: scorer

    @property
    def is_folder(self) -> bool:
        """Whether --dataset names the folder of several files instead of a single file."""
        return len(self.files) > 1

    def dataset(self, work: Path) -> Path:
        """The value for --dataset."""
        folder = work / self.benchmark.id
        return folder if self.is_folder else folder / next(iter(self.files))

    def samples(self, file: str) -> Iterator[Made]:
        """The samples of a file, the same in every call."""
        number = 0
        for sampler, count in self.files[file]:
            for _ in range(count):
                yield sampler(random.Random(f"{_SEED} {file} {number}"), number)
                number += 1


def write_published(folder: Path, published: Published) -> None:
    """Write a benchmark's files, model folder, problems and prepared answers."""
    own = folder / published.benchmark.id
    own.mkdir(parents=True, exist_ok=True)
    answers: dict[str, list[list[object]]] = {}
    for file in published.files:
        samples = list(published.samples(file))
        published.write([dict(sample.row) for sample in samples], own / file)
        prepared = [sample.answer for sample in samples]
        rows: list[list[object]] = [[p.opening, p.closing, p.tokens] for p in prepared]
        for mode in (mode for mode, of in published.modes.items() if of == file):
            answers[mode] = rows
    workload = published.benchmark.workload
    assert workload is not None
    eos = published.benchmark.eos_token_ids
    write_model(own / "model", workload.model_identity.shape, eos, published.tokens)
    if published.problems is not None:
        problems = map(json.dumps, published.problems())
        (own / PROBLEMS).write_text("".join(f"{line}\n" for line in problems))
    # Last, so that if it exists, everything does.
    write_json(own / "answers.json", answers)


def prompt_of(number: int, *more: int) -> list[int]:
    """The token ids of a sample's prompt, unique within a file."""
    return [7, 11, 13, *more, 100 + number // 1000, 100 + number % 1000, 17]


def one_in(number: int, share: int) -> bool:
    return number % share == share - 1


def sentence(rng: random.Random, words: int = WORDS_OF_AN_ANSWER) -> str:
    return " ".join(rng.sample(WORDS, words)).capitalize() + "."


def orca(tokens: int, answer_column: str, **columns: str) -> Sampler:
    """OpenOrca: three of four answers are the reference, the others differ from it."""

    def sample(rng: random.Random, number: int) -> Made:
        reference = sentence(rng)
        answer = sentence(rng) if one_in(number, 4) else reference
        row = {"input": "made up", "tok_input": prompt_of(number), answer_column: reference}
        return Made({**row, **columns, **_id(columns, number)}, Prepared(answer, "", tokens))

    return sample


def _id(columns: Mapping[str, str], number: int) -> dict[str, str]:
    return {"id": f"made.{number}"} if "dataset" in columns else {}


LLAMA2_TOKENS = ModelTokens({"<s>": 1, "</s>": 2}, begin="<s>", end="</s>")
_EVERY_MODE = ("accuracy", "performance", "test06")


def one_file(file: str) -> dict[str, str]:
    return dict.fromkeys(_EVERY_MODE, file)
