"""tests/ says each demand once: every rule of every run has a test, and every test its rule."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import fixtures.runs  # noqa: F401 - registers the fixtures
from meta_tests.made_runs import made_classes
from meta_tests.module_imports import imports_of
from meta_tests.plugin.pytest_output import pytest_output
from meta_tests.suite_runs import ROOT
from mlperf_suite.benchmarks.catalog import default_benchmarks, runnable
from mlperf_suite.feature import features
from mlperf_suite.loadgen.load_plan import MODES
from mlperf_suite.plugin.cases import RUNS_OF_FIXTURES
from mlperf_suite.rules import rules_for
from mlperf_suite.rules.registry import every_rule

TEST = re.compile(
    r'^def test_(\w+)\((\w+)\):\n    """([^"]+\.)(?:\n    )?"""\n'
    r"    \2\.obeys\((\w+)\.(\w+)\)\n",
    re.M,
)
OWN = made_classes()
OF_OWN = [
    f"mlperf_suite/features/{made.__module__.split('.')[2]}/tests/test_{mode}.py"
    for mode, made in OWN.items()
]
"""The files of features whose runs are of their own mode."""
for feature in features():
    if feature.plugin:
        import_module(feature.plugin)  # registers its fixtures
FILES = [
    str(path.relative_to(ROOT))
    for folder in ("tests", "mlperf_suite/features")
    for path in sorted((ROOT / folder).rglob("test_*.py"))
    if {fixture for _, fixture, *_ in TEST.findall(path.read_text())} & RUNS_OF_FIXTURES.keys()
]
"""The files whose tests are of rules of runs."""


# Each rule of each run has one test


def demands() -> Iterator[str]:
    """A line for each rule of each run that is collected by default."""
    for mode in (*MODES, *OWN):
        for benchmark in default_benchmarks()[: 1 if mode in OWN else None]:
            for scenario in benchmark.scenarios[: 1 if mode in OWN else None]:
                if mode in MODES[:2] or mode in OWN or benchmark.audit(mode) is not None:
                    for rule in rules_for(benchmark, scenario, mode):
                        yield f"{benchmark.id} {scenario.name} {rule.name}"


SAYS_RULES = """
def pytest_collection_finish(session):
    for item in session.items:
        params = item.callspec.params
        (key,) = [value.key for fixture, value in params.items() if fixture.endswith("_run")]
        name = params["metric"].lower() if "metric" in params else item.originalname[5:]
        prefix = "" if key.mode == "performance" else f"{key.mode}_"
        print(f"demand: {key.benchmark} {key.scenario} {prefix}{name.removeprefix(prefix)}")
"""


def test_every_rule_of_every_run_has_one_test(tmp_path: Path) -> None:
    (tmp_path / "says_rules.py").write_text(SAYS_RULES)
    options = ("--collect-only", "-q", "-p", "says_rules")
    output = pytest_output(*options, *FILES, *OF_OWN, python_path=str(tmp_path))
    lines = [line for line in output.splitlines() if line.startswith("demand: ")]
    assert sorted(line.removeprefix("demand: ") for line in lines) == sorted(demands())


def test_every_scenario_of_every_benchmark_has_a_file() -> None:
    names = {scenario.name.lower() for benchmark in runnable() for scenario in benchmark.scenarios}
    assert [name for name in names if f"tests/performance/test_{name}.py" not in FILES] == []


# What a test says of itself


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file).stem)
def test_a_test_is_named_after_the_rule_that_it_asks(file: str) -> None:
    """One step leads from a test, which has a docstring and asks one rule of its run, to the rule's
    function, and to the right one."""
    source = (ROOT / file).read_text()
    tests = TEST.findall(source)
    assert len(tests) == source.count("def test_") - source.count("def test_score(")
    modules = {name.rpartition(".")[2]: import_module(name) for name in imports_of(ROOT / file)}
    for name, fixture, _, module, rule in tests:
        check, kind = getattr(modules[module], rule), RUNS_OF_FIXTURES[fixture]
        assert name in {rule, *(f"{mode}_{rule}" for mode in kind.modes)}
        own = [r for r in every_rule() if r.check is check and r.subject in kind.modes]
        assert {scenario for r in own for scenario in r.scenarios} & set(kind.scenarios)
