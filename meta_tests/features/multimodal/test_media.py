"""Benchmarks with sound or pictures: what a round changes, and what may not be changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.engines.protocol import MODEL_CHANGES
from mlperf_suite.engines.vllm_arguments import _model_changes
from mlperf_suite.errors import UsageError
from mlperf_suite.features.multimodal.hierarchical_f1 import HierarchicalF1Scorer
from mlperf_suite.features.multimodal.product_prompts import ProductPrompt
from mlperf_suite.features.multimodal.qwen3_vl import QWEN3_VL
from mlperf_suite.rules.facts import find_departures
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings

WITH_MEDIA = [b for b in BENCHMARKS.values() if b.workload is not None and b.workload.media]


@pytest.mark.parametrize(
    ("profile", "round_", "longest"),
    [("smoke", "v6.0", 48), ("official", "v6.0", 2048), ("official", "v6.1", 150)],
)
def test_each_round_has_its_prompt_answer_limit_and_scorer(
    profile: str, round_: Any, longest: int
) -> None:
    options = {"benchmark": [QWEN3_VL.id], "profile": profile, "round": round_}
    workload = resolve_settings(options, {}).workload(QWEN3_VL)
    assert workload.prompt == ProductPrompt(round_)
    assert workload.scorer == HierarchicalF1Scorer(strips=round_ == "v6.1")
    limit = workload.generation.max_new_tokens
    assert limit == longest


@pytest.mark.parametrize("row", WITH_MEDIA, ids=lambda row: row.id)
@pytest.mark.parametrize("options", [{"endpoint": ["http://127.0.0.1:9"]}, {"replicas": "2"}])
def test_an_engine_that_is_not_given_the_media_is_refused(
    row: Any, options: dict[str, Any]
) -> None:
    settings = resolve_settings({"benchmark": [row.id], **options}, {})
    (option,) = options
    if (option, row.smoke.media) == ("endpoint", "picture"):
        # A chat server is given it in a message.
        Inputs(settings, [row])._check_media(row)
        return
    with pytest.raises(UsageError, match=f"--{option}: {row.id}'s prompts carry {row.smoke.media}"):
        Inputs(settings, [row])._check_media(row)
    Inputs(resolve_settings({"benchmark": [row.id]}, {}), [row])._check_media(row)


@pytest.mark.parametrize("name", ["mm_processor_kwargs", "media_io_kwargs"])
def test_arguments_that_change_a_pictures_tokens_depart_by_name(name: str) -> None:
    assert QWEN3_VL.workload is not None
    unchanged: dict[str, Any] = {"mm_processor_kwargs": None, "media_io_kwargs": {}}

    def changes(**values: Any) -> dict[str, str]:
        media = SimpleNamespace(**(unchanged | values))
        model = SimpleNamespace(model="a", hf_config_path=None, multimodal_config=media)
        return _model_changes(SimpleNamespace(model_config=model))

    assert changes() == {}
    assert changes(**{name: {"max_pixels": 1}}) == {MODEL_CHANGES: name}
    departures = find_departures(QWEN3_VL.workload, 2048, changes(**{name: {"max_pixels": 1}}))
    assert departures == (f"a model that is changed by {name}",)
