"""Latencies at their limits."""

from __future__ import annotations

from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario
from meta_tests.tampering.rule_breaks import TPOT_P99, TTFT_P99, without_agreement
from mlperf_suite.rules import judge


@pytest.mark.parametrize(
    "where", [w for w in every_scenario() if w[1].limits], ids=lambda w: f"{w[0].id}-{w[1].name}"
)
def test_a_latency_just_below_its_limit_passes(where: Any) -> None:
    limits = where[1].limits
    run = MadeRun(where[0], where[1], "performance")
    run.entries[TTFT_P99] = int(limits.ttft_ms * 1e6) - 1
    run.entries[TPOT_P99] = int(limits.tpot_ms * 1e6) - 1
    assert without_agreement(judge(run.facts())) == {}
    for key in ("requested_server_ttft_latency", "requested_server_tpot_latency"):
        run.entries[key] //= 2
    assert without_agreement(judge(run.facts())) == {}
