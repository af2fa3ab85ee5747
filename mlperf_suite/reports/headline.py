"""What became of a result, the worst first: in the same words on the terminal, in the report and
its title, in JUnit, Allure and the comment of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mlperf_suite.reports.feature_report import feature_reports
from mlperf_suite.reports.sections import Paragraph, Style, count
from mlperf_suite.results.regression import cannot_tell
from mlperf_suite.results.schema import Summary
from mlperf_suite.rules.verdict import Status, Verdict, with_status

_MAX_NAMES = 3
"""How many of the failed rules are named."""
_NO_PASS: tuple[Status, ...] = ("failed", "not judged", "shortened")
"""Worst first."""


def headline(summary: Summary) -> str:
    """All findings in a line."""
    return "; ".join(f"{of.lead} {of.text}".strip() for of in findings(summary))


def findings(summary: Summary) -> list[Paragraph]:
    """What is wrong, the worst first, each with a `lead` of a few words, and last what the rules
    say, led by what the figures are."""
    faults = [
        Paragraph(text, f"{lead}:" if text else lead, style)
        for lead, text, style in _faults(summary)
    ]
    return [*faults, _rules(summary)]


def _faults(summary: Summary) -> Iterator[tuple[str, str, Style]]:
    meta, regression = summary.meta, summary.regression
    if failures := [verdict.rule for verdict in with_status(summary.verdicts, "failed")]:
        more = len(failures) - _MAX_NAMES
        rest = f" and {more} more" if more > 0 else ""
        yield (
            f"{count(len(failures), 'rule')} failed",
            f"{', '.join(failures[:_MAX_NAMES])}{rest}",
            "bad",
        )
    if summary.regressed:
        yield "regressed", summary.regressed, "bad"
    if regression and regression.refused:
        yield "not compared", regression.refused, "bad"
    has_ended = meta.status in ("complete", "invalid")
    if meta.reason or not has_ended:
        lead = "not made to its end" if has_ended else meta.status
        yield lead, meta.reason or "", "open" if meta.status == "running" else "bad"
    if unknown := cannot_tell(summary):
        yield "the gate cannot tell", unknown, "open"


def _rules(summary: Summary) -> Paragraph:
    for report in feature_reports(summary):
        if own := report.answer(summary):
            return own
    worst = worst_status(summary.verdicts)
    counts = rule_counts(summary.verdicts) if summary.verdicts else "no rule was judged"
    counts += "" if worst == "failed" or not summary.verdicts else ", none failed"
    is_valid = summary.verdict == "valid"
    label = (summary.meta.label or "").replace("smoke: ", "SMOKE RUN, ")
    lead = ", ".join(filter(None, ("valid" * is_valid, label)))
    style: Style = "bad" if worst == "failed" or summary.spoiled else "open"
    return Paragraph(counts, f"{lead}:" * bool(lead), "ok" if is_valid else style)


def status_words(summary: Summary) -> str:
    """The worst in a few words, for a title."""
    meta, (first, *rest) = summary.meta, findings(summary)
    mark = "client-bound" if summary.client_bound else "smoke run" * (meta.profile == "smoke")
    worst = first.lead.removesuffix(":") if rest else meta.status
    return ", ".join(filter(None, (worst, "profiled" if meta.profiler else mark)))


def rule_counts(verdicts: Sequence[Verdict]) -> str:
    """How many rules passed, and how many ended otherwise, in words."""
    numbers = {status: len(with_status(verdicts, status)) for status in _NO_PASS}
    passes = len(verdicts) - sum(numbers.values())
    words = {status: "FAILED" if status == "failed" else status for status in numbers}
    rest = [f"{number} {words[status]}" for status, number in numbers.items() if number]
    return ", ".join([f"{passes} of {count(len(verdicts), 'rule')} passed", *rest])


def worst_status(verdicts: Iterable[Verdict]) -> str:
    """The worst of the verdicts' statuses, "not judged" without one."""
    statuses = {verdict.status for verdict in verdicts}
    return next((s for s in (*_NO_PASS, "passed") if s in statuses), "not judged")
