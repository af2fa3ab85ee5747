"""The search and the claim on simulated engines: 10,000 settings, 5% noise, a known optimum."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning.conditions import conditions_of
from mlperf_suite.features.tuning.early_end import (
    cut_by_probe,
    early_end_check,
    leader_of,
    rejection,
)
from mlperf_suite.features.tuning.early_stopping import AccuracyCheck, Estimate, cannot_win
from mlperf_suite.features.tuning.search import TuningSearch
from mlperf_suite.features.tuning.space import Choice, Settings, Space, Trial
from mlperf_suite.features.tuning.trial_run import MeasuredTrial, Work
from mlperf_suite.features.tuning.tuning_result import Gain, gain_of
from mlperf_suite.session.timing.estimate import EngineSpeed
from perf.simulated_engines import TRIALS, one_optimum


def test_a_search_begins_with_the_default_and_ends_near_the_optimum() -> None:
    engine = one_optimum(0)
    search = TuningSearch(engine.space, 0)
    for number in range(TRIALS):
        search.add(engine.measure(search.following(number / TRIALS)))
    assert search.trials[0].settings == {n: choices[0] for n, choices in engine.space.items()}
    share = engine.share(search.best())
    assert share and share > 0.95


def test_a_space_of_millions_is_sampled() -> None:
    space = {name: tuple(range(20)) for name in "abcdef"}
    search = TuningSearch(space, seed=0)
    for number in range(3):
        search.add(Trial(search.following(number / 3), 100.0 + number, 0.01))
    assert search.following(0.9).keys() == space.keys()


def test_a_gain_of_three_times_the_noise_is_claimed_with_its_interval() -> None:
    gain = gain_of([100, 98, 101, 99, 102], [116, 115, 117, 114, 118])
    assert gain.is_better
    assert gain.low < 0.16 < gain.high
    assert gain.words.startswith("+16.0% over the default (+")
    assert Gain(0.01, -0.02, 0.04, 5).words == (
        "no better than the default (+1.0%, -2.0% to +4.0%, 5 pairs)"
    )
    with pytest.raises(ValueError, match="4 pairs; a claim needs 5"):
        gain_of([1.0] * 4, [2.0] * 4)


# Which trials are ended early, and on which evidence


BEST = Estimate(math.log(100), 0.02)
WORK = Work(samples=10, prompt=100, answer=50)
SLOW: Settings = {"max_num_seqs": 16}


def run_of(rate: float, probe: float, cut: str = "") -> MeasuredTrial:
    return MeasuredTrial(Trial({}, rate, cut=cut), "001", work=WORK, probe=probe)


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


def test_a_running_trial_is_cut_when_its_speed_is_known(tmp_path: Path) -> None:
    first = run_of(100, 80)
    leader = leader_of(BEST, [first, run_of(60, 48), run_of(90, 71)], "tokens/s")
    watch = early_end_check(SLOW, leader, first, tmp_path / "none")
    assert watch(kept(tmp_path / "002", config={})) is None
    # The speed of an engine that does the work at 40 tokens/s, all of it while decoding.
    speed = dataclasses.asdict(EngineSpeed(0.0, WORK.samples / 40, 0.0))
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
    trial = early_end_check(SLOW, None, None, tmp_path / "none")(folder)
    assert trial == Trial(SLOW, reason="failed accuracy_rouge1")
    assert rejection(tmp_path / "nothing yet", tmp_path / "none") is None


# Which settings may be tried together


SPACE: Space = {
    "seqs": (None, 16, 64, 256),
    "tokens": (None, 32, 128),
    "eager": (None, True, False),
    "graph": (None, 8, 512),
}


ORDER = '[[when]]\nseqs = [16, 64]\nonly = "tokens >= seqs"'


def file_with(folder: Path, text: str) -> Path:
    file = folder / "space.toml"
    file.write_text(f"{text}\n")
    return file


def test_an_order_of_two_settings(tmp_path: Path) -> None:
    (condition,) = conditions = conditions_of(file_with(tmp_path, ORDER), SPACE)
    others = {"eager": None, "graph": None}
    held = {
        (seqs, tokens): condition.holds({"seqs": seqs, "tokens": tokens, **others})
        for seqs in SPACE["seqs"]
        for tokens in SPACE["tokens"]
    }
    assert [pair for pair, holds in held.items() if not holds] == [(64, 32)]
    rows = np.array([[2, 1, 0, 0], [2, 2, 0, 0], [3, 1, 0, 0]])
    assert condition.allowed(rows).tolist() == [False, True, True]
    search = TuningSearch(SPACE, 0, conditions)
    for number in range(25):
        settings = search.following(number / 25)
        assert condition.holds(settings), "a search proposes only what goes together"
        search.add(Trial(settings, 100.0 + number, 0.05))


def test_vllm_refuses_more_sequences_than_tokens_and_more_ranks_than_gpus() -> None:
    space: Space = {
        "max_num_seqs": (None, 64, 2048),
        "max_num_batched_tokens": (None, 1024, 4096),
        "tensor_parallel_size": (None, 1, 2, 4),
        "data_parallel_size": (None, 2, 4),
        "enforce_eager": (None, True),
        "max_cudagraph_capture_size": (None, 64),
    }
    default: dict[str, Choice] = dict.fromkeys(space)
    conditions = conditions_of(None, space)

    def may(**settings: Choice) -> bool:
        return all(c.holds({**default, **settings}) for c in conditions)

    assert may(max_num_seqs=2048) and may(max_num_seqs=2048, max_num_batched_tokens=4096)
    assert not may(max_num_seqs=2048, max_num_batched_tokens=1024)
    assert may(tensor_parallel_size=2, data_parallel_size=2)
    assert not may(tensor_parallel_size=2, data_parallel_size=4)
    assert not may(enforce_eager=True, max_cudagraph_capture_size=64)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('when = "seqs"', "must be a list of tables"),
        ("[[when]]\nseqs = [16]", "needs only = "),
        ('[[when]]\nonly = "speed >= 3"', "speed is not searched"),
        ('[[when]]\nspeed = [1]\nonly = "seqs >= 3"', "speed is not searched"),
        ('[[when]]\nseqs = [17]\nonly = "tokens >= 3"', "seqs = 17 is not a choice"),
        ('[[when]]\nonly = "tokens >= elsewhere"', "elsewhere is not a name of the space or a"),
        ('[[when]]\nonly = "tokens in 32"', "32 is not a list in JSON"),
        ('[[when]]\nonly = "tokens in [32]"', "leaves out the default settings"),
        ('[[when]]\nonly = "tokens <= 100"', "tokens = 128 is never tried"),
        ('[[when]]\nonly = "tokens >= \\"a\\""', "cannot be compared"),
    ],
)
def test_an_impossible_condition_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        conditions_of(file_with(tmp_path, text), SPACE)
    assert reason in str(caught.value) and "\n" not in str(caught.value)
