"""The made data of the published benchmarks, for every test of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.submission.made_data import write_published
from evidence.submission.published import PUBLISHED


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder with a benchmark's made data in it, written once."""
    folder = tmp_path_factory.mktemp("published")

    def write(id_: str) -> Path:
        if not (folder / id_ / "answers.json").is_file():
            write_published(folder, PUBLISHED[id_])
        return folder

    return write
