"""Folders made to harm: no escape sequence, tag or formula of theirs does anything,
and nothing elsewhere is read or written.

More of them are in evidence/hostile_runs."""

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from meta_tests.reports.hostile_runs import TEXT, UNPRINTABLE, check_pages, poison_file, poisoned
from meta_tests.reports.kept_run import KEPT_RUN, change_summary, write_kept
from meta_tests.reports.outputs import page_tags, terminal_text
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.verdict_group import JudgedFigures, VerdictGroup
from mlperf_suite.reports.csv_table import csv_text
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.judged_report import judged_csv, judged_sections, judged_view
from mlperf_suite.reports.sections import Block, Column, Paragraph, Table
from mlperf_suite.reports.terminal import terminal_view
from mlperf_suite.reports.writing import write_index, write_reports
from mlperf_suite.results.baseline import answer_scores
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_summary
from mlperf_suite.results.schema import Summary
from mlperf_suite.rules.verdict import Verdict


def poisoned_run(folder: Path) -> str:
    write_kept(folder)
    for path in (SUMMARY_JSON, "config.json", "Accuracy/samples.json"):
        poison_file(folder / path, TEXT)
    return str(folder)


@pytest.mark.filterwarnings("ignore")
def test_whatever_a_folder_says_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each renderer, once, with everything that a text may do."""
    runs = [poisoned_run(tmp_path / f"20261120-06562{n}-llama3.1-8b-server") for n in range(2)]
    change_summary(Path(runs[0]), meta={"run_name": TEXT})
    assert main(["report", runs[0]]) == 0
    outputs = ("--plot", str(tmp_path / "a.svg"), "--html", str(tmp_path / "a.html"))
    assert main(["compare", *runs, *outputs, "--gate"]) == 1
    write_index(tmp_path)
    check_pages(tmp_path, pages=3)
    assert not any(UNPRINTABLE.search(text) or "Traceback" in text for text in capsys.readouterr())


def test_a_terminal_shows_text_alone() -> None:
    """The closing summary, blocks, and judged logs."""
    content = poisoned(json.loads((KEPT_RUN / SUMMARY_JSON).read_text()), TEXT)
    for part in content["verdicts"]:
        part["status"] = "failed"
    screen = io.StringIO()
    table = Table((Column("what"),), [(TEXT,)])
    blocks: list[Block] = [Paragraph(TEXT, lead=TEXT, status=TEXT), table]
    console = Console(file=screen, width=80)
    console.print(terminal_view(blocks))
    unjudged = Verdict("hash", "not judged", "nothing", "a hash", f"no file {TEXT}")
    verdicts = (Verdict("min_duration", "failed", "10 s", "600 s"), unjudged)
    modes = ("performance", "accuracy")
    figures = JudgedFigures(scores={TEXT: 1.0})
    group = VerdictGroup(TEXT, ROUNDS["v6.1"], None, None, verdicts, modes, figures)
    console.print(judged_view([group], Path(TEXT)))
    assert screen.getvalue().count("title") == 10
    page = html_page(judged_sections([group], Path(TEXT)))
    assert page_tags(page) & {"script", "img"} == set()
    assert not UNPRINTABLE.search(judged_csv([group])) and judged_csv([group]).count("title") == 2
    # A spreadsheet computes what begins so.
    assert csv_text(["a"], [{"a": "=1+1", "b": 2}, {"a": -1}]) == "a\n'=1+1\n-1\n"
    assert "min_duration: " in screen.getvalue()
    assert "not judged: no file " in screen.getvalue()
    for shown in (terminal_text(Summary.read(content)), screen.getvalue()):
        assert not UNPRINTABLE.search(shown)


@pytest.mark.usefixtures("undrawn")
def test_nothing_is_written_through_a_link(run: Path, tmp_path: Path) -> None:
    """In the place of a report, of half of one, of plots or of their folder."""
    elsewhere, mine = tmp_path / "elsewhere", tmp_path / "mine.txt"
    elsewhere.mkdir()
    mine.write_text("mine")
    (run / "plots").symlink_to(elsewhere)
    names = ("report.md", "report.html")
    for name in (*names, *(f"{name}.{os.getpid()}.part" for name in names)):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(mine)
    write_reports(run)
    assert list(elsewhere.iterdir()) == []
    assert not any((run / name).is_symlink() for name in names)
    plots = list((run / "plots").glob("*.png"))
    for plot in plots:
        plot.unlink()
        plot.symlink_to(mine)
    write_reports(run)
    assert plots and mine.read_text() == "mine"
    assert not list(run.rglob("*.part"))


@pytest.mark.parametrize("levels", [90, 101, 100_000])
def test_what_is_nested_too_deeply_is_not_read(tmp_path: Path, levels: int) -> None:
    deep = "[" * levels + "]" * levels
    (tmp_path / SUMMARY_JSON).write_text(f'{{"meta": {{}}, "system": {deep}}}')
    assert (read_summary(tmp_path) is None) == (levels > 90)


def test_scores_that_no_answer_can_have_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "Accuracy").mkdir()
    for score in (1.7e308, float("nan"), 10**400, "a", [1]):
        content = {"dataset_sha256": "d", "scores": {"rouge1": [1.0, score, 2.0]}}
        (tmp_path / "Accuracy" / "rouge_samples.json").write_text(json.dumps(content))
        assert answer_scores(tmp_path)[1] in ({"rouge1": {0: 1.0, 2: 2.0}}, {})
    # A table with two columns of one name scores none.
    (tmp_path / "Accuracy" / "rouge_samples.json").unlink()
    for header in ("subject,question_id,correct,correct", "subject,subject,a,b"):
        (tmp_path / "samples.csv").write_text(f"{header}\nanatomy,1,0,1\n")
        assert answer_scores(tmp_path) == (None, {})
