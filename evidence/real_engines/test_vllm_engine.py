"""The vLLM engine in this process: broken answers fail the smoke gate, a stopped process fails the
load or the run."""

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

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.prompts import TextPrompt, load_tokenizer
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.datasets.news import load_news
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.hang_detector import descendants
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.errors import EngineError, RunError
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.scorers.rouge import ROUGE_NAMES, score_rouge

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


def test_unbroken_answers_pass_the_gate(tokenizer: Any, answers: Any) -> None:
    assert failed_scores(tokenizer, answers) == set()


def test_answers_cut_to_16_tokens_fail_the_gate(tokenizer: Any, answers: Any) -> None:
    cut = [tokens[:16] for tokens in answers]
    assert failed_scores(tokenizer, cut) == {*ROUGE_NAMES, "gen_len"}


def test_another_samples_answers_fail_the_gate(tokenizer: Any, answers: Any) -> None:
    rotated = [*answers[1:], answers[0]]
    assert failed_scores(tokenizer, rotated) == set(ROUGE_NAMES)


def test_the_wrong_prompt_fails_the_gate(tokenizer: Any, real_engine: Any) -> None:
    """The benchmark's own, which this model was not made for."""
    bare = dataclasses.replace(cast(TextPrompt, EMBEDDED.prompt), chat=False)
    raw = bare.encode(NEWS.items[:ANSWERS], tokenizer)
    wrong = generate_all(real_engine, raw, EMBEDDED.generation).token_ids
    assert failed_scores(tokenizer, wrong) >= set(ROUGE_NAMES)


def accuracy_plan(prompts: Sequence[Sequence[int]]) -> LoadPlan:
    """An accuracy run of these prompts in Offline."""
    scenario, few = LLAMA3_1_8B.scenario("Offline"), Shortened(1, 1)
    count = len(prompts)
    return plan_run(LLAMA3_1_8B, scenario, "accuracy", ROUNDS["v6.1"], count, shortened=few)


def test_an_engine_that_is_stopped_while_it_loads_is_an_error_at_once(tmp_path: Path) -> None:
    """Were it not seen, loading would end after ten minutes."""
    stopped: list[psutil.Process] = []
    # The engine of the other tests of this file works on.
    before = set(descendants())

    def stop_the_first() -> None:
        while not stopped:
            time.sleep(0.05)
            for process in descendants():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if process not in before and process.name().startswith("VLLM::"):
                        stopped.append(process)
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
