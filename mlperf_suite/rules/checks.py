"""Checks shared by several rules."""

from __future__ import annotations

from collections.abc import Iterable

from mlperf_suite.benchmarks.audits import ISSUED_ONCE, TEST06, Audit
from mlperf_suite.benchmarks.rounds import round_of_seeds
from mlperf_suite.loadgen.load_plan import TEST_MODES
from mlperf_suite.loadgen.log_lines import version_numbers
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

_LAST_RATE = {
    "Offline": "result_tokens_per_second",
    "Server": "result_completed_tokens_per_second",
    "SingleStream": "result_completed_tokens_per_second",
}
_NO_ERROR_COUNT = (5, 0, 15)
"""The last LoadGen that may end a log without num_errors (mlcommons/inference pull request 2164):
it wrote 36 logs of 18 public v5.1 results."""


def has_its_end(run: RunFacts) -> bool:
    """Whether the detail log has what LoadGen writes at the very end of a run of its mode."""
    detail = run.logs.detail
    if run.mode == "accuracy":
        return detail["power_end"] is not None
    if detail["num_errors"] is not None:
        return True
    version = version_numbers(str(detail["loadgen_version"]))
    old = version is not None and version <= _NO_ERROR_COUNT
    return old and detail[_LAST_RATE[run.scenario.loadgen_scenario]] is not None


def missing(key: str, required: object) -> Verdict:
    """The verdict that a key is missing from the detail log."""
    return verdict(False, "nothing", required, f"{key} is not in the detail log")


def number(run: RunFacts, key: str, required: str) -> float | Verdict:
    """A number from the detail log, or the verdict that there is none."""
    found = run.logs.detail.number(key)
    if found is not None:
        return found
    given = run.logs.detail[key]
    if given is None:
        return missing(key, required)
    return verdict(False, given, required, f"{key} is no number")


def at_least(run: RunFacts, key: str, required: float, unit: str) -> Verdict:
    demand = f"at least {required:,} {unit}"
    found = number(run, key, demand)
    if isinstance(found, Verdict):
        return found
    return verdict(found >= required, f"{found:,} {unit}", demand)


def is_true(run: RunFacts, key: str) -> Verdict:
    found = run.logs.detail[key]
    return missing(key, "true") if found is None else verdict(found is True, found, "true")


def log_is_whole(run: RunFacts) -> Verdict:
    """LoadGen's detail log can be read from its first line to its last."""
    damage = list(run.logs.detail.damage)
    if not has_its_end(run) and not damage:
        damage.append("the last entries are missing")
    return verdict(not damage, damage[0] if damage else "whole", "whole")


def no_loadgen_errors(run: RunFacts, allowed: str | None = None) -> Verdict:
    """LoadGen logged no errors except those with the allowed text."""
    errors = [e for e in run.logs.detail.errors if allowed is None or allowed not in e]
    counted = run.logs.detail["num_errors"]
    forgiven = len(run.logs.detail.errors) - len(errors)
    if not errors and counted is not None and counted not in (0, forgiven):
        return verdict(False, f"num_errors {counted}", "0 errors")
    return verdict(not errors, f"{len(errors)} errors", "0 errors", errors[0] if errors else "")


def test_mode(run: RunFacts) -> Verdict:
    """The log is of the expected run: this scenario, accuracy or performance."""
    detail = run.logs.detail
    found = [detail["effective_scenario"], detail["effective_test_mode"]]
    wanted = [run.scenario.loadgen_scenario, TEST_MODES[run.mode]]
    return verdict(found == wanted, " ".join(map(str, found)), " ".join(wanted))


def seeds(run: RunFacts) -> Verdict:
    """The three random seeds are those of the round."""
    found = {name: run.logs.detail[f"effective_{name}"] for name in run.round.seeds}
    differing = [n for n, seed in run.round.seeds.items() if not _is_seed(found[n], seed)]
    required = f"the seeds of {run.round.name}"
    if not differing:
        return verdict(True, required, required)
    other = round_of_seeds(found)
    described = ", ".join(f"{name} {found[name]}" for name in differing)
    return verdict(False, f"the seeds of {other.name}" if other else described, required)


def _is_seed(found: object, seed: int) -> bool:
    """Whether it is exactly that seed: a float may compare equal to it."""
    return type(found) is int and found == seed


def loadgen_unmodified(run: RunFacts) -> Verdict:
    """LoadGen was built from a release, without local changes."""
    found = run.logs.detail["loadgen_git_status_message"]
    if found is None:
        return missing("loadgen_git_status_message", "no local change")
    return verdict(found == "", found or "no local change", "no local change")


def departs_in_length_alone(run: RunFacts) -> bool:
    """Whether only the answer length limit deviates from the benchmark: smoke does not excuse a
    cache, or a server that did not do as asked."""
    by_server = run.remote is not None and run.remote.departures
    return not by_server and not besides_length(run.departures or ())


def besides_length(departures: Iterable[str]) -> list[str]:
    """The departures other than that of the answer length limit, which a smoke run may have."""
    return [words for words in departures if not words.startswith("at most")]


def generates_as_specified(run: RunFacts) -> Verdict:
    """Answers are generated as the benchmark specifies and as requested, without a cache."""
    required = "as the benchmark specifies"
    found = (*(run.departures or ()), *(run.remote.departures if run.remote else ()))
    return verdict(not found, ", ".join(found) or required, required)


