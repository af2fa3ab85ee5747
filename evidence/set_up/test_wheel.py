"""A wheel of the project, unpacked into an empty folder, is the command `mlperf-suite`."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.set_up.wheels import command, without_engine


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return without_engine(tmp_path_factory)


def test_the_command_is_pytest_on_the_suites_tests(tmp_path: Path, client: dict[str, str]) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    status, output = command(tmp_path, client, "-m", "offline and datacenter", "--collect-only")
    assert status == 0, output
    assert "test_offline.py" in output and "warning" not in output
    # pytest-benchmark makes its folder in every session; a client's environment has none.
    assert {path.name for path in tmp_path.iterdir()} <= {"pytest.ini", ".benchmarks"}


def test_what_a_client_lacks_is_one_line(tmp_path: Path, client: dict[str, str]) -> None:
    status, output = command(tmp_path, client, "-m", "offline and datacenter")
    assert status != 0 and "install vllm into this environment" in output, output
    assert "Traceback" not in output
