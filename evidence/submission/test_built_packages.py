"""Packages that the submission command builds, before endpoints-submission-cli."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evidence.endpoints.package_damages import official_ids
from evidence.from_elsewhere import ENDPOINTS_CLI, needs_endpoints_cli
from meta_tests.features.endpoints.made_package import CONCURRENCIES
from meta_tests.features.submission.made_curve import (
    FACTS,
    build,
    point_of,
    write_curve,
    write_facts,
    write_replay,
    write_tokenizer,
)
from mlperf_suite.features.endpoints.official_client_results.series import SERIES_MODELS


@needs_endpoints_cli
@pytest.mark.parametrize("dedicated", [False, True])
def test_a_package_of_every_curve_stands(tmp_path: Path, dedicated: bool) -> None:
    """Each curve joins the package of the one before."""
    for model in SERIES_MODELS:
        shutil.rmtree(tmp_path / "curve", ignore_errors=True)
        write_curve(tmp_path, model, dedicated=dedicated)
        write_facts(tmp_path, model)
        assert build(tmp_path) == 0
        assert official_ids(tmp_path / "out" / "Someone" / "box-2026", ENDPOINTS_CLI)[0] == set()


def test_a_full_size_package_of_replays_stands(tmp_path: Path) -> None:
    curve = write_curve(tmp_path)
    for concurrency in CONCURRENCIES:
        write_replay(curve, concurrency)
    facts = FACTS.replace(
        "[system]", '[warmup]\ndata_source = "made up"\nlogs_retained = true\n\n[system]', 1
    )
    (tmp_path / "submission.toml").write_text(write_tokenizer(tmp_path) + facts)
    assert build(tmp_path) == 0
    states = [point_of(tmp_path, c)["steady_state"]["status"] for c in CONCURRENCIES]
    assert states == ["windowable"] * len(CONCURRENCIES)
    if ENDPOINTS_CLI.is_file():
        package = tmp_path / "out" / "Someone" / "box-2026"
        assert official_ids(package, ENDPOINTS_CLI) == (set(), set())
