"""Compare tasks of lm-eval through the suite with lm-eval's own backends: answers, and speed.

    python -m perf.evals [--task NAMES] [--task-data FOLDER] [--limit N] [--rounds N]
                         [--only-vllm]

Every side has the embedded model, the same documents and the same precision: the suite's engine,
lm-eval's vLLM backend with the suite's engine arguments, and lm-eval's Hugging Face backend. Two
answers that differ are a near tie if the model prefers neither by more than TOLERANCE where they
part; any other difference is a failure. With --rounds, the suite and lm-eval's vLLM backend take
turns, with empty prefix caches, each time all of `lm_eval.evaluate`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import end_of_text_ids, load_tokenizer
from mlperf_suite.engines.protocol import SILENCE_S, ScoreRequest
from mlperf_suite.engines.vllm_arguments import VLLM_DTYPES, VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.features.evals.eval_results import EvalDocument, EvalScores, scores_of
from mlperf_suite.features.evals.eval_run import evaluate
from mlperf_suite.features.evals.lm_eval_tasks import EvalTask, read_task
from mlperf_suite.features.evals.options import shots_by_task
from mlperf_suite.features.evals.task_lm import TaskLM, open_journal
from mlperf_suite.hardware import Precision
from mlperf_suite.settings import resolve_settings
from perf.mmlu_equality import TOLERANCE, lm_eval_backend
from perf.pairs import cpu_s, in_turn, middle, print_header, print_row

MODEL = str(embedded_model_dir())


_COLUMNS = (
    *("round", "suite, documents/s", "lm-eval, documents/s", "ratio"),
    *("suite, processor s", "lm-eval, processor s", "ratio of these"),
)


@dataclass(frozen=True, slots=True)
class Spent:
    """What an evaluation took: by the clock, and of all processors in this program's processes."""

    elapsed_s: float
    processor_s: float


