"""Tests of the real engine itself, run by the session of test_offline_session.py on its engine.

They are tests of one's own (docs/own-tests.md): not named test_*.py, so that pytest collects them
only where they are named.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from meta_tests.engines.recording import RecordingListener
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import CountsCachedTokens, Request, ScoreRequest
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.session.timing.probe import probe

# The session of test_offline_session.py selects by these.
pytestmark = [pytest.mark.offline, pytest.mark.datacenter]


@pytest.fixture(scope="session")
def prompts(suite: Any) -> Sequence[Sequence[int]]:
    return suite.inputs.prompts(suite.inputs.benchmarks[0])  # type: ignore[no-any-return]


def test_a_streamed_answer_begins_with_its_first_token(engine: Any, prompts: Any) -> None:
    listener, steps_made = RecordingListener(), engine.steps_made
    requests = [Request(tag, prompts[tag]) for tag in range(4)]
    engine.submit(requests, Generation(max_new_tokens=12), listener, stream=True)
    listener.wait(4)
    assert engine.steps_made >= steps_made + 12
    assert listener.first == {tag: answer[:1] for tag, answer in listener.answers.items()}
    assert [len(listener.answers[tag]) for tag in range(4)] == [12] * 4


def test_each_request_has_its_parts_and_the_steps_of_the_batch(
    engine: Any, prompts: Any, tmp_path: Path
) -> None:
    plan = plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Server"),
        "performance",
        ROUNDS["v6.1"],
        8,
        target_qps=4.0,
        shortened=Shortened(1, 8, latency_percent=90, latency_factor=100),
    )
    run = run_loadgen(plan, engine, prompts[:8], Generation(max_new_tokens=8), tmp_path)
    timeline = run.timeline
    assert timeline is not None
    assert timeline.from_loadgen
    assert list(timeline.parts_ms) == ["issue", "front end", "queue", "prefill", "decode", "return"]
    # An engine that reported no time would leave its part empty.
    assert all(min(timeline.parts_ms[name]) > 0 for name in ("front end", "prefill", "decode"))
    sums = [sum(parts) for parts in zip(*timeline.parts_ms.values(), strict=True)]
    assert sums == pytest.approx(timeline.latency_ms)
    assert list(timeline.prompt_tokens) == [len(prompts[sample]) for sample in timeline.samples]
    load = timeline.load
    assert load is not None
    assert load.batch_limit == engine.description.settings["max_num_seqs"]
    assert load.output_tokens == run.tokens
    assert load.prompt_tokens == sum(timeline.prompt_tokens)
    assert 0 < load.kv_most < 1
    assert 0 < load.busy <= 1


def test_a_refused_prompt_fails_the_run_and_not_the_engine(
    engine: Any, prompts: Any, tmp_path: Path
) -> None:
    too_long = prompts[0] * (engine.description.max_model_len // len(prompts[0]) + 1)
    few = [*prompts[:3], too_long]
    plan = plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Offline"),
        "accuracy",
        ROUNDS["v6.1"],
        len(few),
        shortened=Shortened(1, 1),
    )
    with pytest.raises(RunError, match="sample 3: "):
        run_loadgen(plan, engine, few, Generation(max_new_tokens=8), tmp_path)
    assert (tmp_path / "mlperf_log_detail.txt").is_file()
    assert engine.alive
    again = generate_all(engine, prompts[:1], Generation(max_new_tokens=4))
    assert len(again.token_ids[0]) == 4


def test_repeated_prompts_are_not_answered_from_a_prefix_cache(engine: Any, prompts: Any) -> None:
    counter: object = engine
    assert isinstance(counter, CountsCachedTokens)
    for _ in range(2):
        generate_all(engine, prompts[:2], Generation(max_new_tokens=2))
    assert engine.cached_prompt_tokens == 0


def test_one_token_scores_alike_by_itself_and_as_part_of_a_prompt(
    engine: Any, prompts: Any
) -> None:
    """Next tokens need no prompt's log-probabilities; beside a longer one, all are read of it."""
    asked = [ScoreRequest(n, prompts[0][:99], [[5], [7] * (n + 1)]) for n in range(2)]
    scores = dict(engine.score(asked))
    (one, _), (same, longer) = (scores[n].likelihoods for n in range(2))
    assert one.logprob == pytest.approx(same.logprob, abs=0.1) and longer.logprob < 0
    assert [scores[n].tokens for n in range(2)] == [99, 100 + 101]


def test_it_says_what_was_chosen_and_why(engine: Any) -> None:
    settings = engine.description.settings
    assert settings["dtype"] in ("bfloat16", "float32")
    assert settings["dtype_why"].startswith("auto: ")
    assert settings["tensor_parallel_why"].startswith("auto: ")
    assert settings["idle_gpus"] == 0


def test_a_probe_measures_costs_above_zero(engine: Any, prompts: Any) -> None:
    speed = probe(engine, prompts[:20], Generation(), budget_s=2)
    assert speed.prefill_s > 0
    assert speed.step_s + speed.request_s > 0
    assert speed.at_once == engine.description.settings["max_num_seqs"]
    assert speed.probe_s > 0
