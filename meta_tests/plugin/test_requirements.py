"""tests/ says each demand once: every rule of every run has a test, and every test its rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fixtures.runs  # noqa: F401 - registers the fixtures
from meta_tests.plugin.pytest_output import collected_tests, pytest_output
from meta_tests.suite_runs import ROOT
from mlperf_suite import rules
from mlperf_suite.benchmarks.catalog import default_benchmarks, runnable
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.loadgen.load_plan import CACHING, MODES
from mlperf_suite.plugin.cases import RUN_KINDS
from mlperf_suite.rules import rules_for
from mlperf_suite.rules.registry import RULES, rules_of

FILES = (
    "tests/test_consistency.py",
    "tests/accuracy/test_accuracy.py",
    *(f"tests/performance/test_{name}.py" for name in ("performance", "offline", "server")),
    *(f"tests/performance/test_{name}.py" for name in ("interactive", "singlestream", "replay")),
    "tests/accuracy/test_function_calls.py",
    *(
        f"tests/compliance/test_{name}.py"
        for name in ("audits", "test06", "test07", "test09", "test01")
    ),
    "tests/compliance/test_caching.py",
)
"""The files whose tests are of rules of runs."""


# Each rule of each run has one test


def demands() -> Iterator[str]:
    """A line for each rule of each run that is collected by default."""
    for mode in MODES:
        for benchmark in default_benchmarks()[: 1 if mode == CACHING else None]:
            for scenario in benchmark.scenarios[: 1 if mode == CACHING else None]:
                if mode in MODES[:2] or mode == CACHING or benchmark.audit(mode) is not None:
                    for rule in rules_for(benchmark, scenario, mode):
                        yield f"{benchmark.id} {scenario.name} {rule.name}"


SAYS_RULES = """
def pytest_collection_finish(session):
    for item in session.items:
        params = item.callspec.params
        (key,) = [value for fixture, value in params.items() if fixture.endswith("_run")]
        name = params["metric"].lower() if "metric" in params else item.originalname[5:]
        prefix = "" if key.mode == "performance" else f"{key.mode}_"
        print(f"demand: {key.benchmark} {key.scenario} {prefix}{name.removeprefix(prefix)}")
"""


def test_every_rule_of_every_run_has_one_test(tmp_path: Path) -> None:
    (tmp_path / "says_rules.py").write_text(SAYS_RULES)
    options = ("--collect-only", "-q", "-p", "says_rules")
    output = pytest_output(*options, *FILES, python_path=str(tmp_path))
    lines = [line for line in output.splitlines() if line.startswith("demand: ")]
    assert sorted(line.removeprefix("demand: ") for line in lines) == sorted(demands())


def test_every_scenario_of_every_benchmark_has_a_file() -> None:
    names = {scenario.name.lower() for benchmark in runnable() for scenario in benchmark.scenarios}
    assert [name for name in names if f"tests/performance/test_{name}.py" not in FILES] == []


# What a test says of itself


@dataclass(frozen=True)
class Demand:
    """A test's own words: its name, its docstring, the fixture and the rule that it asks."""

    file: str
    name: str
    text: str | None
    fixture: str
    module: str
    rule: str


def demands_in_words() -> Iterator[Demand]:
    for file in FILES:
        for node in ast.parse((ROOT / file).read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name != "test_score":
                yield Demand(file, node.name, ast.get_docstring(node), *_obeys(node))


def _obeys(test: ast.FunctionDef) -> tuple[str, str, str]:
    """`fixture.obeys(module.rule)` is all that a test does."""
    _, statement = test.body
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    call = statement.value.func
    (rule,) = statement.value.args
    assert isinstance(call, ast.Attribute) and call.attr == "obeys"
    assert isinstance(call.value, ast.Name)
    assert [argument.arg for argument in test.args.args] == [call.value.id]
    assert isinstance(rule, ast.Attribute) and isinstance(rule.value, ast.Name)
    return call.value.id, rule.value.id, rule.attr


@pytest.mark.parametrize(
    "demand", [*demands_in_words()], ids=lambda demand: f"{Path(demand.file).stem}-{demand.name}"
)
def test_a_test_is_named_after_the_rule_that_it_asks(demand: Demand) -> None:
    """One step leads from the test to the rule's function, and to the right one."""
    assert demand.text and demand.text.endswith(".")
    check = getattr(getattr(rules, demand.module), demand.rule)
    kind = RUN_KINDS[demand.fixture]
    names = {demand.rule, *(f"{mode}_{demand.rule}" for mode in kind.modes)}
    assert demand.name.removeprefix("test_") in names
    own = [rule for rule in RULES if rule.check is check and rule.subject in kind.modes]
    assert {name for rule in own for name in rule.scenarios} & set(kind.scenarios)


def test_mmlus_rules_have_their_tests() -> None:
    source = (ROOT / "tests/mmlu/test_mmlu.py").read_text()
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    names = {function.name for function in functions} - {"test_share"}
    mmlu_rules = [rule.name for rule in rules_of("mmlu")]
    assert names == {f"test_{rule}" for rule in mmlu_rules}
    for rule in mmlu_rules:
        assert f"def test_{rule}(mmlu_run):" in source
        assert f'mmlu_run.obeys("{rule}")' in source


LIMITS = re.compile(r"^ {4}(\S+) +([\d,]+) +([\d,]+)$", re.M)


@pytest.mark.parametrize("name", ["Server", "Interactive"])
def test_the_limits_in_words_are_those_of_the_benchmarks(name: str) -> None:
    source = (ROOT / f"tests/performance/test_{name.lower()}.py").read_text()
    limits = {row[0]: (_ms(row[1]), _ms(row[2])) for row in LIMITS.findall(source)}
    scenarios: dict[str, Scenario] = {
        benchmark.id.removesuffix("-99").removesuffix("-99.9"): scenario
        for benchmark in runnable()
        for scenario in benchmark.scenarios
        if scenario.name == name
    }
    official = {id_: scenario.limits for id_, scenario in scenarios.items()}
    assert limits == {id_: (ms["ttft"], ms["tpot"]) for id_, ms in official.items() if "ttft" in ms}
    ttft_ms, tpot_ms = limits["llama3.1-8b"]
    assert f"TTFT p99 is below {ttft_ms:,} ms" in source
    assert f"TPOT p99 is below {tpot_ms:,} ms" in source


def _ms(text: str) -> int:
    return int(text.replace(",", ""))


# How people select


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("-k", "min_duration"), 5),
        (("-k", "ttft or rouge1"), 7),
        (("-k", "accuracy_time_stamps"), 5),
        (("-k", "time_stamps"), 10),
        (("-k", "accuracy_rouge1", "-m", "datacenter and not offline"), 2),
        (("-k", "min_duration", "--category", "Datacenter", "--scenario", "offline"), 1),
    ],
)
def test_the_names_people_select_by_lead_to_their_tests(
    options: tuple[str, ...], count: int
) -> None:
    assert len(collected_tests(*options)) == count
