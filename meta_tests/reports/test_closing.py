"""The closing summary fits a screen, has the answer first and names each rule that did not pass."""

import re
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from meta_tests.made_runs import remote_run
from meta_tests.reports.outputs import page_rows, reports_of, unescaped
from mlperf_suite.assets import EMBEDDED_MODEL
from mlperf_suite.plugin.ci_reports import metrics
from mlperf_suite.reports.closing import COLUMNS, closing_lines
from mlperf_suite.reports.headline import headline, status_words
from mlperf_suite.results.regression import METRICS, samples_of
from mlperf_suite.results.schema import (
    CLIENT_BOUND,
    AccuracyFigures,
    ChangeFigures,
    Meta,
    PerformanceFigures,
    RegressionFigures,
    RepeatFigures,
    Run,
    ScoreFigures,
    Summary,
)
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.registry import every_rule
from mlperf_suite.rules.verdict import Status, Verdict

TIMES = {"p50": 512.25, "p90": 901.5, "p99": 1411.75}
RUN = Run(
    accuracy=AccuracyFigures(
        84, True, tuple(ScoreFigures(f"rouge{n}", 39.1, "%", 36.6) for n in "12Ls")
    ),
    performance=PerformanceFigures(
        True, 207.86, 1.75, 1.75, TIMES, TIMES, TIMES, scenario="Server", target_qps=1.4
    ),
)
META = Meta(
    benchmark="llama3.1-8b",
    scenario="Server",
    model="embedded",
    engine="vLLM 0.32.0 bf16",
    samples=84,
    profile="smoke",
    label="smoke: not an MLPerf result",
    status="complete",
)
NAMES = [rule.name for rule in every_rule()]
STATUSES: tuple[Status, ...] = ("passed", "failed", "not judged", "shortened")


def lines_of(verdicts: list[Verdict], run: Run = RUN) -> list[str]:
    summary = Summary(meta=META, run=run, verdicts=tuple(verdicts))
    lines = closing_lines(summary, Path("run"))
    return [f"{'' if line.label is None else f'{line.label:10}'}{line.text}" for line in lines]


def verdict(rule: str, status: Status) -> Verdict:
    return Verdict(rule, status, "139.7 ms", "below 100 ms", "a reason" * (status == "not judged"))


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(STATUSES), max_size=80))
def test_it_fits_a_screen_and_names_each_rule_that_did_not_pass(
    statuses: dict[str, Status],
) -> None:
    lines = lines_of([verdict(rule, status) for rule, status in statuses.items()])
    assert all(len(line) <= COLUMNS for line in lines)
    names = [rule for rule, status in statuses.items() if status != "passed"]
    # Four audits take a line each; rules without room are named in running text.
    assert len(lines) <= 24 + sum(len(name) + 2 for name in names) / COLUMNS * 1.5
    words = {word.strip(",:") for line in lines for word in line.split()}
    assert words.issuperset(names)


def test_a_gated_and_client_bound_servers_result_leaves_a_screen_room_for_its_title() -> None:
    meta = replace(META, label=f"{CLIENT_BOUND}; {META.label}")
    assert RUN.performance is not None
    repeated = replace(RUN.performance, repeats=(RepeatFigures(True, 300.0),) * 4)
    run = replace(RUN, performance=repeated, remote={"performance": remote_run()})
    verdicts = tuple(verdict(name, "shortened") for name in NAMES[:9])
    gate = RegressionFigures("last", metrics=(ChangeFigures("a", "b", words="-9%"),) * 3)
    lines = closing_lines(Summary(meta=meta, run=run, verdicts=verdicts, regression=gate), Path())
    assert len(lines) <= 20 and not any("measures yours" in line.text for line in lines)
    assert sum("b -9%" in line.text for line in lines) == 3


