"""Rules of TEST06: the closed division's audit of a model's output tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlperf_suite.benchmarks.audits import TEST06
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.loadgen.logs import LoggedSample
from mlperf_suite.loadgen.sample_order import Issue
from mlperf_suite.loadgen.schedule import logging_draws
from mlperf_suite.rules import checks, seeded
from mlperf_suite.rules.agreement import Log, agrees
from mlperf_suite.rules.facts import TEXT_ALONE, RunFacts
from mlperf_suite.rules.registry import CLOSED, ONE_BY_ONE, rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

_SAMPLES_LOGGED = TEST06.logged
FALSE_ALARM = 1e-6
"""The probability that an honest run logs fewer answers than required."""
_DRAWS = "the samples of the seeds' draws"
_ANSWERS_EXPECTED = ("generated_query_count", "generated_samples_per_query")
"""LoadGen samples the answers that it logs from the product of both."""


@rule("test06", divisions=CLOSED)
def test06_log_is_whole(run: RunFacts) -> Verdict:
    """TEST06's logs can be read in whole; a submission need not bring the detail log."""
    return checks.audit_log_is_whole(run)


def _is_shortened_and_logged(run: RunFacts) -> bool:
    """Whether a shortened audit logged at least half of the answers that it requested.

    It logs all answers if it issues as many queries as it samples; in a longer run chance decides.
    """
    wanted = run.logs.detail.number("effective_accuracy_log_sampling_target") or 0
    logged = len(run.logs.accuracy.samples)
    return checks.audit_is_shortened(run) and 0 < wanted <= 2 * logged


@rule("test06", divisions=CLOSED, shortens=checks.audit_is_shortened)
def test06_settings(run: RunFacts) -> Verdict:
    """The audit's settings took: 100 samples logged, no minimum duration, equal issue off.

    Smoke may ask for fewer queries and answers; any other difference fails it too.
    """
    return checks.audit_settings(run)


@rule("test06", divisions=CLOSED)
def test06_test_mode(run: RunFacts) -> Verdict:
    """TEST06 was a performance run of this scenario."""
    return checks.audit_test_mode(run)


@rule("test06", divisions=CLOSED)
def test06_no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in TEST06, apart from the audit.config that the test wants."""
    return checks.audit_no_loadgen_errors(run)


@rule("test06", divisions=CLOSED, shortens=_is_shortened_and_logged)
def test06_sample_count(run: RunFacts) -> Verdict:
    """TEST06 logged 100 answers, or as many as chance leaves of a longer run.

    LoadGen logs each of n answers with a probability of 100 / n or more (accuracy_log_prob in
    IssueQueries of loadgen.cc): the required number is what an honest run falls short of with a
    probability of `FALSE_ALARM`. The official script passes an empty log.
    """
    found, answers = len(run.logs.accuracy.samples), math.inf
    if not checks.no_detail_log(run):
        answers = 1
        for key in _ANSWERS_EXPECTED:
            count = checks.number(run, key, f"{_SAMPLES_LOGGED} samples")
            if isinstance(count, Verdict):
                return count
            if count < 1:
                return verdict(False, f"{key} {count}", f"{_SAMPLES_LOGGED} samples")
            answers *= count
    least = least_logged(answers)
    odds = f"{FALSE_ALARM:.0e}".replace("e-0", "e-")
    why = f"fewer of about {_SAMPLES_LOGGED} drawn have a probability of {odds}"
    return verdict(
        found >= least,
        f"{found:,} samples",
        f"at least {least} samples",
        why if least < _SAMPLES_LOGGED else "",
    )


_MOST_ANSWERS = 1e9
"""For more answers the Poisson distribution is the same, and the logarithms lose precision."""


def least_logged(answers: float) -> int:
    """The minimum plausible number of logged answers: a quantile of Binomial(n, 100 / n).

    `answers`: n, or math.inf if it is unknown; then the Poisson distribution, which is the widest.
    """
    if answers <= _SAMPLES_LOGGED:
        return _SAMPLES_LOGGED
    if answers > _MOST_ANSWERS:
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


@rule("test06", divisions=CLOSED)
def test06_issue_order(run: RunFacts) -> Verdict:
    """Each logged answer is of the sample that the seeds give its place, and none is left out.

    Without a detail log the seeds are not known: those of a round, or 0 as where LoadGen did not
    read mlperf.conf, which the official rules do not ask of TEST06.
    """
    entries = run.logs.accuracy.places
    if not entries or run.logs.accuracy.damage:
        why = "no whole log of answers with their places"
        return not_judged(f"{len(entries)} entries", _DRAWS, why)
    ordered = _by_the_round(run, entries) if checks.no_detail_log(run) else _by_its_log(run)
    return _none_left_out(entries) if ordered.passed else ordered


@agrees(_DRAWS)
def _by_its_log(log: Log) -> Verdict:
    """Whether answers are in the order that the audit's own detail log gives."""
    return seeded.issue_order(log, log.run.logs.accuracy.places)


