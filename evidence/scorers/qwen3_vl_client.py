"""Qwen3-VL's categories by MLCommons' HTTP client, which scores v6.1, and by the suite.

The client's own code loads its example of the benchmark, the data set and the events of a run, and
writes accuracy_results.json. The suite reads the same events.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from evidence.scorers import qwen3_vl_script
from evidence.scorers.environments import (
    Comparison,
    Environment,
    Options,
    fresh_folder,
    run_offline,
)
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.endpoints.official_client.client_answers import (
    read_answers,
    texts_by_sample,
)
from mlperf_suite.features.multimodal.qwen3_vl import HierarchicalF1Scorer, levels_of
from mlperf_suite.scorers.scorer import GEN_NUM, Answer

_BENCHMARK, _ROUND = "qwen3-vl-235b-a22b", "v6.1"
NAME = f"{_BENCHMARK}-{_ROUND}"
_PATH = "src/inference_endpoint/evaluation/scoring.py"
_EXAMPLE = "examples/08_Qwen3-VL-235B-A22B_Example/server_qwen3_vl_235b_a22b_shopify.yaml"
_OWN, _MORE = "inference-endpoint", ("pandas", "tqdm")
"""The client's package, and what its scorers import that it does not name itself."""
_BLANKS = (" ", "\t", "\n", "\u00a0", "\u2003", "\x1c", "\u200b", "\ufeff")
"""Characters that one definition of a blank takes and another does not."""
_SCORE = """
import base64, json, pathlib, sys
from types import SimpleNamespace
import msgspec, pandas
from inference_endpoint.commands.benchmark.accuracy import score_accuracy, write_accuracy_results
from inference_endpoint.commands.benchmark.execute import _load_datasets
from inference_endpoint.config.schema import BenchmarkConfig, TestMode
from inference_endpoint.core.record import EventRecord, EventType, SampleEventType
from inference_endpoint.core.types import TextModelOutput
from inference_endpoint.dataset_manager.predefined.shopify_product_catalogue import (
    ShopifyProductCatalogue,
)
from inference_endpoint.evaluation import scoring

given = json.load(open("given.json"))
name = ShopifyProductCatalogue.DATASET_ID
# Where the client keeps a data set that it has downloaded.
cached = pathlib.Path("dataset_cache", name, "train+test", f"{name}_train+test.parquet")
cached.parent.mkdir(parents=True)
rows = [dict.fromkeys(ShopifyProductCatalogue.COLUMN_NAMES, "") for _ in given["categories"]]
for row, category in zip(rows, given["categories"]):
    row |= {"ground_truth_category": category, "potential_product_categories": "[]"}
pandas.DataFrame(rows).to_parquet(cached)

folder = pathlib.Path.cwd()
config = BenchmarkConfig.from_yaml_file(pathlib.Path(sys.argv[1]))
_, (asked,) = _load_datasets(config, folder, TestMode.ACC)
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

context = SimpleNamespace(
    eval_configs=[asked], test_mode=TestMode.ACC, tokenizer_name=None, report_dir=folder
)
scores = score_accuracy(context, SimpleNamespace(phase_results=[], perf_results=[]))
write_accuracy_results(folder, scores)
levels = []
for category, text in zip(given["categories"], given["texts"]):
    category = category.strip()
    said = scoring._parse_response_to_category(text, category)
    levels.append(scoring._match_hierarchical_paths(said, category))
pathlib.Path("levels.json").write_text(json.dumps(levels))
"""
"""What the client's `finalize_benchmark` does after a run; and the levels of each answer alone."""


def environment(checkout: Path) -> Environment:
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
    return Environment("endpoints-client", pins, wants_python="3.12")


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


def compared(options: Options) -> Comparison:
    """Score one run's events by both; the levels of each answer too."""
    checkout = options.endpoints
    if checkout is None or not (checkout / _PATH).is_file():
        raise SystemExit("--endpoints names no checkout of github.com/mlcommons/endpoints")
    pairs = list(texts())
    # And a request that failed, and one that never ended.
    answers = [*(_parts(n, text) for n, (text, _) in enumerate(pairs)), None, "missing"]
    categories = [*(category for _, category in pairs), "Shoes > Boots", "Shoes"]
    folder = fresh_folder("log-of-qwen3-vl-client")
    given = {"answers": answers, "categories": categories, "texts": [text for text, _ in pairs]}
    (folder / "given.json").write_text(json.dumps(given))
    around = environment(checkout)
    source = {"PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(around.python), "-c", _SCORE, str(checkout / _EXAMPLE)]
    run_offline(command, folder, _PATH, source)
    written = json.loads((folder / "accuracy" / "accuracy_results.json").read_text())
    (entry,) = written["accuracy_scores"]
    counts = entry["response_counts"]
    # The suite gives percent, and counts the answers that came.
    official = {"f1": 100 * entry["score"], GEN_NUM: float(counts["scored"] + counts["empty"])}
    found = read_answers(folder)[entry["dataset_name"]]
    read = sorted(texts_by_sample(found).items())
    own = dict(scorer().score([Answer(Sample("", categories[n]), (), t) for n, t in read]).values)
    levels = json.loads((folder / "levels.json").read_text())
    for (text, category), theirs in zip(pairs, levels, strict=True):
        mine = list(levels_of(text, category, strips=scorer().strips))
        if mine != theirs:
            print(f"{category!r}, {text[:200]!r}: {theirs} and {mine}")
            own["f1"] = -1.0
    path = f"mlcommons/endpoints: {_PATH}"
    return Comparison(NAME, path, around.packages, len(answers), official, own)


def scorer() -> HierarchicalF1Scorer:
    """The suite's for this round."""
    benchmark = BENCHMARKS[_BENCHMARK]
    assert benchmark.workload is not None
    found = benchmark.by_round[_ROUND](benchmark.workload).scorer
    assert isinstance(found, HierarchicalF1Scorer)
    return found


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
