"""The rules of messages and the official client's check_compliance on honest and damaged results.

    python -m evidence.chats.compliance [CLIENT_PYTHON] [--write]

CLIENT_PYTHON is bin/python of an .endpoints-client, whose source has the example's configuration.
Each result has the files that the client writes of edge-agentic (config.yaml, scores.json,
accuracy/accuracy_results.json) with one damage. Prints both words for each, and rewrites the table
of docs/evidence/edge-agentic.md with --write; exit status 1 if they differ where `EXPLAINED` does
not say why.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from evidence.from_elsewhere import OFFICIAL_CLIENT
from evidence.tables import PAGES, write_cells
from mlperf_suite.features.chats.chat_rules import ChatFacts
from mlperf_suite.features.chats.qwen3_6_27b import QWEN3_6_27B
from mlperf_suite.rules import judge

EXAMPLE = "examples/11_Edge_Agentic_Example/online_edge_full_run.yaml"
_CHECK = """
import json, sys
from inference_endpoint.compliance import check_submission
words = {}
for folder in sys.argv[1:]:
    try:
        words[folder] = check_submission(folder).passed
    except Exception as error:
        words[folder] = f"traceback: {type(error).__name__}"
print(json.dumps(words))
"""
Files = dict[str, Any]
"""By name, the content of config, scores and accuracy; None for a file that is missing."""
Damage = Callable[[Files], object]
_PLACES = {
    "config": "config.yaml",
    "scores": "scores.json",
    "accuracy": "accuracy/accuracy_results.json",
}


def honest(config: dict[str, Any]) -> Files:
    """A result at the reference's scores, of a whole run."""
    subsets = {"simple_python": 90.0, "irrelevance": 97.0, "live_simple": 84.0}
    breakdown = {
        "subset_scores": subsets,
        "total_samples": 995,
        "overall_accuracy": 86.23,
        "normalized_single_turn_score": 87.96,
    }
    entry = {
        "dataset_name": "bfcl_v4::function_calling",
        "score": 86.23,
        "total_samples": 995,
        "complete": True,
        "dataset_type": "accuracy",
        "breakdown": breakdown,
        "response_counts": {"issued": 995, "scored": 995, "empty": 0, "missing": 0},
    }
    turns = {"issued": 1_007, "observed": 1_006, "expected": 1_006, "missing": 0}
    return {
        "config": copy.deepcopy(config),
        "scores": {"score": 0.6335, "turns": turns},
        "accuracy": {"accuracy_scores": [entry]},
    }


def put(file: str, *path: str, to: Any) -> Damage:
    """The damage that sets a value; a path begins in the file, an entry's is `entry`."""

    def damage(files: Files) -> None:
        place = files[file]
        *way, last = path
        for name in way:
            place = place["accuracy_scores"][0] if name == "entry" else place[name]
        place[last] = to

    return damage


def gone(file: str) -> Damage:
    return lambda files: files.update({file: None})


_RUNTIME, _CLIENT = ("settings", "runtime"), ("settings", "client")
_BLOCK = ("entry", "breakdown")
DAMAGES: dict[str, Damage] = {
    "nothing": lambda files: None,
    "temperature 0.5": put("config", "model_params", "temperature", to=0.5),
    "seed 41": put("config", "model_params", "seed", to=41),
    "no seed of the model": put("config", "model_params", "seed", to=None),
    "sampling seed 41": put("config", *_RUNTIME, "dataloader_random_seed", to=41),
    "two workers": put("config", *_CLIENT, "num_workers", to=2),
    "two connections": put("config", *_CLIENT, "max_connections", to=2),
    "concurrency 2": put("config", "settings", "load_pattern", "target_concurrency", to=2),
    "512 tokens": put("config", "model_params", "max_new_tokens", to=512),
    "4,096 tokens": put("config", "model_params", "max_new_tokens", to=4096),
    "no configuration": gone("config"),
    "one turn missing": put("scores", "turns", "missing", to=1),
    "one turn not observed": put("scores", "turns", "observed", to=1_005),
    "no turns": put("scores", "turns", to=None),
    "half of the turns": put(
        "scores", "turns", to={"issued": 503, "observed": 503, "expected": 503, "missing": 0}
    ),
    "no scores": gone("scores"),
    "overall 83.65": put("accuracy", *_BLOCK, "overall_accuracy", to=83.65),
    "overall 83.64": put("accuracy", *_BLOCK, "overall_accuracy", to=83.64),
    "normalized 85.33": put("accuracy", *_BLOCK, "normalized_single_turn_score", to=85.33),
    "normalized 85.32": put("accuracy", *_BLOCK, "normalized_single_turn_score", to=85.32),
    "overall as text": put("accuracy", *_BLOCK, "overall_accuracy", to="90.0"),
    "overall no number": put("accuracy", *_BLOCK, "overall_accuracy", to="high"),
    "overall above 100": put("accuracy", *_BLOCK, "overall_accuracy", to=1e6),
    "no normalized": put("accuracy", *_BLOCK, "normalized_single_turn_score", to=None),
    "994 questions": put("accuracy", *_BLOCK, "total_samples", to=994),
    "three answers missing": put("accuracy", "entry", "response_counts", "missing", to=3),
    "not complete": put("accuracy", "entry", "complete", to=False),
    "no accuracy": gone("accuracy"),
}
EXPLAINED = {
    "no seed of the model": "it requires 42 only of seeds that are set; the sampling seed is",
    **dict.fromkeys(
        ("512 tokens", "4,096 tokens"),
        "it does not read `max_new_tokens`; the README's run parameters require 1,024",
    ),
    "half of the turns": "it compares the turns with the run's own data, not with the 1,007 "
    "published ones",
    **dict.fromkeys(
        ("no scores", "no accuracy"),
        "it judges the files that exist, so a replay or a score passes by itself",
    ),
    "three answers missing": "it does not read `response_counts`",
    "not complete": "it does not read `complete`",
    "overall as text": "it converts text to a number",
    "overall no number": "it takes the entry's own score where the block has none",
    "overall above 100": "it has no upper bound",
}
"""By damage, why the official check passes what the rules fail."""


