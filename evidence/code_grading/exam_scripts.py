"""Exams and programs by deepseek-r1's and gpt-oss-120b's scripts and by the suite.

The scripts call graders that the checkout has as submodules: LiveCodeBench, which runs programs
without a sandbox, and prm800k, which compares mathematical answers.
"""

from __future__ import annotations

import base64
import json
import pickle
import random
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evidence.code_grading.made_programs import ENDLESS, LIVE_CODE_BENCH, MATHEMATICS
from evidence.from_elsewhere import INFERENCE
from evidence.scorers.environments import (
    PLACE,
    Comparison,
    Environment,
    Options,
    fresh_folder,
    run_offline,
)
from evidence.scorers.rouge_scripts import write_log
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.code_grading.scorers.live_code_bench import LiveCodeBench
from mlperf_suite.scorers.scorer import Answer, Scores, reads_special_tokens
from mlperf_suite.session.scenario_runs import decoded

_SUBMODULES = "language/deepseek-r1/submodules"
_NEEDS = ("numpy", "pandas", "pebble", "pylatexenc", "sympy", "tqdm", "transformers<5")
"""What the scripts and the graders import, unpinned; transformers' next release needs other
releases of the data sets' library than the pinned ones."""
_HARMONY = ("<|channel|>", "<|message|>", "<|return|>", "<|start|>", "<|end|>")
_LOADER = """
import json
import os
import datasets
class Config(datasets.BuilderConfig):
    def __init__(self, version_tag="", **kwargs):
        super().__init__(**kwargs)
        self.version_tag = version_tag
class Problems(datasets.GeneratorBasedBuilder):
    BUILDER_CONFIG_CLASS = Config
    def _info(self):
        rows = list(self._rows())
        features = {name: datasets.Value("string") for name in rows[0]}
        return datasets.DatasetInfo(features=datasets.Features(features))
    def _rows(self):
        with open(os.environ["PROBLEMS"]) as lines:
            yield from map(json.loads, lines)
    def _split_generators(self, manager):
        return [datasets.SplitGenerator("test")]
    def _generate_examples(self):
        yield from enumerate(self._rows())
"""
"""Reads the made problems where LiveCodeBench looks for those of the hub."""
_AS_PICKLE = "import json, sys, pandas; pandas.DataFrame(json.load(open(sys.argv[1])))"
_GRADES = "import json, sys, pandas; print(pandas.read_pickle(sys.argv[1]).prompt_accuracy.to_json("
_GRADES += "orient='values'))"


@dataclass(frozen=True, slots=True)
class ExamScript:
    """A script; `exams`: the kinds of its samples, by the name of each figure."""

    benchmark: str
    path: str
    helpers: tuple[str, ...]
    exams: Mapping[str, str]
    ends: str
    """The token that ends an answer."""
    environment: Callable[[], Environment]
    run: Callable[[Path, Path, Path], tuple[dict[str, float], list[bool]]]
    """From a Python, the script and the folder of the log to its figures, and which answers are
    right."""


def compared(script: ExamScript, _: Options) -> Comparison:
    """Score one log by both."""
    around = script.environment()
    pairs = list(texts(script.exams))
    samples = [sample for sample, _ in pairs]
    folder = fresh_folder(f"log-of-{script.benchmark}")
    # The name by which one of the scripts loads its tokenizer, from the working folder.
    tokenizer = folder / "deepseek-ai" / "DeepSeek-R1"
    make_tokenizer(tokenizer, script.ends)
    tokens = write_log(folder, tokenizer, [text for _, text in pairs])
    columns = {
        "dataset": [sample.kind for sample in samples],
        "ground_truth": [sample.reference for sample in samples],
        "question": [sample.input for sample in samples],
    }
    (folder / "data.json").write_text(json.dumps(columns))
    python, data = str(around.python), str(folder / "data.pkl")
    as_pickle = f"{_AS_PICKLE}.to_pickle(sys.argv[2])"
    subprocess.run([python, "-c", as_pickle, str(folder / "data.json"), data], check=True)
    problems = folder / "problems.jsonl"
    problems.write_text("".join(f"{json.dumps(row)}\n" for row in made_problems()))
    official, right = script.run(around.python, code_of(script), folder)
    scores = own_scores(script, tokenizer, samples, tokens, problems)
    own = dict(scores.values)
    for name, kind in script.exams.items():
        graded = [is_right for is_right, s in zip(right, samples, strict=True) if s.kind == kind]
        official[name] = sum(graded) / len(graded) * 100
        for place, value in enumerate(scores.per_answer[name]):
            if value is not None and bool(value) != right[place]:
                print(f"{name}: {pairs[place]}: {right[place]} and {bool(value)}")
                own[name] = -1.0
    figures = (len(samples), official, own)
    return Comparison(script.benchmark, script.path, around.packages, *figures)


