"""Rules of the logs of MLPerf's audits: each log agrees with itself and with its seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import chain

from mlperf_suite.benchmarks.audits import LOG_SEED, TEST06
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.log_consistency.schedule import SampleOrderSettings, logging_draws
from mlperf_suite.features.log_consistency.seeded import deviation, order_verdict
from mlperf_suite.loadgen.logs import SUMMARY
from mlperf_suite.rules.audit_rules import AUDITS, lacks_detail_log, need_detail_log
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, rule, rules_for
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

_audit_rule = partial(rule, divisions=CLOSED, official=False)
_ONE_RUN = "one run: its lines, settings, times, figures, samples and tokens"
_NOT_OF_AUDITS = frozenset({"samples_drawn", "tokens_as_in_accuracy"})
"""Rules on a performance run's log that audits obey otherwise: they log chosen answers."""


@_audit_rule(
    *AUDITS,
    required=_ONE_RUN,
    source="LoadGen's sources; tolerances in docs/evidence/log-consistency.md",
    fix="Submit the audit's logs exactly as LoadGen wrote them; if they are, repeat the audit.",
)
def log_agrees(run: RunFacts) -> Verdict:
    """The audit's logs agree with themselves as a performance run's do, and with the answers that
    the audit logged.

    An INVALID that follows from the figures passes: TEST06 asks for fewer queries than early
    stopping does, and 10 of 20 public ones are INVALID.
    """
    need_detail_log(run)
    run.need_whole_log()
    of_performance = rules_for(
        run.benchmark,
        run.scenario,
        "performance",
        run.division,
        submitted=run.submitted is not None,
        in_session=run.session is not None,
    )
    without = _NOT_OF_AUDITS if SUMMARY in run.logs.files else {*_NOT_OF_AUDITS, "summary_agrees"}
    judgements = (r.judge(run) for r in of_performance if r.whole_log and r.name not in without)
    verdicts = chain(judgements, (check(run) for check in (_order, _tokens)))
    return next((v for v in verdicts if v.status == "failed"), verdict(True, _ONE_RUN))


def _order(run: RunFacts) -> Verdict:
    """The samples at the positions that answers have, by the log's own seeds.

    TEST06 has a separate rule for this, which works without a submission's detail log.
    """
    entries = run.logs.accuracy.places
    if run.mode == "test06" or not entries:
        return verdict(True, "no order")
    return order_verdict(run, entries)


def _tokens(run: RunFacts) -> Verdict:
    """If all answers are logged, their tokens match the reported rates."""
    samples, scenario = run.logs.accuracy.samples, run.scenario.name
    if scenario == "SingleStream" or not run.scenario.counts_tokens:
        return verdict(True, "no rate of all tokens")
    if scenario == "Offline":
        count = run.whole("generated_samples_per_query", 1)
        seconds, key = run.amount("result_max_latency_ns") / 1e9, "result_tokens_per_second"
    else:
        count = run.whole("result_query_count", 1)
        rate = run.amount("result_completed_samples_per_sec")
        seconds, key = (count - 1) / (rate or math.inf), "result_completed_tokens_per_second"
    if count != len(samples) or count < 2:
        return verdict(True, "not every answer is logged")
    by_rate = run.amount(key) * seconds
    tokens = min(sum(sample.token_count or 0 for sample in samples), _MAX_TOKENS)
    same = abs(tokens - by_rate) <= _ROUNDING * by_rate
    return verdict(same, f"{tokens:,} tokens logged, {by_rate:,.0f} by {key}")


_MAX_TOKENS = 2**63
"""More than any log has; a damaged count may be too large for a float."""
_ROUNDING = 2e-5
"""For two figures of six digits each: at most 3.7e-6 in the audits of 34 public and own results."""


@_audit_rule(
    "test06",
    required="the samples of the seeds' draws",
    source="LoadGen's loadgen.cc, recomputed from the seeds; docs/evidence/log-consistency.md",
    fix="Submit the audit's log exactly as LoadGen wrote it; if it is, repeat the audit.",
)
def issue_order(run: RunFacts) -> Verdict:
    """Each logged answer is for the sample that the seeds put at its place, and none is left out.

    Without a detail log the seeds are not known: those of a round, or 0 as where LoadGen did not
    read mlperf.conf, which the official rules do not ask of TEST06.
    """
    entries = run.logs.accuracy.places
    if not entries or run.logs.accuracy.damage:
        why = "no whole log of answers with their places"
        return not_judged(f"{len(entries)} entries", why=why)
    if lacks_detail_log(run):
        order = _order_by_round(run, entries)
    else:
        run.need_whole_log()
        order = order_verdict(run, entries)
    return _complete_up_to_last(entries) if order.passed else order


def _order_by_round(run: RunFacts, entries: Sequence[tuple[int, int]]) -> Verdict:
    """Whether answers are in the order that TEST06's settings give with a round's seeds, or 0."""
    samples, first_words = run.benchmark.samples_of("test06"), ""
    seeds = [(r.qsl_rng_seed, r.sample_index_rng_seed) for r in (run.round, *ROUNDS.values())]
    for qsl, index in dict.fromkeys((*seeds, (0, 0))):
        issue = SampleOrderSettings(
            run.scenario.loadgen_scenario,
            False,
            qsl,
            index,
            samples,
            samples,
            TEST06.logged,
            equal=False,
            unique=False,
        )
        words = deviation(entries, issue)
        if not words:
            return verdict(True, f"{len(entries):,} entries, as drawn")
        first_words = first_words or words
    return verdict(False, first_words)


def _complete_up_to_last(entries: Sequence[tuple[int, int]]) -> Verdict:
    """Whether every answer whose draw is below a logged one was logged too, up to the last."""
    logged = [place for place, _ in entries]
    draws = logging_draws(LOG_SEED, max(logged) + 1)
    left_out = draws <= max(draws[logged])
    left_out[logged] = False
    if len(set(logged)) < len(logged):
        return verdict(False, "an answer is logged twice")
    if left_out.any():
        return verdict(False, f"no answer in place {left_out.argmax():,}, drawn before others")
    return verdict(True, f"{len(entries):,} entries, as drawn")