def facts_of(files: Files) -> list[ChatFacts]:
    """What the client's files say of both runs, for the rules."""
    config = files["config"] or {}
    sent = _sent(config) if config else {}
    turns = (files["scores"] or {}).get("turns") or {}
    issued, missing = turns.get("issued", 0), turns.get("missing", 0)
    lost = missing + max(0, turns.get("expected", 0) - turns.get("observed", 0))
    entry = ((files["accuracy"] or {}).get("accuracy_scores") or [{}])[0]
    block, counts = entry.get("breakdown", {}), entry.get("response_counts", {})
    asked = block.get("total_samples", 0)
    answered = asked - counts.get("missing", 0) if entry.get("complete") else 0
    names = {"overall": "overall_accuracy", "normalized": "normalized_single_turn_score"}
    scores = {name: block.get(key) for name, key in names.items()}
    whole = {n: v for n, v in scores.items() if isinstance(v, int | float) and 0 <= v <= 100}
    replay = ChatFacts(
        QWEN3_6_27B,
        "performance",
        sent,
        asked=issued,
        answered=issued - lost,
        expected=issued,
        # The file says how many are asked for, not how many were replayed.
        conversations=20 if issued == 1_007 else 0,
        accuracy_passed=True,
    )
    calls = ChatFacts(
        QWEN3_6_27B,
        "accuracy",
        sent,
        asked=asked,
        answered=answered,
        expected=asked,
        scores=whole,
        bfcl=True,
    )
    return [replay, calls]


def _sent(config: dict[str, Any]) -> dict[str, float | None]:
    model, settings = config["model_params"], config["settings"]
    seeds = {model.get("seed"), settings["runtime"]["dataloader_random_seed"]}
    client, load = settings["client"], settings["load_pattern"]
    at_once = (client["num_workers"], client["max_connections"], load["target_concurrency"])
    return {
        "temperature": model["temperature"],
        "seed": next(iter(seeds)) if len(seeds) == 1 else None,
        "max_tokens": model["max_new_tokens"],
        "concurrency": max(at_once),
    }


def failures(files: Files) -> list[str]:
    """The rules that fail, or that cannot be judged since the client's own files lack it."""
    needed = ("replay_settings", "accuracy_calling_settings")
    return [
        verdict.rule
        for facts in facts_of(files)
        for verdict in judge(facts)
        if verdict.status == "failed" or (verdict.status == "not judged" and verdict.rule in needed)
    ]


def _write(folder: Path, files: Files) -> None:
    for name, place in _PLACES.items():
        if files[name] is not None:
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            dump = yaml.safe_dump if path.suffix == ".yaml" else json.dumps
            path.write_text(dump(files[name]))


def _official(python: Path, folders: Iterable[Path]) -> dict[str, bool | str]:
    words = [str(python), "-c", _CHECK, *map(str, folders)]
    run = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    verdicts: dict[str, bool | str] = json.loads(run.stdout)
    return verdicts


PAGE = PAGES / "edge-agentic.md"
HEADER = "| change | why the official check passes it |"


def explained_rows(names: Iterable[str]) -> list[tuple[str, str]]:
    """The rows of the page: changes that both judge differently, by reason."""
    reasons: dict[str, list[str]] = {}
    for name in names:
        reasons.setdefault(EXPLAINED[name], []).append(name)
    return [("; ".join(changes), reason) for reason, changes in reasons.items()]


def main(arguments: list[str]) -> int:
    places = [argument for argument in arguments if argument != "--write"]
    python = Path(places[0]) if places else OFFICIAL_CLIENT / "bin" / "python"
    config = yaml.safe_load((python.parents[1] / "source" / EXAMPLE).read_text())
    differing, unexplained = [], 0
    with tempfile.TemporaryDirectory() as root:
        made = {}
        for number, (name, damage) in enumerate(DAMAGES.items()):
            files = honest(config)
            damage(files)
            folder = Path(root, str(number))
            _write(folder, files)
            made[name] = folder, files
        official = _official(python, (folder for folder, _ in made.values()))
    for name, (folder, files) in made.items():
        ours, theirs = failures(files), official[str(folder)]
        alike = (not ours) == (theirs is True)
        if not alike:
            differing += [name] if name in EXPLAINED else []
            unexplained += name not in EXPLAINED
        why = "" if alike else EXPLAINED.get(name, "NOT EXPLAINED")
        word = "passed" if theirs is True else "failed" if theirs is False else theirs
        print(f"| {name} | {', '.join(ours) or 'passed'} | {word} | {why} |")
    alike_count = len(made) - len(differing) - unexplained
    counts = f"{len(differing)} explained, {unexplained} not; {alike_count} alike"
    print(f"{len(made)} results, {counts}")
    if "--write" in arguments and not unexplained:
        write_cells(PAGE, HEADER, explained_rows(differing))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
