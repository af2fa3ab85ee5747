"""The closing summary fits a screen, has the answer first and names each rule that did not pass."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.assets import EMBEDDED_MODEL
from mlperf_suite.reports.closing import COLUMNS, closing_lines
from mlperf_suite.results.schema import (
    AccuracyFigures,
    ChangeFigures,
    Meta,
    PerformanceFigures,
    RegressionFigures,
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


def test_the_answer_is_first_and_the_failed_rule_before_the_others() -> None:
    lines = lines_of(
        [
            verdict("min_duration", "shortened"),
            verdict("tpot_limit", "failed"),
            verdict("result_valid", "passed"),
        ]
    )
    assert lines[0] == (
        "SMOKE RUN, not an MLPerf result: 1 of 3 rules passed, 1 FAILED, 1 shortened"
    )
    assert lines[1].startswith(f"measured  {EMBEDDED_MODEL} (embedded), 84 samples, vLLM 0.32.0")
    assert "TPOT      p50 512.2 ms, p90 901.5 ms, p99 1,412 ms; p99 below 100 ms" in lines
    row = next(i for i, line in enumerate(lines) if line.startswith("  tpot_limit"))
    assert "139.7 ms" in lines[row] and "below 100 ms" in lines[row]
    rule, text = rule_named("tpot_limit"), " ".join(" ".join(lines[row + 1 :]).split())
    assert rule is not None
    assert text.startswith(f"{rule.sentence} ({rule.attribution}) Usual fix: {rule.fix}")
    assert text.index("Usual fix") < text.index("min_duration")


def test_a_run_without_figures_says_what_it_is() -> None:
    summary = Summary(meta=Meta(status="failed", reason="the GPU is on fire", label="official"))
    texts = [line.text for line in closing_lines(summary, Path("run"))]
    assert texts[:2] == ["failed: the GPU is on fire", "official: no rule was judged"]
    unfinished = closing_lines(Summary(meta=Meta(status="running", label="official")), Path("run"))
    assert unfinished[0].text == "running"


def test_a_regression_is_the_first_line() -> None:
    changes = (
        ChangeFigures("a", "TTFT p99", outcome="unchanged", words="+0.1% (-1.0% to +1.2%)"),
        ChangeFigures("b", "tokens/s", outcome="regressed", words="-35.2% (-37.0% to -33.1%)"),
        ChangeFigures("c", "QPS", words="+3.0% (too noisy to say)"),
    )
    regression = RegressionFigures("last-good", metrics=changes)
    summary = Summary(meta=META, verdicts=(verdict("min_duration", "passed"),))
    first, second, *rest = closing_lines(replace(summary, regression=regression), Path("run"))
    assert "More repeats (--repeat 5)" in " ".join(line.text for line in rest)
    assert first.text == ("REGRESSED against the baseline: tokens/s -35.2% (-37.0% to -33.1%)")
    assert (first.style, second.text[-11:]) == ("bad", "none failed")
