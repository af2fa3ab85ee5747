"""The vLLM engine itself, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import LLAMA3_1_8B
from mlperf_suite.benchmarks.prompts import encode_prompts, load_tokenizer
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.benchmarks.workload import EMBEDDED, ROUGE_NAMES, Generation
from mlperf_suite.compliance.rules import RunFacts, judge
from mlperf_suite.datasets.news import load_news
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Request
from mlperf_suite.errors import EngineError, RunError
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.scorers.rouge import RougeScores, score_rouge

NEWS = load_news("embedded")
ROUGE_RULES = {f"accuracy_{name.lower()}" for name in ROUGE_NAMES}


@pytest.fixture(scope="session")
def tokenizer():
    return load_tokenizer(str(embedded_model_dir()))


@pytest.fixture(scope="session")
def prompts(tokenizer) -> list[list[int]]:
    return encode_prompts(NEWS.items, EMBEDDED, tokenizer)


@pytest.fixture(scope="session")
def answers(offline_run) -> list[tuple[int, ...]]:
    """The real run's output tokens, by sample."""
    logged = read_logs(offline_run.folder / "Accuracy").accuracy.first_of_each()
    return [logged[index].token_ids for index in range(len(NEWS.items))]


def failed_rules(offline_run, tokenizer, token_ids: Sequence[Sequence[int]]) -> set[str]:
    """The accuracy rules that these answers break, everything else being the real run's."""
    texts = tokenizer.batch_decode([list(t) for t in token_ids], skip_special_tokens=True)
    scores: RougeScores = score_rouge(texts, [item.highlights for item in NEWS.items])
    facts = RunFacts(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Offline"),
        "accuracy",
        ROUNDS["v6.1"],
        read_logs(offline_run.folder / "Accuracy"),
        smoke=True,
        scores=scores.means,
        baseline=EMBEDDED.baselines["datacenter"],
    )
    print(scores)
    return {v.rule for v in judge(facts) if v.status == "failed"}


def test_unbroken_answers_pass_the_gate(offline_run, tokenizer, answers) -> None:
    assert failed_rules(offline_run, tokenizer, answers) == set()


def test_answers_cut_to_16_tokens_fail_the_gate(offline_run, tokenizer, answers) -> None:
    cut = [tokens[:16] for tokens in answers]
    assert failed_rules(offline_run, tokenizer, cut) == ROUGE_RULES | {"accuracy_gen_len"}


def test_another_samples_answers_fail_the_gate(offline_run, tokenizer, answers) -> None:
    rotated = [*answers[1:], answers[0]]
    assert failed_rules(offline_run, tokenizer, rotated) == ROUGE_RULES


def test_the_wrong_prompt_fails_the_gate(offline_run, tokenizer, real_engine) -> None:
    raw = [tokenizer(EMBEDDED.prompt.format(article=i.article))["input_ids"] for i in NEWS.items]
    wrong = generate_all(real_engine, raw, EMBEDDED.generation).token_ids
    assert failed_rules(offline_run, tokenizer, wrong) >= ROUGE_RULES


class _Heard:
    def __init__(self, requests: int) -> None:
        self.calls: list[tuple[str, int, list[int]]] = []
        self.missing = requests
        self.done = Event()

    def _hear(self, what: str, tag: int, tokens: Sequence[int]) -> None:
        self.calls.append((what, tag, list(tokens)))
        if what != "first":
            self.missing -= 1
            if not self.missing:
                self.done.set()

    def first_token(self, tag: int, token_ids: Sequence[int]) -> None:
        self._hear("first", tag, token_ids)

    def finished(self, tag: int, token_ids: Sequence[int]) -> None:
        self._hear("finished", tag, token_ids)

    def failed(self, tag: int, error: EngineError) -> None:
        self._hear("failed", tag, [])


def test_a_streamed_answer_begins_with_its_first_token(real_engine, prompts) -> None:
    heard, steps_made = _Heard(4), real_engine.steps_made
    requests = [Request(tag, prompts[tag]) for tag in range(4)]
    real_engine.submit(requests, Generation(max_new_tokens=12), heard, stream=True)
    assert heard.done.wait(60)
    assert real_engine.steps_made >= steps_made + 12
    for tag in range(4):
        (first,), (whole,) = (
            [tokens for what, t, tokens in heard.calls if (what, t) == (kind, tag)]
            for kind in ("first", "finished")
        )
        assert len(first) == 1
        assert whole[:1] == first
        assert len(whole) == 12


def test_a_refused_prompt_fails_the_run_and_not_the_engine(
    real_engine, prompts, tmp_path: Path
) -> None:
    room = real_engine.description.max_model_len
    few = [*prompts[:3], prompts[0] * (room // len(prompts[0]) + 1)]
    plan = plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Offline"),
        "accuracy",
        ROUNDS["v6.1"],
        len(few),
        shortened=Shortened(1, 1),
    )
    with pytest.raises(RunError, match="sample 3: "):
        run_loadgen(plan, real_engine, few, Generation(max_new_tokens=8), tmp_path)
    assert (tmp_path / "mlperf_log_detail.txt").is_file()
    assert real_engine.alive
    again = generate_all(real_engine, prompts[:1], Generation(max_new_tokens=4))
    assert len(again.token_ids[0]) == 4
