"""Judging submissions in both layouts: what is right."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.judging.trees import (
    ALSO_SEEN,
    RESULT,
    V5_1,
    V6_0,
    V6_1,
    broken_rules,
    failures_by_run,
    known_rules,
    pytest_run,
    verdict_lines,
)
from meta_tests.made_runs import MADE_MS, MadeRun, as_printed, write_run
from meta_tests.suite_runs import run_python
from meta_tests.tampering.trees import HONEST_TREES, round_of_tree, unpack
from mlperf_suite.benchmarks.catalog import judged_in_trees
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99, LLAMA2_70B_99_9
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.llama3_1_405b import LLAMA3_1_405B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL
from mlperf_suite.reports.sections import significant
from mlperf_suite.rules.verdict import time_words

NEWEST_ROUNDS = [(row, ROUNDS[row.rounds[-1]]) for row in judged_in_trees()]
OTHER_ROUNDS = [(LLAMA3_1_8B, V5_1), (LLAMA3_1_8B, V6_0), (LLAMA2_70B_99, V6_1)]
"""The last of which no longer has that benchmark."""


@pytest.mark.parametrize(
    ("row", "round_"),
    [*NEWEST_ROUNDS, *OTHER_ROUNDS],
    ids=lambda item: getattr(item, "id", getattr(item, "name", "")),
)
def test_a_submission_that_obeys_all_rules_passes(tmp_path: Path, row: Any, round_: Any) -> None:
    # Audits with all answers are 66 MB in each scenario.
    scenarios = ("Offline", "Server") if row.audit("test09") else None
    write_submission(tmp_path, row, round_, scenarios=scenarios)
    wrong = failures_by_run(tmp_path)
    of_round = [] if round_.name in row.rounds else ["benchmark_of_round"]
    if of_round and any(scenario.rounds for scenario in row.scenarios):
        of_round.append("scenarios_known")
    # A scenario of the official client alone is not among LoadGen's logs.
    by_client = any(round_.name in scenario.rounds for scenario in row.of_client)
    absent = ["required_scenarios"] if by_client else []
    # TEST09's log of all answers is too large to be uploaded before it is cut.
    absent += ["submission_upload"] if row.audit("test09") else []
    assert sorted(name for rules in wrong.values() for name in rules) == of_round + absent
    assert {j.round.name for j in judge_folder(tmp_path)} == {round_.name}


@pytest.mark.parametrize("name", HONEST_TREES)
def test_logs_that_loadgen_wrote_obey_every_rule(name: str, tmp_path: Path) -> None:
    assert broken_rules(unpack(name, tmp_path), round_of_tree(name)) == []


@pytest.mark.parametrize(("division", "failed"), [("closed", True), ("open", False)])
def test_an_open_submission_may_have_its_own_vocabulary(
    tmp_path: Path, division: Any, failed: bool
) -> None:
    submission = write_submission(
        tmp_path, LLAMA3_1_8B, V6_1, division=division, scenarios=("Server",)
    )
    (log,) = submission.glob(f"results/*/*/*/accuracy/{ACCURACY}")
    log.write_text(re.sub(r'("data" : ")[0-9A-F]{8}', r"\g<1>FFFFFF7F", log.read_text()))
    (line,) = verdict_lines(tmp_path, "accuracy_answers")
    assert (": failed:" in line) is failed


def test_an_open_submission_may_have_its_own_names(tmp_path: Path) -> None:
    write_submission(tmp_path, LLAMA3_1_8B, V6_1, division="open", name="my-llama")
    mapping = tmp_path / "open/Someone/model_mapping.json"
    assert list(failures_by_run(tmp_path).values()) == [["benchmark_known"]]
    mapping.write_text(json.dumps({"my-llama": "llama3.1-8b", "other": 3}))
    assert failures_by_run(tmp_path) == {}


def test_any_folder_of_a_submission_may_be_given(submission: Path, tmp_path: Path) -> None:
    assert len(judge_folder(tmp_path / "closed")) == 5
    assert len(judge_folder(submission)) == 5
    by_name_of_part = {j.name: j for j in judge_folder(submission / RESULT)}
    assert set(by_name_of_part) == {"Someone-box-llama3.1-8b", "Someone-box-llama3.1-8b-Server"}
    assert all(not j.failed_rules for j in by_name_of_part.values())


def copies_found(root: Path) -> list[str]:
    return [line for line in verdict_lines(root, "logs_of_its_own") if ": failed" in line]


@pytest.mark.parametrize("copied", ["accuracy", "performance"])
def test_a_run_is_of_one_model(tmp_path: Path, copied: Any) -> None:
    rows = (LLAMA3_1_8B, LLAMA3_1_405B)
    for row in rows:
        write_submission(tmp_path, row, V6_0, scenarios=("Offline",))
    assert copies_found(tmp_path) == []
    first, second = (
        tmp_path / "closed/Someone/results/box" / row.id / "Offline" / copied for row in rows
    )
    shutil.copytree(first, second, dirs_exist_ok=True)
    lines = copies_found(tmp_path)
    assert len(lines) == 2
    for row in rows:
        assert f"found the run of box {row.id} Offline" in "".join(lines)


@pytest.mark.parametrize(("factor", "copies"), [(1, 2), (1 + 5e-7, 2), (1 + 5e-6, 0)])
def test_other_last_digits_are_the_same_run(tmp_path: Path, factor: float, copies: int) -> None:
    for system in ("box", "other"):
        write_submission(tmp_path, LLAMA3_1_8B, V6_0, system=system, scenarios=("Server",))
    result = tmp_path / "closed/Someone/results/other/llama3.1-8b/Server"
    for name, old, new in (
        (DETAIL, "03-04-2026", "03-05-2026"),
        (ACCURACY, '"seq_id" : 0', '"seq_id" : 1'),
        ("accuracy.txt", "hash=0", "hash=1"),
    ):
        file = result / "accuracy" / name
        file.write_text(file.read_text().replace(old, new))
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance", V6_0)
    for key in [key for key in run.entries if re.match("result_.*(latency_ns|output_token)", key)]:
        run.entries[key] = round(run.entries[key] * factor)
    write_run(result / "performance/run_1", run)
    assert len(copies_found(tmp_path)) == copies


@pytest.mark.parametrize(("faster", "failed"), [(990, False), (1010, True)])
def test_a_far_faster_accuracy_run_is_anothers(tmp_path: Path, faster: int, failed: bool) -> None:
    submission = write_submission(tmp_path, LLAMA3_1_8B, V6_1, scenarios=("Offline",))
    offline = LLAMA3_1_8B.scenario("Offline")
    run = MadeRun(LLAMA3_1_8B, offline, "performance", V6_1)
    rate = run.entries["generated_samples_per_query"] / (run.ended_ms - MADE_MS)
    accuracy = MadeRun(LLAMA3_1_8B, offline, "accuracy", V6_1)
    answers = accuracy.entries["generated_samples_per_query"]
    accuracy.ended_ms = MADE_MS + answers / (faster * rate)
    write_run(submission / "results/box/llama3.1-8b/Offline/accuracy", accuracy)
    (line_,) = verdict_lines(tmp_path, "same_system")
    assert (": failed:" in line_) is failed


def test_a_deterministic_system_may_log_the_same_answers_twice(tmp_path: Path) -> None:
    """Two scenarios then have one hash; the same hash of different logs is another log's."""
    submission = write_submission(tmp_path, LLAMA3_1_8B, V6_0, scenarios=("Server", "Interactive"))
    results = submission / "results/box" / LLAMA3_1_8B.id
    for name in (ACCURACY, "accuracy.txt"):
        shutil.copyfile(results / "Server/accuracy" / name, results / "Interactive/accuracy" / name)
    assert copies_found(tmp_path) == []
    log = results / "Interactive/accuracy" / ACCURACY
    log.write_text(log.read_text().replace('"seq_id" : 0', '"seq_id" : 1', 1))
    assert len(copies_found(tmp_path)) == 2


