"""Reports: the same figures in summary.json, report.md and report.html; old and broken runs.

Plots are drawn in test_plots.py."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from meta_tests.made_runs import line
from meta_tests.reports.kept_run import a_timeline, change_summary, results_of
from meta_tests.reports.outputs import (
    markdown_rows,
    page_rows,
    page_tags,
    reports_of,
    terminal_text,
)
from mlperf_suite.__main__ import main
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.timeline import EngineLoad
from mlperf_suite.plugin.ci_reports import metrics
from mlperf_suite.reports.writing import write_index, write_reports
from mlperf_suite.results import typed_json
from mlperf_suite.results.bottlenecks import percent
from mlperf_suite.results.performance_figures import time_breakdown
from mlperf_suite.results.run_folder import read_entries, trends_of
from mlperf_suite.results.schema import (
    AccuracyFigures,
    Meta,
    PerformanceFigures,
    Run,
    ScoreFigures,
    Summary,
)
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.verdict import Status, Verdict, time_words, times_in_unit

pytestmark = pytest.mark.usefixtures("undrawn")


def written(run: Path) -> tuple[str, str]:
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


def test_what_a_run_tells_of_itself_stands_in_both_reports(run: Path) -> None:
    """Where its time went, what regressed, its warm-up, plan, engine and answers."""
    load = EngineLoad(batch_full=0.4, batch_limit=256, waiting=0.3, busy=1.0)
    life = time_breakdown(a_timeline(), DetailLog({}))
    assert life is not None
    figures = PerformanceFigures(scenario="Server", life=life, load=load)
    content = json.loads((run / "summary.json").read_text())
    content["run"]["performance"] |= {
        name: typed_json.to_json(getattr(figures, name)) for name in ("life", "load")
    }
    warm_up = {"requests": 12, "tokens": 1416, "elapsed_s": 4.1, "what": "all at once"}
    change: dict[str, Any] = {"metric": "tokens_per_sec", "label": "tokens/s", "unit": "tokens/s"}
    change |= {"baseline": 200.0, "current": 114.306, "outcome": "regressed"}
    change |= {"words": "-42.8% (-44.0% to -41.5%)", "noise_from": "5 runs"}
    change_summary(
        run,
        run=content["run"] | {"warm_up": {"performance": warm_up}},
        regression={"baseline": "old", "different": ["a note"], "metrics": [change]},
        plan=[{"what": "load", "estimated_s": 30.0, "took_s": 21.7}, {"what": "accuracy"}],
        logs=["Compliance/TEST06/mlperf_log_accuracy.json"],
    )
    engine = {"name": "vLLM", "version": "0.32.0", "settings": {"tensor_parallel_size": 2}}
    (run / "config.json").write_text(json.dumps({"engine": engine}))
    text, page = written(run)
    assert f"**regressed:** tokens/s {change['words']}" in text
    for rows in (page_rows(page), markdown_rows(text)):
        for row in (
            [
                "warm-up of performance",
                "12 requests, all at once: 1,416 tokens in 4.1 s, not timed",
            ],
            ["load", "30.0 s", "21.7 s"],
            ["accuracy", "not known", "not known"],
            ["tensor parallel size", "2"],
            ["tokens/s", "200.00", "114.31", change["words"], "regressed", "5 runs"],
        ):
            assert row in rows
        for part in life.parts:
            _, unit = times_in_unit((part.most_ms,))
            assert [f"{part.name}, {unit}", percent(part.share)] in [row[:2] for row in rows]
        assert {request.cause for request in life.slowest} <= {row[-1] for row in rows}
    for words in ("An article.", "An answer.", "A text.", "a note", "TEST06/<wbr>mlperf_<wbr>"):
        assert words in page
    # It needs nothing else, and is the same each time.
    assert page_tags(page) & {"script", "link", "iframe", "img", "object"} == set()
    assert re.findall(r"""(?:src|url\()=?["']?https?:""", page) == []
    assert written(run)[1] == page


SCORES = (
    ScoreFigures("exact_match", 81.25, "%", low=80.0),
    ScoreFigures("tokens_per_sample", 294.5, "tokens", low=265, high=323.5),
    ScoreFigures("turns", 12, "turns"),
)


def test_the_scores_of_any_scorer_stand_in_every_report() -> None:
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


@pytest.mark.parametrize(
    ("value_ms", "words", "exact"),
    [
        (8.5312345, "8.53 ms", "8.531 ms"),
        (9_999.5, "10.00 s", "9.9995 s"),
        (47_400.5, "47.40 s", "47.4005 s"),
    ],
)
def test_a_time_is_in_seconds_from_ten_seconds_on(value_ms: float, words: str, exact: str) -> None:
    assert (time_words(value_ms), time_words(value_ms, exact=True)) == (words, exact)


def test_a_summary_with_little_in_it_breaks_no_report() -> None:
    """Any content at all is in evidence/hostile_runs."""
    figures: dict[str, Any] = {"ttft_ms": {"p50": None}, "repeats": [3, {}]}
    run = dict.fromkeys(("performance", "accuracy"), figures)
    for content in ({}, {"run": run, "verdicts": [{}], "regression": {"metrics": [{}]}}):
        summary = Summary.read(content)
        text, page = reports_of(summary)
        assert text.startswith("# ") and page.startswith("<!doctype html>")
        assert terminal_text(summary)
        assert metrics(summary, "test06") == metrics(summary, "performance") == {}


# The index


def test_the_index_has_each_run_once_newest_first_and_the_trend(tmp_path: Path) -> None:
    """A broken run stands in it too."""
    write_index(tmp_path)
    assert "No run is kept here." in (tmp_path / "index.html").read_text()
    results_of(tmp_path)
    for number, content in enumerate((None, "[]", '{"meta": 3, "run": [1]}')):
        run = tmp_path / f"20261121-00000{number}-edge-offline"
        run.mkdir()
        if content is not None:
            (run / "summary.json").write_text(content)
    (tmp_path / "not a run").mkdir()
    (tmp_path / "20261122-000000-edge-offline").write_text("a file")
    write_index(tmp_path)
    rows = markdown_rows((tmp_path / "index.md").read_text())[1:]
    assert [row[3] for row in rows[:2]] == ["unknown", "no summary.json that can be read"]
    assert [row[5] for row in rows[3:]] == ["102.00", "101.00", "100.00"]
    page = (tmp_path / "index.html").read_text()
    assert [row[2] for row in page_rows(page)[4:]] == ["102.00", "101.00", "100.00"]
    assert 'href="20261120-065622-llama3.1-8b-server/report.html"' in page
    (trend,) = trends_of(read_entries(tmp_path))
    assert (trend.unit, [value for _, value in trend.points]) == ("tokens/s", [100, 101, 102])
    assert page.count("<svg") == 1


def test_the_index_says_what_became_of_a_run_in_the_words_of_its_report(tmp_path: Path) -> None:
    """The worst first, in the same colour: what is regressed or failed is not only "complete"."""
    failed, regressed, _ = results_of(tmp_path)
    failure = {"rule": "seeds", "status": "failed", "found": "1", "required": "2", "why": ""}
    loss = {"metric": "qps", "label": "samples/s", "outcome": "regressed", "words": "-35.0%"}
    change_summary(failed, verdicts=[failure], regression={"metrics": [loss]})
    change_summary(regressed, regression={"metrics": [loss]})
    write_index(tmp_path)
    page = (tmp_path / "index.html").read_text()
    rows = markdown_rows((tmp_path / "index.md").read_text())[1:]
    words = ["complete, smoke run: 30 of 37 rules passed, 7 shortened, none failed"]
    words += ["regressed, smoke run: samples/s -35.0%", "1 rule failed, smoke run: seeds"]
    assert [row[3] for row in rows] == [row[1] for row in page_rows(page)[-3:]] == words
    assert re.findall(r'class="badge (open|bad)"', page) == ["open", "bad", "bad"]


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


def test_a_wrong_command_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message == f"error: {tmp_path}/nowhere: no summary.json that can be read"
