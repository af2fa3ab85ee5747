"""Scores of MLCommons' HTTP client, which measures and scores in v6.1, beside the suite's.

The client's own code loads its example of a benchmark and the data set, reads the events of a run
and scores them. The suite reads the same events. Where the benchmark's README names a commit of the
client, that is compared with.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.from_elsewhere import INFERENCE
from evidence.multimodal import qwen3_vl_script
from evidence.scorers.environments import (
    Comparison,
    Environment,
    Options,
    code_at,
    fresh_folder,
    run_offline,
)
from evidence.scorers.rouge_scripts import SCRIPTS, samples_of
from mlperf_suite.assets import nltk_data_dir
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.endpoints.official_client.client_answers import (
    read_answers,
    texts_by_sample,
)
from mlperf_suite.features.multimodal.qwen3_vl import HierarchicalF1Scorer, levels_of
from mlperf_suite.scorers.scorer import Answer, Scorer

_ROUND = "v6.1"
_PATH = "src/inference_endpoint/evaluation/scoring.py"
_OWN, _MORE = "inference-endpoint", ("pandas", "tqdm")
"""The client's package, and what its scorers import that it does not name itself."""
_ROUGE = ("evaluate", "nltk", "rouge_score")
"""What the client's README has its users install for ROUGE."""
_COMMIT = re.compile(r"\*\*endpoints version:\*\* \[([0-9a-f]{40})\]")
_BLANKS = (" ", "\t", "\n", "\u00a0", "\u2003", "\x1c", "\u200b", "\ufeff")
"""Characters that one definition of a blank takes and another does not."""
_SCORE = """
import inspect, json, pathlib, sys
import msgspec, pandas
from inference_endpoint.commands.benchmark.execute import _load_datasets
from inference_endpoint.config.schema import BenchmarkConfig, TestMode
from inference_endpoint.core.record import EventRecord, EventType, SampleEventType
from inference_endpoint.core.types import TextModelOutput
from inference_endpoint.dataset_manager.dataset import Dataset

given = json.load(open("given.json"))
kept = inspect.signature(Dataset.get_dataloader).parameters["datasets_dir"].default
cached = kept / given["cached"]
cached.parent.mkdir(parents=True)
pandas.DataFrame(given["columns"]).to_parquet(cached)

folder = pathlib.Path.cwd()
config = BenchmarkConfig.from_yaml_file(pathlib.Path(sys.argv[1]))
# Earlier commits do not take the mode.
more = [TestMode.ACC][: len(inspect.signature(_load_datasets).parameters) - 2]
*_, (asked,) = _load_datasets(config, folder, *more)
maps = {asked.dataset_name: {}, "performance": {"other": 0}}
encode = msgspec.json.Encoder(enc_hook=EventType.encode_hook).encode
with open("events.jsonl", "wb") as events:
    def write(kind, uuid, data=None):
        record = EventRecord(event_type=kind, sample_uuid=uuid, data=data)
        events.write(encode(record) + b"\\n")
    for number, parts in enumerate(given["answers"]):
        uuid = f"{number:032x}"
        maps[asked.dataset_name][uuid] = number
        write(SampleEventType.ISSUED, uuid)
        if parts == "missing":
            continue
        if parts is not None:
            write(SampleEventType.RECV_FIRST, uuid)
            parts = TextModelOutput(output=parts if isinstance(parts, str) else tuple(parts))
        write(SampleEventType.COMPLETE, uuid, parts)
    write(SampleEventType.COMPLETE, "other", TextModelOutput(output="{}"))
pathlib.Path("sample_idx_map.json").write_bytes(msgspec.json.encode(maps))

scorer = asked.scorer(
    asked.dataset_name,
    asked.dataset,
    asked.report_dir,
    extractor=asked.extractor,
    ground_truth_column=asked.ground_truth_column,
)
score, _ = scorer.score()
pathlib.Path("score.json").write_text(json.dumps([asked.dataset_name, score]))
"""
"""How the client scores a run (`finalize_benchmark`), whose events are made here."""
_LEVELS = """
import json
from inference_endpoint.evaluation import scoring
levels = []
for text, category in json.load(open("pairs.json")):
    category = category.strip()
    said = scoring._parse_response_to_category(text, category)
    levels.append(scoring._match_hierarchical_paths(said, category))
print(json.dumps(levels))
"""
"""The levels of each answer alone, lest two mistakes cancel in the score of all."""


