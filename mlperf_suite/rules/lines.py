"""Rules of a log's lines: all that LoadGen writes, and settings that follow from the requested
ones."""

from __future__ import annotations

import math

from mlperf_suite.loadgen.log_lines import is_known, out_of_place
from mlperf_suite.loadgen.took import not_taken
from mlperf_suite.rules import checks
from mlperf_suite.rules.agreement import Log, agrees
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, rule
from mlperf_suite.rules.seeded import issue_order
from mlperf_suite.rules.verdict import Verdict, not_judged

_LINES = "every line that LoadGen writes, in its order"
_TOOK = "the settings that follow from those requested"
_PLAIN = "no sample repeated or chosen, no answer logged"


@rule("performance")
@agrees(_LINES)
def log_lines(log: Log) -> Verdict:
    """The performance run's log has each line that LoadGen writes of such a run, in its order."""
    return _lines(log)


@rule("accuracy")
@agrees(_LINES)
def accuracy_log_lines(log: Log) -> Verdict:
    """The accuracy run's log has each line that LoadGen writes of such a run, in its order."""
    return _lines(log)


@rule("performance")
@agrees(_TOOK)
def settings_took(log: Log) -> Verdict:
    """The performance run's effective settings are those that follow from what was requested."""
    return _took(log)


@rule("accuracy")
@agrees(_TOOK)
def accuracy_settings_took(log: Log) -> Verdict:
    """The accuracy run's effective settings are those that follow from what was requested."""
    return _took(log)


@rule("performance")
@agrees(_PLAIN)
def samples_drawn(log: Log) -> Verdict:
    """Samples are drawn as in every performance run: not one over and over, none for an audit."""
    return _plain(log)


@rule("accuracy")
@agrees(_PLAIN)
def accuracy_samples_drawn(log: Log) -> Verdict:
    """The accuracy run issues all samples: not one over and over, none for an audit."""
    return _plain(log)


@rule("test06", divisions=CLOSED)
def test06_log_agrees(run: RunFacts) -> Verdict:
    """TEST06's detail log agrees with itself and with the answers that the audit logged."""
    return _audit(run)


@rule("test07", divisions=CLOSED)
def test07_log_agrees(run: RunFacts) -> Verdict:
    """TEST07's detail log agrees with itself and with the answers that the audit logged."""
    return _audit(run)


@rule("test09", divisions=CLOSED)
def test09_log_agrees(run: RunFacts) -> Verdict:
    """TEST09's detail log agrees with itself and with the answers that the audit logged."""
    return _audit(run)


def _audit(run: RunFacts) -> Verdict:
    """An audit's lines, its settings, the order of its samples and the number of its tokens."""
    required = "one run: its lines, settings, samples and tokens"
    if checks.no_detail_log(run):
        return not_judged("no detail log", required, "a submission has none here")

    @agrees(required)
    def agree(log: Log) -> Verdict:
        found = [check(log) for check in (_lines, _took, _order, _tokens)]
        return next((v for v in found if v.status == "failed"), log.verdict(True, required))

    return agree(run)


def _lines(log: Log) -> Verdict:
    version = log.detail["loadgen_version"]
    if not isinstance(version, str):
        return log.verdict(False, f"loadgen_version {version}")
    if not is_known(version):
        return log.not_judged(f"LoadGen {version}", "the lines of this LoadGen are not known")
    keys = [entry.key for entry in log.detail.entries]
    told = [key for key in keys if key.startswith("error")]
    if len(told) > len(log.detail.errors):
        return log.verdict(False, f"{told[0]} that is marked as none")
    problem = out_of_place(
        keys,
        log.run.scenario.loadgen_scenario,
        version,
        accuracy=log.of_accuracy,
        valid=log.detail["result_validity"] == "VALID",
    )
    return log.verdict(not problem, problem or f"{len(keys)} lines")


def _took(log: Log) -> Verdict:
    problem = not_taken(log.detail.values)
    return log.verdict(not problem, problem or log.required)


def _plain(log: Log) -> Verdict:
    for key in ("effective_performance_issue_same", "effective_performance_issue_unique"):
        if log.flag(key):
            return log.verdict(False, f"{key} true")
    for key in ("effective_accuracy_log_probability", "effective_accuracy_log_sampling_target"):
        if found := log.number(key):
            return log.verdict(False, f"{key} {found}")
    return log.verdict(True, log.required)


def _order(log: Log) -> Verdict:
    """The samples at the positions that answers have, by the log's own seeds.

    TEST06 has a separate rule for this, which works without a submission's detail log.
    """
    entries = log.run.logs.accuracy.places
    if log.run.mode == "test06" or not entries:
        return log.verdict(True, "no order")
    return issue_order(log, entries)


def _tokens(log: Log) -> Verdict:
    """If all answers are logged, their tokens match the reported rates."""
    samples, scenario = log.run.logs.accuracy.samples, log.run.scenario.name
    if scenario == "SingleStream":
        return log.verdict(True, "no rate of all tokens")
    if scenario == "Offline":
        issued = log.whole("generated_samples_per_query", 1)
        took_s, rate = log.number("result_max_latency_ns") / 1e9, "result_tokens_per_second"
    else:
        issued = log.whole("result_query_count", 1)
        done = log.number("result_completed_samples_per_sec")
        took_s, rate = (issued - 1) / (done or math.inf), "result_completed_tokens_per_second"
    if issued != len(samples) or issued < 2:
        return log.verdict(True, "not every answer is logged")
    reported = log.number(rate) * took_s
    counted = min(sum(sample.token_count or 0 for sample in samples), _MOST_TOKENS)
    same = abs(counted - reported) <= _ROUNDED * reported
    return log.verdict(same, f"{counted:,} tokens logged, {reported:,.0f} by {rate}")


_MOST_TOKENS = 2**63
"""More than any log has; a damaged count may be too large for a float."""
_ROUNDED = 2e-5
"""For two figures of six digits each: at most 3.7e-6 in the audits of 34 public and own results."""
