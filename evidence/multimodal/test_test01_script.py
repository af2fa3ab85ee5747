"""TEST01's official script and the suite's rules on the same logs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evidence.from_elsewhere import INFERENCE, needs_inference
from meta_tests.made_runs import MadeRun
from meta_tests.tampering.rule_breaks import verdict_on
from mlperf_suite.benchmarks.definition import WORD_ACCURACY
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.multimodal.whisper import TEST01, WHISPER
from mlperf_suite.loadgen.logs import AccuracyLog
from mlperf_suite.rules.facts import ComparedRuns

OFFLINE = WHISPER.scenario("Offline")


def _with_an_answer(run: MadeRun, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
    first, *rest = run.answers
    run.answers = [replace(first, token_ids=change(tuple(first.token_ids))), *rest]


def write(folder: Path, run: MadeRun) -> None:
    folder.mkdir(parents=True)
    (folder / "mlperf_log_detail.txt").write_text(run.detail_text)
    (folder / "mlperf_log_summary.txt").write_text(run.summary)
    (folder / "mlperf_log_accuracy.json").write_text(run.accuracy_json)


@needs_inference
@pytest.mark.parametrize(
    ("fault", "passes", "officially"),
    [
        ("none", True, True),
        ("first token", False, False),
        # Which the official script does not look at.
        ("last token", False, True),
        ("rate", False, False),
    ],
)
def test_the_official_script_on_the_same_logs(
    tmp_path: Path, fault: str, passes: bool, officially: bool
) -> None:
    accuracy, performance, audit = (
        MadeRun(WHISPER, OFFLINE, mode, ROUNDS["v6.1"])
        for mode in ("accuracy", "performance", "test01")
    )
    if fault == "first token":
        _with_an_answer(audit, lambda ids: (12, *ids[1:]))
    elif fault == "last token":
        _with_an_answer(audit, lambda ids: (*ids[:-1], 12))
    elif fault == "rate":
        audit.entries["result_samples_per_second"] *= 0.89
    write(tmp_path / "results" / "accuracy", accuracy)
    write(tmp_path / "results" / "performance" / "run_1", performance)
    write(tmp_path / "audit", audit)
    script = INFERENCE / "compliance" / "TEST01" / "run_verification.py"
    folders = ["-r", "results", "-c", "audit", "-o", "out", "--dtype", "int32"]
    command = [sys.executable, str(script), *folders]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    names = (TEST01.verified_in, str(TEST01.also_verified_in))
    words = [(tmp_path / name).read_text() for name in names]
    assert all("TEST PASS" in text for text in words) is officially, json.dumps(words)
    audit.compared = ComparedRuns(
        AccuracyLog(tuple(accuracy.answers)),
        {WORD_ACCURACY: 90.0},
        performance.entries["result_samples_per_second"],
    )
    own = [verdict_on(audit.facts(), f"test01_{rule}") for rule in ("same_answers", "same_rate")]
    assert all(verdict.passed for verdict in own) is passes
