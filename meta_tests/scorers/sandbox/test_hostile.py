"""A hostile program of each kind in the sandbox: nothing happens to the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from meta_tests.scorers.sandbox.hostile import HOSTILE, aims, files_left, outcomes_of, remaining
from mlperf_suite.scorers.sandbox.box import ProgramOutcome, Sandbox


@pytest.fixture(scope="module")
def outcomes(
    sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, ProgramOutcome]]:
    with aims(tmp_path_factory.mktemp("secrets")) as names:
        yield outcomes_of(sandbox, HOSTILE, names)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_gets_nowhere(outcomes: Mapping[str, ProgramOutcome], name: str) -> None:
    assert HOSTILE[name].holds(outcomes[name]), outcomes[name]


def test_nothing_is_left_of_them(outcomes: Mapping[str, ProgramOutcome]) -> None:
    assert outcomes
    assert not remaining()
    assert not files_left()
