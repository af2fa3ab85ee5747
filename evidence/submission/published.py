"""Makes up data of official size for benchmarks whose data are published as files.

Prompts are a few tokens that identify the sample. An answer is a thought made of fillers, to reach
the official mean length, and a conclusion that is right, or wrong in a fixed share of samples, so
that scores are above their gates and no figure is 100%. No official file is needed or copied.
"""

from __future__ import annotations

import json
import random
import wave
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from evidence.submission.data import TOKENS
from evidence.submission.model import WORDS, ModelTokens, write_json, write_model
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99, LLAMA2_70B_99_9
from mlperf_suite.benchmarks.llama3_1_405b import LLAMA3_1_405B
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DEEPSEEK_R1
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.features.code_grading.benchmarks.mixtral_8x7b import MIXTRAL_8X7B
from mlperf_suite.features.multimodal.qwen3_vl import QWEN3_VL
from mlperf_suite.features.multimodal.whisper import RATE_HZ, WHISPER

PROBLEMS = "problems.jsonl"
"""Made-up problems in LiveCodeBench's format, for --code-problems."""
_SEED = 20_261_122
_WORDS_OF_AN_ANSWER = 40


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


def write_manifest(rows: list[dict[str, object]], path: Path) -> None:
    """A manifest and its clips, which are the samples' `pcm`."""
    entries = []
    for number, row in enumerate(rows):
        name = f"made/clip-{number:04}.wav"
        clip = path.parent / name
        clip.parent.mkdir(exist_ok=True)
        with wave.open(str(clip), "wb") as file:
            file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
            pcm = row["pcm"]
            assert isinstance(pcm, bytes)
            file.writeframes(pcm)
        entries.append({"transcript": row["transcript"], "files": [{"fname": name}]})
    write_json(path, entries)


@dataclass(frozen=True, slots=True)
class Published:
    """How a benchmark's data are made.

    `files`: by the name of the official file, its samplers and how many samples each makes.
    `modes`: by mode, the file that it uses. `write`: writes rows as such a file.
    """

    benchmark: Benchmark
    tokens: ModelTokens
    files: Mapping[str, Sequence[tuple[Sampler, int]]]
    modes: Mapping[str, str]
    with_problems: bool = False
    write: Callable[[list[dict[str, object]], Path], None] = write_parquet

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
    if published.with_problems:
        problems = (json.dumps(problem) for problem in _problems())
        (own / PROBLEMS).write_text("".join(f"{line}\n" for line in problems))
    # Last, so that if it exists, everything does.
    write_json(own / "answers.json", answers)


