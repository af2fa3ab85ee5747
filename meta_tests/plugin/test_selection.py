"""Which tests are run, in which order, and what is said of the others."""

import socket
from pathlib import Path

import pytest

from meta_tests.plugin.pytest_output import collected_tests, pytest_output
from mlperf_suite.rules.registry import rules_of


def collect(*arguments: str, code: int = 0) -> str:
    return pytest_output("--collect-only", "-q", *arguments, code=code)


def reasons(output: str) -> str:
    """The lines that say what is not selected, as one."""
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("not selected: "))
    sentence = [lines[start]]
    for line in lines[start + 1 :]:
        if not line.startswith("  ") or line.lstrip()[:1] == "<":
            break
        sentence.append(line)
    assert max(map(len, sentence)) <= 80
    return " ".join(line.strip() for line in sentence)


def test_what_cannot_be_run_here_is_said_once_with_its_reason() -> None:
    output = collect()
    sentence = reasons(output)
    for words in ("regression tests (no --baseline for it)", "1 test of logs (no --logs)"):
        assert words in sentence
    assert "2 rate searches (no --find-peak-qps)" in sentence
    assert "1 test of MMLU's shares (one engine)" in sentence
    assert output.count("not selected:") == output.count("plan: ") == 1
    assert "[none]" not in output and "NOTSET" not in output


def test_an_option_that_narrows_is_the_reason() -> None:
    for option in ("--category edge", "--scenario Server", "--mode accuracy"):
        assert f"({option})" in reasons(collect(*option.split()))
    assert "not selected" not in collect("tests/performance/test_offline.py")


OF_SERIES = ("--series=endpoints", "--endpoint=http://127.0.0.1:1", "--client=inference-endpoint")


def test_the_series_selects_its_curve_alone() -> None:
    tests = collected_tests(*OF_SERIES)
    assert tests and all("test_curve.py" in test for test in tests)
    assert tests == collected_tests(*OF_SERIES[1:], "-m", "curve")
    assert "(--series endpoints)" in reasons(collect(*OF_SERIES))


def test_a_profile_is_of_performance_runs_and_leaves_no_record() -> None:
    output, tests = collect("--profile-run=torch"), collected_tests("--profile-run=torch")
    assert tests and set(tests) <= set(collected_tests("-m", "performance"))
    assert not any("test_run.py" in test for test in tests)
    assert "(--profile-run makes performance runs)" in reasons(output)
    assert "benchmark record (--profile-run makes no result)" in reasons(output)
    assert "--profile-seconds: can only be used with" in collect("--profile-seconds=1", code=4)
    output = collect("--profile-run=torch", "--repeat=2", code=4)
    assert "--repeat: cannot be used with --profile-run torch" in output


def test_mmlu_is_of_no_benchmark_category_and_scenario() -> None:
    assert "test_mmlu_score" in collect()
    assert "test_mmlu_score" not in collect("--benchmark", "llama3.1-8b")
    assert "test_mmlu_score" in collect("--mode", "accuracy")
    assert "test_mmlu_score" not in collect("--mode", "performance")


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
        (
            ("mlperf_suite/features/peak_search/tests", "-m", "server"),
            "no --find-peak-qps: leaves nothing to run of 'server'",
        ),
        (("-m", "mmlu", "--scenario", "Offline"), "--scenario Offline: leaves nothing to run"),
        (("-m", "offline", "--find-peak-qps"), "--find-peak-qps: no search is among"),
        (("-m", "accuracy", "--repeat", "2"), "--repeat 2: no performance run is among"),
        ((*OF_SERIES, "-m", "server"), "--series endpoints: leaves nothing to run of 'server'"),
        ((*OF_SERIES, "--scenario=Server"), "--scenario Server, --series endpoints: leaves"),
        (OF_SERIES[:1], "--series: can only be used with --endpoint URL"),
        (OF_SERIES[:2], "--series endpoints: can only be used with --client inference-endpoint"),
        ((*OF_SERIES, "--benchmark=llama3.1-8b-edge"), "cannot be measured with --series endpoin"),
    ],
)
def test_what_leaves_nothing_to_do_is_a_usage_error(
    arguments: tuple[str, ...], message: str
) -> None:
    output = collect(*arguments, code=4)
    (line,) = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    assert message in line


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
    tests = collected_tests("--benchmark", "gpt-oss-120b", "-m", "offline")
    assert tests
    assert all("gpt-oss-120b" in name for name in tests)
    audits = {name.partition("::")[0] for name in tests if "/compliance/" in name}
    assert audits == {f"tests/compliance/test_{name}.py" for name in ("audits", "test07", "test09")}
    assert not any(
        "gpt-oss" in name or "test07" in name for name in collected_tests("-m", "offline")
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


def test_a_collection_for_an_endpoint_asks_nobody_and_a_plan_asks(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        output = pytest_output(
            *("--collect-only", "-q", "-m", "server or mmlu", *of_server(port)),
            f"--results-dir={tmp_path}/results",
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    for words in (
        "1. connect to the endpoint",
        "connect to the endpoint for MMLU",
        "estimated once the endpoint answered and was probed",
    ):
        assert words in output
    assert "load the engine" not in output
    refused = pytest_output("--plan", "-m", "server", *of_server(port), code=4)
    assert f"ERROR: http://127.0.0.1:{port}: " in refused
    assert not (tmp_path / "results").exists()


def of_server(port: int) -> tuple[str, ...]:
    return (f"--endpoint=http://127.0.0.1:{port}",)


# The caching audit


def test_the_caching_audit_makes_no_other_selection_longer() -> None:
    tests = collected_tests("-m", "datacenter or edge or accuracy or performance or mmlu")
    assert len(tests) > 100
    assert not [test for test in tests if "test_caching" in test]


@pytest.mark.parametrize(
    ("options", "audited"),
    [((), "llama3.1-8b"), (("--category", "edge"), "llama3.1-8b-edge")],
)
def test_the_caching_audit_is_made_once_for_a_model(options: tuple[str, ...], audited: str) -> None:
    """The benchmarks of the smoke profile answer with the same model."""
    tests = collected_tests(
        "-m", "compliance", "mlperf_suite/features/caching_audit/tests", *options
    )
    assert len(tests) == len(rules_of("caching"))
    assert {test.partition("[")[2] for test in tests} == {f"{audited}]"}