def _by_the_round(run: RunFacts, entries: Sequence[tuple[int, int]]) -> Verdict:
    """Whether answers are in the order that TEST06's settings give with a round's seeds, or 0."""
    samples, found = run.benchmark.samples_of("test06"), ""
    rounds = [
        (one.qsl_rng_seed, one.sample_index_rng_seed) for one in (run.round, *ROUNDS.values())
    ]
    for qsl, index in dict.fromkeys((*rounds, (0, 0))):
        issue = Issue(
            run.scenario.loadgen_scenario,
            False,
            qsl,
            index,
            samples,
            samples,
            _SAMPLES_LOGGED,
            equal=False,
            unique=False,
        )
        departs = seeded.departure(entries, issue)
        if not departs:
            return verdict(True, f"{len(entries):,} entries, as drawn", _DRAWS)
        found = found or departs
    return verdict(False, found, _DRAWS)


def _none_left_out(entries: Sequence[tuple[int, int]]) -> Verdict:
    """Whether every answer whose draw is below a logged one was logged too, up to the last."""
    logged = [place for place, _ in entries]
    draws = logging_draws(TEST06.log_seed, max(logged) + 1)
    most = max(draws[logged])
    absent = [place for place in set(range(len(draws))) - set(logged) if draws[place] <= most]
    if len(set(logged)) < len(logged):
        return verdict(False, "an answer is logged twice", _DRAWS)
    if absent:
        found = f"no answer in place {min(absent):,}, drawn before others"
        return verdict(False, found, _DRAWS)
    return verdict(True, f"{len(entries):,} entries, as drawn", _DRAWS)


def _each_answer(run: RunFacts, ok: Callable[[LoggedSample], bool], required: str) -> Verdict:
    """Judge each answer by its tokens, which must be the engine's own."""
    if run.text_alone:
        return not_judged("no token ids from the engine", required, TEXT_ALONE)
    samples = run.logs.accuracy.samples
    if not samples:
        return verdict(False, "no answer", required)
    wrong = [sample.index for sample in samples if not ok(sample)]
    found = f"{len(samples) - len(wrong)} of {len(samples)} answers"
    return verdict(not wrong, found, required, f"not sample {wrong[0]}" if wrong else "")


@rule("test06", ONE_BY_ONE, divisions=CLOSED)
def test06_first_token(run: RunFacts) -> Verdict:
    """The first token reported is the first token of the answer. Offline reports none.

    The official script also passes an answer that had no first token reported.
    """

    def ok(sample: LoggedSample) -> bool:
        first = sample.first_token_ids
        return bool(first) and sample.token_ids[: len(first or ())] == first

    return _each_answer(run, ok, "the first token reported in each answer")


@rule("test06", divisions=CLOSED)
def test06_eos(run: RunFacts) -> Verdict:
    """An answer ends with at most one of the model's own EOS tokens.

    The official script assumes the id 2, and does not look at an answer's first token.
    """
    required = "at most one EOS at the end of each answer"
    if run.eos_token_ids is None:
        return not_judged("no EOS ids", required, "the model's EOS ids are not known")
    eos = set(run.eos_token_ids)

    def ok(sample: LoggedSample) -> bool:
        return not set(sample.token_ids[-2:]) <= eos or len(sample.token_ids) < 2

    return _each_answer(run, ok, required)


@rule("test06", divisions=CLOSED)
def test06_token_count(run: RunFacts) -> Verdict:
    """The number of tokens reported is the length of the answer."""

    def ok(sample: LoggedSample) -> bool:
        return sample.token_count == len(sample.token_ids)

    return _each_answer(run, ok, "the reported number of tokens in each answer")


@rule("test06", divisions=CLOSED, submitted_only=True)
def test06_verified(run: RunFacts) -> Verdict:
    """The submission's verify_accuracy.txt says that TEST06's checks passed.

    The official checker takes a skipped first token check for any scenario.
    """
    first = "Skipped" if run.scenario.name == "Offline" else "True"
    wanted = [
        f"First token check pass: {first}",
        "EOS check pass: True",
        "Sample length check pass: True",
    ]
    text = run.submitted.verify_txt if run.submitted else None
    if text is None:
        return verdict(False, "no verify_accuracy.txt", "; ".join(wanted))
    lines = {line.strip() for line in text.splitlines()}
    absent = [line for line in wanted if line not in lines]
    found = "these three lines" if not absent else f"no line '{absent[0]}'"
    return verdict(not absent, found, "; ".join(wanted))
