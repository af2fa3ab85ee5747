"""Stand-in engines and meters for replicas, created by name in the processes of a Ray cluster."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.energy import CPU, GPU, NVML_LABEL, RAPL_LABEL, Counter, Meters
from mlperf_suite.engines.protocol import Likelihood, Score, ScoreRequest
from mlperf_suite.errors import EngineError


def echo(prompt: Sequence[int]) -> Sequence[int]:
    """The prompt as its answer."""
    return prompt


def answering(
    answer: Callable[[Sequence[int]], Sequence[int]],
    first_token_s: float,
    rest_s: float,
    folder: Path,
) -> StandInEngine:
    return StandInEngine(Delays(first_token_s, rest_s), answer)


class _Scoring(StandInEngine):
    """Scores each continuation by its length and its prompt's first token."""

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        for request in requests:
            first = request.prompt_token_ids[0]
            likelihoods = [
                Likelihood(-float(len(c)), bool(first % 2)) for c in request.continuations
            ]
            yield request.tag, Score(tuple(likelihoods), 1.5, len(request.prompt_token_ids), first)


def scoring(folder: Path) -> StandInEngine:
    """An engine that can score, and answers a prompt with itself, its first token after 5 ms."""
    return _Scoring(Delays(0.005, 0.01), echo)


def failing(folder: Path) -> StandInEngine:
    (folder / "engine-1.log").touch()
    raise EngineError(f"the stand-in engine does not load: see {folder}/engine-1.log")


GPU_WATTS, CPU_WATTS = 100.0, 50.0


def simulated_meters(gpus: int, uuid: str = "") -> Meters:
    """A GPU of the replica's own, or the one with this UUID, and the machine's CPU."""
    gpu, cpu = ("GPU 0 H100", GPU, NVML_LABEL), ("CPU package-0", CPU, RAPL_LABEL)
    own = uuid or f"GPU-{os.getpid()}"
    # The power draw, since joules would be of some moment before or after the one that is noted.
    counters = (
        Counter(*gpu, lambda: GPU_WATTS, gives="power", uuid=own),
        Counter(*cpu, lambda: CPU_WATTS, gives="power"),
    )
    return Meters(counters, simulated=True)
