"""The official submission checker on made-up trees, beside the suite's own verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.from_elsewhere import INFERENCE, needs_inference
from evidence.submission_check.damages import compare, damages_of
from evidence.verdicts import official_verdict, own_verdict
from meta_tests.features.submission_check.made_submissions import write_submission
from mlperf_suite.benchmarks.catalog import BENCHMARKS, judged_in_trees
from mlperf_suite.benchmarks.rounds import ROUNDS

pytestmark = needs_inference
PASSES_HERE_ALONE = {"'tokens_per_sample': 11000.0 in accuracy.txt (Offline)"}
"""A limit that its source calls a placeholder."""


@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.parametrize("id_", [benchmark.id for benchmark in judged_in_trees()])
def test_both_accept_what_the_round_offers_and_nothing_else(
    tmp_path: Path, id_: str, round_: str
) -> None:
    benchmark = BENCHMARKS[id_]
    write_submission(tmp_path, benchmark, ROUNDS[round_])
    official = official_verdict(tmp_path, INFERENCE, ROUNDS[round_])
    own = own_verdict(tmp_path, ROUNDS[round_])
    if round_ not in benchmark.rounds:
        assert official != "passes" and "`benchmark_of_round`" in own
    elif (id_, round_) == ("qwen3-vl-235b-a22b", "v6.1"):
        # LoadGen makes no Server or Interactive of this round, the official client does.
        assert official != "passes" and own == "`required_scenarios`"
    else:
        # TEST09's log of all answers is too large for an upload until it is cut.
        too_large = "`submission_upload`" if benchmark.audit("test09") else "passes"
        assert (official, own) == ("passes", too_large)


@pytest.mark.parametrize(
    ("id_", "round_"),
    [
        (benchmark.id, round_)
        for benchmark in judged_in_trees()
        for round_ in benchmark.rounds
        if not benchmark.id.startswith("llama3.1-8b")
    ],
)
def test_what_the_checker_finds_the_suite_finds(tmp_path: Path, id_: str, round_: str) -> None:
    benchmark = BENCHMARKS[id_]
    write_submission(tmp_path, benchmark, ROUNDS[round_])
    rows = list(compare(tmp_path, INFERENCE, ROUNDS[round_], benchmark))
    assert len(rows) == len(damages_of(benchmark, ROUNDS[round_]))
    unseen = {name for name, official, own in rows if official != "passes" and own == "passes"}
    assert unseen == (PASSES_HERE_ALONE & {name for name, _, _ in rows})