@dataclass(frozen=True, slots=True)
class ClientScorer:
    """A benchmark as the client's examples have it. `cached`: where the client keeps its data set
    once it was downloaded; `more`: packages that the client leaves to its users; `readme`: the file
    of mlcommons/inference that names the client's commit, if one does."""

    benchmark: str
    example: str
    cached: str
    more: tuple[str, ...] = ()
    readme: str = ""

    @property
    def name(self) -> str:
        """The name of its row."""
        return f"{self.benchmark}-client"

    @property
    def suites(self) -> Scorer:
        """The suite's scorer for the round."""
        benchmark = BENCHMARKS[self.benchmark]
        assert benchmark.workload is not None
        as_in_round = benchmark.by_round.get(_ROUND)
        return (as_in_round(benchmark.workload) if as_in_round else benchmark.workload).scorer

    def commit(self, checkout: Path) -> str:
        """The commit that is compared with."""
        if not self.readme:
            ask = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
            return subprocess.check_output(ask, text=True).strip()
        (named,) = _COMMIT.findall((INFERENCE / self.readme).read_text())
        return str(named)

    def environment(self, checkout: Path) -> Environment:
        """What pyproject.toml names, in the versions of uv.lock, which `uv run` installs."""
        packages = tomllib.loads((checkout / "uv.lock").read_text())["package"]
        # A package that only an extra holds back is there in two versions.
        versions: dict[str, str] = {}
        for package in packages:
            name, version = package["name"], package.get("version", "")
            versions[name] = max(version, versions.get(name, ""), key=_numbers)
        (own,) = (package for package in packages if package["name"] == _OWN)
        needs = {dependency["name"] for dependency in own["dependencies"]} | set(_MORE)
        pins = {name: versions[name] for name in sorted(needs)}
        return Environment(self.name, pins, self.more, wants_python="3.12")


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


QWEN3_VL = ClientScorer(
    "qwen3-vl-235b-a22b",
    "examples/08_Qwen3-VL-235B-A22B_Example/server_qwen3_vl_235b_a22b_shopify.yaml",
    "shopify_product_catalogue/train+test/shopify_product_catalogue_train+test.parquet",
    readme="multimodal/qwen3-vl/README.md",
)
LLAMA3_1_8B = ClientScorer(
    "llama3.1-8b",
    "examples/05_Llama_Examples/offline_llama3_8b_cnn.yaml",
    "cnn_dailymail/cnn_dailymail.parquet",
    _ROUGE,
)


@dataclass(frozen=True, slots=True)
class _Run:
    """A scored run: its folder, the client's commit, code and score, and the suite's figures."""

    folder: Path
    commit: str
    code: Path
    score: Any
    own: dict[str, float]
    sent: int


def qwen3_vl(options: Options) -> Comparison:
    """Categories: the score, and the levels of each answer."""
    pairs = list(texts())
    columns: dict[str, list[str]] = {
        "ground_truth_category": [category for _, category in pairs],
        "potential_product_categories": ["[]" for _ in pairs],
    }
    for name in (
        *("product_title", "product_description", "product_image_base64"),
        *("product_image_format", "ground_truth_brand", "ground_truth_is_secondhand"),
    ):
        columns[name] = ["" for _ in pairs]
    samples = [Sample("", category) for _, category in pairs]
    run = _scored(QWEN3_VL, options, samples, [text for text, _ in pairs], columns)
    # The suite gives percent.
    official = {"f1": 100 * run.score}
    (run.folder / "pairs.json").write_text(json.dumps(pairs))
    levels = json.loads(_in_client(QWEN3_VL, options, run.code, run.folder, [_LEVELS]))
    scorer = QWEN3_VL.suites
    assert isinstance(scorer, HierarchicalF1Scorer)
    for (text, category), theirs in zip(pairs, levels, strict=True):
        mine = list(levels_of(text, category, strips=scorer.strips))
        if mine != theirs:
            print(f"{category!r}, {text[:200]!r}: {theirs} and {mine}")
            run.own["f1"] = -1.0
    return _compared(QWEN3_VL, run, official)


