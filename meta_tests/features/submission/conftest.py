"""The submission command, with the description of a system that it needs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from meta_tests.features.endpoints.conftest import yaml_once
from meta_tests.features.submission.result_folders import submission_words, write_system
from mlperf_suite.__main__ import main

__all__ = ["yaml_once"]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    return write_system(tmp_path)


@pytest.fixture
def submit(
    tmp_path: Path, system: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run the command on results into tmp_path/tree; its exit status and all that it printed.

    `more`: a flag, or pairs of options and values.
    """

    def run(
        results: list[Path], *more: str, round_: str = "v6.1", division: str = "closed"
    ) -> tuple[int, str]:
        flags = more if len(more) == 1 else ()
        options = {"--round": round_, "--division": division}
        options |= dict(zip(more[::2], more[1::2], strict=False))
        words = submission_words(results, system, tmp_path / "tree", **options)
        status = main([*words, *flags])
        output = capsys.readouterr()
        return status, output.out + output.err

    return run
