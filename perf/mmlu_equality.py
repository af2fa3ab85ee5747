"""Compare the answers of MMLU through the suite with those through lm-eval's own vLLM backend.

    python -m perf.mmlu_equality --data FOLDER

Both use the same model, data, shots and engine arguments. Each backend's log-probabilities are kept
in a journal (--work FOLDER), so that a stopped run can be resumed; lm-eval's backend needs some
seconds per question on two cores. It is called subject by subject. With --itself it is also called
with everything at once, as lm-eval's users do, and the result is compared with both, to show how
batching alone changes its answers.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.engines.protocol import Likelihood, Score, ScoringEngine
from mlperf_suite.engines.vllm_arguments import VLLM_DTYPES, VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.engines.vllm_environment import vllm_environment
from mlperf_suite.features.mmlu.engine_lm import EngineLM, evaluate, load_tasks, quiet_lm_eval
from mlperf_suite.features.mmlu.journal import Journal, QuestionKey
from mlperf_suite.features.mmlu.mmlu_questions import Mmlu, load_mmlu
from mlperf_suite.features.mmlu.score_files import MmluScores, ScoredQuestion
from mlperf_suite.hardware import Precision

TOLERANCE = 0.02
"""In log-probability: two best choices closer than this are ties, since bf16 rounds."""


@contextmanager
def lm_eval_backend(
    model: str, max_model_len: int | None, precision: Precision = "auto"
) -> Iterator[Any]:
    """lm-eval's own vLLM backend, with the suite's engine arguments and environment.

    Prefix caching stays on, vLLM's default; prompt log-probabilities do not benefit from it.
    """
    with vllm_environment(model), _vllm_has_a_version():
        from lm_eval.models.vllm_causallms import VLLM

        dtype = VLLM_DTYPES[precision]
        lm = VLLM(model, dtype=dtype, max_model_len=max_model_len, enforce_eager=True, seed=0)
        try:
            yield lm
        finally:
            lm.model.llm_engine.engine_core.shutdown()


@contextmanager
def _vllm_has_a_version() -> Iterator[None]:
    """lm-eval asks for the version of the distribution `vllm`; the CPU build has another name."""
    import vllm
    from vllm.platforms import current_platform

    # vLLM recognizes a CPU build by the missing version, so let it look before the patch.
    current_platform.is_cpu()
    version_of = importlib.metadata.version

    def answer(distribution_name: str) -> str:
        name = distribution_name
        return str(vllm.__version__) if name == "vllm" else version_of(name)

    importlib.metadata.version = answer
    try:
        yield
    finally:
        importlib.metadata.version = version_of


def ask_lm_eval(
    lm: Any, data: Mmlu, selection: dict[str, range], shots: int, journal: Journal
) -> float:
    """Let lm-eval evaluate what the journal lacks with its own backend, and record the scores.

    Returns the seconds that the evaluation took.
    """
    import lm_eval

    no_score_reason = {
        subject: [n for n in numbers if QuestionKey(subject, n) not in journal]
        for subject, numbers in selection.items()
    }
    tasks = load_tasks(data, no_score_reason, shots)
    start_s = time.perf_counter()
    with quiet_lm_eval():
        results = lm_eval.evaluate(lm, tasks, bootstrap_iters=1)
    elapsed_s = time.perf_counter() - start_s
    for logged in (sample for of_task in results["samples"].values() for sample in of_task):
        likelihoods = tuple(Likelihood(*response) for response in logged["filtered_resps"])
        key = QuestionKey(logged["doc"]["subject"], logged["doc"]["id"])
        journal.add(key, Score(likelihoods, 0.0, 0, 0))
    return elapsed_s


def scores_of(
    engine: ScoringEngine | None,
    journal: Journal,
    data: Mmlu,
    selection: dict[str, range],
    shots: int,
    room: int,
) -> MmluScores:
    """lm-eval's aggregate of the journal's scores and, for missing ones, the engine's answers."""
    tokenizer = load_tokenizer(str(embedded_model_dir()))
    lm = EngineLM(engine, tokenizer, room, journal, lambda key: None)
    return evaluate(lm, load_tasks(data, selection, shots), journal)


