"""What a run over a part of the data must score, and which models are a workload's own."""

from __future__ import annotations

import csv

import pytest

from mlperf_suite.benchmarks.definition import at_least, within
from mlperf_suite.benchmarks.embedded import EMBEDDED, EMBEDDED_REFERENCE_TABLE
from mlperf_suite.benchmarks.llama3_1_8b import OFFICIAL


def test_the_official_reference_is_of_the_whole_data_set_alone() -> None:
    assert OFFICIAL.reference_for(13_368) is OFFICIAL.reference
    assert [OFFICIAL.reference_for(n) for n in (1, 20, 13_367, 13_369)] == [None] * 4
    assert EMBEDDED.reference_for(85) is None


def test_the_whole_embedded_table_gives_the_figures_that_are_written_down() -> None:
    # The last answers of the table are of the whole set, whose means are written beside it.
    assert EMBEDDED.reference_of is not None
    reference = EMBEDDED.reference_of(84)
    for score in EMBEDDED.reference.scores:
        assert reference.of(score.name) == score
    assert EMBEDDED.reference_for(84) is EMBEDDED.reference


@pytest.mark.parametrize("answers", [1, 22, 83])
def test_a_part_of_the_embedded_data_is_compared_with_its_own_samples(answers: int) -> None:
    with EMBEDDED_REFERENCE_TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))[:answers]
    reference = EMBEDDED.reference_for(answers)
    assert reference is not None and reference.answers == answers
    rouge1, gen_len = reference.of("rouge1"), reference.of("gen_len")
    assert rouge1 is not None and gen_len is not None
    mean = sum(float(row["rouge1"]) for row in rows) / answers * 100
    assert rouge1.value == pytest.approx(mean, abs=1e-4)
    assert gen_len.value == sum(int(row["characters"]) for row in rows)
    # The gate is as far from the mean as one of so few answers scatters: rouge1 by 14% each.
    margin = 0.14 / answers**0.5
    assert rouge1.share == pytest.approx(1 - 4 * margin)
    assert rouge1.strict_share == pytest.approx(1 - 3 * margin)
    length = max(0.1, 4 * 0.12 / answers**0.5)
    assert gen_len.share == pytest.approx(1 - length)


def test_the_least_that_passes() -> None:
    score = at_least("rouge1", 40, 0.99, 0.999)
    assert (score.low(), score.low(strict=True)) == (pytest.approx(39.6), pytest.approx(39.96))
    length = within("gen_len", "characters", 1000)
    assert (length.low(strict=True), length.high) == (pytest.approx(900), pytest.approx(1100))


def test_a_model_is_known_by_its_name_or_by_its_shape() -> None:
    shape = dict(OFFICIAL.marks.shape)
    assert OFFICIAL.is_model("META-LLAMA/Llama-3.1-8B-Instruct", None)
    assert OFFICIAL.is_model("/models/llama", shape | {"torch_dtype": "bfloat16"})
    assert not OFFICIAL.is_model("/models/llama", None)
    assert not OFFICIAL.is_model("/models/llama", shape | {"num_hidden_layers": 80})
    assert not EMBEDDED.is_model("other", {})
