"""The caching audit of the real engine: with its prefix cache it fails, without it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.features.caching_audit.figures import PART, CachingFigures


def audited(folder: Path, *arguments: str) -> SuiteRun:
    return run_suite(folder, "mlperf_suite/features/caching_audit/tests", *arguments)


def figures(run: SuiteRun) -> CachingFigures:
    caching: CachingFigures = run.summary.parts[PART]
    return caching


def test_a_prefix_cache_fails(tmp_path: Path) -> None:
    run = audited(tmp_path, "--engine-arg", "enable_prefix_caching=true")
    statuses = run.statuses()
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED, run.output
    assert statuses.pop("caching_speed") == "failed"
    assert statuses.pop("caching_prompt_tokens") == "failed"
    assert set(statuses.values()) == {"passed"}
    assert (figures(run).cached_tokens or 0) > 0


def test_no_prefix_cache_does_not(tmp_path: Path) -> None:
    """On a machine with much other work it may stay open."""
    run = audited(tmp_path)
    statuses = run.statuses()
    assert statuses.pop("caching_speed") in ("passed", "not judged"), run.output
    assert set(statuses.values()) == {"passed"}
    assert run.exit_code == 0
    assert figures(run).cached_tokens == 0
