"""MMLU's questions shared by engines: a share that dies, and that two real engines make the result
of one."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from meta_tests.suite_runs import run_suite
from mlperf_suite.results.run_folder import run_folders

ARGUMENTS = ("-m", "mmlu", "-p", "meta_tests.scoring_plugin")
TWO_WORKERS = ("-n", "2", "--dist", "loadgroup")


def samples(folder: Path) -> list[dict[str, str]]:
    with (folder / "samples.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_share_that_dies_fails_the_result(tmp_path: Path) -> None:
    scoring = json.dumps({"engines": 2, "fail_after": 30})
    died = run_suite(tmp_path, *ARGUMENTS, *TWO_WORKERS, SCORING=scoring)
    # A worker that asks for the end of the session is an interruption to pytest-xdist.
    assert died.exit_code in (1, 2)
    # One share's end ends the session, and the other may have come less far by then.
    assert 30 <= len(samples(died.folder)) <= 60
    assert died.summary.meta.status == "failed"


def test_one_engine_stays_on_one_worker(tmp_path: Path) -> None:
    alone = run_suite(tmp_path, *ARGUMENTS, *TWO_WORKERS, "-v")
    assert alone.exit_code == 0, alone.output
    assert len({line[:5] for line in alone.output.splitlines() if line.startswith("[gw")}) == 1
    assert len(run_folders(alone.results_dir)) == 1


def test_two_real_engines_make_the_result_of_one(tmp_path: Path) -> None:
    results = []
    for name, plugin in (("one", ()), ("two", (*TWO_WORKERS, "-p", "evidence.mmlu.two_engines"))):
        arguments = ("-m", "mmlu", "--mmlu-limit=57", *plugin)
        run = run_suite(tmp_path / name, *arguments)
        assert run.exit_code == 0, run.output
        results.append([(row["subject"], row["pred"]) for row in samples(run.folder)])
    assert len(list((tmp_path / "two").glob("2*/engine-*.log"))) == 1
    same = sum(first == second for first, second in zip(*results, strict=True))
    # Two engines batch other questions together, and bf16 rounds by what is batched.
    assert same >= len(results[0]) - 2
