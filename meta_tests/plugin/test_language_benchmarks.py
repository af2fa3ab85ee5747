"""The language benchmarks' smoke forms: from the benchmark's data to its verdicts."""

from __future__ import annotations

import json

import pytest

from meta_tests.plugin.pytest_output import collected_tests
from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.benchmarks.catalog import BENCHMARKS, default_benchmarks, runnable
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.results.run_folder import read_summary, run_folders

OTHERS = [b for b in runnable() if b not in default_benchmarks()]
# The other accuracy grade of Llama 2 70B differs in its gates alone.
ONE_OF_EACH = [b for b in OTHERS if b.id != "llama2-70b-99" and not b.chats]
MODELS = sorted({b.smoke.model for b in ONE_OF_EACH if b.smoke is not None})


def test_every_language_benchmark_can_be_run() -> None:
    assert {b.id for b in runnable()} == set(BENCHMARKS)


STAND_IN = ("-p", "meta_tests.stand_in_plugin", "--warmup=0")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(STAND_IN, id="stand-in"),
        pytest.param((), id="real engine", marks=pytest.mark.slow),
    ],
)
def sessions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, SuiteRun]:
    """An accuracy run of each, one session for each model."""
    of_model = {
        model: [b.id for b in ONE_OF_EACH if b.smoke is not None and b.smoke.model == model]
        for model in MODELS
    }
    return {
        model: run_suite(
            tmp_path_factory.mktemp("runs"),
            *request.param,
            *(word for id_ in ids for word in ("--benchmark", id_)),
            *("-m", "offline and accuracy"),
        )
        for model, ids in of_model.items()
    }


@pytest.mark.parametrize("language_benchmark", ONE_OF_EACH, ids=lambda b: b.id)
def test_a_smoke_run_goes_from_data_to_verdict(
    language_benchmark: Benchmark, sessions: dict[str, SuiteRun]
) -> None:
    benchmark = language_benchmark
    assert benchmark.smoke is not None
    one_session = sessions[benchmark.smoke.model]
    assert one_session.exit_code == 0, one_session.output
    (folder,) = [p for p in run_folders(one_session.results_dir) if benchmark.id in p.name]
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
    assert verdicts["accuracy_every_sample"].found == f"{benchmark.smoke.own_samples} samples"
    assert benchmark.smoke.ungated in (folder / "report.md").read_text()


def test_only_the_benchmark_that_is_named_is_collected() -> None:
    """Cases of every benchmark would make collecting slow for who runs one."""
    tests = collected_tests("--benchmark", "gpt-oss-120b", "-m", "offline")
    assert tests
    assert all("gpt-oss-120b" in name for name in tests)
    audits = {name.partition("::")[0] for name in tests if "/compliance/" in name}
    assert audits == {f"tests/compliance/test_{name}.py" for name in ("audits", "test07", "test09")}
    assert not any(
        "gpt-oss" in name or "test07" in name for name in collected_tests("-m", "offline")
    )