def own_scores(
    script: ExamScript,
    tokenizer: Path,
    samples: Sequence[Sample],
    tokens: Sequence[list[int]],
    problems: Path,
) -> Scores:
    """The suite's figures of the same answers, as a run scores them."""
    workload = BENCHMARKS[script.benchmark].workload
    assert workload is not None
    scorer: Any = replace(workload.scorer, code=LiveCodeBench(problems))  # type: ignore[type-var]
    special, cleans = reads_special_tokens(scorer), workload.cleans_up_spaces
    encoder = load_tokenizer(str(tokenizer))
    found = decoded(encoder, tokens, special_tokens=special, cleans_up_spaces=cleans)
    answers = [Answer(*row) for row in zip(samples, tokens, found, strict=True)]
    scores: Scores = scorer.score(answers)
    if scores.not_judged:
        raise SystemExit(f"{script.benchmark}: not judged here: {dict(scores.not_judged)}")
    return scores


def code_of(script: ExamScript) -> Path:
    """A copy of the script, unchanged, with its graders beside it and the problems in theirs."""
    folder = PLACE / f"code-of-{script.benchmark}"
    shutil.rmtree(folder, ignore_errors=True)
    leaves_out = shutil.ignore_patterns(".git", "assets", "output", "data", "*.jsonl")
    for name, needs in (("LiveCodeBench", "lcb_runner"), ("prm800k", "prm800k")):
        grader = INFERENCE / _SUBMODULES / name
        if not (grader / needs).is_dir():
            raise SystemExit(f"{grader} is empty: git submodule update --init {_SUBMODULES}")
        shutil.copytree(grader, folder / "submodules" / name, ignore=leaves_out)
    hub = folder / "submodules" / "LiveCodeBench" / "livecodebench" / "code_generation_lite"
    hub.mkdir(parents=True)
    (hub / "code_generation_lite.py").write_text(_LOADER)
    for path in (script.path, *script.helpers):
        shutil.copy(INFERENCE / path, folder)
    return folder / Path(script.path).name


