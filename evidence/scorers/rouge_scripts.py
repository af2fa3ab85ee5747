"""The scripts that score texts by ROUGE, llama3.1-405b's needles and questions among them."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evidence.from_elsewhere import INFERENCE, REAL_NEWS
from evidence.scorers.environments import PLACE, Comparison, Environment, Options, fresh_folder
from mlperf_suite.assets import embedded_model_dir, nltk_data_dir
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.datasets.news import load_news
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.scorers.scorer import Answer
from mlperf_suite.session.scenario_runs import decoded

_SCORING = ("transformers", "nltk", "evaluate", "absl-py", "rouge-score", "sentencepiece")
"""What the scripts import of what the requirements pin; the rest runs the model."""
_MORE = ("pandas", "datasets", "tqdm", "protobuf")
"""What the scripts import besides, unpinned; protobuf makes the made tokenizer."""
_PIN = re.compile(r"([A-Za-z-]+)==([\w.]+)")
ODD_TEXTS = (
    "",
    " ",
    "It is n't so , he said . Do n't ! They 're 's here ; I 'm , we 've .",
    "One sentence.No space. Dr. Smith paid $3.5 million.\n\nA new paragraph",
    "Ünïcode 한국어 “quotes” — and 😀 emoji. Straße",
    "word " * 400,
)


@dataclass(frozen=True, slots=True)
class OfficialScript:
    """A benchmark's accuracy script, and the file of the checkout with its pins."""

    benchmark: str
    path: str
    pins: str
    model: str
    """How the script names its tokenizer."""
    on_sentence_pieces: bool = False
    """Whether that is one of SentencePiece."""

    def packages(self) -> dict[str, str]:
        """The pinned versions of what it needs."""
        pinned = dict(_PIN.findall((INFERENCE / self.pins).read_text()))
        return {name: pinned[name] for name in _SCORING}


SCRIPTS = (
    OfficialScript(
        "llama3.1-8b",
        "language/llama3.1-8b/evaluation.py",
        "language/llama3.1-8b/requirements.txt",
        "--model-name",
    ),
    OfficialScript(
        "llama3.1-405b",
        "language/llama3.1-405b/evaluate-accuracy.py",
        "language/llama3.1-405b/requirements.txt",
        "--checkpoint-path",
    ),
    OfficialScript(
        "llama2-70b-99",
        "language/llama2-70b/evaluate-accuracy.py",
        "language/llama2-70b/build.sh",
        "--checkpoint-path",
        on_sentence_pieces=True,
    ),
)


def environment(script: OfficialScript) -> Environment:
    """One with what the script pins, and torch, which one script imports and none computes with."""
    pins = script.packages()
    return Environment(f"transformers-{pins['transformers']}", pins, _MORE, links_torch=True)


_AS_PICKLE = """
import pathlib, pickle, sys
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
tables, file = map(pathlib.Path, sys.argv[1:])
rows = lambda name: (tables / name).read_text("utf-8").splitlines()
parameters = PunktParameters()
parameters.abbrev_types = set(rows("abbrev_types.txt"))
parameters.collocations = {tuple(row.split("\\t")) for row in rows("collocations.tab")}
parameters.sent_starters = set(rows("sent_starters.txt"))
for row in rows("ortho_context.tab"):
    word, _, flags = row.rpartition("\\t")
    parameters.ortho_context[word] = int(flags)
tokenizer = PunktSentenceTokenizer()
tokenizer._params = parameters
file.parent.mkdir(parents=True, exist_ok=True)
file.write_bytes(pickle.dumps(tokenizer))
"""
"""NLTK before 3.8.2 reads a pickle of what punkt_tab has as tables; this makes it of them."""


def sentence_splitter(python: Path) -> Path:
    """A folder for NLTK_DATA with punkt in the form of the environment's NLTK."""
    folder = PLACE / "nltk_data"
    file = folder / "tokenizers" / "punkt" / "PY3" / "english.pickle"
    if not file.exists():
        tables = nltk_data_dir() / "tokenizers" / "punkt_tab" / "english"
        subprocess.run([str(python), "-c", _AS_PICKLE, str(tables), str(file)], check=True)
    return folder