@pytest.mark.parametrize(("factor", "failed"), [(1.499, False), (1.501, True)])
def test_a_server_rate_far_above_offlines_is_anothers(
    submission: Path, tmp_path: Path, factor: float, failed: bool
) -> None:
    server, offline = (LLAMA3_1_8B.scenario(name) for name in ("Server", "Offline"))
    run = MadeRun(LLAMA3_1_8B, server, "performance", V6_1)
    at_once = MadeRun(LLAMA3_1_8B, offline, "performance", V6_1)
    run.entries[server.metric] = as_printed(factor * at_once.entries[offline.metric])
    write_run(submission / RESULT / "performance/run_1", run)
    lines = verdict_lines(tmp_path, "rate_of_offline")
    assert [line for line in lines if ": failed" in line] == [lines[-1]] * failed


@pytest.mark.parametrize("other", ["open/Someone", "closed/Another"])
def test_another_division_or_submitter_has_logs_of_its_own(tmp_path: Path, other: str) -> None:
    first = write_submission(tmp_path, LLAMA3_1_8B, V6_1, scenarios=("Server",))
    shutil.copytree(first, tmp_path / other)
    lines = copies_found(tmp_path)
    assert all(name in "".join(lines) for name in (f"of {other} box", "of closed/Someone box"))


