"""The language benchmarks' smoke forms: a real engine from the benchmark's data to its verdicts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from meta_tests.conftest import ROOT, run_suite
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.registry import BENCHMARKS, default_benchmarks, runnable

OTHERS = [b for b in runnable() if b not in default_benchmarks()]
# The other accuracy grade of Llama 2 70B differs in its gates alone.
ONE_OF_EACH = [b for b in OTHERS if b.id != "llama2-70b-99"]


def test_every_language_benchmark_can_be_run() -> None:
    assert set(runnable()) == set(BENCHMARKS.values())


@pytest.mark.parametrize("one", ONE_OF_EACH, ids=lambda b: b.id)
def test_a_smoke_run_goes_from_data_to_verdict(one: Benchmark, tmp_path: Path) -> None:
    run = run_suite(tmp_path, "--benchmark", one.id, "-m", "offline and accuracy")
    assert run.exit_code == 0, run.output
    statuses = run.statuses()
    gates = [f"accuracy_{name.lower()}" for name in one.metrics]
    assert {statuses[gate] for gate in gates} == {"not judged"}
    whys = {v.rule: v.why for v in run.summary.verdicts}
    assert all("small model" in whys[gate] or "not judged" in whys[gate] for gate in gates), whys
    assert statuses["accuracy_every_sample"] == statuses["accuracy_generation"] == "passed"
    assert one.smoke is not None
    scores = json.loads((run.folder / "Accuracy" / f"{one.smoke.scorer.name}.json").read_text())
    answers = json.loads((run.folder / "Accuracy" / "samples.json").read_text())
    assert scores
    assert len(answers) == one.smoke.own_samples


def collected(*options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if line.startswith("tests/")]


def test_only_the_benchmark_that_is_named_is_collected() -> None:
    """Cases of every benchmark would make collecting slow for who runs one."""
    found = collected("--benchmark", "gpt-oss-120b", "-m", "offline")
    assert found
    assert all("gpt-oss-120b" in name for name in found)
    audits = {name.partition("::")[0] for name in found if "/compliance/" in name}
    assert audits == {"tests/compliance/test_test07.py", "tests/compliance/test_test09.py"}
    assert not any("gpt-oss" in name or "test07" in name for name in collected("-m", "offline"))
