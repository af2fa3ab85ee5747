"""The language benchmarks' smoke forms: from the benchmark's data to its verdicts."""

from __future__ import annotations

import pytest

from evidence.whole_sessions.smoke_forms import ONE_OF_EACH, accuracy_runs, check_run
from meta_tests.suite_runs import SuiteRun
from mlperf_suite.benchmarks.definition import Benchmark


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SuiteRun]:
    plugin = ("-p", "meta_tests.stand_in_plugin", "--warmup=0")
    return accuracy_runs(tmp_path_factory.mktemp("runs"), *plugin)


@pytest.mark.parametrize("language_benchmark", ONE_OF_EACH, ids=lambda b: b.id)
def test_a_smoke_run_goes_from_data_to_verdict(
    language_benchmark: Benchmark, sessions: dict[str, SuiteRun]
) -> None:
    check_run(language_benchmark, sessions)