def gap(sample: ScoredQuestion) -> float:
    """The difference between the two best choices, in log-probability."""
    best, second = sorted(sample.logprobs, reverse=True)[:2]
    return best - second


def report(name: str, scores: MmluScores, reference_name: str, reference: MmluScores) -> int:
    """Print both scores and every question with different answers; return how many are not ties."""
    pairs = list(zip(scores.samples, reference.samples, strict=True))
    differences = [(a, b) for a, b in pairs if a.pred != b.pred]
    far = [(a, b) for a, b in differences if min(gap(a), gap(b)) > TOLERANCE]
    shift = max(abs(x - y) for a, b in pairs for x, y in zip(a.logprobs, b.logprobs, strict=True))
    equal = sum(a.logprobs == b.logprobs for a, b in pairs)
    print(f"questions            {len(pairs)}")
    print(f"{name:20} {scores.overall.accuracy:.4f}%")
    print(f"{reference_name:20} {reference.overall.accuracy:.4f}%")
    print(f"all four log-probabilities equal to the last bit: {equal} questions")
    print(f"largest difference of a log-probability: {shift:.2g}")
    print(f"another prediction: {len(differences)}, of which {len(far)} beyond {TOLERANCE}")
    for a, b in differences:
        print(
            f"  {a.key.subject} {a.key.id}: {name} {a.pred}, gap {gap(a):.4f}; "
            f"{reference_name} {b.pred}, gap {gap(b):.4f}"
        )
    return len(far)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="MMLU's published files")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--shots", type=int)
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--precision", choices=list(VLLM_DTYPES), default="auto")
    parser.add_argument("--itself", action="store_true")
    parser.add_argument("--work", type=Path, default=Path("results/mmlu-equality"))
    arguments = parser.parse_args()
    model = str(embedded_model_dir())
    data = load_mmlu(arguments.data)
    selection, shots = data.selection(arguments.limit), data.shots(arguments.shots)
    room = arguments.max_model_len
    arguments.work.mkdir(parents=True, exist_ok=True)
    of = {"data": data.sha256, "shots": shots, "model": model}
    of["precision"] = arguments.precision
    keys = [QuestionKey(s, n) for s, numbers in selection.items() for n in numbers]
    every_key = {
        QuestionKey(s, n) for s, of_subject in data.test.items() for n in range(len(of_subject))
    }

    def journal(name: str) -> Journal:
        path = arguments.work / f"{name}.jsonl"
        earlier = path.rename(path.with_suffix(".earlier")) if path.exists() else None
        journal = Journal(path, {**of, "backend": name})
        if earlier is not None:
            journal.add_from(earlier, every_key)
        return journal

    suite_journal, lm_eval_journal = journal("suite"), journal("lm-eval")
    at_once = journal("lm-eval-at-once") if arguments.itself else None
    if any(
        key not in backend_journal
        for backend_journal in (lm_eval_journal, at_once or lm_eval_journal)
        for key in keys
    ):
        with lm_eval_backend(model, room, arguments.precision) as lm:
            for subject, numbers in selection.items():
                if any(QuestionKey(subject, n) not in lm_eval_journal for n in numbers):
                    ask_lm_eval(lm, data, {subject: numbers}, shots, lm_eval_journal)
                    print(f"{len(lm_eval_journal)} scored: {subject}", flush=True)
            if at_once is not None:
                ask_lm_eval(lm, data, selection, shots, at_once)
    config = VllmConfig(model, arguments.precision, max_model_len=room, role="scoring")
    engine = VllmEngine.load(config)
    try:
        suite = scores_of(engine, suite_journal, data, selection, shots, room)
    finally:
        engine.close()
    reference = scores_of(None, lm_eval_journal, data, selection, shots, room)
    far = report("suite", suite, "lm-eval", reference)
    if at_once is not None:
        whole = scores_of(None, at_once, data, selection, shots, room)
        far += report("suite", suite, "lm-eval at once", whole)
        report("lm-eval", reference, "lm-eval at once", whole)
    raise SystemExit(1 if far else 0)


if __name__ == "__main__":
    main()
