"""The vLLM engine itself, in this process."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from meta_tests.engines.recording import RecordingListener
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.prompts import TextPrompt, load_tokenizer
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.datasets.news import load_news
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import CountsCachedTokens, Request
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.engines.watch import descendants
from mlperf_suite.errors import EngineError, RunError
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.scorers.rouge import ROUGE_NAMES, score_rouge
from mlperf_suite.session.timing.probe import probe

NEWS = load_news("embedded")
ANSWERS = 32
"""As many as a slow machine answers in half a minute."""


@pytest.fixture(scope="module")
def real_engine() -> Iterator[VllmEngine]:
    """The embedded model on vLLM in this process; none of its prompts may exceed 512 tokens.

    Of this file alone: an engine that waits takes time from whatever is tested beside it.
    """
    engine = VllmEngine.load(VllmConfig(str(embedded_model_dir()), max_model_len=640))
    folder = Path(engine._sockets.name)
    assert any(path.is_socket() for path in folder.iterdir())
    yield engine
    engine.close()
    assert not folder.exists(), "a closed engine left its sockets"


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return load_tokenizer(str(embedded_model_dir()))


@pytest.fixture(scope="session")
def prompts(tokenizer: Any) -> Sequence[Sequence[int]]:
    return EMBEDDED.prompt.encode(NEWS.items, tokenizer)


# The smoke profile's gate, on this engine's own answers.


@pytest.fixture(scope="module")
def answers(real_engine: Any, prompts: Any) -> Any:
    """The embedded benchmark's first answers, as the engine gives them."""
    return generate_all(real_engine, prompts[:ANSWERS], EMBEDDED.generation).token_ids


def failed_scores(tokenizer: Any, token_ids: Sequence[Sequence[int]]) -> set[str]:
    """The scores of these answers that do not pass the gate."""
    texts = tokenizer.batch_decode([list(t) for t in token_ids], skip_special_tokens=True)
    scores = score_rouge(texts, [item.reference for item in NEWS.items[: len(texts)]]).values
    reference = EMBEDDED.reference_for(len(texts))
    assert reference is not None
    print(scores)
    return {
        process.name
        for process in reference.scores
        if not process.low() <= scores[process.name] <= (process.high or 100)
    }


@pytest.mark.slow
def test_unbroken_answers_pass_the_gate(tokenizer: Any, answers: Any) -> None:
    assert failed_scores(tokenizer, answers) == set()


@pytest.mark.slow
def test_answers_cut_to_16_tokens_fail_the_gate(tokenizer: Any, answers: Any) -> None:
    cut = [tokens[:16] for tokens in answers]
    assert failed_scores(tokenizer, cut) == {*ROUGE_NAMES, "gen_len"}


@pytest.mark.slow
def test_another_samples_answers_fail_the_gate(tokenizer: Any, answers: Any) -> None:
    rotated = [*answers[1:], answers[0]]
    assert failed_scores(tokenizer, rotated) == set(ROUGE_NAMES)


@pytest.mark.slow
def test_the_wrong_prompt_fails_the_gate(tokenizer: Any, real_engine: Any) -> None:
    """The benchmark's own, which this model was not made for."""
    bare = dataclasses.replace(cast(TextPrompt, EMBEDDED.prompt), chat=False)
    raw = bare.encode(NEWS.items[:ANSWERS], tokenizer)
    wrong = generate_all(real_engine, raw, EMBEDDED.generation).token_ids
    assert failed_scores(tokenizer, wrong) >= set(ROUGE_NAMES)


def test_a_streamed_answer_begins_with_its_first_token(real_engine: Any, prompts: Any) -> None:
    listener, steps_made = RecordingListener(), real_engine.steps_made
    requests = [Request(tag, prompts[tag]) for tag in range(4)]
    real_engine.submit(requests, Generation(max_new_tokens=12), listener, stream=True)
    listener.wait(4)
    assert real_engine.steps_made >= steps_made + 12
    assert listener.first == {tag: answer[:1] for tag, answer in listener.answers.items()}
    assert [len(listener.answers[tag]) for tag in range(4)] == [12] * 4


