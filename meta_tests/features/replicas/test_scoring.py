"""Scores from replicas, in real processes."""

from collections.abc import Callable
from pathlib import Path

from meta_tests.features.replicas.nodes import Load
from meta_tests.servers.replica_stand_in import scoring
from mlperf_suite.engines.protocol import Engine, Likelihood, Score, ScoreRequest, ScoringEngine


def engines(number: int, gpus: int) -> Callable[[Path], Engine]:
    return scoring


def test_each_request_is_scored_once_whichever_replica_it_goes_to(load: Load) -> None:
    engine = load(make=engines, scores=True)
    assert isinstance(engine, ScoringEngine)
    # More than the replicas are given at once, and a second time.
    for count in (1200, 3):
        requests = [ScoreRequest(i, [i, 5], [[1], [2, 3]]) for i in range(count)]
        scores = dict(engine.score(iter(requests)))
        assert scores == {
            i: Score((Likelihood(-1.0, bool(i % 2)), Likelihood(-2.0, bool(i % 2))), 1.5, 2, i)
            for i in range(count)
        }