def llama3_1_8b(options: Options) -> Comparison:
    """News: the four ROUGE scores and the lengths."""
    pairs = list(samples_of(SCRIPTS[0]))
    samples = [sample for sample, _ in pairs]
    columns = {
        "article": [sample.input for sample in samples],
        "highlights": [sample.reference for sample in samples],
    }
    run = _scored(LLAMA3_1_8B, options, samples, [text for _, text in pairs], columns)
    official = {name: float(value) for name, value in run.score.items()}
    return _compared(LLAMA3_1_8B, run, official)


COMPARISONS = {QWEN3_VL.name: qwen3_vl, LLAMA3_1_8B.name: llama3_1_8b}


def _compared(of: ClientScorer, run: _Run, official: Mapping[str, float]) -> Comparison:
    packages = of.environment(run.code).packages
    path = f"mlcommons/endpoints {run.commit[:8]}: {_PATH}"
    return Comparison(of.name, path, packages, run.sent, official, run.own)


def _in_client(
    of: ClientScorer, options: Options, code: Path, folder: Path, command: Sequence[str]
) -> str:
    """What Python code prints in the client's environment."""
    variables = {"PYTHONPATH": str(code / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    variables["NLTK_DATA"] = str(nltk_data_dir())
    if of.more and options.metric is None:
        variables["HF_HUB_OFFLINE"] = "0"
    python = of.environment(code).python
    return run_offline([str(python), "-c", *command], folder, _PATH, variables).stdout


def _scored(
    of: ClientScorer,
    options: Options,
    samples: Sequence[Sample],
    said: Sequence[str],
    columns: Mapping[str, Sequence[str]],
) -> _Run:
    """Let the client score a run of these answers; and of a request that failed and one that never
    ended, both of the first sample."""
    if options.endpoints is None or not (options.endpoints / _PATH).is_file():
        raise SystemExit("--endpoints names no checkout of github.com/mlcommons/endpoints")
    commit = of.commit(options.endpoints)
    code = code_at(options.endpoints, commit, f"code-of-{of.name}")
    samples = [*samples, samples[0], samples[0]]
    columns = {name: [*values, values[0], values[0]] for name, values in columns.items()}
    answers = [*(_parts(number, text) for number, text in enumerate(said)), None, "missing"]
    folder = fresh_folder(f"log-of-{of.name}")
    given = {"answers": answers, "columns": columns, "cached": of.cached}
    (folder / "given.json").write_text(json.dumps(given))
    if of.more and options.metric is not None:
        # `evaluate.load("rouge")` takes this in the working folder before the hub.
        shutil.copytree(options.metric, folder / "rouge")
    _in_client(of, options, code, folder, [_SCORE, str(code / of.example)])
    name, score = json.loads((folder / "score.json").read_text())
    found = sorted(texts_by_sample(read_answers(folder)[name]).items())
    scores = of.suites.score([Answer(samples[number], (), text) for number, text in found])
    return _Run(folder, commit, code, score, dict(scores.values), len(answers))


def texts() -> Iterator[tuple[str, str]]:
    """Answers, each with the category of its product: v6.0's, and blanks around both."""
    yield from qwen3_vl_script.texts()
    chance = random.Random(2)
    for number in range(600):
        wanted = [_with_blanks(chance, word) for word in ("Shoes", "Boots", "")[: 1 + number % 3]]
        said = [_with_blanks(chance, word.strip()) for word in wanted]
        yield qwen3_vl_script.product(said), " > ".join(wanted)


def _with_blanks(chance: random.Random, word: str) -> str:
    before, after = ("".join(chance.choices(_BLANKS, k=chance.randrange(3))) for _ in range(2))
    return f"{before}{word}{after}"


def _parts(number: int, text: str) -> str | Sequence[str]:
    """Every third answer whole, the others in chunks, as a stream brings them."""
    if number % 3 == 0:
        return text
    return [text[at : at + 7] for at in range(0, len(text), 7)]
