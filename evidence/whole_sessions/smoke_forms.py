"""Accuracy runs of the language benchmarks' smoke forms, and what each must leave."""

from __future__ import annotations

import json
from pathlib import Path

from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.benchmarks.catalog import default_benchmarks, runnable
from mlperf_suite.benchmarks.definition import LOADGEN, Benchmark
from mlperf_suite.results.run_folder import read_summary, run_folders

# The other accuracy grade of Llama 2 70B differs in its gates alone.
ONE_OF_EACH = [
    benchmark
    for benchmark in runnable()
    if benchmark not in default_benchmarks()
    and benchmark.id != "llama2-70b-99"
    and benchmark.run_kind == LOADGEN
]


def accuracy_runs(folder: Path, *arguments: str) -> dict[str, SuiteRun]:
    """By the model, a session that makes an accuracy run of each benchmark with it."""
    ids_of: dict[str, list[str]] = {}
    for benchmark in ONE_OF_EACH:
        if benchmark.smoke is not None:
            ids_of.setdefault(benchmark.smoke.model, []).append(benchmark.id)
    return {
        model: run_suite(
            folder / model,
            *arguments,
            *(f"--benchmark={id_}" for id_ in ids),
            *("-m", "offline and accuracy"),
        )
        for model, ids in ids_of.items()
    }


def check_run(
    benchmark: Benchmark, sessions: dict[str, SuiteRun], *, may_be_fewer: bool = False
) -> None:
    """The benchmark's run went from its data to its verdicts."""
    assert benchmark.smoke is not None
    session = sessions[benchmark.smoke.model]
    assert session.exit_code == 0, session.output
    (folder,) = [p for p in run_folders(session.results_dir) if benchmark.id in p.name]
    summary = read_summary(folder)
    assert summary is not None
    verdicts = {v.rule: v for v in summary.verdicts}
    for name in benchmark.metrics:
        gate = verdicts[f"accuracy_{name.lower()}"]
        # Each has its figure, or a reason of its own: no compiler of a language, no sandbox.
        assert gate.status == "not judged"
        assert gate.found != "no figure" or name in ("mbxp", "exact_match"), gate
    for rule in ("accuracy_every_sample", "accuracy_generation"):
        assert verdicts[rule].status == "passed"
    accuracy = folder / "Accuracy"
    assert json.loads((accuracy / f"{benchmark.smoke.scorer.name}.json").read_text())
    # A slow engine gets fewer.
    samples = int(verdicts["accuracy_every_sample"].found.partition(" ")[0])
    own = benchmark.smoke.own_samples
    assert own is not None
    assert 0 < samples <= own if may_be_fewer else samples == own, samples
    assert benchmark.smoke.ungated in (folder / "report.md").read_text()