def make_tokenizer(folder: Path, ends: str) -> None:
    """The embedded model's, of bytes, with the special tokens of OpenAI's Harmony format."""
    folder.mkdir(parents=True)
    made = json.loads((embedded_model_dir() / "tokenizer.json").read_text(encoding="utf-8"))
    first = max(made["model"]["vocab"].values()) + 1
    first = max(first, *(token["id"] + 1 for token in made["added_tokens"]))
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special = list(dict.fromkeys((*_HARMONY, ends)))
    made["added_tokens"] += [
        {"id": first + n, "content": name, "special": True} | plain
        for n, name in enumerate(special)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": ends}
    settings["clean_up_tokenization_spaces"] = False  # type: ignore[assignment]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _run(python: Path, script: Path, folder: Path, *options: str) -> str:
    """What the script prints; it finds nothing on the hub."""
    own = {"PROBLEMS": str(folder / "problems.jsonl"), "PYTHONPATH": ""}
    return run_offline([str(python), str(script), *options], folder, script, own).stdout


def _deepseek_environment() -> Environment:
    setup = INFERENCE / "language/deepseek-r1/docker/setup_scripts/common.sh"
    (datasets,) = set(re.findall(r'"datasets==([\d.]+)"', setup.read_text()))
    return Environment(
        "deepseek-r1", {"datasets": datasets}, ("anthropic<1", *_NEEDS), wants_python="3.10"
    )


def _run_deepseek(python: Path, script: Path, folder: Path) -> tuple[dict[str, float], list[bool]]:
    graded, log = folder / "graded_evaluated.pkl", folder / "mlperf_log_accuracy.json"
    options = (f"--input-file={log}", f"--dataset-file={folder / 'data.pkl'}")
    printed = _run(python, script, folder, *options, f"--output-file={graded}")
    exact, tokens, count = re.findall(
        r"'exact_match': (\S+), 'tokens_per_sample': (\S+), 'num-samples': (\d+)}", printed
    )[-1]
    figures = {"exact_match": float(exact), "tokens_per_sample": float(tokens)}
    figures["gen_num"] = float(count)
    grades = subprocess.check_output([str(python), "-c", _GRADES, str(graded)], text=True)
    return figures, [grade > 0 for grade in json.loads(grades)]


def _gpt_oss_environment() -> Environment:
    requirements = (INFERENCE / "language/gpt-oss-120b/requirements.txt").read_text()
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", requirements, re.M))
    pins = {name: pinned[name] for name in ("anthropic", "datasets")}
    return Environment("gpt-oss-120b", pins, _NEEDS, wants_python="3.12")


def _run_gpt_oss(python: Path, script: Path, folder: Path) -> tuple[dict[str, float], list[bool]]:
    log, found = folder / "mlperf_log_accuracy.json", folder / "found.json"
    options = [f"--mlperf-log={log}", f"--reference-data={folder / 'data.pkl'}", "--verbose"]
    tokenizer = folder / "deepseek-ai" / "DeepSeek-R1"
    options += [f"--tokenizer={tokenizer}", f"--output-file={found}"]
    printed = _run(python, script, folder, *options)
    (exact,) = re.findall(r"^'exact_match': (\S+)$", printed, re.M)
    rows = json.loads(found.read_text())["detailed_results"]
    rows.sort(key=lambda row: row["seq_id"])
    tokens = sum(row["token_count"] for row in rows)
    figures = {"exact_match": float(exact), "gen_num": float(len(rows)), "gen_tok_len": tokens}
    return figures, [bool(row["is_correct"]) for row in rows]


def texts(exams: Mapping[str, str]) -> Iterator[tuple[Sample, str]]:
    """Samples of these exams, each with the text of an answer to it."""
    for name, kind in exams.items():
        for text, reference in _TEXTS[name]():
            yield Sample("Which?", reference, kind=kind), text


def _letters(last: str) -> Iterator[tuple[str, str]]:
    """What the patterns of a letter look for, in any order; and whole sentences."""
    chance = random.Random(3)
    parts = ("ANSWER", "Answer: ", "final answer", ":", " ", "(", ")", "A", "b", last, "d.", "\n")
    odd = ("\\n", "**B**", "C", "_", "\u0131", "['", "']", "It is a good one", "7", *_HARMONY)
    for _ in range(500):
        yield "".join(chance.choices(parts + odd, k=chance.randrange(9))), "B"
    for _ in range(500):
        before = chance.choice(("", "So ", "Answer: A. ", "\n\n", "**", "['"))
        word = chance.choice(("Answer", "ANSWER", "final answer", "FINALANSWER", "answers", "It"))
        mark = chance.choice((": ", ":", " = ", " ", " : (", " (", ":\\n", " is ", ":**"))
        letter = chance.choice(("B", "b", last, "A", "BC", "B."))
        yield f"{before}{word}{mark}{letter}{chance.choice((')', '', '.', ' x', '**'))}", "B"
    for said in _final("B"):
        yield said, "b"


def _boxes() -> Iterator[tuple[str, str]]:
    for one, other in MATHEMATICS:
        for said in (f"So $\\boxed{{{one}}}$.", f"\\boxed{{1}} or \\boxed{{ {one} }}", one):
            yield said, other


def _integers() -> Iterator[tuple[str, str]]:
    for said in (
        *("\\boxed{12}", "\\boxed{ 12 }", "\\boxed{012}", "\\boxed{12} \\boxed{13}", "Answer: 12"),
        *("answer:\n12.", "Answer: 12.5", "Answer: 12, no", "\\boxed{1012}", "\\boxed{-12}"),
        *("\\boxed{12}\nAnswer: 7", "\\boxed{\u0661\u0662}", "Answer: \u0661\u0662", "12"),
        *("\\boxed{12.0}", "\\boxed{x}", "", *_final("\\boxed{12}")),
    ):
        for reference in ("12", "012", "12.0"):
            yield said, reference


def _programs() -> Iterator[tuple[str, str]]:
    for name, codes in LIVE_CODE_BENCH.items():
        right = codes[0]
        for code in codes:
            block = f"```python\n{code}\n```"
            yield f"So:\n{block}", name
            if code != ENDLESS:
                yield f"{block}\nor\n```\nprint(1)\n```", name
                yield f"```python\npass\n```{block}", name
        fenced = (f"```\n{right}\n```", f"```py\n{right}\n```", f"```python\n{right}")
        for said in (right, *fenced, "", *_final(f"```python\n{right}\n```")):
            yield said, name


_TEXTS: Mapping[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "gpqa": partial(_letters, "D"),
    "mmlu_pro": partial(_letters, "J"),
    "math500": _boxes,
    "aime": _integers,
    "aime25": _integers,
    "livecodebench": _programs,
}
"""Answers with their references, by exam."""


def _final(said: str) -> Iterator[str]:
    """An answer in the channels of the Harmony format."""
    think, final = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
    yield f"{think}Answer: A ```python\npass\n```<|end|><|start|>assistant{final}{said}<|return|>"
    yield f"{think}{said}<|end|><|start|>assistant{final}See above.<|return|>"
    yield f"<|channel|>final 明<|message|>**{said}**<|return|>"
    yield f"{think}{said}"


def made_problems() -> Iterator[dict[str, str]]:
    """The problems of the programs, in the published form."""
    packed = pickle.dumps(json.dumps([_test("4 5\n6\n", "15.0\n")]))
    private = base64.b64encode(zlib.compress(packed)).decode()
    more = {"question_title": "Add", "question_content": "Add.", "starter_code": ""}
    more |= {"platform": "atcoder", "contest_id": "1", "difficulty": "easy"}
    more["contest_date"] = "2023-08-21T00:00:00"
    public = json.dumps([_test("1 2\n3\n", "6\n")])
    tests = {"public_test_cases": public, "private_test_cases": private, "metadata": "{}"}
    yield more | {"question_id": "sum"} | tests
    of_function = [[_test("1\n2", "3", "functional")], [_test("[1]\n[2]", "[1, 2]", "functional")]]
    public, private = map(json.dumps, of_function)
    tests = {"public_test_cases": public, "private_test_cases": private}
    yield more | {"question_id": "add", "metadata": '{"func_name": "addUp"}'} | tests


def _test(given: str, wanted: str, kind: str = "stdin") -> dict[str, str]:
    return {"input": given, "output": wanted, "testtype": kind}


_EXAMS = ("gpqa", "mmlu_pro", "math500", "aime", "livecodebench")
DEEPSEEK_R1 = ExamScript(
    "deepseek-r1",
    "language/deepseek-r1/eval_accuracy.py",
    (),
    dict(zip(_EXAMS, ("gpqa", "mmlu_pro", "math500", "AIME1983", "livecodebench"), strict=True)),
    "<|end_of_sentence|>",
    _deepseek_environment,
    _run_deepseek,
)
GPT_OSS_120B = ExamScript(
    "gpt-oss-120b",
    "language/gpt-oss-120b/eval_mlperf_accuracy.py",
    ("language/gpt-oss-120b/eval_accuracy.py",),
    {"aime25": "aime25", "gpqa": "gpqa_diamond", "livecodebench": "livecodebench_v6"},
    "<|return|>",
    _gpt_oss_environment,
    _run_gpt_oss,
)
COMPARISONS = {of.benchmark: partial(compared, of) for of in (DEEPSEEK_R1, GPT_OSS_120B)}
