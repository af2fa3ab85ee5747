"""The official draw of function-calling samples, made by the checker's own data (`make bfcl`)."""

from __future__ import annotations

import pytest

from meta_tests.suite_runs import ROOT
from mlperf_suite.scorers.function_calls import drawn_samples

BFCL = ROOT / ".bfcl/bin/python"


@pytest.mark.skipif(not BFCL.is_file(), reason="needs make bfcl")
def test_the_official_draw_has_995_samples() -> None:
    assert len(drawn_samples(BFCL)) == 995
