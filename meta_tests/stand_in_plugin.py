"""`-p meta_tests.stand_in_plugin`: the suite on a stand-in engine that does as STAND_IN tells it.

STAND_IN is JSON: `answers`, for each query of the session what it is answered with (the last one
holds on), `delays_s` likewise, `fail_after` as StandInEngine's, `load_error` for an engine that
does not load, `crash` for one that meets an error nobody foresaw, `log` what the engine writes to
its log, `marker` a file that is made at the first query, `replace_by_file` a folder that a file
takes the place of at that moment, `most_qps` the queries/s above which an answer takes 13 s.
"""

import json
import math
import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import meta_tests.without_torch  # noqa: F401 - before anything imports transformers
from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.catalog import default_benchmarks
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.datasets.media import identity_of
from mlperf_suite.engines.protocol import Listener, RequestList
from mlperf_suite.errors import EngineError
from mlperf_suite.session.engine_source import EngineRequest
from mlperf_suite.session.inputs import Inputs

Answers = dict[tuple[int, ...], list[int]]
KINDS: dict[str, Callable[[list[list[int]]], list[list[int]]]] = {
    "good": lambda good: good,
    "cut": lambda good: [tokens[:16] for tokens in good],
    "another sample's": lambda good: good[1:] + good[:1],
}
_LEAD_TOKENS = 60
"""Before the reference highlights, so that an answer cut to 16 tokens holds none of them."""


class VaryingEngine(StandInEngine):
    """A stand-in whose answers and delays change from query to query."""

    def __init__(self, options: dict[str, Any], answers: dict[str, Answers]) -> None:
        self._options = options
        self._kinds = list(options.get("answers", ["good"]))
        self._delays = list(options.get("delays_s", [0.0]))
        self._answers = answers
        self._last_second: deque[float] = deque()
        super().__init__(Delays(), self._by_prompt, fail_after=options.get("fail_after"))

    def _by_prompt(self, prompt: Sequence[int]) -> list[int]:
        # A warm-up's prompts are none of the samples'.
        return self._answers[self._kinds[0]].get(identity_of(prompt), [1, 2, 3])

    def _times(self, now: float, tokens: int) -> tuple[float, float]:
        first_at, last_at = super()._times(now, tokens)
        self._last_second.append(now)
        while self._last_second[0] < now - 1:
            self._last_second.popleft()
        slow = len(self._last_second) > self._options.get("most_qps", math.inf)
        return first_at, first_at + 13 if slow else last_at

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        self.delays = Delays(rest_s=self._delays[0])
        super().submit(requests, generation, listener, stream=stream)
        for options in (self._kinds, self._delays):
            if len(options) > 1:
                options.pop(0)
        if folder := self._options.get("replace_by_file"):
            shutil.rmtree(folder)
            Path(folder).touch()
        if marker := self._options.get("marker"):
            Path(marker).touch()


def pytest_mlperf_load_engine(inputs: Inputs, request: EngineRequest) -> StandInEngine:
    options = json.loads(os.environ.get("STAND_IN", "{}"))
    if "log" in options:
        request.log_file.write_text(options["log"])
    if "load_error" in options:
        raise EngineError(options["load_error"])
    if "crash" in options:
        raise RuntimeError(options["crash"])
    answers: dict[str, Answers] = {kind: {} for kind in KINDS}
    tokenizer = inputs.tokenizer
    for benchmark in inputs.benchmarks or default_benchmarks():
        items = inputs.samples(benchmark).items
        ends = tokenizer([item.input for item in items])["input_ids"]
        highlights = tokenizer([item.reference for item in items])["input_ids"]
        # As long as the embedded model's own answers, and of the kind that the gates let pass.
        eos = tokenizer.eos_token_id
        good = [
            [*end[-_LEAD_TOKENS:], *tokens, eos]
            for end, tokens in zip(ends, highlights, strict=True)
        ]
        keys = [identity_of(prompt) for prompt in inputs.prompts(benchmark)]
        for kind, made_of in KINDS.items():
            answers[kind] |= dict(zip(keys, made_of(good), strict=True))
    return VaryingEngine(options, answers)