_SENTENCE_PIECES = """
import pathlib, sys
import sentencepiece
from transformers import LlamaTokenizer, LlamaTokenizerFast
text, folder = map(pathlib.Path, sys.argv[1:])
folder.mkdir(parents=True, exist_ok=True)
sentencepiece.SentencePieceTrainer.train(
    input=str(text), model_prefix=str(folder / "tokenizer"), vocab_size=4000, model_type="bpe",
    byte_fallback=True, character_coverage=0.9995, normalization_rule_name="identity",
    remove_extra_whitespaces=False, minloglevel=2,
)
slow = LlamaTokenizer(str(folder / "tokenizer.model"), clean_up_tokenization_spaces=False)
LlamaTokenizerFast(
    vocab_file=str(folder / "tokenizer.model"), clean_up_tokenization_spaces=False, legacy=False
).save_pretrained(folder)
slow.save_pretrained(folder)
"""


def made_tokenizer(script: OfficialScript, python: Path, texts: Sequence[str]) -> Path:
    """A tokenizer of the kind of the benchmark's: Llama 2's on sentence pieces; Llama 3's on bytes,
    whose configuration asks for spaces to be cleaned up."""
    # Made anew: that of other texts, or of an earlier version of them, would count other tokens.
    folder = fresh_folder(f"tokenizer-of-{script.benchmark}")
    if script.on_sentence_pieces:
        corpus = PLACE / "corpus.txt"
        corpus.write_text("\n".join(texts), encoding="utf-8")
        command = [str(python), "-c", _SENTENCE_PIECES, str(corpus), str(folder)]
        subprocess.run(command, check=True)
        return folder
    embedded = embedded_model_dir()
    shutil.copy(embedded / "tokenizer.json", folder)
    settings = json.loads((embedded / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    settings["clean_up_tokenization_spaces"] = True
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def samples_of(script: OfficialScript) -> Iterator[tuple[Sample, str]]:
    """Samples, each with the text of an answer to it."""
    source = str(REAL_NEWS) if REAL_NEWS.exists() else "embedded"
    news = [replace(item, kind="rouge") for item in load_news(source).items]
    for number, item in enumerate(news):
        yield item, f" {item.input[: 60 + 37 * (number % 20)]}"
        yield item, news[number - 1].reference
    for text in ODD_TEXTS:
        yield news[0], text
    if script.benchmark != "llama3.1-405b":
        return
    for number, item in enumerate(news):
        # Needles and questions: right, nearly right, absent.
        needle = str(uuid.UUID(int=number << 64 | 0xABC))
        other = str(uuid.UUID(int=number << 70 | 5))
        words = item.reference.split()
        yield (
            replace(item, reference=needle, kind="niah_em"),
            f"It is {(needle, other)[number % 2]}.",
        )
        yield replace(item, reference=needle, kind="niah_em"), item.reference
        first, last = " ".join(words[:2]), " ".join(words[-2:])
        said = (words[0], first.upper(), "something else", "")[number % 4]
        yield replace(item, reference=f"{first}|{last}", kind="qa_em"), f"I think. Answer: {said}"


def write_data(script: OfficialScript, file: Path, samples: Sequence[Sample]) -> None:
    """The data set in the form that the script reads."""
    if script.benchmark == "llama3.1-8b":
        rows = [{"input": s.input, "tok_input": [1], "output": s.reference} for s in samples]
        file.write_text(json.dumps(rows))
        return
    references = [sample.reference for sample in samples]
    columns: dict[str, list[str]] = {"output": references, "gt_output": references}
    columns["metric"] = [sample.kind for sample in samples]
    # Read by another pandas: only lists of text.
    columns = {name: list(map(str, values)) for name, values in columns.items()}
    file.with_suffix(".json").write_text(json.dumps(columns))


def official_figures(
    script: OfficialScript,
    python: Path,
    tokenizer: Path,
    metric: Path | None,
    folder: Path,
    code: Path | None = None,
) -> dict[str, float]:
    """What the script prints of the log and the data in a folder; `code`: what it imports besides
    its environment's packages."""
    if metric is not None:
        # `evaluate.load("rouge")` takes this in the working folder before the hub.
        shutil.copytree(metric, folder / "rouge", dirs_exist_ok=True)
    data = folder / "data"
    if (frame := data.with_suffix(".json")).exists():
        as_frame = "import json, sys, pandas; pandas.DataFrame(json.load(open(sys.argv[1])))"
        command = [str(python), "-c", f"{as_frame}.to_pickle(sys.argv[2])", str(frame), str(data)]
        subprocess.run(command, check=True)
    command = [
        str(python),
        str(INFERENCE / script.path),
        f"--mlperf-accuracy-file={folder / 'mlperf_log_accuracy.json'}",
        f"--dataset-file={data}",
        f"{script.model}={tokenizer}",
        "--dtype=int32",
    ]
    surroundings = os.environ | {"NLTK_DATA": str(sentence_splitter(python)), "PYTHONPATH": ""}
    surroundings["PYTHONDONTWRITEBYTECODE"] = "1"
    if code is not None:
        surroundings["PYTHONPATH"] = str(code)
    if metric is not None:
        surroundings |= {"HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script.path}: {done.stderr.strip()[-1500:]}")
    return figures_in(done.stdout)


def figures_in(output: str) -> dict[str, float]:
    """The figures of the dictionary that a script prints last, also of NumPy's types."""
    printed = output[output.rindex("{") : output.rindex("}") + 1]
    plain = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", printed)
    return {name: float(value) for name, value in ast.literal_eval(plain).items()}


def own_figures(
    script: OfficialScript, tokenizer: Path, samples: Sequence[Sample], tokens: Sequence[list[int]]
) -> dict[str, float]:
    """The suite's figures of the same answers, as a run scores them."""
    workload = BENCHMARKS[script.benchmark].workload
    assert workload is not None
    cleans = workload.cleans_up_spaces
    texts = decoded(load_tokenizer(str(tokenizer)), tokens, cleans_up_spaces=cleans)
    answers = [Answer(*row) for row in zip(samples, tokens, texts, strict=True)]
    return dict(workload.scorer.score(answers).values)


def write_log(folder: Path, tokenizer: Path, texts: Sequence[str]) -> list[list[int]]:
    """An accuracy log of answers; their tokens."""
    encoder: Any = load_tokenizer(str(tokenizer))
    tokens = [encoder.encode(text, add_special_tokens=False) for text in texts]
    # As an engine logs them: with the token that ends an answer.
    tokens = [[*of, encoder.eos_token_id] if n % 3 else of for n, of in enumerate(tokens)]
    log = (
        {"seq_id": n, "qsl_idx": n, "data": np.array(of, "<i4").tobytes().hex().upper()}
        for n, of in enumerate(tokens)
    )
    # With LoadGen's line ends, by which one of the scripts tells the form of a file.
    rows = ",\n".join(map(json.dumps, log))
    (folder / "mlperf_log_accuracy.json").write_text(f"[\n{rows}\n]\n")
    return tokens


def compared(script: OfficialScript, options: Options) -> Comparison:
    """Score one log by both."""
    around = environment(script)
    python, tokenizer = around.python, options.tokenizers.get(script.benchmark)
    pairs = list(samples_of(script))
    samples = [sample for sample, _ in pairs]
    if tokenizer is None:
        texts = [text for sample, text in pairs for text in (sample.input, text)]
        tokenizer = made_tokenizer(script, python, texts)
    folder = fresh_folder(f"log-of-{script.benchmark}")
    write_data(script, folder / "data", samples)
    tokens = write_log(folder, tokenizer, [text for _, text in pairs])
    official = official_figures(script, python, tokenizer, options.metric, folder)
    own = own_figures(script, tokenizer, samples, tokens)
    figures = (len(samples), official, own)
    return Comparison(script.benchmark, script.path, around.packages, *figures)


COMPARISONS = {script.benchmark: partial(compared, script) for script in SCRIPTS}
