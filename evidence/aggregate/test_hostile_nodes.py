"""Runs of nodes made to harm: their aggregate says what they say in bounded time, or refuses it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evidence.hostile_runs.poisoned_folders import (
    ANY_NAME,
    POISONS,
    check_is_text,
    check_shown,
    run_in_bounds,
    write_all_unreadable,
)
from meta_tests.features.aggregate.made_nodes import ROWS, STARTED, MadeNode, make_nodes
from meta_tests.reports.hostile_runs import TEXT, poison_file
from meta_tests.reports.kept_run import write_kept
from mlperf_suite.__main__ import main
from mlperf_suite.results.run_folder import CHECKSUMS_JSON, SUMMARY_JSON, file_sha256


def write_hostile_nodes(results: Path, poison: Any, names: Sequence[str] = "ab") -> list[Path]:
    """Runs of nodes that can be one aggregate, but for what they say."""
    folders = []
    for number, name in enumerate(names):
        began = STARTED + timedelta(seconds=number)
        folder = MadeNode(f"node-{name}", began=began).write(results / name)
        for path in (SUMMARY_JSON, "config.json"):
            poison_file(folder / path, poison)
        summary = json.loads((folder / SUMMARY_JSON).read_text())
        summary["meta"]["node_name"] = f"{name}{poison}" if isinstance(poison, str) else name
        (folder / SUMMARY_JSON).write_text(json.dumps(summary))
        log = folder / "Performance" / "mlperf_log_detail.txt"
        if not isinstance(poison, str):
            log.write_text(re.sub(r'"value": [\d.]+', f'"value": {poison}', log.read_text()))
        checksums = json.loads((folder / CHECKSUMS_JSON).read_text())
        checksums["files"] |= {p: file_sha256(folder / p) for p in checksums["files"]}
        (folder / CHECKSUMS_JSON).write_text(json.dumps(checksums))
        folders.append(folder)
    return folders


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
def test_anything_is_told_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], poison: Any
) -> None:
    nodes = map(str, write_hostile_nodes(tmp_path, poison))
    assert main(["aggregate", *nodes, "--out", str(tmp_path / "out")]) in (0, 2)
    check_shown(tmp_path, *capsys.readouterr())


@pytest.mark.filterwarnings("ignore")
def test_whatever_a_node_says_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = map(str, write_hostile_nodes(tmp_path, TEXT))
    assert main(["aggregate", *nodes, "--out", str(tmp_path / "out")]) == 0
    check_shown(tmp_path, *capsys.readouterr())
    check_is_text(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_a_folder_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    above = tmp_path / ANY_NAME
    made = make_nodes(above / "nodes", MadeNode(), MadeNode("node-b", rows=ROWS[:50]))
    nodes = list(map(str, made))
    assert main(["aggregate", *nodes, "--out", str(above / "out")]) == 0
    assert main(["aggregate", *nodes, *nodes, "--out", str(above / "more")]) == 2
    check_shown(tmp_path, *capsys.readouterr())


def test_it_reads_nothing_that_never_ends(tmp_path: Path) -> None:
    runs = write_all_unreadable(tmp_path / "results")
    other = str(write_kept(tmp_path / "other"))
    run_in_bounds(f"""
import os
from mlperf_suite.__main__ import main
os.chdir({str(tmp_path)!r})
for run in {runs!r}:
    print(run, sorted(os.listdir(run)), flush=True)
    main(["aggregate", run, {other!r}])
""")