@pytest.mark.parametrize(("scenario", "copies"), [("Offline", 0), ("Server", 2)])
def test_answers_in_a_servers_order_are_of_one_system(
    tmp_path: Path, scenario: str, copies: int
) -> None:
    """Systems of one kind may give the same answers in Offline, as in public results."""
    for number, system in enumerate(("box", "other")):
        folder = write_submission(tmp_path, LLAMA3_1_8B, V6_0, system=system, scenarios=(scenario,))
        for mode in ("accuracy", "performance/run_1"):
            log = folder / "results" / system / LLAMA3_1_8B.id / scenario / mode / DETAIL
            # Another day, and other latencies.
            text = log.read_text().replace("03-04-2026", f"03-0{4 + number}-2026")
            log.write_text(re.sub(r'(latency_ns", "value": )\d', rf"\g<1>{1 + number}", text))
    assert len(copies_found(tmp_path)) == copies


@pytest.mark.parametrize(
    ("row", "rouge1", "low", "high"),
    [
        (LLAMA3_1_8B, 38.5, [], ["accuracy_rouge1", "accuracy_passed"]),
        (LLAMA3_1_8B, 38.75, [], []),
        (LLAMA2_70B_99, 44.3, [], ["accuracy_rouge1", "accuracy_passed"]),
        (LLAMA2_70B_99_9, 44.3, *[["accuracy_rouge1", "accuracy_passed"]] * 2),
    ],
)
def test_high_accuracy_only_makes_a_gate_stricter(
    tmp_path: Path, row: Any, rouge1: Any, low: Any, high: Any
) -> None:
    write_submission(tmp_path, row, V6_0, scenarios=("Offline", "Server"))
    folder = Path("closed/Someone/results/box") / row.id / "Server/accuracy"
    txt = tmp_path / folder / "accuracy.txt"
    txt.write_text(re.sub(r"'rouge1': [\d.]+", f"'rouge1': {rouge1}", txt.read_text()))
    for high_accuracy, rules in ((False, low), (True, high)):
        judged = judge_folder(tmp_path, high_accuracy=high_accuracy)
        assert [rule for group in judged for rule in group.failed_rules] == rules


def test_figures_and_each_failure_once_with_what_to_run_next(
    submission: Path, tmp_path: Path
) -> None:
    """In the terminal, on a page and as CSV."""
    log = submission / RESULT / "performance/run_1" / DETAIL
    log.write_text(log.read_text().replace("600000", "60000"))
    page, table = tmp_path / "logs.html", tmp_path / "logs.csv"
    files = f"--logs-html={page}", f"--logs-csv={table}"
    status, output = pytest_run("-m", "compliance", f"--logs={tmp_path}", "-q", *files)
    name = "Someone-box-llama3.1-8b-Server"
    assert status == 1
    claim = "contradicts itself" if known_rules(["validity_agrees"]) else "not valid"
    assert f"{name} v6.1: {claim}; " in output and "FAILED tests/" not in output
    assert re.search(
        rf"min_duration: FAILED in 1 result: .*\n  found 60 s, .*\n    {name}\n", output
    )
    assert output.count("required at least 600 s") == 1
    row = next(r for r in csv.DictReader(table.read_text().splitlines()) if r["result"] == name)
    failures = row["failed_rules"].split()
    assert set(failures) - ALSO_SEEN == {"min_duration"} and row["claim"] == claim
    assert float(row["score_rouge1"]) == 38.7792 and "rouge1 38.78" in output
    tokens, ttft = float(row["tokens_per_sec"]), float(row["ttft_p99_ms"])
    for figure in (significant(tokens), time_words(ttft)):
        assert f" {figure} " in output and f">{figure}<" in page.read_text()
    again = f'pytest --logs {tmp_path} -k "'
    assert again in output and "min_duration" in output.partition(again)[2].partition('"')[0]


def test_the_high_gate_is_asked_for_by_its_option(submission: Path, tmp_path: Path) -> None:
    txt = submission / RESULT / "accuracy/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "38.5"))
    status, output = pytest_run(
        "-m", "compliance", f"--logs={tmp_path}", "-q", "--high-accuracy", "-rf"
    )
    assert status == 1
    wrong = set(re.findall(r"FAILED .*-(accuracy_\w+)\]", output))
    assert wrong == {"accuracy_rouge1", "accuracy_passed"}


def test_judging_loads_no_engine(submission: Path, tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from mlperf_suite.judging.judge import judge_folder\n"
        f"assert judge_folder(pathlib.Path({str(tmp_path)!r}))\n"
        "heavy = {'vllm', 'torch', 'transformers', 'mlperf_loadgen', 'datasets'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    process = run_python("-c", code)
    assert process.returncode == 0, process.stderr
