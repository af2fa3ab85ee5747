"""Folders that a stranger made to harm: reports, index, comparison and aggregate of them say what
they say in bounded time, and no escape sequence reaches a terminal or a text."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from meta_tests.made_lives import made_marks, made_steps, made_timeline
from meta_tests.made_nodes import STARTED, MadeNode
from meta_tests.reports.outputs import terminal_text
from meta_tests.suite_runs import ROOT
from mlperf_suite.__main__ import main
from mlperf_suite.loadgen.timeline import TIMELINE_JSON, write_timeline
from mlperf_suite.reports.writing import write_index, write_reports
from mlperf_suite.results.baseline import answer_scores
from mlperf_suite.results.run_folder import CHECKSUMS_JSON, SUMMARY_JSON, file_sha256, read_summary
from mlperf_suite.results.schema import Summary

KEPT_RUN = Path(__file__).parent.parent / "data" / "kept_run"
TEXTS = {
    "unprintable": "\x1b]0;title\x07\x1b[2J\x9b2J a\u202ebc\u2066 \ud83d and \udcff a\x00b",
    "formula": r"$\frac{$ \$ $$",
    "long": f"{'x' * 30_000}\n" * 3 + "a\n" * 2000,
}
NUMBERS = {
    "huge": 1.7e308,
    "no number": float("nan"),
    "infinite": float("inf"),
    "many digits": 10**4000,
    "zero": 0,
    "minus": -1,
}
DEEP: Any = "deep"
for _ in range(400):
    DEEP = [DEEP]
POISONS = {
    **{f"text {name}": text for name, text in TEXTS.items()},
    **{f"number {name}": number for name, number in NUMBERS.items()},
    "deep": DEEP,
}
# What decides whether a folder is read as a run at all.
KEPT = {"schema_version", "benchmark", "scenario", "category", "status", "rule", "sha256"}
UNPRINTABLE = re.compile(r"[^\n\x20-\x7e\xa1-\ud7ff\ue000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")
IN_A_PAGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
RUN_NAME = "20261120-06562{}-llama3.1-8b-server"


def poisoned(value: Any, poison: Any) -> Any:
    """The value with the poison for everything of its kind in it, and for names of members."""
    if isinstance(value, dict):
        inside = {k: v if k in KEPT else poisoned(v, poison) for k, v in value.items()}
        return inside | ({poison[:500]: "a", "b": poison} if isinstance(poison, str) else {})
    if isinstance(value, list):
        return [poisoned(item, poison) for item in value]
    is_number = isinstance(poison, int | float)
    fits = isinstance(value, int | float) if is_number else isinstance(value, str)
    return poison if fits and not isinstance(value, bool) else value


def poison_file(path: Path, poison: Any) -> None:
    path.write_text(json.dumps(poisoned(json.loads(path.read_text()), poison)))


def write_kept(folder: Path) -> Path:
    """A run with a timeline and answers, to be poisoned."""
    shutil.copytree(KEPT_RUN, folder)
    for name in ("Performance", "Accuracy"):
        (folder / name).mkdir()
    rows = [(i * 0.5, i * 0.5 + 0.2 + i / 300, i * 0.5 + 6.0, 64) for i in range(120)]
    steps = made_steps([i / 5 for i in range(330)], 20)
    write_timeline(folder / "Performance", made_timeline(rows, steps, made_marks(rows)))
    sample = {"index": 1, "input": "a", "answer": "b", "reference": "c"}
    (folder / "Accuracy" / "samples.json").write_text(json.dumps({"samples": [sample] * 3}))
    summary = json.loads((folder / SUMMARY_JSON).read_text())
    summary["logs"] = summary["plots"] = ["a.txt"]
    (folder / SUMMARY_JSON).write_text(json.dumps(summary))
    return folder


def poison_run(folder: Path, poison: Any) -> Path:
    """Poison each file of a run of `write_kept`."""
    for path in (SUMMARY_JSON, "config.json", "Accuracy/samples.json"):
        poison_file(folder / path, poison)
    timeline = json.loads((folder / "Performance" / TIMELINE_JSON).read_text())
    if isinstance(poison, str):
        parts = timeline["parts_ms"]
        timeline["parts_ms"] = {f"{n}{poison[:500]}": values for n, values in parts.items()}
    else:
        # The last of each column of times: a column of counts cannot have any number.
        for values in (*timeline.values(), *timeline["parts_ms"].values()):
            if isinstance(values, list) and values and isinstance(values[0], float):
                values[-1] = poison
    (folder / "Performance" / TIMELINE_JSON).write_text(json.dumps(timeline))
    return folder


def check_texts(folder: Path) -> None:
    """Each text that was written can be shown."""
    for path in (*folder.rglob("*.md"), *folder.rglob("*.html")):
        forbidden = UNPRINTABLE if path.suffix == ".md" else IN_A_PAGE
        assert not forbidden.search(path.read_text("utf-8")), path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., int]]:
    """Run a command; its exit status. What it prints must be printable."""

    def run(*arguments: object) -> int:
        return main(list(map(str, arguments)))

    yield run
    printed = capsys.readouterr()
    for text in printed:
        assert not UNPRINTABLE.search(text)
    assert "Traceback" not in printed.err


@pytest.fixture(params=list(POISONS.values()), ids=list(POISONS))
def poison(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.filterwarnings("ignore")
def test_a_report_of_anything_is_a_report(tmp_path: Path, poison: Any, command: Any) -> None:
    folder = poison_run(write_kept(tmp_path / RUN_NAME.format(1)), poison)
    assert command("report", folder) in (0, 2)
    check_texts(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_an_index_holds_anything(tmp_path: Path, poison: Any) -> None:
    for i in range(3):
        poison_run(write_kept(tmp_path / RUN_NAME.format(i)), poison)
    write_index(tmp_path)
    check_texts(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_anything_is_compared_or_refused(tmp_path: Path, poison: Any, command: Any) -> None:
    first = write_kept(tmp_path / "first")
    second = poison_run(write_kept(tmp_path / "second"), poison)
    for runs in ((first, second), (second, second)):
        outputs = ("--plot", tmp_path / "a.png", "--html", tmp_path / "a.html")
        assert command("compare", *runs, *outputs, "--gate") in (0, 1, 2)
    check_texts(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_anything_is_aggregated_or_refused(tmp_path: Path, poison: Any, command: Any) -> None:
    is_text = isinstance(poison, str)
    folders = []
    for number, name in enumerate("ab"):
        began = STARTED + timedelta(seconds=number)
        folder = MadeNode(f"node-{name}", began=began).write(tmp_path / name)
        for path in (SUMMARY_JSON, "config.json"):
            poison_file(folder / path, poison)
        summary = json.loads((folder / SUMMARY_JSON).read_text())
        summary["meta"]["node_name"] = f"{name}{poison}" if is_text else name
        (folder / SUMMARY_JSON).write_text(json.dumps(summary))
        log = folder / "Performance" / "mlperf_log_detail.txt"
        if not is_text:
            log.write_text(re.sub(r'"value": [\d.]+', f'"value": {poison}', log.read_text()))
        checksums = json.loads((folder / CHECKSUMS_JSON).read_text())
        checksums["files"] |= {p: file_sha256(folder / p) for p in checksums["files"]}
        (folder / CHECKSUMS_JSON).write_text(json.dumps(checksums))
        folders.append(folder)
    assert command("aggregate", *folders, "--out", tmp_path / "out") in (0, 2)
    check_texts(tmp_path)


def test_the_closing_summary_shows_anything(poison: Any) -> None:
    content = poisoned(json.loads((KEPT_RUN / SUMMARY_JSON).read_text()), poison)
    for part in content["verdicts"]:
        part["status"] = "failed"
    assert not UNPRINTABLE.search(terminal_text(Summary.read(content)))


NAMES = {"no UTF-8": b"run-\xff\xfe", "escape": b"\x1b[2Jrun\x07", "formula": b"$\\frac{$"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_folder_may_have_any_name(tmp_path: Path, name: bytes, command: Any) -> None:
    above = tmp_path / os.fsdecode(name)
    folder = write_kept(above / os.fsdecode(name))
    assert command("report", folder) == 0
    outputs = ("--plot", above / "a.png", "--html", above / "a.html")
    assert command("compare", folder, write_kept(tmp_path / "other"), *outputs) == 0
    nodes = [
        MadeNode(f"node-{n}", began=STARTED + timedelta(seconds=n)).write(above / str(n))
        for n in range(2)
    ]
    assert command("aggregate", *nodes, "--out", above / "out") == 0
    assert command("aggregate", *nodes, *nodes, "--out", above / "more") == 2
    assert command("report", above / "none") == 2
    assert command("compare", folder, above / "none") == 2
    write_index(above)
    check_texts(tmp_path)


def test_every_line_of_a_command_is_printed_by_one_function() -> None:
    tree = ast.parse((ROOT / "mlperf_suite" / "__main__.py").read_text())
    prints = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "print"]
    assert len(prints) == 1


# Files elsewhere


def test_plots_are_not_written_through_a_link(tmp_path: Path) -> None:
    folder, elsewhere = write_kept(tmp_path / RUN_NAME.format(1)), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "plots").symlink_to(elsewhere)
    write_reports(folder)
    assert list(elsewhere.iterdir()) == []
    assert list((folder / "plots").glob("*.png"))
    mine = tmp_path / "mine.png"
    mine.write_bytes(b"mine")
    for plot in (folder / "plots").glob("*.png"):
        plot.unlink()
        plot.symlink_to(mine)
    write_reports(folder)
    assert mine.read_bytes() == b"mine"


def test_a_link_in_the_place_of_half_a_file_is_not_written_through(tmp_path: Path) -> None:
    folder, mine = write_kept(tmp_path / RUN_NAME.format(1)), tmp_path / "mine.txt"
    mine.write_text("mine")
    for name in ("report.md", "report.html", SUMMARY_JSON, "plots/ttft.png"):
        link = folder / f"{name}.{os.getpid()}.part"
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(mine)
    write_reports(folder)
    assert mine.read_text() == "mine"
    assert not list(folder.rglob("*.part"))


@pytest.mark.parametrize("option", ["--plot", "--html"])
@pytest.mark.parametrize("kind", ["link", "folder", "FIFO"])
def test_a_comparison_is_written_to_a_file_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, kind: str
) -> None:
    folder, mine = write_kept(tmp_path / "run"), tmp_path / "mine.png"
    mine.write_bytes(b"mine")
    out = tmp_path / "out.png"
    make: dict[str, Callable[[Path], None]] = {
        "link": lambda path: path.symlink_to(mine),
        "folder": Path.mkdir,
        "FIFO": os.mkfifo,
    }
    make[kind](out)
    assert main(["compare", str(folder), str(folder), option, str(out)]) == 2
    message = f"error: {option} {out}: a link, a folder or a device; name a file\n"
    assert capsys.readouterr() == ("", message)
    assert mine.read_bytes() == b"mine"


@pytest.mark.parametrize("kind", ["path", "absolute", "link", "linked folder", "FIFO"])
def test_mmlus_report_contains_no_file_of_elsewhere(tmp_path: Path, kind: str) -> None:
    folder, mine = tmp_path / "20261120-065621-mmlu", tmp_path / "mine.png"
    (folder / "plots").mkdir(parents=True)
    mine.write_bytes(b"mine")
    name = "plots/a.png"
    if kind == "linked folder":
        (folder / "plots").rmdir()
        (folder / "plots").symlink_to(tmp_path)
        name = "plots/mine.png"
    elif kind == "link":
        (folder / name).symlink_to(mine)
    elif kind == "FIFO":
        os.mkfifo(folder / name)
    else:
        name = {"path": "../mine.png", "absolute": str(mine)}[kind]
    meta = {"benchmark": "mmlu", "status": "complete", "label": "l"}
    content = {"meta": meta, "plots": [name], "run": {"mmlu": {"accuracy": 50.0}}}
    (folder / SUMMARY_JSON).write_text(json.dumps(content))
    write_reports(folder)
    assert "data:image/png" not in (folder / "report.html").read_text()


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


@pytest.mark.parametrize("kind", ["FIFO", "sparse file"])
def test_no_command_reads_what_never_ends(tmp_path: Path, kind: str) -> None:
    results = tmp_path / "results"
    places = [RUN_NAME.format(i) + f"-{i + 2}" for i in range(len(READ))]
    runs = [write_unreadable(results / p, n, kind) for p, n in zip(places, READ, strict=True)]
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
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)


# Numbers and texts that are read


@pytest.mark.parametrize("levels", [90, 101, 500, 100_000])
def test_what_is_nested_too_deeply_is_not_read(tmp_path: Path, levels: int) -> None:
    deep = "[" * levels + "]" * levels
    (tmp_path / SUMMARY_JSON).write_text(f'{{"meta": {{}}, "system": {deep}}}')
    assert (read_summary(tmp_path) is None) == (levels > 90)


def test_a_name_in_a_summary_is_written_as_it_was_read(tmp_path: Path) -> None:
    folder = write_kept(tmp_path / RUN_NAME.format(1))
    content = json.loads((folder / SUMMARY_JSON).read_text())
    content["meta"]["model"] = "a\ud83d b\udcff"
    (folder / SUMMARY_JSON).write_text(json.dumps(content))
    write_reports(folder)
    summary = read_summary(folder)
    assert summary is not None and summary.meta.model == "a\ud83d b\udcff"


@pytest.mark.parametrize("header", ["subject,question_id,correct,correct", "subject,subject,a,b"])
def test_a_table_with_two_columns_of_one_name_scores_no_answer(tmp_path: Path, header: str) -> None:
    (tmp_path / "samples.csv").write_text(f"{header}\nanatomy,1,0,1\n")
    assert answer_scores(tmp_path) == (None, {})


@pytest.mark.parametrize("score", [1.7e308, float("nan"), 10**400, "a", [1]])
def test_a_score_that_no_answer_can_have_is_left_out(tmp_path: Path, score: Any) -> None:
    (tmp_path / "Accuracy").mkdir()
    content = {"dataset_sha256": "d", "scores": {"rouge1": [1.0, score, 2.0]}}
    (tmp_path / "Accuracy" / "rouge_samples.json").write_text(json.dumps(content))
    assert answer_scores(tmp_path)[1] in ({"rouge1": {0: 1.0, 2: 2.0}}, {})
