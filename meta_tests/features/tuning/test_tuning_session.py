"""`pytest -m tune`: what is searched under the session's options, and what its tests demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_tests.plugin.pytest_output import collected_tests, pytest_output

PLUGIN = """
from mlperf_suite.features.tuning import tune as module
from mlperf_suite.features.tuning.claim import Gain, TuningResult

def tune(request, say):
    say(f"asked: {request.minutes:g} {request.target.name} {request.out} {list(request.options)}")
    return TuningResult({}, {}, **CLAIM)

module.tune = tune
"""
WINNER = 'CLAIM = {"gain": Gain(0.6, 0.5, 0.7, 5), "pairs": [None] * 5}\nTuningResult.costs = [1]'
BROKEN = 'CLAIM = {"failure": "the candidate failed in the pairs: accuracy_rouge1"}'


def session(folder: Path, claim: str, *options: str, code: int = 0) -> str:
    (folder / "tuned.py").write_text(f"{PLUGIN}\n{claim}\n")
    (folder / "space.toml").write_text("max_num_seqs = [1]\n")
    own = f"--minutes 7 --target curve --space {folder}/space.toml --serve 'x {{flags}} {{port}}'"
    words = ("-m", "tune", "-p", "tuned", f"--results-dir={folder}", f"--tune={own}", *options)
    return pytest_output(*words, code=code, python_path=str(folder))


def test_a_winner_passes_with_a_warning_and_options_reach_every_run(tmp_path: Path) -> None:
    options = ("--model=org/small", "--allow-other-model")
    output = session(tmp_path, WINNER, *options)
    assert f"asked: 7 curve {tmp_path}/tuning [" in output
    assert "'-p', 'tuned', '--model=org/small', '--allow-other-model']" in output
    assert "4 passed" in output
    assert "UserWarning: +60.0% over the default" in output


def test_a_candidate_that_broke_the_gate_fails_and_no_better_settings_are_an_answer(
    tmp_path: Path,
) -> None:
    output = session(tmp_path, BROKEN, code=1)
    assert "1 failed, 3 passed" in output
    assert "the candidate failed in the pairs: accuracy_rouge1" in output
    assert "4 passed" in session(tmp_path, "CLAIM = {}")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--minutes 0", "--minutes 0: must be a number above 0 and below 100,000"),
        ("--hours 1", "unknown: --hours"),
        ("--minutes '1", "No closing quotation"),
    ],
)
def test_options_that_cannot_be_are_one_line(tmp_path: Path, option: str, reason: str) -> None:
    assert f"--tune: {reason}" in session(tmp_path, "CLAIM = {}", f"--tune={option}", code=1)


def test_nothing_is_searched_unless_asked_by_name() -> None:
    assert not [test for test in collected_tests() if "test_tune" in test]
