"""A submission with PTDaemon's sessions: each in its place, of its own run, and judged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_tests.made_power import write_session
from meta_tests.submission.result_folders import failed_rules, files, write_result
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
    assert files(performance) == {
        *(f"power/{file}" for file in ("client.json", "client.log", "ptd_logs.txt")),
        *("power/server.json", "power/server.log"),
        *(
            f"{mode}/{file}"
            for mode in ("ranging", "run_1")
            for file in ("mlperf_log_detail.txt", "mlperf_log_summary.txt", "spl.txt")
        ),
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


def test_a_session_of_another_run_is_refused(tmp_path: Path, submit: Submit) -> None:
    runs, power = make(tmp_path)
    log = power / "Server" / "run_1" / DETAIL
    log.write_text(log.read_text() + "\n")
    status, output = submit(runs, "--power", str(power))
    assert status == 2
    assert "Server: its run_1/ is the performance run of none of the results" in output
    assert not (tmp_path / "tree").exists()


def test_two_sessions_of_one_run_are_refused(tmp_path: Path, submit: Submit) -> None:
    runs, power = make(tmp_path)
    shutil.copytree(power / "Offline", power / "again")
    status, output = submit(runs, "--power", str(power))
    assert status == 2 and "llama3.1-8b Offline has" in output


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_that_is_no_session_is_said(tmp_path: Path, submit: Submit, exists: bool) -> None:
    runs, power = make(tmp_path)
    shutil.rmtree(power)
    if exists:
        power.mkdir()
    status, output = submit(runs, "--power", str(power))
    assert status == 2 and f"--power {power}: " in output


def test_a_measurement_that_breaks_a_rule_is_refused_by_its_name(
    tmp_path: Path, submit: Submit
) -> None:
    runs, power = make(tmp_path)
    (power / "Offline" / "run_1" / "spl.txt").write_text("")
    status, output = submit(runs, "--power", str(power))
    assert status == 2
    assert "power_samples: found no sample from" in output and "power_checksums" in output
    assert not (tmp_path / "tree").exists()