def no_cached_tokens(found: int | None) -> Verdict:
    """No prompt token came from a cache. `found`: the engine's count, None if it has none."""
    required = "0 prompt tokens from a cache"
    if found is None:
        why = "the engine does not say whether prompts were answered from a prefix cache"
        return not_judged("no count", required, why)
    return verdict(found == 0, f"{found:,} prompt tokens from a cache", required)


# Audits

AUDIT_CONF_IS_READ = "Multiple conf files are used"
"""LoadGen counts its own audit.config as an error; the official checker also lets it pass."""
_SHORTENED_BY_SMOKE = frozenset(
    {"effective_accuracy_log_sampling_target", "requested_min_query_count"}
)
"""The settings, by detail log keys, that a smoke run may have less of."""
_NONE_HERE = "a submission has none here"


def audit_of(run: RunFacts) -> Audit:
    """The run's audit: its benchmark's, or else TEST06."""
    return run.benchmark.audit(run.mode) or TEST06


def no_detail_log(run: RunFacts) -> bool:
    """Whether it is a submission's audit without a detail log, which is optional there."""
    return run.submitted is not None and DETAIL not in run.logs.files


def audit_log_is_whole(run: RunFacts) -> Verdict:
    """The audit's logs can be read in whole; a submission may omit the detail log."""
    damage = run.logs.accuracy.damage
    if damage:
        return verdict(False, damage[0], "whole")
    return verdict(True, "whole", "whole") if no_detail_log(run) else log_is_whole(run)


def _differing(run: RunFacts) -> list[str]:
    """The detail log keys whose values differ from audit.config."""
    return audit_of(run).differences(run.logs.detail.values, run.round.name)


def audit_is_shortened(run: RunFacts) -> bool:
    """Whether audit.config was only changed to fewer queries and fewer logged answers."""
    differing, most = _differing(run), audit_of(run).logged
    given = [run.logs.detail[key] for key in differing]
    fewer = all(type(value) is int and 0 < value < most for value in given)
    return bool(differing) and fewer and set(differing) <= _SHORTENED_BY_SMOKE


def audit_settings(run: RunFacts) -> Verdict:
    """The audit's settings took effect."""
    required = "audit.config's settings"
    if no_detail_log(run):
        return not_judged("no detail log", required, _NONE_HERE)
    differing = _differing(run)
    shown = ", ".join(f"{key} {run.logs.detail[key]}" for key in differing)
    return verdict(not differing, shown or required, required)


def audit_test_mode(run: RunFacts) -> Verdict:
    """The audit was a performance run of this scenario."""
    if no_detail_log(run):
        return not_judged("no detail log", "PerformanceOnly", _NONE_HERE)
    return test_mode(run)


def audit_no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in the audit, except for the audit.config that the audit requires."""
    if no_detail_log(run):
        return not_judged("no detail log", "0 errors", _NONE_HERE)
    return no_loadgen_errors(run, allowed=AUDIT_CONF_IS_READ)


def audit_every_sample(run: RunFacts) -> Verdict:
    """The answer to each sample of the audit's data set was logged.

    The official scripts do not count samples: an audit that issued some of them twice and others
    never passes them (mlcommons/inference pull request 2619). If the round's own audit.config draws
    with replacement, samples that were not drawn decide nothing; each query's answer is logged.
    """
    wanted = run.benchmark.samples_of(run.mode)
    found = set(run.logs.accuracy.first_of_each())
    whole, shown, required = (
        found == set(range(wanted)),
        f"{len(found):,} samples",
        f"{wanted:,} samples",
    )
    each_logged = len(run.logs.accuracy.samples) >= audit_of(run).queries
    if not whole and each_logged and found <= set(range(wanted)) and _may_be_drawn(run):
        why = f"the audit.config of {run.round.name} draws samples with replacement"
        return not_judged(shown, required, why)
    return verdict(whole, shown, required)


def _may_be_drawn(run: RunFacts) -> bool:
    """Whether the audit drew its samples with replacement, or no log shows otherwise.

    Offline's single query has the samples in order, drawn or not.
    """
    drawn = no_detail_log(run) or run.logs.detail[ISSUED_ONCE] is False
    offline = run.scenario.loadgen_scenario == "Offline"
    return drawn and not offline and run.round.name in audit_of(run).drawn_in


def audit_shortened_and_whole(run: RunFacts) -> bool:
    """Whether a shortened audit logged an answer to each sample that LoadGen has."""
    samples = run.logs.detail.number("qsl_reported_total_count") or 0
    found = set(run.logs.accuracy.first_of_each())
    return audit_is_shortened(run) and bool(samples) and found == set(range(int(samples)))


def audit_verified(run: RunFacts) -> Verdict:
    """The submission's file with the official script's verdict says TEST PASS."""
    file = audit_of(run).verified_in
    required = f"TEST PASS in {file}"
    text = run.submitted.verify_txt if run.submitted else None
    if text is None:
        return verdict(False, f"no {file}", required)
    passed = "TEST PASS" in text and "TEST FAIL" not in text
    return verdict(passed, "TEST PASS" if passed else "no TEST PASS", required)
