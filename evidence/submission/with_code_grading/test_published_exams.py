"""The proof's data for the benchmarks whose answers are exams and programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.submission.made_data import PROBLEMS, Published
from evidence.submission.published import PUBLISHED
from evidence.submission.replay_plugin import pytest_mlperf_load_engine
from evidence.submission.runs import ProofRun, inputs_of, proof_runs
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.datasets.samples import Sample


def test_a_scenario_is_run_from_the_round_on_that_offers_it() -> None:
    sessions = {(run.round, run.benchmark, run.scenario) for run in proof_runs(tuple(ROUNDS))}
    assert ("v5.1", "deepseek-r1", "Interactive") not in sessions
    assert ("v6.0", "deepseek-r1", "Interactive") in sessions
    assert "gpt-oss-120b" not in {
        benchmark for round_, benchmark, _ in sessions if round_ == "v5.1"
    }
    (id_,) = {run.benchmark for run in proof_runs(["v6.1"], ["mixtral-8x7b", "deepseek-r1"])}
    assert id_ == "deepseek-r1"


def test_the_answers_of_gpt_oss_are_as_long_as_test09_wants(
    folder_of: Callable[[str], Path],
) -> None:
    benchmark = BENCHMARKS["gpt-oss-120b"]
    audit = benchmark.audit("test09")
    assert audit is not None and audit.mean_tokens is not None
    prepared = json.loads((folder_of(benchmark.id) / benchmark.id / "answers.json").read_text())
    lengths = [tokens for _, _, tokens in prepared["test09"]]
    low, high = audit.mean_tokens
    assert low * 1.05 < sum(lengths) / len(lengths) < high / 1.05


def test_the_problems_are_those_that_the_answers_solve(folder_of: Callable[[str], Path]) -> None:
    for id_, published in PUBLISHED.items():
        if published.problems is not None:
            lines = (folder_of(id_) / id_ / PROBLEMS).read_text().splitlines()
            question_ids = {json.loads(line)["question_id"] for line in lines}
            assert _questions(published) == question_ids


def _questions(published: Published) -> set[object]:
    accuracy_samples = published.samples(published.modes["accuracy"])
    rows = [sample.row for sample in accuracy_samples]
    return {r["ground_truth"] for r in rows if "livecodebench" in str(r["dataset"])}


def test_the_engine_answers_each_mode_with_what_was_prepared_for_it(
    folder_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = "gpt-oss-120b"
    folder, benchmark = folder_of(id_), BENCHMARKS[id_]
    run = ProofRun("v6.1", id_, "Offline")
    answers = run.answers(folder) | {"paces": {"accuracy": {"samples_per_s": 1000}}}
    monkeypatch.setenv("REPLAY", json.dumps(answers))
    inputs = inputs_of(id_, folder)
    engine = pytest_mlperf_load_engine(inputs)
    try:
        for mode in ("accuracy", "test07", "performance"):
            ids = engine._answer(inputs.prompts(benchmark, mode)[3])
            sample: Sample = inputs.samples(benchmark, mode).items[3]
            text = inputs.tokenizer.decode(ids)
            assert text.startswith("<|channel|>analysis<|message|>==")
            assert text.endswith("<|return|>") and sample.reference in text
    finally:
        engine.close()
