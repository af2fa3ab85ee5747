"""What a run must score, or why nobody knows it."""

from __future__ import annotations

from typing import Any

import pytest

from mlperf_suite.benchmarks.deepseek_r1 import DEEPSEEK_R1
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.benchmarks.llama3_1_8b import EDGE, LLAMA3_1_8B, OFFICIAL
from mlperf_suite.loadgen.load_plan import MODES
from mlperf_suite.rules.facts import find_departures, find_reference, find_speculation

PART = "samples: the gate holds for the whole data set"
UNKNOWN = "no reference accuracy is known for the"


def test_the_whole_data_set_has_the_benchmarks_own_reference() -> None:
    assert find_reference(OFFICIAL, OFFICIAL.model, "cnn_dailymail", 13_368) == (
        OFFICIAL.reference,
        "",
    )
    # A local copy has another name and as many samples.
    assert find_reference(EDGE, EDGE.model, "/data/eval.json", 5_000) == (EDGE.reference, "")
    copy = dict(OFFICIAL.shape) | {"architectures": ["LlamaForCausalLM"]}
    reference, _ = find_reference(
        OFFICIAL, "/models/llama", "cnn_dailymail", 13_368, model_config=copy
    )
    assert reference is OFFICIAL.reference


def test_the_embedded_samples_have_a_reference_of_any_number() -> None:
    reference, why = find_reference(EMBEDDED, "embedded", "embedded", 22)
    assert why == "" and reference is not None and reference.answers == 22


@pytest.mark.parametrize(
    ("workload", "model", "dataset", "samples", "why"),
    [
        (OFFICIAL, OFFICIAL.model, "cnn_dailymail", 20, f"20 of 13,368 {PART}"),
        (OFFICIAL, "Qwen/Qwen3-8B", "cnn_dailymail", 13_368, f"{UNKNOWN} model Qwen/Qwen3-8B"),
        (EMBEDDED, "embedded", "embedded", 0, f"0 of 84 {PART}"),
        (EMBEDDED, "embedded", "mine.json", 84, f"{UNKNOWN} data mine.json"),
    ],
)
def test_where_there_is_no_reference_the_reason_is_said(
    workload: Any, model: Any, dataset: Any, samples: Any, why: Any
) -> None:
    for model_config in (None, {"model_type": "x"}):
        reference = find_reference(workload, model, dataset, samples, model_config=model_config)
        assert reference == (None, why)


@pytest.mark.parametrize(
    ("available", "is_known"), [(13_368, True), (13_367, False), (20_000, False)]
)
def test_other_data_than_the_benchmarks_is_a_copy_only_where_it_is_as_large(
    available: Any, is_known: Any
) -> None:
    reference, why = find_reference(
        OFFICIAL, OFFICIAL.model, "mine.json", 13_368, available=available
    )
    assert (reference is not None) == is_known
    assert why == ("" if is_known else f"{UNKNOWN} data mine.json")


@pytest.mark.parametrize(
    ("max_new_tokens", "engine", "departures"),
    [
        (128, {}, ()),
        (128, {"enable_prefix_caching": False, "dtype": "bfloat16"}, ()),
        (128, {"enable_prefix_caching": True}, ("a prefix cache",)),
        (130, {}, ("at most 130 new tokens, not 128",)),
    ],
)
def test_another_generation_is_told_by_the_engine_itself(
    max_new_tokens: Any, engine: Any, departures: Any
) -> None:
    assert find_departures(OFFICIAL, max_new_tokens, engine) == departures


@pytest.mark.parametrize(
    ("answers", "available", "whole", "why"),
    [
        (4_395, 4_395, None, ""),
        (990, 990, 990, ""),
        (6_396, 6_396, 6_396, ""),
        (100, 990, 990, f"100 of 990 {PART}"),
        (990, 991, 990, f"{UNKNOWN} data /data"),
        (6_396, 6_396, None, f"{UNKNOWN} data /data"),
    ],
)
def test_a_mode_with_data_of_its_own_is_known_by_their_size(
    answers: Any, available: Any, whole: Any, why: Any
) -> None:
    workload = GPT_OSS_120B.workload
    assert workload is not None
    result = find_reference(
        workload, workload.model, "/data", answers, available=available, whole=whole
    )
    assert result == ((workload.reference, "") if not why else (None, why))


def test_only_modes_of_other_data_than_accuracys_have_a_size_of_their_own() -> None:
    sizes = {mode: GPT_OSS_120B.own_samples_of(mode) for mode in MODES}
    assert sizes == {
        "accuracy": None,
        "performance": 6_396,
        "test06": 6_396,
        "test07": 990,
        "test09": 6_396,
        "caching": 6_396,
    }
    assert {LLAMA3_1_8B.own_samples_of(mode) for mode in MODES} == {None}


@pytest.mark.parametrize(("scenario", "is_allowed"), [("Interactive", True), ("Server", False)])
def test_tokens_are_proposed_only_where_the_benchmark_allows_it(
    scenario: Any, is_allowed: Any
) -> None:
    place = GPT_OSS_120B.scenario(scenario)
    assert find_speculation(GPT_OSS_120B, place, {}) == ()
    departures = find_speculation(GPT_OSS_120B, place, {"speculative": "eagle3"})
    assert departures == (() if is_allowed else ("speculative decoding (eagle3)",))


def test_a_round_offers_a_part_of_the_scenarios() -> None:
    names = {
        round_: [s.name for s in DEEPSEEK_R1.offered_in(round_)] for round_ in ("v5.1", "v6.0")
    }
    assert names["v5.1"] == ["Offline", "Server"]
    assert names["v6.0"] == ["Offline", "Server", "Interactive"]
    assert GPT_OSS_120B.offered_in("v5.1") == ()
