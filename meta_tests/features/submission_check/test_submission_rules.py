"""What a system description must say where it speaks of a network."""

import math

import pytest

from meta_tests.made_runs import system_fields
from mlperf_suite.features.submission_check.submission_rules import (
    SYSTEM_FIELDS_OF_A_NETWORK,
    missing_system_fields,
)


@pytest.mark.parametrize("name", ["number_of_nodes", "accelerators_per_node"])
@pytest.mark.parametrize("value", ["8", " 8 ", 8, 8.0])
def test_counts_are_whole_numbers(name: str, value: object) -> None:
    assert missing_system_fields(system_fields() | {name: value}) == []


@pytest.mark.parametrize("name", ["number_of_nodes", "accelerators_per_node"])
@pytest.mark.parametrize("value", ["8 GPUs", "1 node", "8, 4", "-1", 1.5, True, [8], math.inf])
def test_counts_in_words_are_wrong(name: str, value: object) -> None:
    (wrong,) = missing_system_fields(system_fields() | {name: value})
    assert wrong.startswith(f"{name} ") and "not a whole number of " in wrong


def test_a_description_may_say_nothing_of_a_network() -> None:
    for value in (None, ""):
        assert missing_system_fields(system_fields() | {"is_network": value}) == []


@pytest.mark.parametrize("value", ["false", "true", "no"])
def test_any_text_asks_for_the_fields_of_a_network(value: str) -> None:
    described = system_fields() | {"is_network": value}
    (wrong,) = missing_system_fields(described)
    assert wrong.startswith(f"is_network {value} without network_type, ")
    assert all(name in wrong for name in SYSTEM_FIELDS_OF_A_NETWORK)
    # They must be there, empty or not.
    assert missing_system_fields(dict.fromkeys(SYSTEM_FIELDS_OF_A_NETWORK, "") | described) == []


@pytest.mark.parametrize("value", [False, True, 0, 1, [], {}])
def test_what_is_no_text_is_wrong_whatever_it_is(value: object) -> None:
    described = {**system_fields(), **dict.fromkeys(SYSTEM_FIELDS_OF_A_NETWORK, "x")}
    (wrong,) = missing_system_fields(described | {"is_network": value})
    assert wrong.startswith("is_network ") and wrong.endswith(" is not text: leave it out")
