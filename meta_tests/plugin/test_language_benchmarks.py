"""The language benchmarks' smoke forms: from the benchmark's data to its verdicts."""

import pytest

from meta_tests.plugin.pytest_output import collected_tests
from meta_tests.plugin.smoke_forms import ONE_OF_EACH, accuracy_runs, check_run
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
