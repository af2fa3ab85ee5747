"""Folders made to harm: reports, index, comparison and aggregate of them say what
they say in bounded time, and no escape sequence, tag or formula of theirs does anything."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from evidence.hostile_runs.poisoned_folders import RUN_NAME, poison_run, write_hostile_nodes
from meta_tests.features.aggregate.made_nodes import ROWS, MadeNode, make_nodes
from meta_tests.reports.hostile_runs import FORMULA, TEXT, UNPRINTABLE, check_texts, poisoned
from meta_tests.reports.kept_run import KEPT_RUN, write_kept
from meta_tests.reports.outputs import HOSTILE, page_tags, terminal_text
from meta_tests.suite_runs import ROOT
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.engines.protocol import ClientFigures, EndpointFigures, RemoteRun
from mlperf_suite.features.endpoints.curve.curve_figures import CurveFigures, CurvePoint
from mlperf_suite.judging.verdict_group import VerdictGroup
from mlperf_suite.loadgen.timeline import TIMELINE_JSON
from mlperf_suite.reports.judged_report import judged_view
from mlperf_suite.reports.sections import Block, Column, Paragraph, Table
from mlperf_suite.reports.terminal import terminal_view
from mlperf_suite.reports.writing import write_index
from mlperf_suite.results.run_folder import CHECKSUMS_JSON, SUMMARY_JSON
from mlperf_suite.results.schema import Summary
from mlperf_suite.results.typed_json import to_json

NODES = MadeNode(), MadeNode("node-b", rows=ROWS[:50])
Told = list[str]
"""What a command printed, or what is shown in a terminal."""


def report_text(folder: Path) -> Told:
    """With its plots, of a run on an untrusted server, with a curve."""
    run = write_kept(folder / RUN_NAME.format(1))
    content = json.loads((run / SUMMARY_JSON).read_text())
    remote = RemoteRun(ClientFigures(1, 0.1), (EndpointFigures("a"),), ("a",))
    content["run"]["remote"] = {"performance": to_json(remote)}
    points = (CurvePoint(48, "failed", ("medium",), "a"),)
    content["curve"] = to_json(CurveFigures("c", points=points))
    (run / SUMMARY_JSON).write_text(json.dumps(content))
    assert main(["report", str(poison_run(run, TEXT))]) == 0
    return [terminal_text(Summary.read(json.loads((run / SUMMARY_JSON).read_text())))]


def index_text(folder: Path) -> Told:
    for number in range(2):
        poison_run(write_kept(folder / RUN_NAME.format(number)), TEXT)
    write_index(folder)
    return []


def comparison_text(folder: Path) -> Told:
    # What both have is not shown: only the first is one that harms.
    first, second = poison_run(write_kept(folder / "a"), TEXT), write_kept(folder / "b")
    answers = {"samples": [{"index": 7, "answer": f"another {HOSTILE}"}]}
    (first / "Accuracy" / "answers.json").write_text(json.dumps(answers))
    outputs = ("--plot", str(folder / "a.svg"), "--html", str(folder / "a.html"))
    assert main(["compare", str(first), str(second), *outputs, "--gate"]) == 1
    return []


def aggregate_text(folder: Path) -> Told:
    nodes = map(str, write_hostile_nodes(folder, TEXT))
    assert main(["aggregate", *nodes, "--out", str(folder / "out")]) == 0
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
@pytest.mark.parametrize(
    "told", [report_text, index_text, comparison_text, aggregate_text, closing_text]
)
def test_whatever_a_folder_says_is_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told: Callable[[Path], Told]
) -> None:
    """Of each renderer, once, with everything that a text may do."""
    shown = [*told(tmp_path), *capsys.readouterr()]
    check_texts(tmp_path)
    assert not any(map(UNPRINTABLE.search, shown))
    assert not any("Traceback" in text for text in shown)
    for page in tmp_path.rglob("*.html"):
        tags = page_tags(page.read_text())
        assert tags & {"script", "img", "iframe", "object"} == set()
        assert "&lt;script&gt;" in page.read_text().replace("<wbr>", "")
    for text in tmp_path.rglob("*.md"):
        assert re.search(r"(?<!\\)<script", text.read_text()) is None


@pytest.mark.filterwarnings("ignore")
def test_a_folder_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"run-\xff\xfe\x1b[2J\x07" + FORMULA.encode())
    above = tmp_path / name
    folder = str(write_kept(above / name))
    page = ("--plot", str(above / "a.png"), "--html", str(above / "a.html"))
    nodes = list(map(str, make_nodes(above / "nodes", *NODES)))
    none = str(above / "none")
    for command, status in (
        (["report", folder], 0),
        (["compare", folder, str(write_kept(tmp_path / "other")), *page], 0),
        (["aggregate", *nodes, "--out", str(above / "out")], 0),
        (["aggregate", *nodes, *nodes, "--out", str(above / "more")], 2),
        (["report", none], 2),
        (["compare", folder, none], 2),
    ):
        assert main(command) == status
    write_index(above)
    check_texts(tmp_path)
    assert not any(map(UNPRINTABLE.search, capsys.readouterr()))


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
    # The others are programs whose last line another process reads.
    programs = {
        "features/accelerators/platform_query.py",
        "features/conversion/parquet_conversion.py",
        "features/replicas/settings_search.py",
    }
    assert prints == {"commands.py", *programs}


READ = (
    *(SUMMARY_JSON, "config.json", "Accuracy/samples.json", "Accuracy/answers.json"),
    *("Accuracy/rouge_samples.json", "samples.csv", CHECKSUMS_JSON),
    *("Performance/timeline.json", "Performance/energy.json"),
    *("Performance/mlperf_log_detail.txt", "Performance/mlperf_log_summary.txt"),
)


def write_unreadable(folder: Path, name: str, kind: str) -> Path:
    """A run's folder in which a file would block or fill the memory."""
    write_kept(folder)
    summary = json.loads((folder / SUMMARY_JSON).read_text())
    summary["run"]["energy"] = {"measured": []}
    (folder / SUMMARY_JSON).write_text(json.dumps(summary))
    # Its plots take most of the time.
    (folder / "Performance" / TIMELINE_JSON).unlink()
    (folder / name).unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(folder / name)
    else:
        subprocess.run(["truncate", "-s10G", str(folder / name)], check=True)
    return folder


def test_no_command_reads_what_never_ends(tmp_path: Path) -> None:
    results = tmp_path / "results"
    runs = [
        write_unreadable(results / f"{RUN_NAME.format(number)}-{number + 2}", name, kind)
        for number, (name, kind) in enumerate((n, k) for n in READ for k in ("FIFO", "sparse"))
    ]
    other = write_kept(tmp_path / "other")
    code = f"""
import os, resource
from pathlib import Path
from mlperf_suite.__main__ import main
from mlperf_suite.reports.writing import write_index
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
os.chdir({str(tmp_path)!r})
for run in {list(map(str, runs))!r}:
    print(run, sorted(os.listdir(run)), flush=True)
    main(["report", run])
    main(["aggregate", run, {str(other)!r}])
main(["compare", {str(other)!r}, *{list(map(str, runs[1:]))!r}, "--gate"])
write_index(Path({str(results)!r}))
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=600)
