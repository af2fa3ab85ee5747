"""Rules of MLPerf's audits: the demands of all, then of TEST07, TEST09 and TEST01.

Source: compliance/ of github.com/mlcommons/inference. test06.py has what TEST06 demands beyond it.
"""

from __future__ import annotations

import math
import re
from functools import partial

from mlperf_suite.benchmarks.audits import ISSUED_ONCE, TEST06, Audit, Mode
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.rules.accuracy_files import parse_accuracy_txt, parse_cut_log
from mlperf_suite.rules.facts import TEXT_ALONE, RunFacts
from mlperf_suite.rules.limits import min_duration
from mlperf_suite.rules.registry import CLOSED, rule
from mlperf_suite.rules.validity import error_verdict, mode_verdict, whole_log_verdict
from mlperf_suite.rules.verdict import Verdict, VerdictError, not_judged, verdict

AUDITS: tuple[Mode, ...] = ("test06", "test07", "test09", "test01")
_every_audit = partial(rule, *AUDITS, divisions=CLOSED)
_complete_audit = partial(rule, "test07", "test09", divisions=CLOSED)
_comparing_audit = partial(rule, "test01", divisions=CLOSED)
AUDIT_CONF_IS_READ = "Multiple conf files are used"
"""LoadGen counts its own audit.config as an error; the official checker also lets it pass."""
_SHORTENED_BY_SMOKE = frozenset(
    {"effective_accuracy_log_sampling_target", "requested_min_query_count"}
)
"""The settings, by detail log keys, that a smoke run may have less of."""


def audit_of(run: RunFacts) -> Audit:
    """The run's audit: its benchmark's, or else TEST06."""
    return run.benchmark.audit(run.mode) or TEST06


def lacks_detail_log(run: RunFacts) -> bool:
    """Whether it is a submission's audit without a detail log, which is optional there."""
    return run.submitted is not None and DETAIL not in run.logs.files


def need_detail_log(run: RunFacts) -> None:
    """Raises VerdictError, not judged, for a submission's audit without a detail log."""
    if lacks_detail_log(run):
        raise VerdictError(not_judged("no detail log", why="a submission has none here"))


@_every_audit(
    required="whole",
    source="compliance/TEST06, TEST07 and TEST09: run_verification.py reads the whole log",
    fix="Copy the audit's logs again without change; do not cut its accuracy log.",
)
def log_is_whole(run: RunFacts) -> Verdict:
    """The audit's logs can be read in full; a submission need not contain the detail log."""
    need_answers(run)
    if damage := run.logs.accuracy.damage:
        return verdict(False, damage[0])
    return verdict(True, "whole") if lacks_detail_log(run) else whole_log_verdict(run)


def need_answers(run: RunFacts, required: str = "") -> None:
    """Raises VerdictError, not judged, for a submission's log of answers that
    truncate_accuracy_log.py has cut: the official script's verdict on the whole log lies beside it.
    """
    text = run.submitted.accuracy_log if run.submitted else None
    # The script leaves TEST06's as it is.
    if run.mode == "test06" or not run.logs.accuracy.damage or text is None:
        return
    if not parse_cut_log(text).whole:
        why = f"a submission's log of {run.mode.upper()} may be cut by the official script"
        raise VerdictError(not_judged("a log that was cut", required, why))


# The settings


def _differences(run: RunFacts) -> list[str]:
    """The detail log keys whose values differ from audit.config."""
    return audit_of(run).differences(run.detail.values, run.round.name)


def is_shortened(run: RunFacts) -> bool:
    """Whether audit.config was only changed to fewer queries and fewer logged answers."""
    keys, most = _differences(run), audit_of(run).logged
    values = [run.detail[key] for key in keys]
    fewer = all(type(value) is int and 0 < value < most for value in values)
    return bool(keys) and fewer and set(keys) <= _SHORTENED_BY_SMOKE


_SETTINGS = "audit.config's settings"


@_every_audit(
    required=_SETTINGS,
    source="compliance/TEST01, TEST06, TEST07 and TEST09: audit.config",
    fix="Put the audit's audit.config where LoadGen starts, and repeat the audit.",
    shortens=is_shortened,
)
def settings(run: RunFacts) -> Verdict:
    """The settings of the audit's audit.config took effect.

    TEST06: 100 samples logged, no minimum duration, equal issue off. TEST07 and TEST09: every
    answer logged, each sample issued once. TEST01: 4,096 answers logged. Smoke may ask for fewer
    queries and answers; any other difference fails it too.
    """
    need_detail_log(run)
    keys = _differences(run)
    return verdict(not keys, ", ".join(f"{key} {run.detail[key]}" for key in keys) or _SETTINGS)


