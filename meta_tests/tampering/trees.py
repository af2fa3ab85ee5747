"""Submission trees whose logs LoadGen wrote: replayed answers at MLPerf's own durations.

`python -m evidence.submission` made them (docs/submission.md); they are no measurement.
Kept packed, since a tree takes an hour of runs.
"""

import tarfile
from pathlib import Path

from mlperf_suite.benchmarks.rounds import ROUNDS, Round

_PACKED = Path(__file__).parent / "honest_trees"
LLAMA2, LLAMA3_1_405B = "v6.1-llama2-70b-99.9", "v6.0-llama3.1-405b"
HONEST_TREES = (LLAMA2, LLAMA3_1_405B)
"""Each by its round and its benchmark: Offline and Server in the closed division, with TEST06."""


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(_PACKED / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


def round_of_tree(name: str) -> Round:
    return ROUNDS[name.partition("-")[0]]
