"""Result folders of the official client, drawn and no measurement, and the command that submits
them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from meta_tests.features.submission.result_folders import submission_words, write_system
from meta_tests.made_client import write_client_submission
from mlperf_suite.__main__ import main
from mlperf_suite.features.submission_check.submission_rules import MEASUREMENT_FIELDS

SCENARIOS = ("Offline", "Server", "Interactive")


def client_folders(root: Path, name: str = "llama3.1-8b") -> dict[str, Path]:
    """The client's folder of each scenario of a benchmark."""
    submission = write_client_submission(root / "made", name, SCENARIOS, with_events="Server")
    folders = {}
    for scenario in SCENARIOS:
        folders[scenario] = root / f"client-{scenario.lower()}"
        shutil.move(submission / "results/box" / name / scenario, folders[scenario])
        for file in ("measurements.json", "README.md"):
            (folders[scenario] / file).unlink()
    shutil.rmtree(root / "made")
    return folders


def submit(root: Path, *results: str, round_: str = "v6.1", measurements: bool = True) -> int:
    """Build <root>/tree of results; the command's exit status."""
    weights = root / "weights.json"
    weights.write_text(json.dumps(dict.fromkeys(MEASUREMENT_FIELDS, "made up")))
    more = {"--measurements": str(weights)} if measurements else {}
    words = submission_words(
        results, write_system(root, "box"), root / "tree", **{"--round": round_}, **more
    )
    return main(words)
