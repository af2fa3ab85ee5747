"""Which trials are ended early, and on which evidence."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from mlperf_suite.features.tuning.early_end import cut_by_probe, leader_of, rejection, watch_of
from mlperf_suite.features.tuning.early_stopping import AccuracyCheck, Estimate, cannot_win
from mlperf_suite.features.tuning.probing import Work
from mlperf_suite.features.tuning.space import Settings, Trial
from mlperf_suite.features.tuning.trial_run import Measured
from mlperf_suite.session.timing.estimate import Speed

BEST = Estimate(math.log(100), 0.02)
WORK = Work(samples=10, prompt=100, answer=50)
SLOW: Settings = {"max_num_seqs": 16}


def run_of(rate: float, probe: float, cut: str = "") -> Measured:
    return Measured(Trial({}, rate, cut=cut), "001", work=WORK, probe=probe)


def kept(folder: Path, **files: object) -> Path:
    """A results folder with one run."""
    run = folder / "20261125-000000-llama3.1-8b-offline"
    (run / "Accuracy").mkdir(parents=True)
    for name, content in files.items():
        path = run / ("Accuracy/rouge_samples.json" if name == "scores" else f"{name}.json")
        path.write_text(json.dumps(content))
    return folder


def scored(
    folder: Path, mean: float, values: list[float | None] | None = None, verdict: str = "passed"
) -> Path:
    """A results folder with one run of this mean, and of the values around it or these."""
    rule = {"rule": "accuracy_rouge1", "status": verdict, "found": "", "required": "", "why": ""}
    score = {"name": "rouge1", "value": mean, "unit": "%", "low": 30.0}
    accuracy = {"total_samples": 60, "scores": [score]}
    summary = {"schema_version": 6, "run": {"accuracy": accuracy}, "verdicts": [rule]}
    values = values or [mean + n % 5 - 2 for n in range(60)]
    scores = {"dataset_sha256": "d", "scores": {"rouge1": values}}
    return kept(folder, summary=summary, scores=scores)


def test_a_probe_far_below_the_leaders_cuts_the_trial() -> None:
    leader = leader_of(BEST, [run_of(100, 80), run_of(60, 48), run_of(90, 71)], "tokens/s")
    assert leader
    trial = cut_by_probe(SLOW, leader, 48)
    assert trial and trial.rate == pytest.approx(60)
    assert trial.settings == SLOW
    assert trial.cut == "its probe stands for 60 tokens/s ± 5%, the best have 100"
    assert cut_by_probe(SLOW, leader, 76) is None, "5% below is within the probe's error"


def test_only_what_cannot_win_is_cut_and_more_looks_need_more_distance() -> None:
    leader = Estimate(math.log(1000), 0.02)
    assert [cannot_win(rate, 0.05, leader) for rate in (1000, 890, 870)] == [False, False, True]
    assert not cannot_win(870, 0.05, leader, looks=10)
    check = AccuracyCheck(40.0)
    assert not check.rejects([0.0] * 39) and check.rejects([0.0] * 40), "39 are too few to say"


def test_probes_that_say_little_cut_little() -> None:
    leader = leader_of(BEST, [run_of(100, 80), run_of(60, 30), run_of(90, 110)], "tokens/s")
    assert leader and leader.error > 0.3
    assert cut_by_probe(SLOW, leader, 48) is None


def test_without_a_probed_run_nothing_is_cut() -> None:
    unprobed = Measured(Trial({}, 100.0), "001")
    assert leader_of(BEST, [unprobed, run_of(50, 40, cut="as a cut one is no run")], "") is None
    assert leader_of(None, [run_of(100, 80)], "") is None


def test_a_running_trial_is_cut_when_its_speed_is_known(tmp_path: Path) -> None:
    first = run_of(100, 80)
    leader = leader_of(BEST, [first, run_of(60, 48), run_of(90, 71)], "tokens/s")
    watch = watch_of(SLOW, leader, first, tmp_path / "none")
    assert watch(kept(tmp_path / "002", config={})) is None
    # The speed of an engine that does the work at 40 tokens/s, all of it while decoding.
    speed = dataclasses.asdict(Speed(0.0, WORK.samples / 40, 0.0))
    trial = watch(kept(tmp_path / "003", config={"speed": speed}))
    assert trial and trial.rate == pytest.approx(50)


def test_scores_that_lose_against_the_defaults_reject(tmp_path: Path) -> None:
    reference = scored(tmp_path / "001", 40)
    why = "accuracy: rouge1 38 where the default has 40 on the same samples"
    assert rejection(scored(tmp_path / "002", 38), reference) == why
    assert rejection(reference, reference) == ""
    assert rejection(scored(tmp_path / "003", 39.9), reference) == ""


def test_scores_are_compared_sample_by_sample(tmp_path: Path) -> None:
    def without(missing: int, lost: float) -> list[float | None]:
        return [None if n == missing else 90.0 * (n % 2) + 5 - lost for n in range(400)]

    reference = scored(tmp_path / "001", 50, without(0, 0))
    worse = scored(tmp_path / "002", 46, without(399, 4))
    assert rejection(worse, reference), "each sample but the unscored ones lost the same"
    assert rejection(scored(tmp_path / "003", 50, [None] * 400), reference) == ""


def test_a_gate_that_failed_ends_the_trial(tmp_path: Path) -> None:
    folder = scored(tmp_path / "002", 10, verdict="failed")
    assert rejection(folder, tmp_path / "none") == "failed accuracy_rouge1"
    trial = watch_of(SLOW, None, None, tmp_path / "none")(folder)
    assert trial == Trial(SLOW, reason="failed accuracy_rouge1")
    assert rejection(tmp_path / "nothing yet", tmp_path / "none") is None
