"""Which tests are run, in which order, and what is said of the others."""

from pathlib import Path

import pytest

from meta_tests.plugin.pytest_output import (
    collect,
    collected_tests,
    pytest_output,
    reasons,
    usage_error,
)


def test_what_cannot_be_run_here_is_said_once_with_its_reason() -> None:
    output = collect()
    sentence = reasons(output)
    for words in ("regression tests (no --baseline for it)", "1 test of logs (no --logs)"):
        assert words in sentence
    assert output.count("not selected:") == output.count("plan: ") == 1
    assert "[none]" not in output and "NOTSET" not in output


def test_an_option_that_narrows_is_the_reason() -> None:
    for option in ("--category edge", "--scenario Server", "--mode accuracy"):
        assert f"({option})" in reasons(collect(*option.split()))
    assert "not selected" not in collect("tests/performance/test_offline.py")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("tests/performance/test_regression.py",),
            "no --baseline for it: leaves nothing to run of 'the tests named'",
        ),
        (
            ("tests/compliance/test_logs.py",),
            "no --logs: leaves nothing to run of 'the tests named'",
        ),
        (("-m", "accuracy", "--repeat", "2"), "--repeat 2: no performance run is among"),
        (
            ("-m", "edge", "--scenario", "Server"),
            "--scenario Server: leaves nothing to run of 'edge",
        ),
    ],
)
def test_what_leaves_nothing_to_do_is_a_usage_error(
    arguments: tuple[str, ...], message: str
) -> None:
    assert message in usage_error(*arguments)


def test_without_a_pytest_benchmark_that_works_there_is_no_record_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "pytest_benchmark-5.2.3.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: pytest-benchmark\nVersion: 5.2.3\n")
    (folder / "entry_points.txt").write_text("[pytest11]\nbenchmark = pytest_benchmark.plugin\n")
    arguments = ("--collect-only", "-q", "-m", "performance")
    old = pytest_output(*arguments, python_path=str(tmp_path))
    for output in (old, pytest_output(*arguments, "-p", "no:benchmark")):
        assert "1 benchmark record (no pytest-benchmark 5.3.1 or newer)" in reasons(output)
        assert "::test_run[" not in output


def test_tests_stand_in_the_order_of_the_plan() -> None:
    """All that is asked of a run stands together, and the runs as they are made."""
    kinds = [_kind(test) for test in collected_tests("-m", "datacenter and not compliance")]
    in_order = list(dict.fromkeys(kinds))
    assert [kind for kind, before in zip(kinds[1:], kinds, strict=False) if kind != before] == (
        in_order[1:]
    )
    assert in_order == [
        f"{scenario} {mode}" for scenario in SCENARIOS for mode in ("accuracy", "performance")
    ]


SCENARIOS = ("offline", "server", "interactive")


def _kind(test: str) -> str:
    test = test.removeprefix("mlperf_suite/features/servers/")
    (scenario,) = [name for name in SCENARIOS if name in test]
    is_accuracy = any(part in test for part in ("/test_accuracy.py", "-accuracy]", "issue_order"))
    return f"{scenario} {'accuracy' if is_accuracy else 'performance'}"


def test_only_the_benchmark_that_is_named_is_collected() -> None:
    """Cases of every benchmark would make collecting slow for who runs one."""
    tests = collected_tests("--benchmark", "llama2-70b-99", "-m", "offline")
    assert tests
    assert all("llama2-70b-99" in name for name in tests)
    audits = {name.partition("::")[0] for name in tests if "/compliance/" in name}
    assert audits == {f"tests/compliance/test_{name}.py" for name in ("audits", "test06")}
    assert not any(
        "llama2" in name or "test07" in name for name in collected_tests("-m", "offline")
    )


# The plan


@pytest.mark.parametrize("argument", ["--plan", "--collect-only"])
def test_a_plan_is_shown_and_runs_nothing(tmp_path: Path, argument: str) -> None:
    results = tmp_path / "results"
    output = pytest_output(argument, "-m", "offline and edge", f"--results-dir={results}")
    (start,) = [line for line in output.splitlines() if line.startswith("plan: ")]
    assert "6 steps" in start
    for words in ("load the engine", "Offline accuracy: warm-up", "Offline performance"):
        assert words in output
    assert ("ready: model, data, folders are" in output) is (argument == "--plan")
    assert not {"passed", "failed"} & set(output.split())
    assert not results.exists()
    output = pytest_output(argument, "-m", "server", f"--results-dir={results}")
    assert "llama3.1-8b Offline performance (for Server's rate)" in output


def test_a_plan_checks_what_a_run_would_and_says_how_long_mlperf_asks_for(tmp_path: Path) -> None:
    results = f"--results-dir={tmp_path}/results"
    official = ("--plan", "-m", "server and performance", "--profile=official", results)
    both = ("--model=/no/such", "--dataset=/no/such.json")
    output = pytest_output(*official, "--server-target-qps=1", *both, code=4)
    errors = [line.split(":")[1] for line in output.splitlines() if line.startswith("ERROR: ")]
    # Each cause once, also where several checks meet it.
    assert errors == [" --model /no/such", " --dataset /no/such.json"]
    assert "3. probe" in output
    assert "(at least 10 min 0 s by MLPerf's minimum durations; the time is estimated" in output
    blocked = tmp_path / "file"
    blocked.touch()
    output = pytest_output("--plan", "-m", "offline", f"--results-dir={blocked}/results", code=4)
    assert "cannot be written" in output
    assert list(tmp_path.iterdir()) == [blocked]
