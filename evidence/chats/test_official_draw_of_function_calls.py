"""The official draw of function-calling samples, made by the checker's own data."""

from __future__ import annotations

import pytest

from meta_tests.suite_runs import ROOT
from mlperf_suite.features.chats.function_calls import drawn_samples

BFCL = ROOT / ".bfcl"


@pytest.mark.skipif(not (BFCL / ".set-up").is_file(), reason="no bfcl-eval: make bfcl")
def test_the_official_draw_has_995_samples() -> None:
    assert len(drawn_samples(BFCL / "bin" / "python")) == 995
