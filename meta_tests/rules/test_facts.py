"""What a run must score, or why nobody knows it."""

from typing import Any

import pytest

from mlperf_suite.benchmarks.definition import OWN_HEAD, Benchmark
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, OFFICIAL
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DEEPSEEK_R1
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.rules.facts import find_deviations, find_reference, find_speculation

LLAMA3 = "meta-llama/meta-llama-3-8b-instruct"
PART = "samples: the gate holds for the whole data set"
UNKNOWN = "no reference accuracy is known for the"


@pytest.mark.parametrize(
    ("max_new_tokens", "engine", "deviations"),
    [
        (128, {}, ()),
        (128, {"enable_prefix_caching": False, "dtype": "bfloat16"}, ()),
        (128, {"enable_prefix_caching": True}, ("a prefix cache",)),
        (130, {}, ("at most 130 new tokens, not 128",)),
        (128, {"model_changes": "hf_overrides"}, ("a model that is changed by hf_overrides",)),
        (128, {"server_model": "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"}, ()),
        (128, {"server_model": LLAMA3}, ("the server runs meta-llama/Meta-Llama-3-8B-Instruct",)),
    ],
)
def test_another_generation_is_told(max_new_tokens: Any, engine: Any, deviations: Any) -> None:
    assert find_deviations(OFFICIAL, max_new_tokens, engine) == deviations


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
def test_data_of_a_mode_by_their_size(answers: Any, available: Any, whole: Any, why: Any) -> None:
    workload = GPT_OSS_120B.workload
    assert workload is not None
    result = find_reference(
        workload, workload.model, "/data", answers, is_model=True, available=available, whole=whole
    )
    assert result == ((workload.reference, "") if not why else (None, why))


HEAD = "nvidia/gpt-oss-120b-Eagle3-long-context"
EAGLE3: dict[str, object] = {"method": "eagle3", "steps": 3, "topk": 1, "head": HEAD}
EAGLE3["quantization"] = "none"
MTP = EAGLE3 | {"method": "mtp", "head": OWN_HEAD, "quantization": "fp8"}
BY_EAGLE3 = "speculative decoding (eagle3)"
WHETHER = "whether it decodes speculatively"


def faults(
    benchmark: Benchmark, place: str, setting: object, round_: str = "v6.1"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    settings = {} if setting == {} else {"speculative": setting}
    result = find_speculation(benchmark, benchmark.scenario(place), ROUNDS[round_], settings)
    return result.deviations, result.undisclosed


@pytest.mark.parametrize(
    ("row", "place", "round_", "setting", "is_allowed"),
    [
        (GPT_OSS_120B, "Interactive", "v6.1", EAGLE3, True),
        # The rules have it since after that round.
        (GPT_OSS_120B, "Interactive", "v6.0", EAGLE3, False),
        (GPT_OSS_120B, "Server", "v6.1", EAGLE3, False),
        (GPT_OSS_120B, "Offline", "v6.1", EAGLE3, False),
        (DEEPSEEK_R1, "Interactive", "v6.0", MTP, True),
        (DEEPSEEK_R1, "Interactive", "v6.1", MTP | {"method": "nextn"}, True),
        (DEEPSEEK_R1, "Server", "v6.1", MTP, False),
        (LLAMA3_1_8B, "Interactive", "v6.1", EAGLE3, False),
    ],
)
def test_tokens_are_proposed_only_where_the_round_allows_it(
    row: Benchmark, place: str, round_: str, setting: dict[str, object], is_allowed: bool
) -> None:
    words = (f"speculative decoding ({setting['method']})",)
    assert faults(row, place, setting, round_) == (() if is_allowed else words, ())
    assert faults(row, place, None, round_) == ((), ())
    assert faults(row, place, {}, round_) == ((), (WHETHER,))


@pytest.mark.parametrize(
    ("change", "departure"),
    [
        ({"method": "ngram"}, "speculative decoding (ngram) with method ngram, not eagle3"),
        ({"method": "eagle3, in parallel"}, "method eagle3, in parallel, not eagle3"),
        ({"steps": "by batch size"}, f"{BY_EAGLE3} with steps by batch size, not 3"),
        ({"head": "nvidia/gpt-oss-120b-Eagle3"}, f"head nvidia/gpt-oss-120b-Eagle3, not {HEAD}"),
        ({"acceptance": "synthetic acceptance"}, f"{BY_EAGLE3} with synthetic acceptance"),
    ],
)
def test_other_speculation_departs(change: dict[str, object], departure: str) -> None:
    deviations, undisclosed = faults(GPT_OSS_120B, "Interactive", EAGLE3 | change)
    assert (len(deviations), undisclosed) == (1, ())
    assert deviations[0].endswith(departure)


@pytest.mark.parametrize("name", EAGLE3)
def test_speculation_of_which_a_part_is_not_said_is_not_judged(name: str) -> None:
    said = {key: value for key, value in EAGLE3.items() if key != name}
    part = f"the {name} of its speculative decoding"
    assert faults(GPT_OSS_120B, "Interactive", said) == ((), (part,))


@pytest.mark.parametrize("change", [{"head": "/models/head"}, {"quantization": "fp8"}])
def test_what_may_be_the_rounds_head_shows_nothing(change: dict[str, object]) -> None:
    deviations, undisclosed = faults(GPT_OSS_120B, "Interactive", EAGLE3 | change)
    assert (deviations, len(undisclosed)) == ((), 1)


def test_servers_that_are_not_alike_are_judged_each() -> None:
    each = [None, {}, EAGLE3]
    assert faults(GPT_OSS_120B, "Interactive", each) == ((), (WHETHER,))
    assert faults(GPT_OSS_120B, "Server", each) == ((BY_EAGLE3,), (WHETHER,))


def test_the_method_alone_as_earlier_versions_kept_it() -> None:
    assert faults(GPT_OSS_120B, "Server", "eagle3") == ((BY_EAGLE3,), ())
    deviations, undisclosed = faults(GPT_OSS_120B, "Interactive", "eagle3")
    assert (deviations, len(undisclosed)) == ((), 4)
