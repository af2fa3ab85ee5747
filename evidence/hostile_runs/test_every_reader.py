"""Every poison in every reader of folders: reports, index, terminal."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.hostile_runs.poisoned_folders import POISONS, RUN_NAME, check_shown, poison_run
from meta_tests.reports.hostile_runs import UNPRINTABLE, poisoned
from meta_tests.reports.kept_run import KEPT_RUN, write_kept
from meta_tests.reports.outputs import page_rows, terminal_text
from mlperf_suite.__main__ import main
from mlperf_suite.reports.writing import write_index
from mlperf_suite.results.run_folder import SUMMARY_JSON
from mlperf_suite.results.schema import Summary


def report(folder: Path, poison: Any) -> None:
    run = poison_run(write_kept(folder / RUN_NAME.format(1)), poison)
    assert main(["report", str(run)]) in (0, 2)


def index(folder: Path, poison: Any) -> None:
    for number in range(3):
        poison_run(write_kept(folder / RUN_NAME.format(number)), poison)
    write_index(folder)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
@pytest.mark.parametrize("read", [report, index])
def test_anything_is_told_or_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    read: Callable[[Path, Any], None],
    poison: Any,
) -> None:
    read(tmp_path, poison)
    check_shown(tmp_path, *capsys.readouterr())


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
def test_the_closing_summary_shows_anything(poison: Any) -> None:
    content = poisoned(json.loads((KEPT_RUN / SUMMARY_JSON).read_text()), poison)
    for part in content["verdicts"]:
        part["status"] = "failed"
    assert not UNPRINTABLE.search(terminal_text(Summary.read(content)))


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(_JSON)
def test_no_summary_breaks_the_index(anything: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "20261121-000000-edge-offline"
        run.mkdir()
        parts = dict.fromkeys(("meta", "run", "system", "regression"), anything)
        (run / SUMMARY_JSON).write_text(json.dumps(parts))
        write_index(Path(name))
        assert len(page_rows((Path(name) / "index.html").read_text())) == 2
