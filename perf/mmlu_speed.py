"""Compare questions/s of MMLU through the suite with lm-eval's own vLLM backend.

    python -m perf.mmlu_speed --data FOLDER

Both use the same model, engine arguments, questions and shots; both engines are loaded and
alternate in one run. Every round begins with empty prefix caches. A round is all of
`lm_eval.evaluate`: prompts, tokens, answers, aggregation. `--every N` only takes every Nth subject,
with as many questions as in the whole comparison, since lm-eval's backend takes seconds per
question on two cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.engines.protocol import ScoringEngine
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.features.mmlu.engine_lm import EngineLM, evaluate, load_tasks
from mlperf_suite.features.mmlu.journal import Journal
from mlperf_suite.features.mmlu.mmlu_questions import Mmlu, load_mmlu
from mlperf_suite.features.mmlu.score_files import MmluScores
from perf.mmlu_equality import ask_lm_eval, lm_eval_backend, report
from perf.pairs import in_turn, middle, print_header, print_row


@dataclass(frozen=True)
class Comparison:
    """The questions for both."""

    data: Mmlu
    selection: dict[str, range]
    shots: int
    max_model_len: int
    folder: Path

    @property
    def questions(self) -> int:
        return sum(map(len, self.selection.values()))

    def journal(self) -> Journal:
        """A new, empty journal."""
        return Journal(Path(tempfile.mkdtemp(dir=self.folder)) / "journal", {})

    def evaluate(self, engine: ScoringEngine | None, journal: Journal) -> tuple[MmluScores, float]:
        """Score with an engine or from the journal; return the scores and lm-eval's seconds."""
        tokenizer = load_tokenizer(str(embedded_model_dir()))
        tasks = load_tasks(self.data, self.selection, self.shots)
        lm = EngineLM(engine, tokenizer, self.max_model_len, journal, lambda key: None)
        start_s = time.perf_counter()
        scores = evaluate(lm, tasks, journal)
        return scores, time.perf_counter() - start_s


def suite_round(comparison: Comparison, engine: VllmEngine) -> tuple[MmluScores, float]:
    """Make one round through the suite; return scores and seconds."""
    engine.call(engine.async_llm.reset_prefix_cache(), 60)
    return comparison.evaluate(engine, comparison.journal())


def lm_eval_round(comparison: Comparison, lm: Any) -> tuple[Journal, float]:
    """Make one round of lm-eval's backend; return its scores and seconds."""
    lm.model.reset_prefix_cache()
    journal = comparison.journal()
    elapsed = ask_lm_eval(lm, comparison.data, comparison.selection, comparison.shots, journal)
    return journal, elapsed


def where_the_time_goes(comparison: Comparison, scores: MmluScores, elapsed_s: float) -> None:
    """Print the parts of a suite round."""
    journal = comparison.journal()
    for sample, score in zip(scores.samples, _as_scores(scores), strict=True):
        journal.add(sample.key, score)
    _, without_engine_s = comparison.evaluate(None, journal)
    tokens = sum(s.tokens for s in scores.samples)
    cached = sum(s.cached_tokens for s in scores.samples)
    tokenizer = load_tokenizer(str(embedded_model_dir()))
    tasks = load_tasks(comparison.data, comparison.selection, comparison.shots)["tasks"]
    texts = []
    for task in tasks.values():
        task.build_all_requests()
        texts += [request.args[0] + request.args[1] for request in task.instances]
    start_s = time.perf_counter()
    tokenizer(texts)
    encoding_s = (time.perf_counter() - start_s) * 5 / 4
    print(
        f"suite, last round: {elapsed_s:.1f} s, of which prompts and aggregation in lm-eval "
        f"{without_engine_s:.1f} s and encoding about {encoding_s:.1f} s, which the engine's work "
        f"overlaps; {tokens:,} prompt tokens, {cached:,} from the cache, {tokens - cached:,} "
        f"computed: {(tokens - cached) / elapsed_s:,.0f} tokens/s"
    )
    print(f"lm-eval's backend: {4 * (tokens + len(scores.samples)):,} tokens computed")


def _as_scores(scores: MmluScores) -> Sequence[Any]:
    from mlperf_suite.engines.protocol import Likelihood, Score

    return [
        Score(tuple(Likelihood(p, False) for p in s.logprobs), s.latency_ms, s.tokens, 0)
        for s in scores.samples
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="MMLU's published files")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-model-len", type=int, default=4096)
    options = parser.parse_args()
    data = load_mmlu(options.data)
    selection = data.selection(options.questions)
    selection = {s: selection[s] for s in sorted(selection)[:: options.every]}
    room, model = options.max_model_len, str(embedded_model_dir())
    engine = VllmEngine.load(VllmConfig(model, max_model_len=room, role="scoring"))
    try:
        with tempfile.TemporaryDirectory() as folder, lm_eval_backend(model, room) as lm:
            comparison = Comparison(data, selection, data.shots(None), room, Path(folder))
            first = Comparison(data, {"anatomy": range(2)}, 5, room, Path(folder))
            suite_round(first, engine)
            lm_eval_round(first, lm)
            print(f"{comparison.questions} questions, {comparison.shots} shots; questions/s")
            print_header("round", "suite", "lm-eval", "ratio")
            sides: dict[str, Callable[[], tuple[Any, float]]] = {
                "suite": partial(suite_round, comparison, engine),
                "lm-eval": partial(lm_eval_round, comparison, lm),
            }
            ratios = []
            for pair in in_turn(sides, options.rounds):
                (scores, suite_s), (journal, lm_eval_s) = (pair.results[name] for name in sides)
                ratios.append(lm_eval_s / suite_s)
                rates = (comparison.questions / seconds for seconds in (suite_s, lm_eval_s))
                print_row(pair.number, *(f"{rate:.3f}" for rate in rates), f"{ratios[-1]:.2f}")
            print_row("median", "", "", middle(ratios, "6"))
            where_the_time_goes(comparison, scores, suite_s)
            report("suite", scores, "lm-eval", comparison.evaluate(None, journal)[0])
    finally:
        engine.close()


if __name__ == "__main__":
    main()
