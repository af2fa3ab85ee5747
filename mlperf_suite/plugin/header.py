"""Prints the first lines of a session: which model is measured, on what data, by which rules."""

from __future__ import annotations

import pytest

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.plugin.former_options import DROPPED
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.workers import collects_suite
from mlperf_suite.settings import Settings

_EMBEDDED = (
    "model: embedded, the suite's own small model (SmolLM2-135M-Instruct); measure\n"
    "  another with --model OWNER/NAME or --model FOLDER"
)


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = settings_of(config)
    dropped = [f"nothing to set: {line}" for line in config.stash.get(DROPPED, [])]
    if settings.logs is not None or not collects_suite(config):
        return dropped
    return [*dropped, *header_lines(settings)]


def header_lines(settings: Settings) -> list[str]:
    """What is measured, in lines of at most 80 columns unless a name is longer."""
    if settings.smoke:
        rules = "profile: smoke, not an MLPerf result (--profile official: MLPerf's own rules)"
    else:
        rules = f"profile: official, the rules of round {settings.round.name}"
    is_embedded = settings.model == EMBEDDED.model
    model = _EMBEDDED if is_embedded else f"model: {settings.model}"
    if settings.endpoints:
        model = f"model: {settings.model}, at {', '.join(t.url for t in settings.endpoints)}"
    return [rules, *model.splitlines(), f"data: {settings.dataset}; for MMLU: {settings.mmlu_data}"]
