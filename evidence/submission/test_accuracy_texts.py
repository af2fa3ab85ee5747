"""accuracy.txt of each benchmark, read by the regular expressions of the official checker."""

from __future__ import annotations

import re

import pytest

from meta_tests.made_runs import MadeRun
from mlperf_suite.benchmarks.catalog import judged_in_trees
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.features.submission.texts import accuracy_txt

# The figures that the official submission checker looks for in accuracy.txt, by metric.
OFFICIAL_FIGURE = {
    name: rf".*'{name}':\s+'?([\d.]+)'?.*" for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")
}
OFFICIAL_FIGURE |= {
    "word_accuracy": r"Word Error Rate\:.*, accuracy=([0-9\.]+)%",
    "f1": r'\{.*"f1":\s*([\d\.]+).*\}',
}
OFFICIAL_FIGURE |= {
    name: rf".*'{name}':\s([\d.]+).*"
    for name in ("gen_len", "tokens_per_sample", "gsm8k", "mbxp", "exact_match")
}


@pytest.mark.parametrize("row", judged_in_trees(), ids=lambda row: row.id)
def test_accuracy_txt_has_each_figure_where_the_checker_looks_for_it(row: Benchmark) -> None:
    scores = MadeRun(row, row.scenarios[0], "accuracy").good_scores()
    number = scores.pop(row.counted_as)
    text = accuracy_txt({**scores, "gen_num": number}, row.counted_as, "ab" * 32, "")
    for target in row.reference.scores:
        figures = [
            match[1]
            for line in text.splitlines()
            if (match := re.match(OFFICIAL_FIGURE[target.name], line))
        ]
        # Of f1 a share.
        unit = 100 if target.name == "f1" else 1
        assert [unit * float(score) for score in figures] == [target.value]
    assert f"hash={'ab' * 32}" in text.splitlines()