def _prompt(number: int, *more: int) -> list[int]:
    """The token ids of a sample's prompt, unique within a file."""
    return [7, 11, 13, *more, 100 + number // 1000, 100 + number % 1000, 17]


def _one_in(number: int, share: int) -> bool:
    return number % share == share - 1


def _sentence(rng: random.Random, words: int = _WORDS_OF_AN_ANSWER) -> str:
    return " ".join(rng.sample(WORDS, words)).capitalize() + "."


# Summaries and the like: ROUGE


def _orca(tokens: int, answer_column: str, **columns: str) -> Sampler:
    """OpenOrca: three of four answers are the reference, the others differ from it."""

    def sample(rng: random.Random, number: int) -> Made:
        reference = _sentence(rng)
        answer = _sentence(rng) if _one_in(number, 4) else reference
        row = {"input": "made up", "tok_input": _prompt(number), answer_column: reference}
        return Made({**row, **columns, **_id(columns, number)}, Prepared(answer, "", tokens))

    return sample


def _id(columns: Mapping[str, str], number: int) -> dict[str, str]:
    return {"id": f"made.{number}"} if "dataset" in columns else {}


def _gsm8k(rng: random.Random, number: int) -> Made:
    right = rng.randint(1, 5000)
    result = right + 1 if _one_in(number, 6) else right
    row = {"input": "made up", "tok_input": _prompt(number), "gt_output": str(right)}
    answer = Prepared("So", f" The answer is {result:,}.", 200)
    return Made({**row, "dataset": "GSM8K", "id": f"made.{number}"}, answer)


def _mbxp(rng: random.Random, number: int) -> Made:
    """A one-line Python function and a test for it."""
    addend = rng.randint(1, 500)
    result = addend + 1 if _one_in(number, 6) else addend
    test = f"\n\ndef check(candidate):\n    assert candidate(1) == {1 + addend}\n"
    row = {"input": "made up", "tok_input": _prompt(number), "gt_output": test}
    answer = Prepared(f"def more(n):\n    return n + {result}\n", "```\n", 0)
    return Made({**row, "dataset": "MBXP", "id": "python_more"}, answer)


# Long contexts


def _summary(rng: random.Random, number: int) -> Made:
    reference = _sentence(rng)
    answer = _sentence(rng) if _one_in(number, 4) else reference
    row = {"input": "made up", "tok_input": _prompt(number), "gt_output": reference}
    return Made({**row, "metric": "rouge"}, Prepared(answer, "", 690))


def _needle(rng: random.Random, number: int) -> Made:
    digits = f"{rng.getrandbits(128):032x}"
    bounds = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    needle = "-".join(digits[begin:end] for begin, end in bounds)
    row = {"input": "made up", "tok_input": _prompt(number), "gt_output": needle}
    answer = "" if _one_in(number, 15) else needle
    return Made({**row, "metric": "niah_em"}, Prepared("It is", f" {answer}", 690))


def _question(rng: random.Random, number: int) -> Made:
    reference, wrong = rng.sample(WORDS, 2)
    answer = wrong if _one_in(number, 15) else reference
    row = {"input": "made up", "tok_input": _prompt(number), "gt_output": reference}
    return Made({**row, "metric": "qa_em"}, Prepared("Thus", f" Answer: {answer}", 690))


# Exams

_LENGTH_OF_REASONS = 3_900
_SPREAD = 400


def _exam(
    kind: str,
    conclude: Callable[[random.Random, bool], tuple[str, str]],
    tokens: int = _LENGTH_OF_REASONS,
    opening: str = "",
    closing: str = "",
    tokenized: bool = False,
) -> Sampler:
    """Answers of an exam, of which five of six are right.

    `conclude`: returns the conclusion and the reference, given whether it should be right.
    """

    def sample(rng: random.Random, number: int) -> Made:
        answer, reference = conclude(rng, not _one_in(number, 6))
        length = rng.randint(tokens - _SPREAD, tokens + _SPREAD)
        row: dict[str, object] = {"dataset": kind, "ground_truth": reference}
        if tokenized:
            # Files have different lengths, so prompts of different files differ.
            row |= {"input_tokens": _prompt(number, tokens)}
        else:
            row |= {"text_input": f"Sample {number}: {_sentence(rng, 6)}"}
        return Made(row, Prepared(opening, f"{closing}{answer}", length))

    return sample


def _letter(last: str) -> Callable[[random.Random, bool], tuple[str, str]]:
    letters = "ABCDEFGHIJ"[: ord(last) - ord("A") + 1]

    def conclude(rng: random.Random, right: bool) -> tuple[str, str]:
        reference, wrong = rng.sample(letters, 2)
        return f"\nANSWER: {reference if right else wrong}", reference

    return conclude


def _boxed(rng: random.Random, right: bool) -> tuple[str, str]:
    value = rng.randint(1, 900)
    return f"\n\\boxed{{{value if right else value + 1}}}", str(value)


def _code(rng: random.Random, right: bool) -> tuple[str, str]:
    factor = rng.randint(2, 1 + _PROBLEMS)
    answer = factor if right else factor + 1
    program = f"\n```python\nprint(int(input()) * {answer})\n```"
    return program, f"made-{factor}"


_PROBLEMS = 3


def _problems() -> Iterator[dict[str, str]]:
    """Problems with the columns of livecodebench/code_generation_lite: multiply two numbers."""
    for factor in range(2, 2 + _PROBLEMS):
        cases = [[{"input": f"{n}\n", "output": f"{n * factor}\n"}] for n in (4, 11)]
        tests = [json.dumps([{**case, "testtype": "stdin"} for case in of]) for of in cases]
        yield {
            "question_title": f"Times {factor}",
            "question_content": f"Print the number that is read, times {factor}.",
            "platform": "made up",
            "question_id": f"made-{factor}",
            "contest_id": "made up",
            "contest_date": "2026-01-01T00:00:00",
            "starter_code": "",
            "difficulty": "easy",
            "public_test_cases": tests[0],
            "private_test_cases": tests[1],
            "metadata": "{}",
        }


_ANALYSIS = "<|channel|>analysis<|message|>"
_FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
_LOW_EFFORT = 1_278
"""The mean answer length in TEST09 by the reference."""


def _harmony(
    kind: str, conclude: Callable[[random.Random, bool], tuple[str, str]], tokens: int
) -> Sampler:
    """Answers in OpenAI's Harmony format."""
    return _exam(kind, conclude, tokens, opening=_ANALYSIS, closing=_FINAL, tokenized=True)


# Sound and pictures


def _speech(rng: random.Random, number: int) -> Made:
    """Twenty-five words, one of them heard wrong in every third clip."""
    *words, other = rng.sample(WORDS, 26)
    heard = [other, *words[1:]] if _one_in(number, 3) else words
    row = {"transcript": " ".join(words), "pcm": number.to_bytes(4, "little") * 200}
    return Made(row, Prepared(" ".join(heard), "", 0))


def _product(rng: random.Random, number: int) -> Made:
    """A picture that tells the number, and a category of which two of three levels are right in
    every fifth answer."""
    *path, other, title = rng.sample(WORDS, 5)
    category = " > ".join(path)
    answer = " > ".join([*path[:2], other]) if _one_in(number, 5) else category
    row = {
        "product_title": title,
        "product_description": title,
        "potential_product_categories": [category],
        "product_image": {"bytes": _numbered_picture(number)},
        "ground_truth_category": category,
    }
    text = json.dumps({"category": answer, "brand": title, "is_secondhand": False})
    return Made(row, Prepared(text, "", 0))


def _numbered_picture(number: int) -> bytes:
    from PIL import Image

    file = BytesIO()
    Image.frombytes("RGB", (2, 2), number.to_bytes(12, "little")).save(file, format="PNG")
    return file.getvalue()


_WHISPER_IDS = {
    **{"<|endoftext|>": 50_257, "<|startoftranscript|>": 50_258, "<|en|>": 50_259},
    **{"<|transcribe|>": 50_360, "<|notimestamps|>": 50_364},
}
_LLAMA2_TOKENS = ModelTokens({"<s>": 1, "</s>": 2}, begin="<s>", end="</s>")
_OPEN_ORCA = "open_orca_gpt4_tokenized_llama.sampled_24576.parquet"
_EVERY_MODE = ("accuracy", "performance", "test06")


def _one_file(file: str) -> dict[str, str]:
    return dict.fromkeys(_EVERY_MODE, file)


def _llama2_data(benchmark: Benchmark) -> Published:
    files = {_OPEN_ORCA: [(_orca(294, "output"), benchmark.samples)]}
    return Published(benchmark, _LLAMA2_TOKENS, files, _one_file(_OPEN_ORCA))


_CLIPS, _PRODUCTS = "dev-all-repack.json", "train-00000-of-00001.parquet"
_MIXTRAL = "09292024_mixtral_15k_mintoken2_v1.parquet"
_LLAMA31_405B = "mlperf_llama3.1_405b_dataset_8313_processed_fp16_eval.parquet"
_DEEPSEEK = "mlperf_deepseek_r1_dataset_4388_fp8_eval.parquet"
_PERFORMANCE, _ACCURACY, _GPQA = (
    "perf_eval_ref.parquet",
    "acc_eval_inputs.parquet",
    "acc_eval_compliance_gpqa.parquet",
)
PUBLISHED: Mapping[str, Published] = {
    published.benchmark.id: published
    for published in (
        _llama2_data(LLAMA2_70B_99),
        _llama2_data(LLAMA2_70B_99_9),
        Published(
            MIXTRAL_8X7B,
            _LLAMA2_TOKENS,
            {
                _MIXTRAL: [
                    (_orca(220, "gt_output", dataset="OpenOrca"), 5_000),
                    (_gsm8k, 5_000),
                    (_mbxp, 5_000),
                ]
            },
            _one_file(_MIXTRAL),
        ),
        Published(
            LLAMA3_1_405B,
            TOKENS,
            {_LLAMA31_405B: [(_summary, 2_771), (_needle, 2_771), (_question, 2_771)]},
            _one_file(_LLAMA31_405B),
        ),
        Published(
            DEEPSEEK_R1,
            ModelTokens(
                {"<|begin|>": 0, "<|end|>": 1, "<|User|>": 128_803, "<|Assistant|>": 128_804},
                begin="<|begin|>",
                end="<|end|>",
                chat_template=(
                    "{{ bos_token }}{% for message in messages %}<|User|>"
                    "{{ message.content.split('</think>')[-1] }}{% endfor %}<|Assistant|>"
                ),
            ),
            {
                _DEEPSEEK: [
                    (_exam("aime", _boxed), 932),
                    (_exam("math500", _boxed), 499),
                    (_exam("gpqa", _letter("D")), 198),
                    (_exam("mmlu_pro", _letter("J")), 2_410),
                    (_exam("livecodebench", _code), 349),
                ]
            },
            _one_file(_DEEPSEEK),
            with_problems=True,
        ),
        Published(
            GPT_OSS_120B,
            ModelTokens(
                {"<|endoftext|>": 199_999, "<|return|>": 200_002, "<|channel|>": 200_005}
                | {"<|start|>": 200_006, "<|end|>": 200_007, "<|message|>": 200_008}
                | {"<|call|>": 200_012},
                end="<|return|>",
            ),
            {
                _PERFORMANCE: [(_harmony("made up", _letter("D"), _LOW_EFFORT), 6_396)],
                _ACCURACY: [
                    (_harmony("aime25", _boxed, 2_500), 240),
                    (_harmony("gpqa_diamond", _letter("D"), 2_500), 990),
                    (_harmony("livecodebench_v6", _code, 2_500), 3_165),
                ],
                _GPQA: [(_harmony("gpqa_diamond", _letter("D"), 1_500), 990)],
            },
            {
                "performance": _PERFORMANCE,
                "accuracy": _ACCURACY,
                "test07": _GPQA,
                "test09": _PERFORMANCE,
            },
            with_problems=True,
        ),
        Published(
            WHISPER,
            ModelTokens(_WHISPER_IDS, end="<|endoftext|>"),
            {_CLIPS: [(_speech, WHISPER.samples)]},
            dict.fromkeys(("accuracy", "performance", "test01"), _CLIPS),
            write=write_manifest,
        ),
        Published(
            QWEN3_VL,
            ModelTokens(
                {"<|endoftext|>": 151_643, "<|im_start|>": 151_644, "<|im_end|>": 151_645},
                end="<|im_end|>",
                chat_template=(
                    "{% for message in messages %}<|im_start|>{% if message.content is string %}"
                    "{{ message.content }}{% else %}{{ message.content[0].text }}{% endif %}"
                    "<|im_end|>{% endfor %}"
                ),
                vocabulary=151_936,
            ),
            {_PRODUCTS: [(_product, QWEN3_VL.samples)]},
            dict.fromkeys(("accuracy", "performance"), _PRODUCTS),
        ),
    )
}
"""By benchmark id. The shares of kinds in a file are about those of the official data."""