class Suite:
    """The suite's side: its engine, and a model of lm-eval around it for each evaluation."""

    def __init__(self, engine: VllmEngine, folder: Path) -> None:
        self.engine = engine
        self.tokenizer = load_tokenizer(MODEL)
        self._end_ids = end_of_text_ids(MODEL, self.tokenizer, None)
        self._paths = (folder / f"{number}.jsonl" for number in count())

    def lm(self, task: EvalTask) -> TaskLM:
        """A model without an answer in its journal, on an engine without a prompt in its cache."""
        self.engine.call(self.engine.async_llm.reset_prefix_cache(), 60)
        journal = open_journal(next(self._paths), {}, task.name)
        return TaskLM(
            self.engine, self.tokenizer, self._end_ids, journal, SILENCE_S, lambda place: None
        )

    def gap(self, prompt: str, first: str, second: str) -> float:
        """How much likelier one of two generated texts is than the other at the first token in
        which they differ, in log-probability."""
        ends = [*self._end_ids[:1]]
        one, two = ([*self._ids(text), *ends] for text in (first, second))
        same = next(n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
        context = [*self.tokenizer(prompt)["input_ids"], *one[:same]]
        request = ScoreRequest(0, context, [[one[same]], [two[same]]])
        ((_, score),) = self.engine.score([request])
        mine, other = (likelihood.logprob for likelihood in score.likelihoods)
        return abs(mine - other)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def tasks_of(names: str | None, limit: int, data: str | None) -> Iterator[Callable[[], EvalTask]]:
    """By task, a function that reads it anew: lm-eval keeps the answers in what it evaluates."""
    settings = resolve_settings({"task": names, "limit": str(limit), "task_data": data}, {})
    for name, shots in shots_by_task(settings).items():
        yield partial(read_task, name, shots, settings)


def timed(lm: Any, task: EvalTask) -> tuple[EvalScores, dict[str, Any], Spent]:
    """The scores, lm-eval's samples and what an evaluation took."""
    start_s, used_s = time.perf_counter(), cpu_s()[1]
    evaluation = evaluate(lm, task)
    spent = Spent(time.perf_counter() - start_s, cpu_s()[1] - used_s)
    return scores_of(task, evaluation), evaluation["samples"], spent


def prompts_of(samples: dict[str, Any]) -> dict[tuple[str, int], str]:
    """The prompt of each document."""
    return {
        (task, sample["doc_id"]): sample["arguments"][0][0]
        for task, of_task in samples.items()
        for sample in of_task
    }


def gap_of(suite: Suite, prompt: str, one: EvalDocument, other: EvalDocument) -> float:
    """The smaller gap between the two best choices, or between two texts where they part."""
    if isinstance(one.responses[0], str):
        return suite.gap(prompt, one.responses[0], other.responses[0])
    likely: list[list[float]] = [
        sorted((response[0] for response in document.responses), reverse=True)
        for document in (one, other)
    ]
    return min(of_one[0] - of_one[1] for of_one in likely)


def differences(
    suite: Suite, prompts: dict[tuple[str, int], str], ours: EvalScores, theirs: EvalScores
) -> Iterator[tuple[EvalDocument, EvalDocument, float]]:
    """The documents with another answer, and the gap between the two."""
    for one, other in zip(ours.documents, theirs.documents, strict=True):
        is_text = isinstance(one.responses[0], str)
        if one.responses != other.responses if is_text else one.answer != other.answer:
            yield one, other, gap_of(suite, prompts[one.task, one.number], one, other)


def report(name: str, ours: EvalScores, theirs: EvalScores, found: Sequence[Any]) -> int:
    """Print how two sides differ; return how many differences are no near tie."""
    far = [(one, other, gap) for one, other, gap in found if gap > TOLERANCE]
    metric = ours.metric
    values = [scores.scores[metric].value for scores in (ours, theirs)]
    print(
        f"  {name}: {metric} {values[0]:.2f}, lm-eval {values[1]:.2f}; {len(ours.documents)} "
        f"documents, {len(found)} other answers, of which {len(far)} beyond {TOLERANCE}"
    )
    pairs = [
        (x[0], y[0])
        for one, other in zip(ours.documents, theirs.documents, strict=True)
        for x, y in zip(one.responses, other.responses, strict=True)
        if not isinstance(x, str)
    ]
    if pairs:
        print(
            f"    largest difference of a log-probability: {max(abs(x - y) for x, y in pairs):.2g}"
        )
    for one, other, gap in found:
        print(
            f"    {one.task} {one.number}: {one.answer!r}, lm-eval {other.answer!r}, gap {gap:.4f}"
        )
    return len(far)


def hugging_face(precision: Precision) -> AbstractContextManager[Any]:
    """lm-eval's own Hugging Face backend."""
    from lm_eval.models.huggingface import HFLM

    return nullcontext(
        HFLM(pretrained=MODEL, dtype=VLLM_DTYPES[precision], batch_size=8, device="cpu")
    )


def compare_speed(suite: Suite, backend: Any, read: Callable[[], EvalTask], rounds: int) -> None:
    """Print documents/s of both, in turns, and how much longer lm-eval took: by the clock, and in
    processor time, which other programs on the machine change less."""

    def of_lm_eval() -> Spent:
        backend.model.reset_prefix_cache()
        return timed(backend, read())[2]

    def of_suite() -> Spent:
        task = read()
        return timed(suite.lm(task), task)[2]

    task = read()
    print(f"{task.name}, {task.planned} documents")
    print_header(*_COLUMNS)
    clock, processor = [], []
    for pair in in_turn({"suite": of_suite, "lm-eval": of_lm_eval}, rounds):
        ours, theirs = (pair.results[name] for name in ("suite", "lm-eval"))
        clock.append(theirs.elapsed_s / ours.elapsed_s)
        processor.append(theirs.processor_s / ours.processor_s)
        rates = (f"{task.planned / side.elapsed_s:.3f}" for side in (ours, theirs))
        used = (f"{side.processor_s:.1f}" for side in (ours, theirs))
        print_row(pair.number, *rates, f"{clock[-1]:.2f}", *used, f"{processor[-1]:.2f}")
    print_row("median", "", "", middle(clock), "", "", middle(processor))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", help="as --task of pytest; the embedded ones by default")
    parser.add_argument("--task-data", help="as of pytest")
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--precision", choices=list(VLLM_DTYPES), default="fp32")
    parser.add_argument("--max-model-len", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument(
        "--only-vllm", action="store_true", help="leave out Hugging Face, which is slow"
    )
    options = parser.parse_args()
    room, precision = options.max_model_len, options.precision
    backends: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "vLLM": partial(lm_eval_backend, MODEL, room, precision),
        "Hugging Face": partial(hugging_face, precision),
    }
    if options.only_vllm:
        del backends["Hugging Face"]
    reads = [*tasks_of(options.task, options.limit, options.task_data)]
    theirs: dict[str, list[EvalScores]] = {}
    # One after the other, so that they fit a small machine.
    for name, load in backends.items():
        with load() as backend:
            theirs[name] = [timed(backend, read())[0] for read in reads]
        print(f"answered by lm-eval's {name} backend", flush=True)
    config = VllmConfig(MODEL, precision, max_model_len=room, role="scoring")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        suite = Suite(VllmEngine.load(config), folder)
        stack.callback(suite.engine.close)
        far = sum(compare(suite, read, theirs, place) for place, read in enumerate(reads))
        if options.rounds:
            vllm = stack.enter_context(backends["vLLM"]())
            for read in reads:
                compare_speed(suite, vllm, read, options.rounds)
    raise SystemExit(1 if far else 0)


def compare(
    suite: Suite, read: Callable[[], EvalTask], theirs: dict[str, list[EvalScores]], place: int
) -> int:
    """Answer a task through the suite; print how the backends' answers, which are at a `place` of
    their lists, differ. Returns how many differences are no near tie."""
    task = read()
    ours, samples, _ = timed(suite.lm(task), task)
    print(f"{task.name}, {task.planned} documents")
    far = 0
    for name, scores in theirs.items():
        found = [*differences(suite, prompts_of(samples), ours, scores[place])]
        far += report(name, ours, scores[place], found)
    return far


if __name__ == "__main__":
    main()
