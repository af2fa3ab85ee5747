"""The tables of MLPerf Endpoints: cohorts, drafters and the regions of a curve."""

from typing import Any

import numpy as np
import pytest
from msgspec import convert, structs

from meta_tests.features.endpoints.made_official_client import client_series
from mlperf_suite.features.endpoints.official_client_results.result_files import Distribution
from mlperf_suite.features.endpoints.official_client_results.series import (
    SEED_SETS,
    Regions,
    cohort_number,
    is_approved_drafter,
    min_duration_s,
)
from mlperf_suite.features.endpoints.rules.distribution_checks import whole_faults


@pytest.mark.parametrize(
    ("c_max", "c_min", "ends"),
    # The rules' examples (§5.5, appendix B); in the second log2(255) / 3 is 2.665.
    [(1024, 16, (26, 117)), (256, 1, (7, 41)), (8192, 32, (52, 437))],
)
def test_regions_end_where_the_rules_examples_say(
    c_max: int, c_min: int, ends: tuple[int, int]
) -> None:
    regions = Regions.of(c_max, c_min)
    assert (regions.low, regions.medium) == ends


def test_a_point_is_in_its_region_and_below_32_in_that_of_low_latency() -> None:
    regions = Regions.of(1024, 16)
    names = [[*regions.of_point(c)] for c in (26, 27, 32, 117, 118, 1024, 1025)]
    low, medium, high = (["low"], ["medium"], ["high"])
    ultra = ["ultra-low"]
    assert names == [ultra + low, ultra + medium, ultra + medium, medium, high, high, []]
    declared = Regions.of(1024, 16, c_min_declared=True)
    assert [[*declared.of_point(c)] for c in (16, 17)] == [ultra, low]


@pytest.mark.parametrize("bounds", [(32, 16), (33, 33), (1024, 0), (16, 16)])
def test_other_bounds_are_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="C_min"):
        Regions.of(*bounds)


def test_a_set_of_seeds_serves_four_cohorts() -> None:
    cohorts = ["2026-10-C0", "2026-10-C1", "2026-11-C0", "2026-12-C0", "2026-12-C1", "2026-13-C0"]
    served = [SEED_SETS["A"].serves(cohort) for cohort in cohorts]
    assert served == [False, True, True, True, False, False]
    december, january = cohort_number("2026-12-C1"), cohort_number("2027-01-C0")
    assert december is not None and january == december + 1


def test_a_drafter_may_be_used_two_cohorts_after_its_approval() -> None:
    checksum = "git-sha1:56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad"
    assert is_approved_drafter("deepseek-r1", checksum, "2026-10-C1")
    assert not is_approved_drafter("deepseek-r1", checksum, "2026-10-C0")
    assert not is_approved_drafter("gpt-oss-120b", checksum, "2026-10-C1")
    assert not is_approved_drafter("deepseek-r1", checksum, "soon")


def test_a_point_lasts_longer_above_32() -> None:
    assert [min_duration_s(concurrency) for concurrency in (1, 32, 33)] == [600, 600, 1200]


LENGTHS = np.minimum(np.random.default_rng(1).lognormal(7.7, 1.0, 20_000).astype(int), 20_000) + 100
"""Of answers that differ much, as deepseek-r1's do."""


def series_of(values: Any) -> Distribution:
    return convert(client_series(np.asarray(values)), Distribution)


def test_one_token_more_is_seen() -> None:
    series = series_of(LENGTHS[:1000])
    assert series.total is not None
    assert list(whole_faults(series, 1000)) == []
    assert list(whole_faults(structs.replace(series, total=series.total + 1), 1000)) != []
