"""MMLU's questions shared by engines: what becomes of a share, and that two real engines make the
result of one."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from meta_tests.suite_runs import run_suite
from mlperf_suite.features.mmlu.mmlu_questions import SUBJECTS
from mlperf_suite.features.mmlu.shares import split_subjects
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


def few_questions(folder: Path) -> str:
    """MMLU's questions for a session: twelve of two subjects each, which lm-eval reads at once."""
    data = folder / "mmlu"
    data.mkdir(parents=True, exist_ok=True)
    for subject in ("anatomy", "virology"):
        rows = [f"What of {subject} is {number}?,1,2,3,4,A\n" for number in range(12)]
        (data / f"{subject}_test.csv").write_text("".join(rows))
    return str(data)


def test_two_engines_make_the_result_of_one(tmp_path: Path) -> None:
    words = ("--mmlu-shots=0", f"--mmlu-data={few_questions(tmp_path)}")
    alone = run_suite(tmp_path / "alone", *ARGUMENTS, *words)
    scoring = json.dumps({"engines": 2})
    shared = run_suite(tmp_path / "shared", *ARGUMENTS, *TWO_WORKERS, *words, SCORING=scoring)
    assert shared.exit_code == 0, shared.output
    assert [p.name for p in run_folders(shared.results_dir)] == [shared.folder.name]
    assert not list(shared.results_dir.glob(".mmlu-*"))
    assert "of 24 questions" in shared.output
    for name in ("overall.json", "by_domain.json", "by_subject.json"):
        assert (shared.folder / name).read_text() == (alone.folder / name).read_text()


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


@given(
    st.dictionaries(st.sampled_from(SUBJECTS), st.integers(1, 20), min_size=1), st.integers(1, 9)
)
def test_shares_are_disjoint_whole_and_even(sizes: dict[str, int], count: int) -> None:
    ranges = {subject: range(size) for subject, size in sizes.items()}
    parts = split_subjects(ranges, count)
    assert len(parts) == count
    merged: dict[str, range] = {}
    for part in parts:
        assert not merged.keys() & part.keys()
        merged |= part
    assert merged == ranges
    loads = [sum(map(len, part.values())) for part in parts]
    assert max(loads) - min(loads) <= max(sizes.values())
