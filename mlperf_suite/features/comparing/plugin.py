"""Says which losses a session's baselines hide, before anything is measured."""

from __future__ import annotations

import textwrap

import pytest

from mlperf_suite.plugin.baseline_gate import baselines_of
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.workers import collects_suite


@pytest.hookimpl(trylast=True)
def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    baselines = baselines_of(config) if collects_suite(config) else {}
    settings, lines = settings_of(config), list[str]()
    # A path is to be copied.
    fold = textwrap.TextWrapper(78, break_on_hyphens=False, break_long_words=False)
    for baseline in baselines.values():
        from mlperf_suite.features.comparing.hidden_losses import hidden_losses

        if words := hidden_losses(baseline.summary, settings.max_regression, settings.repeat):
            lines += fold.wrap(f"note: --baseline {baseline.label}: {words}")
    return lines
