"""A server's own metrics: what is read of them, and what they amount to over a run."""

import math
import time
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from meta_tests.features.servers.shared_stand_ins import engine_of
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import engine_on, stand_in_server
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import ServerView, Steps
from mlperf_suite.features.servers import server_metrics
from mlperf_suite.features.servers.server_metrics import figures_in, fill_load, server_view

VLLM = (Path(__file__).parent / "vllm_metrics.txt").read_text()
OTHERS = {
    "sglang": "sglang:num_running_reqs 7.0\nsglang:num_queue_reqs 1\nsglang:token_usage 0.28\n",
    "tensorrt-llm": "trtllm_num_requests_running 7\ntrtllm_num_requests_waiting 1\n"
    "trtllm_kv_cache_utilization 0.28\n",
    "llama.cpp": "llamacpp:requests_processing 7\nllamacpp:requests_deferred 1\n"
    "llamacpp:kv_cache_usage_ratio 0.28\n",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_servers_say_it_in_their_words(kind: str) -> None:
    figures = figures_in(OTHERS[kind].splitlines())
    assert figures == {"running": 7.0, "waiting": 1.0, "kv_share": 0.28}


@given(st.text() | st.from_regex(r"vllm:num_requests_running.{0,20} .{0,9}", fullmatch=True))
def test_any_page_has_figures_or_none(page: str) -> None:
    assert all(0 <= value < float("inf") for value in figures_in(page.splitlines()).values())


def test_a_view_is_the_means_the_most_and_the_growth() -> None:
    readings = [{"running": 2.0, "waiting": 0.0}, {"running": 4.0, "waiting": 3.0}]
    assert server_view(readings, {"preemptions": 2.0}) == ServerView(
        readings=2,
        running_mean=3.0,
        running_most=4.0,
        waiting_mean=1.5,
        waiting_most=3.0,
        waiting=0.5,
        preemptions=2,
    )
    assert server_view([], {"preemptions": 1.0}) is None
    full = server_view([{"kv_share": 0.5}, {"kv_share": 0.96}, {"kv_share": 0.97}], {})
    assert full is not None and (full.kv_full, full.kv_most) == (0.6667, 0.97)


def test_the_load_of_a_step_is_that_of_the_reading_before_it() -> None:
    def reading(running: float, waiting: float, share: float) -> dict[str, float]:
        return {"running": running, "waiting": waiting, "kv_share": share}

    first = [(1.0, reading(1, 0, 0.25)), (2.0, reading(2, 1, 0.5))]
    second = [(1.5, reading(10, 0, 0.75))]
    steps = Steps(ended_s=array("d", [0.5, 1.2, 2.5]), tokens=array("i", [1, 1, 1]))
    fill_load(steps, [first, second])
    assert (list(steps.running), list(steps.waiting)) == ([11, 11, 12], [0, 0, 1])
    assert list(steps.kv_share) == [0.5, 0.5, 0.625]
    unknown = Steps(ended_s=array("d", [0.5]), tokens=array("i", [1]))
    for servers in ([], [first, []], [first, [(1.0, {"running": 1.0})]]):
        fill_load(unknown, servers)
        assert not unknown.running


def test_a_run_has_what_its_servers_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_metrics, "_EVERY_S", 0.02)
    says = StandIn(first_token_s=0.5, queue_s=0.1, metrics=VLLM)
    with engine_of(says, replace(says, metrics=OTHERS["sglang"])) as engine:
        engine.run_begins("a run", "performance")
        engine.take_remote_run()
        generate_all(engine, [[1, 2, 3]] * 6, Generation(max_new_tokens=100))
        trace, (sampler, _) = engine.take_trace(), engine._samplers
        # One after the last answer.
        while not any(at > engine._ended for at, _ in sampler.between(0.0, math.inf)):
            time.sleep(0.01)
        readings = len(sampler.between(0.0, math.inf))
        run = engine.take_remote_run()
        views = [endpoint.server for endpoint in run.endpoints]
        assert [view and view.running_mean for view in views] == [8.0, 7.0]
        assert views[0] is not None and views[1] is not None
        assert (views[0].preemptions, views[1].preemptions) == (0, None)
        # Readings after the last answer are not the run's.
        assert 1 <= views[0].readings < readings
        assert set(trace.steps.running) == {15} and len(trace.steps.running) == len(
            trace.steps.ended_s
        )


@pytest.mark.parametrize("metrics", ["", OTHERS["sglang"]])
def test_a_server_without_metrics_alone_is_asked_for_them_once(metrics: str) -> None:
    says = StandIn(dialect="sglang", metrics=metrics, queue_s=0.0 if metrics else None)
    with stand_in_server(says) as server, engine_on(server) as engine:
        for _ in range(3):
            engine.run_begins("a run", "performance")
            (place,) = engine.take_remote_run().endpoints
            assert metrics or place.server is None
        count = server.account()["requests"].get("/metrics", 0)
        assert count > 3 if metrics else count == 1
