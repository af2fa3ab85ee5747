"""What the seeds determine, computed again: the same as real LoadGen runs have it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from meta_tests.loadgen.made_plans import a_plan, run, shipped_round, stand_in
from meta_tests.tampering.rule_breaks import AGREEMENT
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.features.log_consistency.releases import RELEASES, fingerprint
from mlperf_suite.features.log_consistency.schedule import (
    MOST_QUERIES,
    Asked,
    TooLongError,
    loaded_sets,
    logging_draws,
    schedule,
    shuffled,
    words,
)
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import AnswerTokens, RunFacts

RUNS = [
    (scenario, mode)
    for scenario in ("Offline", "Server", "SingleStream")
    for mode in ("accuracy", "performance", "test06")
    # The edge category has no TEST06.
    if (scenario, mode) != ("SingleStream", "test06")
]


def test_what_is_drawn_from_a_seed() -> None:
    # [rand.predef]: the 10,000th of a std::mt19937 that nobody seeded.
    assert next(itertools.islice(words(5489), 9_999, None)) == 4_123_659_995
    for count in (1, 2, 3, 84, 70_000):
        assert sorted(shuffled(7, count)) == list(range(count))
        assert sorted(shuffled(7, count, old=True)) == list(range(count))
    # Libraries shuffle in two ways; of few numbers both seldom differ.
    assert shuffled(7, 24_576) != shuffled(7, 24_576, old=True)
    # An accuracy run loads all samples in sets and a performance run one.
    sets = loaded_sets(3, 10, 4, accuracy=True)
    assert [len(part) for part in sets] == [4, 4, 2]
    assert sorted(itertools.chain(*sets)) == list(range(10))
    assert loaded_sets(3, 10, 4, accuracy=False) == sets[:1]
    # Answers are logged with the probability that is asked for.
    draws = logging_draws(720381539243781796, 100_000)
    assert draws.min() >= 0 and draws.max() < 1
    assert abs((draws <= 0.001).sum() - 100) < 50


@pytest.mark.parametrize(("scenario", "mode"), RUNS)
def test_a_real_run_agrees_with_itself(tmp_path: Path, scenario: str, mode: str) -> None:
    """Every rule of agreement passes a real LoadGen's log."""
    benchmark = LLAMA3_1_8B_EDGE if scenario == "SingleStream" else LLAMA3_1_8B
    engine = stand_in(rest_s=0.0001)
    # At this rate, the duration asks for more queries than the least number.
    shortened = Shortened(min_duration_ms=250, min_query_count=21)
    load_run = run(a_plan(scenario, mode, shortened), engine, tmp_path)
    engine.close()
    facts = RunFacts(
        benchmark,
        benchmark.scenario(scenario),
        mode,
        shipped_round(),
        load_run.logs,
        smoke=True,
        departures=(),
        accuracy_tokens=AnswerTokens(load_run.tokens / load_run.samples, load_run.samples),
    )
    verdicts = [v for v in judge(facts) if v.rule in AGREEMENT]
    assert len(verdicts) > 1
    assert [v.line for v in verdicts if not v.passed] == []


def test_the_installed_loadgen_has_the_sources_of_its_version(tmp_path: Path) -> None:
    detail = run(a_plan(), stand_in(), tmp_path).logs.detail
    version = detail["loadgen_version"].partition(" @ ")[0]
    assert fingerprint(detail["loadgen_file_sha1"]) in RELEASES[version]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"qps": 0.0}, ValueError),
        ({"loaded": 0}, ValueError),
        ({"least": -1}, ValueError),
        ({"qps": MOST_QUERIES / 60.0}, TooLongError),
    ],
)
def test_what_cannot_be_computed_is_told(change: dict[str, float], error: type[Exception]) -> None:
    request = {"scenario": "Server", "seed": 1, "qps": 10.0, "duration_ms": 600_000, "least": 100}
    request |= {"samples": 1, "loaded": 84, "equal": True, "accuracy": False}
    with pytest.raises(error):
        schedule(Asked(**(request | change)))  # type: ignore[arg-type]
