"""NVTX's own package."""

from __future__ import annotations

import pytest

from mlperf_suite import ranges


def test_the_package_itself_takes_the_calls() -> None:
    pytest.importorskip("nvtx", reason="no package nvtx: .venv/bin/python -m pip install nvtx")
    ranges.turn_on()
    with ranges.named("real"):
        assert ranges.are_on()
    ranges.turn_off()
    assert not ranges.are_on()
