"""`-p meta_tests.scoring_plugin`: MMLU on a stand-in engine that does as SCORING tells it.

SCORING is JSON: `fail_after` the number of questions after which it dies, `interrupt_after` after
which the user presses Ctrl-C; `asked` a file that gets a line for each question asked; `engines`
the number of engines that there can be; `log` what the engine writes to its log.
"""

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import meta_tests.without_torch  # noqa: F401 - before anything imports transformers
from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.engines.protocol import EngineDescription, Likelihood, Score, ScoreRequest
from mlperf_suite.errors import EngineDiedError
from mlperf_suite.session.engine_source import EngineRequest
from mlperf_suite.session.inputs import Inputs


class ScoringStandIn(StandInEngine):
    """Likelihoods that depend on the prompt's tokens alone, so that any two runs agree."""

    def __init__(self, options: dict[str, Any], max_model_len: int) -> None:
        super().__init__(Delays(), lambda prompt: [1])
        self._told = options
        self._max_model_len = max_model_len

    @property
    def description(self) -> EngineDescription:
        return EngineDescription("stand-in engine", "1", "stand-in", True, self._max_model_len)

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        for number, request in enumerate(requests):
            if number == self._told.get("fail_after"):
                self.close()
                raise EngineDiedError("the stand-in engine died, as configured")
            if number == self._told.get("interrupt_after"):
                raise KeyboardInterrupt
            if "asked" in self._told:
                with Path(self._told["asked"]).open("a") as file:
                    file.write(f"{len(request.prompt_token_ids)}\n")
            best = zlib.crc32(str(request.prompt_token_ids).encode()) % 4
            likelihoods = tuple(Likelihood(-1.0 if i == best else -2.0, False) for i in range(4))
            yield request.tag, Score(likelihoods, 1.0, len(request.prompt_token_ids), 0)


def pytest_mlperf_engine_count() -> int:
    return int(json.loads(os.environ.get("SCORING", "{}")).get("engines", 1))


def pytest_mlperf_load_engine(inputs: Inputs, request: EngineRequest) -> StandInEngine:
    options = json.loads(os.environ.get("SCORING", "{}"))
    if "log" in options:
        request.log_file.write_text(options["log"])
    return ScoringStandIn(options, inputs.settings.max_model_len or 8192)