def test_each_request_tells_of_its_parts_and_the_steps_of_the_batch(
    real_engine: Any, prompts: Any, tmp_path: Path
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
    run = run_loadgen(plan, real_engine, prompts[:8], Generation(max_new_tokens=8), tmp_path)
    timeline = run.timeline
    assert timeline is not None
    assert timeline.from_loadgen
    assert list(timeline.parts_ms) == ["issue", "front end", "queue", "prefill", "decode", "return"]
    # An engine that told no time would leave its part empty.
    assert all(min(timeline.parts_ms[name]) > 0 for name in ("front end", "prefill", "decode"))
    sums = [sum(parts) for parts in zip(*timeline.parts_ms.values(), strict=True)]
    assert sums == pytest.approx(timeline.latency_ms)
    assert list(timeline.prompt_tokens) == [len(prompts[sample]) for sample in timeline.samples]
    load = timeline.load
    assert load is not None
    assert load.batch_limit == real_engine.description.settings["max_num_seqs"]
    assert load.output_tokens == run.tokens
    assert load.prompt_tokens == sum(timeline.prompt_tokens)
    assert 0 < load.kv_most < 1
    assert 0 < load.busy <= 1


def accuracy_plan(prompts: Sequence[Sequence[int]]) -> LoadPlan:
    """An accuracy run of these prompts in Offline."""
    scenario, few = LLAMA3_1_8B.scenario("Offline"), Shortened(1, 1)
    count = len(prompts)
    return plan_run(LLAMA3_1_8B, scenario, "accuracy", ROUNDS["v6.1"], count, shortened=few)


def test_a_refused_prompt_fails_the_run_and_not_the_engine(
    real_engine: Any, prompts: Any, tmp_path: Path
) -> None:
    room = real_engine.description.max_model_len
    few = [*prompts[:3], prompts[0] * (room // len(prompts[0]) + 1)]
    with pytest.raises(RunError, match="sample 3: "):
        run_loadgen(accuracy_plan(few), real_engine, few, Generation(max_new_tokens=8), tmp_path)
    assert (tmp_path / "mlperf_log_detail.txt").is_file()
    assert real_engine.alive
    again = generate_all(real_engine, prompts[:1], Generation(max_new_tokens=4))
    assert len(again.token_ids[0]) == 4


def test_runs_are_answered_without_a_prefix_cache(real_engine: Any, prompts: Any) -> None:
    assert real_engine.description.settings["enable_prefix_caching"] is False
    counter: object = real_engine
    assert isinstance(counter, CountsCachedTokens)
    for _ in range(2):
        generate_all(real_engine, prompts[:2], Generation(max_new_tokens=2))
    assert real_engine.cached_prompt_tokens == 0


def test_it_says_what_was_chosen_and_why(real_engine: Any) -> None:
    settings = real_engine.description.settings
    assert settings["dtype"] in ("bfloat16", "float32")
    assert settings["dtype_why"].startswith("auto: ")
    assert settings["tensor_parallel_why"] == "as asked"
    assert settings["idle_gpus"] == 0


def test_a_probe_tells_costs_that_are_there(real_engine: Any, prompts: Any) -> None:
    speed = probe(real_engine, prompts[:20], Generation(), budget_s=2)
    assert speed.prefill_s > 0
    assert speed.step_s + speed.request_s > 0
    assert speed.at_once == real_engine.description.settings["max_num_seqs"]
    assert speed.probe_s > 0


@pytest.mark.slow
def test_an_engine_that_is_stopped_while_it_loads_is_an_error_at_once(tmp_path: Path) -> None:
    """Were it not seen, loading would end after ten minutes."""
    stopped: list[psutil.Process] = []

    def stop_the_first() -> None:
        while not stopped:
            time.sleep(0.05)
            stopped.extend(p for p in descendants() if p.name().startswith("VLLM::"))
        stopped[0].suspend()

    threading.Thread(target=stop_the_first, daemon=True).start()
    config = VllmConfig(
        str(embedded_model_dir()), max_model_len=640, log_file=tmp_path / "engine.log"
    )
    line = r"the engine hangs: its process \d+ \(VLLM.* is stopped while .* loads \("
    with pytest.raises(EngineError, match=line):
        VllmEngine.load(config)
    assert not any(process.is_running() for process in stopped)


def test_an_engine_that_is_stopped_in_the_middle_of_a_run_fails_it(
    real_engine: Any, prompts: Any, tmp_path: Path
) -> None:
    """A real engine's real process. Were it not seen, this test would take half an hour.

    The last test of the file: the engine is dead after it.
    """
    engine = real_engine
    processes = list(engine.processes)
    assert processes

    def stop_when_it_works() -> None:
        before = engine.steps_made
        while engine.steps_made < before + 3:
            time.sleep(0.01)
        processes[0].suspend()

    stopper = threading.Thread(target=stop_when_it_works, daemon=True)
    stopper.start()
    try:
        with pytest.raises(
            RunError, match=rf"process {processes[0].pid} \(VLLM.* is stopped while"
        ):
            run_loadgen(accuracy_plan(prompts), engine, prompts, Generation(), tmp_path)
        assert not engine.alive
        assert not any(process.is_running() for process in processes)
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        engine.close()