@_every_audit(
    required="PerformanceOnly",
    source="compliance/TEST01, TEST06, TEST07 and TEST09: mode in audit.config",
    fix="Repeat the audit as a performance run of its scenario.",
)
def test_mode(run: RunFacts) -> Verdict:
    """The audit was a performance run of this scenario."""
    need_detail_log(run)
    return mode_verdict(run)


@_every_audit(
    required="0 errors",
    official=False,
    source="LoadGen's logging.cc: num_errors",
    fix="Read the error in the audit's mlperf_log_detail.txt, remove its cause and repeat "
    "the audit.",
)
def no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in the audit, except about the audit.config that it requires."""
    need_detail_log(run)
    return error_verdict(run, allowed_text=AUDIT_CONF_IS_READ)


# TEST07 and TEST09


def _is_shortened_and_whole(run: RunFacts) -> bool:
    """Whether a shortened audit logged an answer to each sample that LoadGen has."""
    count = run.detail.number("qsl_reported_total_count") or 0
    samples = run.logs.accuracy.indices
    return is_shortened(run) and 0 < count == len(samples) > max(samples)


@_complete_audit(
    official=False,
    source="compliance/TEST07 and TEST09: performance_issue_unique in audit.config",
    fix="Use the current audit.config, and let the SUT answer every query.",
    shortens=_is_shortened_and_whole,
)
def every_sample(run: RunFacts) -> Verdict:
    """Each sample of the audit's data set was issued, and its answer logged.

    The official scripts do not count samples: an audit that issued some of them twice and others
    never passes them (mlcommons/inference pull request 2619). If the round's own audit.config draws
    with replacement, samples that were not drawn decide nothing; each query's answer is logged.
    """
    count = run.benchmark.samples_of(run.mode)
    need_answers(run, required := f"{count:,} samples")
    samples = run.logs.accuracy.indices
    whole, value = samples == set(range(count)), f"{len(samples):,} samples"
    each_logged = len(run.logs.accuracy.samples) >= audit_of(run).queries
    if not whole and each_logged and samples <= set(range(count)) and _may_be_drawn(run):
        why = f"the audit.config of {run.round.name} draws samples with replacement"
        return not_judged(value, required, why)
    return verdict(whole, value, required)


def _may_be_drawn(run: RunFacts) -> bool:
    """Whether the audit drew its samples with replacement, or no log shows otherwise.

    Offline's single query has the samples in order, drawn or not.
    """
    may_repeat = lacks_detail_log(run) or run.detail[ISSUED_ONCE] is False
    offline = run.scenario.loadgen_scenario == "Offline"
    return may_repeat and not offline and run.round.name in audit_of(run).drawn_in


@rule(
    "test07",
    source="compliance/TEST07: run_verification.py",
    fix="Use the same engine settings as in the accuracy run, and repeat the audit.",
    divisions=CLOSED,
    session_only=True,
)
def score(run: RunFacts) -> Verdict:
    """The audit's answers reach the score that the audit requires.

    Of a submission only the official script's verdict is known: its data set is not at hand.
    """
    least = audit_of(run).least_score
    if least is None:
        return not_judged("no figure", "a score", "the audit asks for none")
    name, limit = least
    required = f"{name} of at least {limit:g}"
    if name in run.figures_not_judged:
        return not_judged("no figure", required, run.figures_not_judged[name])
    figure = (run.scores or {}).get(name)
    if figure is None:
        return verdict(False, "no figure", required)
    return run.unless_unreferenced(verdict(figure >= limit, f"{figure:.3f}", required))


@rule(
    "test09",
    source="compliance/TEST09: run_verification.py",
    fix="Check the answer limit and the end-of-sequence tokens against the reference.",
    divisions=CLOSED,
)
def mean_tokens(run: RunFacts) -> Verdict:
    """The mean length of the logged answers, in tokens, is within the audit's limits.

    As in the official script the mean is over every entry of the log, a sample's second too.
    """
    limits = audit_of(run).mean_tokens
    if limits is None:
        return not_judged("no figure", "a mean length", "the audit asks for none")
    low, high = limits
    required = f"{low:,.2f} to {high:,.2f} tokens"
    if run.text_alone:
        return not_judged("no token ids from the engine", required, TEXT_ALONE)
    need_answers(run, required)
    lengths = [len(sample.token_ids) for sample in run.logs.accuracy.samples]
    if not lengths:
        return verdict(False, "no answer", required)
    mean = sum(lengths) / len(lengths)
    return run.unless_unreferenced(verdict(low <= mean <= high, f"{mean:,.2f} tokens", required))


# TEST01


_DELTA = 0.01
"""By which share the accuracy of answers that differ may differ (README.md of compliance/TEST01,
Part III: (1-x)% of a target of 99%)."""
_SPEED_APART = 0.10
"""By which share the rates may differ (verify_performance.py)."""


@_comparing_audit(
    required="the accuracy run's answers",
    source="compliance/TEST01: verify_accuracy.py; README.md, Part III",
    fix="Use the same engine settings in all runs, and repeat the audit after the accuracy run.",
)
def same_answers(run: RunFacts) -> Verdict:
    """Each logged answer is the accuracy run's of that sample, token for token.

    Where some differ, as batches of another composition make them, the accuracy of both runs may
    differ by 1%. The official script compares the first byte of each answer alone.
    """
    ours, others = run.logs.accuracy, run.compared.answers if run.compared else None
    need_answers(run)
    if others is None or (others.damage and run.submitted is not None):
        return not_judged(f"{len(ours.samples):,} answers", why="no answers of an accuracy run")
    answers = {index: sample.token_ids for index, sample in others.first_of_each().items()}
    alike = [answers.get(sample.index) == sample.token_ids for sample in ours.samples]
    found = f"{sum(alike):,} of {len(alike):,} answers"
    if alike and all(alike):
        return verdict(True, found)
    if not alike or not {sample.index for sample in ours.samples} <= set(answers):
        return verdict(False, found, why="not of the samples of the accuracy run")
    return _as_accurate(run, found)


def _as_accurate(run: RunFacts, found: str) -> Verdict:
    """By the accuracies of both runs, which are over the same samples if each was logged."""
    (name, *_), required = run.benchmark.metrics, f"all, or accuracies at most {_DELTA:.0%} apart"
    other_scores = run.compared.scores if run.compared else None
    ours, theirs = ((scores or {}).get(name) for scores in (run.scores, other_scores))
    if not ours or theirs is None:
        return verdict(False, found, required, f"no {name} of both runs to compare")
    samples = run.logs.accuracy.indices
    if len(samples) != run.detail.number("qsl_reported_total_count"):
        return verdict(False, found, required, "not every sample was logged")
    apart = abs(1 - theirs / ours)
    return verdict(apart <= _DELTA, f"{found}, {name} {ours:.4f} and {theirs:.4f}", required)


@_comparing_audit(
    source="compliance/TEST01: verify_performance.py",
    fix="Repeat the audit on the system as it was in the performance run.",
)
def same_rate(run: RunFacts) -> Verdict:
    """The audit is VALID, and its samples/s are within 10% of the performance run's."""
    need_detail_log(run)
    required = f"VALID, within {_SPEED_APART:.0%} of the performance run's"
    rate = run.number("result_samples_per_second", required)
    found = f"{run.detail['result_validity']}, {rate:,.4f} samples/s"
    other = run.compared.samples_per_s if run.compared else None
    if run.detail["result_validity"] != "VALID":
        return verdict(False, found, required)
    if other is None:
        return not_judged(found, required, "no rate of a performance run")
    apart = abs(rate - other) <= _SPEED_APART * other
    return verdict(apart, found, f"{required} {other:,.4f}")


