"""python -m mlperf_suite aggregate: what it writes, and what nobody can misread."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.aggregate.made_nodes import ROWS, MadeNode, make_nodes
from meta_tests.reports.hostile_runs import TEXT, UNPRINTABLE, check_pages
from meta_tests.reports.outputs import markdown_rows, page_rows, unescaped
from mlperf_suite.__main__ import main
from mlperf_suite.features.aggregate.aggregate import LABEL, Aggregate
from mlperf_suite.features.aggregate.aggregate_report import ALL, aggregate_sections
from mlperf_suite.reports.html import html_page

pytestmark = pytest.mark.usefixtures("undrawn")

A = MadeNode(tokens_per_sec=900.25)
B = MadeNode("node-b", rows=ROWS[:60], tokens_per_sec=1100.5)
OFFLINE = [replace(A, scenario="Offline"), replace(B, scenario="Offline", rows=ROWS[:80])]
FILES = {"aggregate.json", "aggregated_datacenter_results.json", "aggregate.md", "aggregate.html"}


@pytest.fixture
def aggregate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Aggregate runs; what the terminal, the text and the page say."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*nodes: MadeNode, alone: tuple[MadeNode, ...] = ()) -> tuple[str, str, str]:
        paths, out = make_nodes(tmp_path / "runs", *nodes), tmp_path / "out"
        options = ["--one", *map(str, make_nodes(tmp_path / "alone", *alone))] if alone else []
        assert main(["aggregate", *map(str, paths), "--out", str(out), *options]) == 0
        assert {path.name for path in out.iterdir()} == FILES
        terminal = capsys.readouterr().out
        return terminal, (out / "aggregate.md").read_text(), (out / "aggregate.html").read_text()

    return run


def test_every_output_says_first_that_it_is_no_mlperf_result_and_has_the_same_tables(
    aggregate: Any, tmp_path: Path
) -> None:
    terminal, text, page = aggregate(A, B, *OFFLINE)
    assert terminal.startswith(LABEL)
    assert text.index(LABEL) < text.index("tokens/s")
    assert page.index(LABEL) < page.index("<body") < page.index(LABEL, page.index("<body"))
    # Nothing of it is green, though each node's run is valid.
    assert "each of the 2 nodes is a valid result on its own; together they are not" in page
    assert 'class="answer ok"' not in page
    assert page.count("<svg") == 2
    for name in ("aggregate.json", "aggregated_datacenter_results.json"):
        assert LABEL in (tmp_path / "out" / name).read_text()
    cells, rows = page_rows(page), markdown_rows(text)
    server = next(row for row in rows if row[0] == "node-a")
    assert server[:4] == ["node-a", "yes", "900.25", "45.0%"]
    total = next(row for row in rows if row[0] == ALL)
    assert total[1:4] == ["not a result", "2,000.75", "100.0%"]
    pages = [row for row in cells if row]
    # Offline's has no column that is empty.
    assert [row for row in pages if row[:2] == ["node", "valid"]][-1] == [
        *("node", "valid", "tokens/s", "share", "samples/s", "latency p99", "requests", "tokens")
    ]
    for row in rows:
        if row[0] not in ("", "pooled, ms", "time") and len(row) > 2:
            assert row in pages, row
    for name, value in [row for row in rows if len(row) == 2 and row[0]]:
        assert [name, value] in pages or f"<dt>{name}</dt><dd>{value}</dd>" in page
    little = Aggregate.read({"scenarios": [{"scenario": "Server"}], "nodes": ["a"]})
    assert LABEL in html_page(aggregate_sections(little))


def test_the_terminal_fits_80_columns_and_names_the_slowest(aggregate: Any) -> None:
    terminal, text, _ = aggregate(A, B, *OFFLINE, alone=(replace(OFFLINE[0], rows=ROWS[:70]),))
    table = terminal[: terminal.index("aggregate.json")].splitlines()[:-1]
    assert max(map(len, table)) <= 80
    slow = "Slowest node: node-a, tokens/s 900.25 against the other's 1,100.50."
    assert slow in terminal and slow in unescaped(text)
    assert "Slowest node: node-a, TTFT p99 149.0 ms against the other's 109.0 ms." in terminal
    words = " ".join(terminal.split())
    assert "Scaling efficiency 111.1% (no interval, since no run was repeated; above" in words
    assert words.count("Scaling efficiency") == 1


# The command


def test_what_is_refused_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = make_nodes(tmp_path / "runs", A, replace(B, meta={"round": "v6.0"}))
    out = tmp_path / "out"
    assert main(["aggregate", str(first), str(second), "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert f"refused: {second}: round v6.0; {first}: v6.1\n" in captured.err
    assert captured.err.endswith("no aggregate was written\n")
    assert captured.out == "" and not out.exists()


def test_a_folder_that_is_there_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(path) for path in make_nodes(tmp_path / "runs", A, B)]
    out = tmp_path / "out"
    out.mkdir()
    assert main(["aggregate", *paths, "--out", str(out)]) == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    capsys.readouterr()
    assert main(["aggregate", *paths, "--out", str(out)]) == 2
    assert capsys.readouterr().err == f"error: --out {out}: already exists; choose a new folder\n"
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    (tmp_path / "file").touch()
    assert main(["aggregate", *paths, "--out", str(tmp_path / "file")]) == 2
    # Without --out the folder has the time in its name.
    monkeypatch.chdir(tmp_path)
    assert main(["aggregate", *paths]) == 0
    (out,) = tmp_path.glob("aggregate-*")
    assert re.fullmatch(r"aggregate-\d{8}-\d{6}", out.name)


def test_whatever_a_node_says_is_text(aggregate: Any, tmp_path: Path) -> None:
    meta = {"model": TEXT, "label": TEXT, "profile": "smoke"}
    says: dict[str, Any] = {"meta": meta, "system": {"cpu": TEXT, "gpus": [TEXT]}}
    nodes = MadeNode(f"a{TEXT}", **says), MadeNode(f"b{TEXT}", rows=ROWS[:50], **says)
    terminal, text, _ = aggregate(*nodes)
    assert "not every node" in text and not UNPRINTABLE.search(terminal)
    check_pages(tmp_path, pages=1)
