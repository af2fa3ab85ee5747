"""What is said of the runs under a folder."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from meta_tests.made_runs import MadeRun, write_run
from meta_tests.suite_runs import PYTEST
from meta_tests.tampering.rule_breaks import AGREEMENT
from meta_tests.warm_pytest import run_warm
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.judging.judge import VerdictGroup, judge_folder
from mlperf_suite.loadgen.logs import ACCURACY
from mlperf_suite.rules import rule_named

ROOT = Path(__file__).resolve().parents[2]
V5_1, V6_0, V6_1 = ROUNDS["v5.1"], ROUNDS["v6.0"], ROUNDS["v6.1"]
RESULT = Path("results/box/llama3.1-8b/Server")
"""A result of the submissions that made submissions have."""
ACCURACY_TOO = "accuracy_passed"


def failures_by_run(root: Path, round_: Any = None) -> dict[str, list[str]]:
    return {j.name: j.failed_rules for j in judge_folder(root, round_) if j.failed_rules}


ALSO_SEEN = AGREEMENT | {"accuracy_log_ends", "accuracy_log_tokens", "submission_upload"}
"""The rules that may see a damage with its own rule: those that compare what a result says in two
places, and the one on hidden and empty folders."""


def independent_failures(root: Path, round_: Any = None) -> dict[str, list[str]]:
    """As `failures_by_run`, without the rules that compare figures with one another."""
    return {
        name: [rule for rule in rules if rule.removeprefix("run_2-") not in ALSO_SEEN]
        for name, rules in failures_by_run(root, round_).items()
    }


def known_rules(rules: Iterable[str]) -> list[str]:
    """The rules without those of features that were deleted."""
    return [rule for rule in rules if rule_named(rule)]


def verdict_lines(root: Path, rule: str) -> list[str]:
    return [v.line for j in judge_folder(root) for v in j.verdicts if v.rule == rule]


def by_name(root: Path) -> dict[str, VerdictGroup]:
    return {j.name: j for j in judge_folder(root)}


def broken_rules(root: Path, round_: Round) -> list[str]:
    """The rules that the suite finds broken in a tree, each once, without accuracy_passed."""
    rules = dict.fromkeys(
        rule for subject in judge_folder(root, round_) for rule in subject.failed_rules
    )
    rules.pop("accuracy_passed", None)
    return list(rules)


def modes_of(folder: Path, run: MadeRun) -> set[str]:
    """The modes of which a run's logs are taken to be."""
    write_run(folder, run)
    (folder / ACCURACY).write_text(run.accuracy_json)
    (judged,) = judge_folder(folder)
    return set(judged.modes)


def pytest_run(*arguments: str) -> tuple[int, str]:
    """The status and output of a session of the suite."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    command = (*PYTEST[3:], "-p", "no:cacheprovider", *arguments)
    return run_warm(command, environment, 1800.0)
