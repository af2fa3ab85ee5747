"""`-p meta_tests.added_benchmark_plugin`: the suite with one more benchmark, on a stand-in."""

from collections.abc import Sequence
from pathlib import Path

import meta_tests.without_torch  # noqa: F401 - before anything imports transformers
from mlperf_suite import benchmarks

benchmarks.__path__.append(str(Path(__file__).parent / "added_benchmark"))

# After the line above: the registry looks for benchmarks once.
from meta_tests.stand_in import Delays, StandInEngine  # noqa: E402
from mlperf_suite.session.inputs import Inputs  # noqa: E402


def pytest_mlperf_load_engine(inputs: Inputs) -> StandInEngine:
    """Answers with the prompt's last token, and a wrong one for every fourth of odd number."""

    def answer(prompt: Sequence[int]) -> list[int]:
        last = prompt[-1]
        return [1, last if last % 4 != 0 else 3]

    return StandInEngine(Delays(), answer, model=inputs.model_path)
