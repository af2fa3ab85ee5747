"""A submission with PTDaemon's sessions: each in its place, of its own run, and judged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_tests.features.submission.result_folders import failed_rules, files, write_result
from meta_tests.made_power import write_session
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.rules.registry import rules_of

SCENARIOS = ("Offline", "Server")
Submit = Callable[..., tuple[int, str]]


def make(folder: Path, round_: str = "v6.1") -> tuple[list[Path], Path]:
    """Results of two scenarios, and a folder with the session of each."""
    runs = []
    for name in SCENARIOS:
        scenario = LLAMA3_1_8B.scenario(name)
        run = write_result(folder / "results", LLAMA3_1_8B, scenario, ROUNDS[round_])
        write_session(folder / "ptd" / name, run / "Performance")
        runs.append(run)
    return runs, folder / "ptd"


@pytest.mark.parametrize("name", ["v5.1", "v6.1"])
def test_each_session_lies_where_the_round_wants_it(
    tmp_path: Path, submit: Submit, name: str
) -> None:
    runs, power = make(tmp_path, name)
    status, output = submit(runs, "--power", str(power), round_=name)
    assert status == 0, output
    performance = next((tmp_path / "tree").glob("closed/*/results/*/*/Offline/performance"))
    of_power = ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log")
    of_runs = ("mlperf_log_detail.txt", "mlperf_log_summary.txt", "spl.txt")
    assert files(performance) == {f"power/{file}" for file in of_power} | {
        f"{mode}/{file}" for mode in ("ranging", "run_1") for file in of_runs
    }
    judged = [v for j in judge_folder(tmp_path / "tree", ROUNDS[name]) for v in j.verdicts]
    power_rules = {rule.name for rule in rules_of("power")}
    assert sum(v.rule in power_rules for v in judged) == 2 * len(power_rules)
    assert failed_rules(tmp_path / "tree") == {}
    (server,) = performance.glob("power/server.json")
    server.write_text(json.dumps({**json.loads(server.read_text()), "debug": True}))
    assert list(failed_rules(tmp_path / "tree").values()) == [["power_debug"]]


def test_a_folder_may_be_one_session_and_a_result_without_one_is_no_power_result(
    tmp_path: Path, submit: Submit
) -> None:
    runs, power = make(tmp_path)
    status, output = submit(runs, "--power", str(power / "Offline"))
    assert status == 0, output
    names = {path.parents[1].name for path in (tmp_path / "tree").rglob("performance/power")}
    assert names == {"Offline"}


def of_another_run(power: Path) -> None:
    log = power / "Server" / "run_1" / DETAIL
    log.write_text(log.read_text() + "\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (of_another_run, "Server: its run_1/ is the performance run of none of the results"),
        (lambda power: shutil.copytree(power / "Offline", power / "again"), "8b Offline has"),
        (shutil.rmtree, "--power "),
        (lambda power: [*map(shutil.rmtree, power.iterdir())], "--power "),
        (
            lambda power: (power / "Offline" / "run_1" / "spl.txt").write_text(""),
            "power_samples: found no sample from",
        ),
    ],
    ids=["other run", "two of a run", "absent", "no session", "breaks a rule"],
)
def test_what_is_no_session_of_the_results_is_refused(
    tmp_path: Path, submit: Submit, change: Callable[[Path], object], words: str
) -> None:
    runs, power = make(tmp_path)
    change(power)
    status, output = submit(runs, "--power", str(power))
    assert status == 2 and words in output
    assert not (tmp_path / "tree").exists()
