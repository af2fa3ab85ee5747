"""Folders made to harm: reports and index of them say what they say in bounded time, and no escape
sequence, tag or formula of theirs does anything."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from evidence.hostile_runs.poisoned_folders import (
    ANY_NAME,
    RUN_NAME,
    check_is_text,
    check_shown,
    poison_run,
    run_in_bounds,
    write_all_unreadable,
)
from meta_tests.reports.hostile_runs import TEXT, poisoned
from meta_tests.reports.kept_run import KEPT_RUN, write_kept
from meta_tests.reports.outputs import terminal_text
from meta_tests.suite_runs import ROOT
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.engines.protocol import ClientFigures, EndpointFigures, RemoteRun
from mlperf_suite.judging.verdict_group import VerdictGroup
from mlperf_suite.reports.judged_report import judged_view
from mlperf_suite.reports.sections import Block, Column, Paragraph, Table
from mlperf_suite.reports.terminal import terminal_view
from mlperf_suite.reports.writing import write_index
from mlperf_suite.results.run_folder import SUMMARY_JSON
from mlperf_suite.results.schema import Summary
from mlperf_suite.results.typed_json import to_json

Told = list[str]
"""What a command printed, or what is shown in a terminal."""


def report_text(folder: Path) -> Told:
    """With its plots, of a run on an untrusted server."""
    run = write_kept(folder / RUN_NAME.format(1))
    content = json.loads((run / SUMMARY_JSON).read_text())
    remote = RemoteRun(ClientFigures(1, 0.1), (EndpointFigures("a"),), ("a",))
    content["run"]["remote"] = {"performance": to_json(remote)}
    (run / SUMMARY_JSON).write_text(json.dumps(content))
    assert main(["report", str(poison_run(run, TEXT))]) == 0
    return [terminal_text(Summary.read(json.loads((run / SUMMARY_JSON).read_text())))]


def index_text(folder: Path) -> Told:
    for number in range(2):
        poison_run(write_kept(folder / RUN_NAME.format(number)), TEXT)
    write_index(folder)
    return []


def closing_text(folder: Path) -> Told:
    """The closing summary, and blocks and judged logs as a terminal shows them."""
    content = poisoned(json.loads((KEPT_RUN / SUMMARY_JSON).read_text()), TEXT)
    for part in content["verdicts"]:
        part["status"] = "failed"
    screen = io.StringIO()
    table = Table((Column("what"),), [(TEXT,)])
    blocks: list[Block] = [Paragraph(TEXT, lead=TEXT, status=TEXT), table]
    console = Console(file=screen, width=80)
    console.print(terminal_view(blocks))
    console.print(judged_view([VerdictGroup(TEXT, ROUNDS["v6.1"], None, None, (), ())], Path(TEXT)))
    assert screen.getvalue().count("title") == 6
    return [terminal_text(Summary.read(content)), screen.getvalue()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("told", [report_text, index_text, closing_text])
def test_whatever_a_folder_says_is_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told: Callable[[Path], Told]
) -> None:
    """Of each renderer, once, with everything that a text may do."""
    check_shown(tmp_path, *told(tmp_path), *capsys.readouterr())
    check_is_text(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_a_folder_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    above = tmp_path / ANY_NAME
    assert main(["report", str(write_kept(above / ANY_NAME))]) == 0
    assert main(["report", str(above / "none")]) == 2
    write_index(above)
    check_shown(tmp_path, *capsys.readouterr())


def test_every_line_of_a_command_is_printed_by_one_function() -> None:
    package = ROOT / "mlperf_suite"
    files = [
        package / "__main__.py",
        package / "commands.py",
        *package.glob("features/**/*.py"),
    ]
    prints = {
        str(file.relative_to(package))
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Name) and node.id == "print"
    }
    assert {name for name in prints if not is_program(package / name)} == {"commands.py"}


def is_program(file: Path) -> bool:
    """Whether a feature runs it in a process of its own, whose last line another process reads."""
    guarded = 'if __name__ == "__main__":' in file.read_text().splitlines()
    return guarded and "features" in file.parts


def test_no_command_reads_what_never_ends(tmp_path: Path) -> None:
    results = tmp_path / "results"
    runs = write_all_unreadable(results)
    run_in_bounds(f"""
import os
from pathlib import Path
from mlperf_suite.__main__ import main
from mlperf_suite.reports.writing import write_index
os.chdir({str(tmp_path)!r})
for run in {runs!r}:
    print(run, sorted(os.listdir(run)), flush=True)
    main(["report", run])
write_index(Path({str(results)!r}))
""")
