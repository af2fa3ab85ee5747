"""The suite's limits and gates are those of MLCommons' programs, and the page says where its text
differs."""

from __future__ import annotations

import pytest

from evidence.from_elsewhere import INFERENCE, needs_inference
from evidence.submission_check.official_figures import (
    HEADER,
    NOT_HERE,
    PAGE,
    checker_constants,
    figures,
)
from evidence.tables import table_after
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.features.submission_check.scenario_folders import CODE, MEASUREMENTS_JSON
from mlperf_suite.features.submission_check.submission_rules import (
    MEASUREMENT_FIELDS,
    SYSTEM_FIELDS_FILLED,
    SYSTEM_FIELDS_OF_A_NETWORK,
    SYSTEM_FIELDS_PRESENT,
)
from mlperf_suite.rules.accuracy_files import MAX_ACCURACY_LOG_BYTES

pytestmark = needs_inference


def test_each_figure_is_that_of_the_programs() -> None:
    every = list(figures(INFERENCE))
    assert len(every) > 60
    assert [figure.name for figure in every if figure.own is None] == [NOT_HERE]
    for figure in every:
        assert figure.name == NOT_HERE or figure.of_programs == {figure.own}, figure


@pytest.mark.parametrize("round_", ROUNDS.values(), ids=ROUNDS)
def test_seeds_and_layout_are_the_checkers(round_: Round) -> None:
    constants = checker_constants(INFERENCE)
    assert constants.MODEL_CONFIG[round_.name]["seeds"] == round_.seeds
    code, measurements = (
        paths[round_.name].rpartition("/")[2]
        for paths in (constants.SRC_PATH, constants.MEASUREMENTS_PATH)
    )
    assert code == CODE[round_.layout]
    assert (measurements == MEASUREMENTS_JSON) is (round_.layout == "v6")


def test_the_fields_of_a_description_are_the_checkers() -> None:
    constants = checker_constants(INFERENCE)
    filled = constants.SYSTEM_DESC_MEANINGFUL_RESPONSE_REQUIRED_FIELDS
    every = {*SYSTEM_FIELDS_FILLED, *SYSTEM_FIELDS_PRESENT}
    assert set(filled) <= set(SYSTEM_FIELDS_FILLED)
    assert set(constants.SYSTEM_DESC_REQUIRED_FIELDS) <= every
    of_network = constants.SYSTEM_DESC_REQUIRED_FIELDS_NETWORK_MODE
    assert set(of_network) <= {*SYSTEM_FIELDS_OF_A_NETWORK, "is_network"}
    assert sorted(constants.SYSTEM_IMP_REQUIRED_FILES) == sorted(MEASUREMENT_FIELDS)
    assert constants.MAX_ACCURACY_LOG_SIZE == MAX_ACCURACY_LOG_BYTES


def test_the_page_names_each_contradiction() -> None:
    names = [figure.name for figure in figures(INFERENCE) if figure.contradicts]
    assert [row.split(" | ")[0].removeprefix("| ") for row in table_after(PAGE, HEADER)] == names