def test_the_answer_is_first_and_the_failed_rule_before_the_others() -> None:
    lines = lines_of(
        [
            verdict("min_duration", "shortened"),
            verdict("tpot_limit", "failed"),
            verdict("result_valid", "passed"),
        ]
    )
    assert lines[:2] == [
        "1 rule failed: tpot_limit",
        "SMOKE RUN, not an MLPerf result: 1 of 3 rules passed, 1 FAILED, 1 shortened",
    ]
    assert lines[2].startswith(f"measured  {EMBEDDED_MODEL} (embedded), 84 samples, vLLM 0.32.0")
    assert "TPOT      p50 512.2 ms, p90 901.5 ms, p99 1,412 ms; p99 below 100 ms" in lines
    assert any(line.startswith("next      --model FOLDER measures yours;") for line in lines)
    row = next(i for i, line in enumerate(lines) if line.startswith("  tpot_limit"))
    # Where its sentence has no room, its figures still come before those of a shortened rule.
    short = lines_of([*(verdict(n, "failed") for n in NAMES[:9]), verdict(NAMES[9], "shortened")])
    assert len([line for line in short if "139.7 ms" in line]) > 1
    assert not any(line.startswith(f"  {NAMES[9]}") for line in short)
    assert "139.7 ms" in lines[row] and "below 100 ms" in lines[row]
    rule, text = rule_named("tpot_limit"), " ".join(" ".join(lines[row + 1 :]).split())
    assert rule is not None
    assert text.startswith(f"{rule.sentence} ({rule.attribution}) Usual fix: {rule.fix}")
    assert text.index("Usual fix") < text.index("min_duration")


def test_the_speed_of_several_runs_is_the_mean_that_the_gate_compares() -> None:
    assert RUN.performance is not None
    repeats = tuple(RepeatFigures(True, rate) for rate in (200.0, 215.0))
    summary = Summary(meta=META, run=Run(performance=replace(RUN.performance, repeats=repeats)))
    compared = samples_of(METRICS[0], summary)
    assert compared is not None
    assert metrics(summary, "performance")["tokens_per_sec"] == compared.value
    mean = f"{compared.value:,.2f}"
    lines = lines_of([], summary.run)
    (speed,) = (number for number, line in enumerate(lines) if line.startswith("speed"))
    assert lines[speed].startswith(f"speed     {mean} tokens/s, ")
    words = " ".join(" ".join(lines[speed + 1 : speed + 3]).split())
    assert words.startswith("Mean of 3 runs, standard deviation 3.6%: 207.86, 200.00, 215.00 tok")
    for rows in map(page_rows, reports_of(summary)[1:]):
        assert ["tokens/s", mean] in rows


def test_the_worst_stands_first_in_the_same_words_everywhere() -> None:
    changes = (
        ChangeFigures("a", "TTFT p99", outcome="unchanged", words="+0.1% (-1.0% to +1.2%)"),
        ChangeFigures("b", "tokens/s", outcome="regressed", words="-35.2% (-37.0% to -33.1%)"),
        ChangeFigures("qps", "samples/s", words="+3.0% (too noisy to say)"),
    )
    regression = RegressionFigures("last-good", metrics=changes)
    regressed = "regressed: tokens/s -35.2% (-37.0% to -33.1%)"
    again = "rerun on a quiet machine, or measure the baseline again"
    unknown = f"the gate cannot tell: samples/s (next: {again})"
    meta = replace(META, reason="peak search: interrupted", label=f"{CLIENT_BOUND}; {META.label}")
    names = ("client_bound", "ttft_limit", "tpot_limit", "min_duration", "seeds")
    failed = f"5 rules failed: {', '.join(names[:3])} and 2 more"
    for verdicts, worst in (
        ([verdict(name, "failed") for name in names], failed),
        ([verdict("client_bound", "shortened")], regressed),
    ):
        summary = Summary(meta=meta, verdicts=tuple(verdicts), regression=regression)
        order = [regressed, "not made to its end: peak search: interrupted", unknown]
        order = order if worst == regressed else [failed, *order]
        said = " ".join(line.text for line in closing_lines(summary, Path("run")))
        assert said.startswith(f"{' '.join(order)} {CLIENT_BOUND}; SMOKE RUN, not an MLPerf ")
        assert headline(summary).startswith("; ".join(order))
        text, page = reports_of(summary)
        answer = unescaped(text).partition("## Is it valid?\n\n")[2].partition("\n")[0]
        assert answer.replace("*", "") == worst
        word = worst.partition(":")[0]
        assert status_words(summary) == f"{word}, client-bound"
        assert re.search(f"<title>[^<]*: {word}, client-bound</title>", page)
    assert status_words(Summary(meta=META)) == "complete, smoke run"
    summary = Summary(meta=Meta(status="failed", reason="the GPU is on fire", label="official"))
    texts = [line.text for line in closing_lines(summary, Path("run"))]
    assert texts[:2] == ["failed: the GPU is on fire", "official: no rule was judged"]
    assert closing_lines(Summary(meta=Meta(status="running")), Path())[0].text == "running"