@_comparing_audit(
    source="compliance/TEST01/README.md: a performance run; submission checker, performance_check",
    fix="Give the audit the user.conf of the performance run.",
    shortens=True,
)
def full_length(run: RunFacts) -> Verdict:
    """The audit is set to last at least ten minutes, as the performance run is."""
    need_detail_log(run)
    return min_duration(run)


@rule(
    "test07",
    "test09",
    "test01",
    divisions=CLOSED,
    source="submission checker, compliance_check.py: accuracy_check",
    fix="Run the audit's run_verification.py, and submit the files that it writes.",
    submitted_only=True,
)
def verified(run: RunFacts) -> Verdict:
    """The submission's file with the verdict of the audit's official script says TEST PASS.

    It names no other audit and no failed check, and its figures are those of the log. TEST01 has a
    second such file, on performance.
    """
    file, second = audit_of(run).verified_in, audit_of(run).also_verified_in
    required = f"TEST PASS in {f'{file} and {second}' if second else file}"
    text = run.submitted.verify_txt if run.submitted else None
    if text is None:
        return verdict(False, f"no {file}", required)
    others = run.submitted.verify_others if run.submitted else ()
    if second and not any("TEST PASS" in other for other in others):
        return verdict(False, f"no TEST PASS in {second}", required)
    if "TEST PASS" not in text:
        return _by_accuracies(run, required) if second else verdict(False, "no TEST PASS", required)
    fault = verification_fault(run)
    return verdict(not fault, fault or "TEST PASS", required)


