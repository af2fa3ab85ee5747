"""Rules of TEST06, the audit of a model's output tokens, beyond what every audit demands."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

from mlperf_suite.benchmarks.audits import TEST06
from mlperf_suite.loadgen.logs import LoggedSample
from mlperf_suite.rules.audit_rules import is_shortened, lacks_detail_log, verification_fault
from mlperf_suite.rules.facts import TEXT_ALONE, RunFacts
from mlperf_suite.rules.registry import CLOSED, ONE_BY_ONE, rule
from mlperf_suite.rules.verdict import Verdict, failure, not_judged, verdict

_test06_rule = partial(rule, "test06", divisions=CLOSED)
_SAMPLES_LOGGED = TEST06.logged
FALSE_ALARM = 1e-6
"""The probability that an honest run logs fewer answers than required."""


def _is_shortened_and_logged(run: RunFacts) -> bool:
    """Whether a shortened audit logged at least half of the answers that it requested.

    It logs all answers if it issues as many queries as it samples; in a longer run chance decides.
    """
    target = run.detail.number("effective_accuracy_log_sampling_target") or 0
    logged = len(run.logs.accuracy.samples)
    return is_shortened(run) and 0 < target <= 2 * logged


@_test06_rule(
    source="compliance/TEST06: accuracy_log_sampling_target in audit.config",
    fix="Repeat the audit with its audit.config and at least 100 queries.",
    shortens=_is_shortened_and_logged,
)
def sample_count(run: RunFacts) -> Verdict:
    """TEST06 logged 100 answers, or as many as its sampling gives in a longer run.

    LoadGen logs each of n answers with a probability of 100 / n or more (accuracy_log_prob in
    IssueQueries of loadgen.cc): the required number is what an honest run falls short of with a
    probability of `FALSE_ALARM`. The official script passes an empty log.
    """
    logged = len(run.logs.accuracy.samples)
    least = least_logged(math.inf if lacks_detail_log(run) else _answers_issued(run))
    odds = f"{FALSE_ALARM:.0e}".replace("e-0", "e-")
    why = f"fewer of about {_SAMPLES_LOGGED} drawn have a probability of {odds}"
    return verdict(
        logged >= least,
        f"{logged:,} samples",
        f"at least {least} samples",
        why if least < _SAMPLES_LOGGED else "",
    )


def _answers_issued(run: RunFacts) -> float:
    """The answers of which LoadGen samples those that it logs. Raises VerdictError."""
    answers, required = 1.0, f"{_SAMPLES_LOGGED} samples"
    for key in ("generated_query_count", "generated_samples_per_query"):
        count = run.number(key, required)
        if count < 1:
            raise failure(f"{key} {count}", required)
        answers *= count
    return answers


_MAX_ANSWERS = 1e9
"""For more answers the Poisson distribution is the same, and the logarithms lose precision."""


@lru_cache(maxsize=64)
def least_logged(answers: float) -> int:
    """The minimum plausible number of logged answers: a quantile of Binomial(n, 100 / n).

    `answers`: n, or math.inf if it is unknown; then the Poisson distribution, which is the widest.
    """
    if answers <= _SAMPLES_LOGGED:
        return _SAMPLES_LOGGED
    if answers > _MAX_ANSWERS:
        answers = math.inf
    share, below = _SAMPLES_LOGGED / answers, 0.0
    for logged in range(_SAMPLES_LOGGED):
        if math.isinf(answers):
            log = logged * math.log(_SAMPLES_LOGGED) - _SAMPLES_LOGGED - math.lgamma(logged + 1)
        else:
            log = (
                math.lgamma(answers + 1)
                - math.lgamma(logged + 1)
                - math.lgamma(answers - logged + 1)
                + logged * math.log(share)
                + (answers - logged) * math.log1p(-share)
            )
        below += math.exp(log)
        if below > FALSE_ALARM:
            return logged
    return _SAMPLES_LOGGED


def _each_answer(run: RunFacts, ok: Callable[[LoggedSample], bool]) -> Verdict:
    """Judge each answer by its tokens, which must be the engine's own."""
    if run.text_alone:
        return not_judged("no token ids from the engine", why=TEXT_ALONE)
    samples = run.logs.accuracy.samples
    if not samples:
        return verdict(False, "no answer")
    wrong = [sample.index for sample in samples if not ok(sample)]
    right = f"{len(samples) - len(wrong)} of {len(samples)} answers"
    return verdict(not wrong, right, why=f"not sample {wrong[0]}" if wrong else "")


@_test06_rule(
    required="the first token reported in each answer",
    source="compliance/TEST06: run_verification.py, first token check",
    fix="Report to LoadGen the first token of the answer itself.",
    scenarios=ONE_BY_ONE,
)
def first_token(run: RunFacts) -> Verdict:
    """The first token reported is the first token of the answer. Offline reports none.

    The official script also passes an answer that had no first token reported.
    """

    def ok(sample: LoggedSample) -> bool:
        first = sample.first_token_ids
        return bool(first) and sample.token_ids[: len(first or ())] == first

    return _each_answer(run, ok)


@_test06_rule(
    required="at most one EOS at the end of each answer",
    source="compliance/TEST06: run_verification.py, EOS check",
    fix="Stop at the first EOS, and strip the EOS tokens that pad an answer.",
)
def eos(run: RunFacts) -> Verdict:
    """An answer ends with at most one of the model's own EOS tokens.

    The official script assumes the id 2, and does not look at an answer's first token.
    """
    if run.eos_token_ids is None:
        return not_judged("no EOS ids", why="the model's EOS ids are not known")
    eos = set(run.eos_token_ids)

    def ok(sample: LoggedSample) -> bool:
        return not set(sample.token_ids[-2:]) <= eos or len(sample.token_ids) < 2

    return _each_answer(run, ok)


@_test06_rule(
    required="the reported number of tokens in each answer",
    source="compliance/TEST06: run_verification.py, sample length check",
    fix="Report to LoadGen as many tokens as the answer has.",
)
def token_count(run: RunFacts) -> Verdict:
    """The number of tokens reported is the length of the answer."""

    def ok(sample: LoggedSample) -> bool:
        return sample.token_count == len(sample.token_ids)

    return _each_answer(run, ok)


@_test06_rule(
    source="submission checker, compliance_check.py: accuracy_check",
    fix="Run TEST06's run_verification.py on these logs, and submit the file that it writes.",
    submitted_only=True,
)
def verified(run: RunFacts) -> Verdict:
    """The submission's verify_accuracy.txt says that TEST06's checks passed, and nothing else.

    The official checker takes a skipped first token check for any scenario, and a check that passed
    on one line and failed on another.
    """
    first = "Skipped" if run.scenario.name == "Offline" else "True"
    expectation = [
        f"First token check pass: {first}",
        "EOS check pass: True",
        "Sample length check pass: True",
    ]
    text = run.submitted.verify_txt if run.submitted else None
    if text is None:
        return verdict(False, "no verify_accuracy.txt", "; ".join(expectation))
    lines = {line.strip() for line in text.splitlines()}
    absent = [f"no line '{line}'" for line in expectation if line not in lines]
    checks = [f"'{line}'" for line in sorted(lines - {*expectation}) if "check pass:" in line]
    faults = [*absent, verification_fault(run), *checks]
    fault = next(filter(None, faults), "")
    return verdict(not fault, fault or "these three lines", "; ".join(expectation))
