"""Accuracy at a curve's mandatory points, where MLPerf Endpoints gates it.

A run of its own at the point's concurrency, after the point (endpoints_rules.md §4.3 of
github.com/mlcommons/endpoints_policies), with prompts that have no salt (§2.9.5.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import RunError
from mlperf_suite.features.endpoints.curve.closed_loop import hold_concurrency
from mlperf_suite.features.endpoints.curve.curve_figures import PointAccuracy
from mlperf_suite.features.endpoints.curve.official_points import OfficialPoints
from mlperf_suite.features.endpoints.official_client.client_answers import (
    read_answers,
    texts_by_sample,
)
from mlperf_suite.features.endpoints.official_client.client_job import (
    ACCURACY_DATA,
    OfficialClientData,
)
from mlperf_suite.features.endpoints.official_client.own_scorers import OwnScorer, own_scorer
from mlperf_suite.scorers.scorer import Answer, Scores, reads_special_tokens
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.scenario_runs import decoded


def scores_of_texts(inputs: Inputs, benchmark: Benchmark, texts: Mapping[int, str]) -> Scores:
    """The suite's scores of answers by the sample's number. Raises RunError if there are none."""
    items = inputs.samples(benchmark, "accuracy").items
    numbers = sorted(number for number in texts if 0 <= number < len(items))
    if not numbers:
        raise RunError("the accuracy run has no answers")
    tokens = token_ids_of(inputs, [texts[number] for number in numbers])
    return inputs.scorer(benchmark).score(
        [
            Answer(items[number], ids, texts[number])
            for number, ids in zip(numbers, tokens, strict=True)
        ]
    )


def token_ids_of(inputs: Inputs, texts: Sequence[str]) -> list[list[int]]:
    """The model's tokens of each text."""
    encode: Callable[..., dict[str, list[list[int]]]] = inputs.tokenizer
    return encode(list(texts), add_special_tokens=False)["input_ids"] if texts else []


@dataclass
class CurveAccuracy:
    """Scores a curve's points. `official`: what measures them with the official client; None for
    the suite's own."""

    inputs: Inputs
    benchmark: Benchmark
    official: OfficialPoints | None
    _scorer: OwnScorer | None = None

    def of_point(self, engine: Engine, concurrency: int, folder: str) -> PointAccuracy:
        """Every sample of the accuracy data answered at a concurrency, and scored.

        `folder`: of the point's files. Raises RunError if there is no score, EngineError if the
        engine dies or hangs.
        """
        if self.official is None:
            return self._judged(self._texts(engine, concurrency))
        if self._scorer is None:
            metric = self.inputs.scorer(self.benchmark).name
            self._scorer = own_scorer(self.official.client, self.benchmark.id, metric)
        report = self.official.score(concurrency, self._data(), self._scorer.name, Path(folder))
        texts = texts_by_sample(read_answers(report).get(ACCURACY_DATA, []))
        return self._judged(texts, self._scorer.fault)

    def _data(self) -> OfficialClientData:
        inputs, benchmark = self.inputs, self.benchmark
        generation = inputs.generation(benchmark, "accuracy")
        return OfficialClientData(
            prompts=inputs.prompts(benchmark, "accuracy"),
            references=[str(s.reference) for s in inputs.samples(benchmark, "accuracy").items],
            generation=None if generation == inputs.generation(benchmark) else generation,
        )

    def _texts(self, engine: Engine, concurrency: int) -> dict[int, str]:
        """The answers of the suite's own client."""
        inputs, benchmark = self.inputs, self.benchmark
        prompts = inputs.prompts(benchmark, "accuracy")
        stops = inputs.stops(benchmark, "accuracy") or [""] * len(prompts)
        times = hold_concurrency(
            engine,
            # A loop at a concurrency may begin some requests more than there are samples.
            itertools.cycle(zip(prompts, stops, strict=True)),
            inputs.generation(benchmark, "accuracy"),
            min(concurrency, len(prompts)),
            lambda times, now_s: len(times.issued_s) >= len(prompts),
            silence_s=inputs.settings.engine_silence,
            keeps_answers=True,
        )
        if times.failure:
            raise RunError(times.failure)
        numbers = sorted(number for number in times.answers if number < len(prompts))
        special = reads_special_tokens(inputs.scorer(benchmark))
        tokens = [times.answers[number] for number in numbers]
        texts = decoded(inputs.tokenizer, tokens, special_tokens=special)
        return dict(zip(numbers, texts, strict=True))

    def _judged(self, texts: Mapping[int, str], fault: str = "") -> PointAccuracy:
        scores = scores_of_texts(self.inputs, self.benchmark, texts).values
        samples = len(self.inputs.samples(self.benchmark, "accuracy").items)
        reference, _ = self.inputs.reference(self.benchmark, samples)
        strict = self.inputs.settings.high_accuracy
        passed: bool | None = None
        if reference is not None:
            inside = [
                entry.low(strict=strict) <= scores.get(entry.name, 0.0)
                and (entry.high is None or scores.get(entry.name, 0.0) <= entry.high)
                for entry in reference.scores
            ]
            passed = all(inside) and len(texts) == samples
        rounded = {name: round(value, 4) for name, value in scores.items()}
        return PointAccuracy(len(texts), rounded, passed, fault)