def _by_accuracies(run: RunFacts, required: str) -> Verdict:
    """Of answers that differ, by the accuracies of both runs (README.md of TEST01, Part III)."""
    name = run.benchmark.metrics[0]
    texts = run.submitted.accuracy_txts if run.submitted else ()
    scores = [parse_accuracy_txt(text).scores.get(name) for text in texts]
    ours, theirs = scores if len(scores) == len(PART_III) else (None, None)
    if not ours or not theirs:
        return verdict(False, f"no TEST PASS, and no {name} in {' and '.join(PART_III)}", required)
    found = f"no TEST PASS, {name} {ours:.4f} and {theirs:.4f}"
    apart = abs(1 - ours / theirs)
    return verdict(apart <= _DELTA, found, f"{required}, or accuracies at most {_DELTA:.0%} apart")


PART_III = ("baseline_accuracy.txt", "compliance_accuracy.txt")
"""What TEST01's folder of the accuracy log has where the answers differ."""
_NO_PASS = re.compile(r"check pass: (?!True\b|Skipped\b)|TEST FAIL|verification failed")
_AUDIT = re.compile(r"\bTEST\d\d\b")
_FIGURE = re.compile(r"^[ \t]*([A-Z][a-z ]+): (\S+)[ \t\r]*$", re.M)


def verification_fault(run: RunFacts) -> str:
    """What the texts of an audit's verification say against a pass; "" if nothing.

    Sources: what run_verification.py of compliance/TEST06, TEST07 and TEST09 writes, in one file;
    an older audit's verify_performance.txt beside it may only fail.
    """
    submitted, audit = run.submitted, audit_of(run)
    if submitted is None:
        return ""
    own_text = submitted.verify_txt or ""
    for text in (own_text, *submitted.verify_others):
        if failed := next(filter(_NO_PASS.search, text.split("\n")), ""):
            return failed.strip()
    if others := set(_AUDIT.findall(own_text)) - {audit.name}:
        return f"the words of {min(others)}"
    due = _figures_due(run)
    figures = [(name, figure) for name, figure in _FIGURE.findall(own_text) if name in due]
    return next((f"{name}: {figure}" for name, figure in figures if not _in(figure, due[name])), "")


def _in(figure: str, bounds: tuple[float, float]) -> bool:
    try:
        return bounds[0] <= float(figure) <= bounds[1]
    except ValueError:
        return False


def _figures_due(run: RunFacts) -> dict[str, tuple[float, float]]:
    """The lowest and the highest value of each figure that a script prints of this run."""
    audit, samples = audit_of(run), run.logs.accuracy.samples
    due: dict[str, tuple[float, float]] = {}
    if audit.least_score is not None:
        least = audit.least_score[1]
        due |= {"Accuracy threshold": (least, least), "Accuracy score": (least, math.inf)}
    if audit.mean_tokens is not None:
        low, high = audit.mean_tokens
        due |= {"Min threshold": (low, low), "Max threshold": (high, high)}
        due["Mean output tokens"] = (low, high)
        if samples and not run.logs.accuracy.damage and not run.text_alone:
            mean = sum(len(sample.token_ids) for sample in samples) / len(samples)
            due["Mean output tokens"] = (mean - _HALF_A_CENT, mean + _HALF_A_CENT)
            due["Total samples"] = (len(samples), len(samples))
    return due


_HALF_A_CENT = 0.00501
"""For a figure of two decimals."""
