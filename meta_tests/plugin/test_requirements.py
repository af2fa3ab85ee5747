"""tests/ says what is demanded: one test for each rule, and each test is of a rule that holds."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from meta_tests.conftest import ROOT
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.registry import default_benchmarks, runnable
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.mmlu.mmlu_rules import MMLU_RULES
from mlperf_suite.rules import RULES, rules, rules_for

FILES: dict[str, Mode] = {
    "tests/accuracy/test_accuracy.py": "accuracy",
    "tests/performance/test_offline.py": "performance",
    "tests/performance/test_server.py": "performance",
    "tests/performance/test_interactive.py": "performance",
    "tests/performance/test_singlestream.py": "performance",
    "tests/compliance/test_test06.py": "test06",
}
OF_ONE_SCENARIO = {
    f"tests/performance/test_{name.lower()}.py": name
    for name in ("Offline", "Server", "Interactive", "SingleStream")
}


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The ids of all tests of the suite, as pytest collects them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *FILES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {line for line in done.stdout.splitlines() if line.startswith("tests/")}


def demanded(file: str) -> Iterator[str]:
    """The ids of the tests that the rules ask for."""
    mode = FILES[file]
    for benchmark in default_benchmarks():
        for scenario in benchmark.scenarios:
            if OF_ONE_SCENARIO.get(file, scenario.name) != scenario.name:
                continue
            if mode in AUDIT_MODES and benchmark.audit(mode) is None:
                continue
            case = benchmark.id
            if file not in OF_ONE_SCENARIO:
                case = f"{benchmark.id}-{scenario.marker}"
            for rule in rules_for(benchmark, scenario, mode):
                if rule.metric:
                    yield f"{file}::test_score[{case}-{rule.name}]"
                else:
                    yield f"{file}::test_{rule.name}[{case}]"


@pytest.mark.parametrize("file", FILES)
def test_every_rule_has_its_test_and_every_test_its_rule(collected: set[str], file: str) -> None:
    wanted = set(demanded(file))
    assert wanted
    assert {name for name in collected if name.startswith(f"{file}::")} == wanted


def test_every_scenario_of_every_benchmark_has_a_file() -> None:
    names = {scenario.name for benchmark in runnable() for scenario in benchmark.scenarios}
    assert names == set(OF_ONE_SCENARIO.values())


# What a test says of itself


@dataclass(frozen=True)
class Told:
    """A test's own words: its name, its docstring, the fixture and the rule that it asks."""

    file: str
    name: str
    says: str | None
    fixture: str
    module: str | None
    rule: str


def told() -> Iterator[Told]:
    for file in FILES:
        for node in ast.parse((ROOT / file).read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name != "test_score":
                yield Told(file, node.name, ast.get_docstring(node), *_asked(node))


def _asked(test: ast.FunctionDef) -> tuple[str, str, str]:
    """`fixture.obeys(module.rule)` is all that a test does."""
    _, statement = test.body
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    call = statement.value.func
    (rule,) = statement.value.args
    assert isinstance(call, ast.Attribute) and call.attr == "obeys"
    assert isinstance(call.value, ast.Name)
    assert isinstance(rule, ast.Attribute) and isinstance(rule.value, ast.Name)
    assert [argument.arg for argument in test.args.args] == [call.value.id]
    return call.value.id, rule.value.id, rule.attr


@pytest.mark.parametrize("one", [*told()], ids=lambda one: f"{Path(one.file).stem}-{one.name}")
def test_a_test_is_named_after_the_rule_that_it_asks(one: Told) -> None:
    """One step leads from the test to the rule's function, and to the right one."""
    assert one.name == f"test_{one.rule}"
    assert one.says and one.says.endswith(".")
    check = getattr(getattr(rules, str(one.module)), one.rule)
    (rule,) = [rule for rule in RULES if rule.name == one.rule]
    assert rule.check is check
    assert rule.mode == FILES[one.file]
    if one.file in OF_ONE_SCENARIO:
        scenario = OF_ONE_SCENARIO[one.file]
        assert one.fixture == f"{scenario.lower()}_run"
        assert scenario in rule.scenarios
    else:
        assert one.fixture == f"{rule.mode}_run"


def test_mmlus_rules_have_their_tests() -> None:
    source = (ROOT / "tests/mmlu/test_mmlu.py").read_text()
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    names = {function.name for function in functions} - {"test_share"}
    assert names == {f"test_{rule}" for rule in MMLU_RULES}
    for rule in MMLU_RULES:
        assert f"def test_{rule}(mmlu_run):" in source
        assert f'mmlu_run.obeys("{rule}")' in source


# How people select


@pytest.mark.parametrize(
    ("selected", "found"),
    [
        (("-k", "min_duration"), 5),
        (("-k", "ttft or rouge1"), 7),
        (("-k", "accuracy_rouge1", "-m", "datacenter and not offline"), 2),
        (("-k", "min_duration", "--category", "Datacenter", "--scenario", "offline"), 1),
    ],
)
def test_the_names_people_select_by_lead_to_their_tests(
    selected: tuple[str, ...], found: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *selected],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("tests/")]
    assert len(lines) == found, done.stdout
