"""A wheel of the project without the libraries that grade answers, before a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.set_up.wheels import command, without_engine


def test_what_is_lacking_to_grade_is_one_line(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    selection = ("--benchmark", "deepseek-r1", "--endpoint", "http://127.0.0.1:9")
    client = without_engine(tmp_path_factory)
    status, output = command(tmp_path, client, "-m", "offline", *selection)
    assert status != 0 and "deepseek-r1's answers need pylatexenc and sympy" in output, output
