"""What a run must score, or why nobody knows it."""

from __future__ import annotations

import pytest

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import EDGE, OFFICIAL
from mlperf_suite.compliance.facts import find_reference


def test_the_whole_data_set_has_the_benchmarks_own_reference():
    assert find_reference(OFFICIAL, OFFICIAL.model, "cnn_dailymail", 13_368) == (
        OFFICIAL.reference,
        "",
    )
    # A local copy has another name and as many samples.
    assert find_reference(EDGE, EDGE.model, "/data/eval.json", 5_000) == (EDGE.reference, "")
    copy = dict(OFFICIAL.shape) | {"architectures": ["LlamaForCausalLM"]}
    found, _ = find_reference(OFFICIAL, "/models/llama", "cnn_dailymail", 13_368, copy)
    assert found is OFFICIAL.reference


def test_the_embedded_samples_have_a_reference_of_any_number():
    found, why = find_reference(EMBEDDED, "embedded", "embedded", 22)
    assert why == "" and found is not None and found.answers == 22


@pytest.mark.parametrize(
    ("workload", "model", "dataset", "samples", "why"),
    [
        (
            OFFICIAL,
            OFFICIAL.model,
            "cnn_dailymail",
            20,
            "20 of 13,368 samples: the gate holds for the whole data set",
        ),
        (
            OFFICIAL,
            "Qwen/Qwen3-8B",
            "cnn_dailymail",
            13_368,
            "no reference accuracy is known for model Qwen/Qwen3-8B",
        ),
        (
            EMBEDDED,
            "embedded",
            "embedded",
            0,
            "0 of 84 samples: the gate holds for the whole data set",
        ),
        (
            EMBEDDED,
            "embedded",
            "mine.json",
            84,
            "no reference accuracy is known for data set mine.json",
        ),
    ],
)
def test_where_there_is_no_reference_the_reason_is_said(workload, model, dataset, samples, why):
    assert find_reference(workload, model, dataset, samples) == (None, why)
    assert find_reference(workload, model, dataset, samples, {"model_type": "x"}) == (None, why)
