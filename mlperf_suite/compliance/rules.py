"""Every rule of a run, one function each: what it looks at, what it demands.

Sources: the MLPerf Inference rules, and the official submission checker
(tools/submission/submission_checker in github.com/mlcommons/inference), named where they differ.
A rule never raises for what is in a log: what cannot be read fails it.
To add a rule, write one function here under `@rule`; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mlperf_suite.benchmarks.audits import TEST06_AUDIT, TEST06_TOOK
from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, Benchmark, Scenario
from mlperf_suite.benchmarks.rounds import Round, round_of_seeds
from mlperf_suite.benchmarks.workload import BASELINES, Baseline
from mlperf_suite.compliance.accuracy_txt import parse_accuracy_txt
from mlperf_suite.compliance.verdict import Verdict, not_judged, verdict
from mlperf_suite.loadgen.load_plan import TEST_MODES, Mode
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, LoggedSample, RunLogs

Division = Literal["closed", "open"]

EARLY_STOPPING_MIN_QUERIES = 64
"""Early stopping cannot estimate a 90th or 99th percentile from fewer (MLPerf Inference rules)."""
SINGLE_STREAM_MIN_QUERIES = 1024
"""SingleStream's minimum where early stopping is not used (MLPerf Inference rules)."""
MAX_ACCURACY_LOG_BYTES = 10 * 1024
"""A submission's accuracy log is cut to less (MAX_ACCURACY_LOG_SIZE of the official checker)."""
LAST_KEY: dict[Mode, str] = {
    "accuracy": "power_end",
    "performance": "num_errors",
    "test06": "num_errors",
}
"""What LoadGen writes at the very end of a run of each mode."""
_AUDIT_CONF_IS_READ = "Multiple conf files are used"
"""LoadGen counts its own audit.config as an error; the official checker lets it pass as well."""


@dataclass(frozen=True, slots=True)
class SubmittedTexts:
    """The texts that a submission has beside its logs; None is a file that is not there."""

    accuracy_txt: str | None = None
    verify_accuracy_txt: str | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All that a rule may look at.

    `scores`: an accuracy run's figures by the names of accuracy.txt, ROUGE in percent; None where
    there are none, and `unscored` says why where that is nobody's fault. `baseline`: what to
    compare them with. `accuracy_passed`: of the same system, None where no accuracy run was made.
    `smoke`: rules may be shortened. `submitted`: from a submission, whose accuracy log is cut and
    whose TEST06 need not bring a detail log. `eos_token_ids`: the model's own, None where unknown.
    `departures`: how the session generates otherwise than the benchmark says; None where only logs
    are known, which do not tell.
    """

    benchmark: Benchmark
    scenario: Scenario
    mode: Mode
    round: Round
    logs: RunLogs
    smoke: bool = False
    scores: Mapping[str, float] | None = None
    unscored: str = ""
    baseline: Baseline | None = None
    high_accuracy: bool = False
    accuracy_passed: bool | None = None
    division: Division = "closed"
    submitted: SubmittedTexts | None = None
    eos_token_ids: tuple[int, ...] | None = None
    departures: tuple[str, ...] | None = None

    @property
    def gate(self) -> float:
        """The fraction of the baseline to reach; 0 without a baseline."""
        if self.baseline is None:
            return 0.0
        return self.baseline.high_gate if self.high_accuracy else self.baseline.gate


Check = Callable[[RunFacts], Verdict]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named check, and the runs that it holds for.

    `shortens`: smoke asks for less of it. `metric`: the accuracy figure that it gates, so that it
    holds for benchmarks judged by that figure. `submitted_only`: it reads what only a submission
    has. `session_only`: it looks at what only the session that makes the run knows.
    """

    name: str
    mode: Mode
    check: Check
    scenarios: tuple[str, ...]
    divisions: tuple[Division, ...]
    shortens: bool
    metric: str | None
    submitted_only: bool
    session_only: bool

    @property
    def says(self) -> str:
        """The rule in a sentence."""
        return (self.check.__doc__ or "").strip().splitlines()[0]

    def holds_for(
        self,
        benchmark: Benchmark,
        scenario: Scenario,
        division: Division,
        submitted: bool,
        in_session: bool,
    ) -> bool:
        metrics = BASELINES[benchmark.id].metrics
        return (
            scenario.name in self.scenarios
            and division in self.divisions
            and (submitted or not self.submitted_only)
            and (in_session or not self.session_only)
            and (self.metric is None or self.metric in metrics)
        )

    def judge(self, run: RunFacts) -> Verdict:
        found = replace(self.check(run), rule=self.name)
        if found.status == "failed" and self.shortens and run.smoke:
            return replace(found, status="shortened", why="shortened for smoke")
        return found


RULES: list[Rule] = []
_SERVER = ("Server", "Interactive")
_ONE_BY_ONE = (*_SERVER, "SingleStream")
_EVERY = ("Offline", *_ONE_BY_ONE)
_CLOSED: tuple[Division, ...] = ("closed",)
_EVERY_DIVISION: tuple[Division, ...] = ("closed", "open")


def rule(
    mode: Mode,
    scenarios: tuple[str, ...] = _EVERY,
    *,
    divisions: tuple[Division, ...] = _EVERY_DIVISION,
    shortens: bool = False,
    metric: str | None = None,
    submitted_only: bool = False,
    session_only: bool = False,
) -> Callable[[Check], Check]:
    """Register a function as the rule of its name."""

    def register(check: Check) -> Check:
        RULES.append(
            Rule(
                check.__name__,
                mode,
                check,
                scenarios,
                divisions,
                shortens,
                metric,
                submitted_only,
                session_only,
            )
        )
        return check

    return register


def rules_for(
    benchmark: Benchmark,
    scenario: Scenario,
    mode: Mode,
    division: Division = "closed",
    *,
    submitted: bool = False,
    in_session: bool = True,
) -> list[Rule]:
    """The rules of a run, in the order in which they are told."""
    return [
        r
        for r in RULES
        if r.mode == mode and r.holds_for(benchmark, scenario, division, submitted, in_session)
    ]


def judge(run: RunFacts) -> list[Verdict]:
    """Apply every rule that holds for the run."""
    submitted = run.submitted is not None
    in_session = run.departures is not None
    rules = rules_for(
        run.benchmark,
        run.scenario,
        run.mode,
        run.division,
        submitted=submitted,
        in_session=in_session,
    )
    return [r.judge(run) for r in rules]


def _missing(key: str, required: object) -> Verdict:
    return verdict(False, "nothing", required, f"{key} is not in the detail log")


def _number(run: RunFacts, key: str, required: str) -> float | Verdict:
    """A number of the detail log, or the verdict that there is none."""
    found = run.logs.detail.number(key)
    if found is not None:
        return found
    given = run.logs.detail[key]
    if given is None:
        return _missing(key, required)
    return verdict(False, given, required, f"{key} is no number")


def _at_least(run: RunFacts, key: str, required: float, unit: str) -> Verdict:
    demand = f"at least {required:,} {unit}"
    found = _number(run, key, demand)
    if isinstance(found, Verdict):
        return found
    return verdict(found >= required, f"{found:,} {unit}", demand)


def _is_true(run: RunFacts, key: str) -> Verdict:
    found = run.logs.detail[key]
    return _missing(key, "true") if found is None else verdict(found is True, found, "true")


def _is_seed(found: object, seed: int) -> bool:
    """Whether it is that seed: a float may equal it without being it."""
    return type(found) is int and found == seed


# Of every run


def _log_is_whole(run: RunFacts) -> Verdict:
    """LoadGen's detail log can be read from its first line to its last."""
    damage = list(run.logs.detail.damage)
    if run.logs.detail[LAST_KEY[run.mode]] is None and not damage:
        damage.append("the last entries are missing")
    return verdict(not damage, damage[0] if damage else "whole", "whole")


def _no_loadgen_errors(run: RunFacts, allowed: str | None = None) -> Verdict:
    """LoadGen logged no error."""
    errors = [e for e in run.logs.detail.errors if allowed is None or allowed not in e]
    counted = run.logs.detail["num_errors"]
    forgiven = len(run.logs.detail.errors) - len(errors)
    if not errors and counted is not None and counted not in (0, forgiven):
        return verdict(False, f"num_errors {counted}", "0 errors")
    return verdict(not errors, f"{len(errors)} errors", "0 errors", errors[0] if errors else "")


def _test_mode(run: RunFacts) -> Verdict:
    """The log is of the run that it is taken for: this scenario, accuracy or performance."""
    detail = run.logs.detail
    found = [detail["effective_scenario"], detail["effective_test_mode"]]
    wanted = [run.scenario.loadgen_scenario, TEST_MODES[run.mode]]
    return verdict(found == wanted, " ".join(map(str, found)), " ".join(wanted))


def _seeds(run: RunFacts) -> Verdict:
    """The three random seeds are those of the round."""
    found = {name: run.logs.detail[f"effective_{name}"] for name in run.round.seeds}
    differing = [n for n, seed in run.round.seeds.items() if not _is_seed(found[n], seed)]
    required = f"the seeds of {run.round.name}"
    if not differing:
        return verdict(True, required, required)
    other = round_of_seeds(found)
    described = ", ".join(f"{name} {found[name]}" for name in differing)
    return verdict(False, f"the seeds of {other.name}" if other else described, required)


def _loadgen_unmodified(run: RunFacts) -> Verdict:
    """LoadGen was built from a release, without local changes."""
    found = run.logs.detail["loadgen_git_status_message"]
    if found is None:
        return _missing("loadgen_git_status_message", "no local change")
    return verdict(found == "", found or "no local change", "no local change")


def _generates_as_specified(run: RunFacts) -> Verdict:
    """Answers are generated as the benchmark says, and none is taken from a cache."""
    required = "as the benchmark says"
    found = run.departures or ()
    return verdict(not found, ", ".join(found) or required, required)


# Of an accuracy run


@rule("accuracy")
def accuracy_log_is_whole(run: RunFacts) -> Verdict:
    """The accuracy run's detail log and accuracy log can be read in whole.

    A submission's accuracy log is cut in the middle, so there only its presence counts.
    """
    whole = _log_is_whole(run)
    damage = run.logs.accuracy.damage
    cut = run.submitted is not None and ACCURACY in run.logs.files
    if whole.passed and damage and not cut:
        return verdict(False, damage[0], "whole")
    return whole


@rule("accuracy")
def accuracy_no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in the accuracy run."""
    return _no_loadgen_errors(run)


@rule("accuracy")
def accuracy_test_mode(run: RunFacts) -> Verdict:
    """The accuracy run was made in AccuracyOnly mode of this scenario."""
    return _test_mode(run)


@rule("accuracy")
def accuracy_every_sample(run: RunFacts) -> Verdict:
    """Every sample that LoadGen has was answered.

    A submission's log is cut, so there the number of answers that were scored counts.
    """
    wanted = _number(run, "qsl_reported_total_count", "every sample")
    if isinstance(wanted, Verdict):
        return wanted
    required = f"{wanted:,} samples"
    if run.submitted is None:
        found = run.logs.accuracy.first_of_each()
        whole = set(found) == set(range(int(wanted)))
        return verdict(whole, f"{len(found):,} samples", required)
    scored = (run.scores or {}).get("gen_num")
    if scored is None:
        return verdict(False, "nothing", required, "accuracy.txt has no gen_num")
    return verdict(scored == wanted, f"{scored:,.0f} samples", required)


@rule("accuracy", shortens=True)
def accuracy_whole_dataset(run: RunFacts) -> Verdict:
    """The accuracy run takes the benchmark's whole data set."""
    newer = "effective_accuracy_sample_count"
    key = "qsl_reported_total_count" if run.logs.detail[newer] is None else newer
    required = f"{run.benchmark.samples:,} samples"
    found = _number(run, key, required)
    if isinstance(found, Verdict):
        return found
    return verdict(found == run.benchmark.samples, f"{found:,} samples", required)


@rule("accuracy", shortens=True, session_only=True)
def accuracy_generation(run: RunFacts) -> Verdict:
    """The accuracy run generates as the benchmark says: at most 128 tokens, no prefix cache."""
    return _generates_as_specified(run)


def _score(run: RunFacts, name: str, unit: str) -> float | Verdict:
    """A figure of the accuracy run, or the verdict that there is none."""
    if run.scores is not None and run.baseline is not None and name in run.scores:
        return run.scores[name]
    if run.scores is None and not run.unscored:
        return verdict(False, "no figure", unit, "nothing was scored")
    if run.scores is None:
        return not_judged("no figure", unit, run.unscored)
    if run.baseline is None:
        return not_judged("no baseline", "a baseline", "no baseline for this model and data")
    return verdict(False, "no figure", unit, f"{name} is not among the scores")


def _gated(name: str) -> Check:
    def check(run: RunFacts) -> Verdict:
        found = _score(run, name, "a score in percent")
        if isinstance(found, Verdict) or run.baseline is None:
            return found if isinstance(found, Verdict) else _missing(name, "a baseline")
        baseline = run.baseline.gated[name]
        required = baseline * run.gate
        return verdict(
            required <= found <= 100,
            f"{found:.4f}",
            f"at least {required:.4f}",
            f"{run.gate * 100:g}% of the baseline {baseline:.4f}",
        )

    check.__name__ = f"accuracy_{name.lower()}"
    check.__doc__ = f"{name} reaches its gate: 99% of the baseline, 99.9% where that is asked."
    return check


for _name in ("rouge1", "rouge2", "rougeL", "rougeLsum", "exact_match", "gsm8k", "mbxp"):
    rule("accuracy", divisions=_CLOSED, metric=_name)(_gated(_name))


@rule("accuracy", divisions=_CLOSED, metric="gen_len")
def accuracy_gen_len(run: RunFacts) -> Verdict:
    """The length of all answers, in characters, is within 10% of the baseline's."""
    found = _score(run, "gen_len", "a number of characters")
    if isinstance(found, Verdict):
        return found
    if run.baseline is None or run.baseline.gen_len is None or run.scores is None:
        return not_judged("no baseline", "a baseline", "no baseline for this model and data")
    expected, tolerance = float(run.baseline.gen_len), run.baseline.gen_len_tolerance
    if run.submitted is None:
        # A subset, as in a shortened official run, is compared with its share.
        expected *= run.scores.get("gen_num", run.baseline.gen_num) / run.baseline.gen_num
    low, high = expected * (1 - tolerance), expected * (1 + tolerance)
    return verdict(
        low <= found <= high,
        f"{found:,.0f} characters",
        f"{low:,.0f} to {high:,.0f} characters",
    )


@rule("accuracy", divisions=_CLOSED, metric="tokens_per_sample")
def accuracy_tokens_per_sample(run: RunFacts) -> Verdict:
    """The mean length of an answer, in tokens, is within 10% of the baseline's."""
    found = _score(run, "tokens_per_sample", "tokens per sample")
    if isinstance(found, Verdict):
        return found
    if run.baseline is None or run.baseline.tokens_per_sample is None:
        return not_judged("no baseline", "a baseline", "no baseline for this model and data")
    low, high = run.baseline.tokens_per_sample
    return verdict(low <= found <= high, f"{found:,.2f}", f"{low:,.2f} to {high:,.2f}")


@rule("accuracy", divisions=_CLOSED, submitted_only=True)
def accuracy_hash(run: RunFacts) -> Verdict:
    """accuracy.txt ends with the SHA-256 of the accuracy log as it was before it was cut."""
    required = "a line hash=<64 hex digits>"
    text = run.submitted.accuracy_txt if run.submitted else None
    if text is None:
        return verdict(False, "no accuracy.txt", required)
    found = parse_accuracy_txt(text).hash
    return verdict(found is not None, f"hash={found}" if found else "no such line", required)


@rule("accuracy", submitted_only=True)
def accuracy_log_is_cut(run: RunFacts) -> Verdict:
    """The submission has the accuracy log, cut to its first and last entries."""
    required = f"at most {MAX_ACCURACY_LOG_BYTES:,} bytes"
    found = run.logs.sizes.get(ACCURACY)
    if found is None:
        return verdict(False, f"no {ACCURACY}", required)
    return verdict(0 < found <= MAX_ACCURACY_LOG_BYTES, f"{found:,} bytes", required)


@rule("accuracy")
def accuracy_loadgen_unmodified(run: RunFacts) -> Verdict:
    """The accuracy run's LoadGen was built without local changes."""
    return _loadgen_unmodified(run)


# Of a performance run


@rule("performance")
def result_valid(run: RunFacts) -> Verdict:
    """LoadGen's own verdict on the run is VALID.

    The official checker reads it and lets every other verdict pass.
    """
    found = run.logs.detail["result_validity"]
    advice = run.logs.detail["result_invalid_reason"]
    if found is None:
        return _missing("result_validity", "VALID")
    return verdict(found == "VALID", found, "VALID", "" if advice is None else advice)


@rule("performance")
def log_is_whole(run: RunFacts) -> Verdict:
    """The performance run's detail log can be read in whole."""
    return _log_is_whole(run)


@rule("performance")
def no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in the performance run.

    The official checker looks only where it was told to ignore some of them.
    """
    return _no_loadgen_errors(run)


@rule("performance")
def test_mode(run: RunFacts) -> Verdict:
    """The performance run was made in PerformanceOnly mode of this scenario."""
    return _test_mode(run)


@rule("performance")
def result_reported(run: RunFacts) -> Verdict:
    """The figure that the scenario is compared by is in the log."""
    key, unit = run.scenario.metric, run.scenario.metric_unit
    found = _number(run, key, f"more than 0 {unit}")
    if isinstance(found, Verdict):
        return found
    return verdict(found > 0, f"{found:,} {unit}", f"more than 0 {unit}")


@rule("performance", shortens=True, session_only=True)
def generation(run: RunFacts) -> Verdict:
    """The performance run generates as the benchmark says: at most 128 tokens, no prefix cache.

    Neither LoadGen's log nor the official checker knows.
    """
    return _generates_as_specified(run)


@rule("performance", shortens=True)
def min_duration(run: RunFacts) -> Verdict:
    """The run is set to last at least ten minutes."""
    return _at_least(run, "effective_min_duration_ms", MIN_DURATION_MS, "ms")


@rule("performance", shortens=True)
def performance_sample_count(run: RunFacts) -> Verdict:
    """LoadGen draws from at least the benchmark's number of samples."""
    return _at_least(run, "effective_performance_sample_count", run.benchmark.samples, "samples")


@rule("performance", ("Offline",), divisions=_CLOSED, shortens=True)
def offline_samples_per_query(run: RunFacts) -> Verdict:
    """Offline's one query has at least as many samples as the data set."""
    return _at_least(run, "effective_samples_per_query", run.benchmark.samples, "samples")


@rule("performance", _SERVER, shortens=True)
def ttft_limit(run: RunFacts) -> Verdict:
    """The time to first token at p99 is below the scenario's limit."""
    limits = run.scenario.limits
    key = "result_first_token_99.00_percentile_latency_ns"
    return _below(run, key, limits.ttft_ms if limits else 0.0)


@rule("performance", _SERVER, shortens=True)
def tpot_limit(run: RunFacts) -> Verdict:
    """The time per output token at p99 is below the scenario's limit.

    The official checker holds Interactive to Server's limits: it goes by LoadGen's scenario.
    """
    limits = run.scenario.limits
    key = "result_time_per_output_token_99.00_percentile_ns"
    return _below(run, key, limits.tpot_ms if limits else 0.0)


def _below(run: RunFacts, key: str, limit_ms: float) -> Verdict:
    required = f"below {limit_ms:,g} ms"
    found = _number(run, key, required)
    if isinstance(found, Verdict):
        return found
    return verdict(0 <= found / 1e6 < limit_ms, f"{found / 1e6:,.2f} ms", required)


@rule("performance", _SERVER, shortens=True)
def latency_targets(run: RunFacts) -> Verdict:
    """Early stopping was decided with the scenario's limits on TTFT and TPOT, or tighter ones."""
    limits = run.scenario.limits
    asked = (limits.ttft_ms, limits.tpot_ms) if limits else (0.0, 0.0)
    required = f"TTFT at most {asked[0]:,g} ms, TPOT at most {asked[1]:,g} ms"
    found = []
    for key in ("requested_server_ttft_latency", "requested_server_tpot_latency"):
        value = _number(run, key, required)
        if isinstance(value, Verdict):
            return value
        found.append(value / 1e6)
    ok = all(0 < value <= limit for value, limit in zip(found, asked, strict=True))
    return verdict(ok, f"TTFT {found[0]:,g} ms, TPOT {found[1]:,g} ms", required)


@rule("performance", _ONE_BY_ONE, shortens=True)
def target_percentile(run: RunFacts) -> Verdict:
    """Latencies are judged at the scenario's percentile: Server's 99th, SingleStream's 90th."""
    wanted = 0.9 if run.scenario.name == "SingleStream" else 0.99
    key, required = "effective_target_latency_percentile", f"{wanted:.0%}"
    found = _number(run, key, required)
    if isinstance(found, Verdict):
        return found
    return verdict(found == wanted, f"{found * 100:g}%", required)


@rule("performance", _ONE_BY_ONE)
def early_stopping(run: RunFacts) -> Verdict:
    """Early stopping was met: the run was long enough for its percentile to be believed."""
    if not _uses_early_stopping(run):
        return verdict(True, "not used", "met, or not used in SingleStream")
    found = run.logs.detail["early_stopping_met"]
    if found is None:
        return _missing("early_stopping_met", "met")
    shown = ("met" if found else "not met") if isinstance(found, bool) else found
    return verdict(found is True, shown, "met", _early_stopping_says(run))


def _early_stopping_says(run: RunFacts) -> str:
    """LoadGen's own words on early stopping, where it was not met."""
    if run.logs.detail["early_stopping_met"] is True:
        return ""
    keys = ("early_stopping_result", "early_stopping_ttft_result", "early_stopping_tpot_result")
    return "; ".join(str(run.logs.detail[key]) for key in keys if run.logs.detail[key])


def _uses_early_stopping(run: RunFacts) -> bool:
    """All but a SingleStream run whose log does not speak of early stopping at all."""
    spoken = any(key.startswith("early_stopping_") for key in run.logs.detail.values)
    return spoken or run.scenario.name != "SingleStream"


@rule("performance", _ONE_BY_ONE)
def min_queries(run: RunFacts) -> Verdict:
    """At least 64 queries with early stopping; 1,024 in SingleStream without it."""
    early = _uses_early_stopping(run)
    required = EARLY_STOPPING_MIN_QUERIES if early else SINGLE_STREAM_MIN_QUERIES
    return _at_least(run, "result_query_count", required, "queries")


@rule("performance")
def seeds(run: RunFacts) -> Verdict:
    """The performance run's three random seeds are those of the round."""
    return _seeds(run)


@rule("performance")
def equal_issue_mode(run: RunFacts) -> Verdict:
    """Every sample is issued equally often (sample_concatenate_permutation).

    The official checker tests this the wrong way round, and since v5.0 not at all; the rule is
    mlperf.conf's.
    """
    return _is_true(run, "effective_sample_concatenate_permutation")


@rule("performance")
def token_latencies(run: RunFacts) -> Verdict:
    """LoadGen counts tokens (use_token_latencies)."""
    return _is_true(run, "requested_use_token_latencies")


@rule("performance")
def loadgen_unmodified(run: RunFacts) -> Verdict:
    """The performance run's LoadGen was built without local changes."""
    return _loadgen_unmodified(run)


@rule("performance", divisions=_CLOSED)
def accuracy_passed(run: RunFacts) -> Verdict:
    """The accuracy run of the same system passed; without it a performance counts nothing."""
    if run.accuracy_passed is None:
        return not_judged("no accuracy run", "accuracy passed", "no accuracy run was judged")
    found = "accuracy passed" if run.accuracy_passed else "accuracy failed"
    return verdict(run.accuracy_passed, found, "accuracy passed")


# Of TEST06: the closed division's audit of what a model says


def _no_detail_log(run: RunFacts) -> bool:
    return run.submitted is not None and DETAIL not in run.logs.files


@rule("test06", divisions=_CLOSED)
def test06_log_is_whole(run: RunFacts) -> Verdict:
    """TEST06's logs can be read in whole; a submission need not bring the detail log."""
    damage = run.logs.accuracy.damage
    if damage:
        return verdict(False, damage[0], "whole")
    return verdict(True, "whole", "whole") if _no_detail_log(run) else _log_is_whole(run)


@rule("test06", divisions=_CLOSED)
def test06_settings(run: RunFacts) -> Verdict:
    """The audit's settings took: 100 samples logged, no minimum duration, equal issue off."""
    if _no_detail_log(run):
        return not_judged("no detail log", "audit.config's settings", "a submission has none here")
    detail = run.logs.detail
    differing = [
        f"{key} {detail[key]}"
        for key, wanted in TEST06_TOOK.items()
        if type(detail[key]) is not type(wanted) or detail[key] != wanted
    ]
    found = ", ".join(differing) or "audit.config's settings"
    return verdict(not differing, found, "audit.config's settings")


@rule("test06", divisions=_CLOSED)
def test06_test_mode(run: RunFacts) -> Verdict:
    """TEST06 was a performance run of this scenario."""
    if _no_detail_log(run):
        return not_judged("no detail log", "PerformanceOnly", "a submission has none here")
    return _test_mode(run)


@rule("test06", divisions=_CLOSED)
def test06_no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in TEST06, apart from the audit.config that the test wants."""
    if _no_detail_log(run):
        return not_judged("no detail log", "0 errors", "a submission has none here")
    return _no_loadgen_errors(run, allowed=_AUDIT_CONF_IS_READ)


@rule("test06", divisions=_CLOSED)
def test06_sample_count(run: RunFacts) -> Verdict:
    """TEST06 logged at least 100 answers; the official script passes an empty log."""
    wanted = TEST06_AUDIT["accuracy_log_sampling_target"]
    found = len(run.logs.accuracy.samples)
    return verdict(found >= wanted, f"{found:,} samples", f"at least {wanted} samples")


def _each_answer(run: RunFacts, ok: Callable[[LoggedSample], bool], required: str) -> Verdict:
    samples = run.logs.accuracy.samples
    if not samples:
        return verdict(False, "no answer", required)
    wrong = [sample.index for sample in samples if not ok(sample)]
    found = f"{len(samples) - len(wrong)} of {len(samples)} answers"
    return verdict(not wrong, found, required, f"not sample {wrong[0]}" if wrong else "")


@rule("test06", _ONE_BY_ONE, divisions=_CLOSED)
def test06_first_token(run: RunFacts) -> Verdict:
    """The first token reported is the first token of the answer. Offline reports none.

    The official script also passes an answer that had no first token reported.
    """

    def ok(sample: LoggedSample) -> bool:
        first = sample.first_token_ids
        return bool(first) and sample.token_ids[: len(first or ())] == first

    return _each_answer(run, ok, "the first token reported in each answer")


@rule("test06", divisions=_CLOSED)
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


@rule("test06", divisions=_CLOSED)
def test06_token_count(run: RunFacts) -> Verdict:
    """The number of tokens reported is the length of the answer."""

    def ok(sample: LoggedSample) -> bool:
        return sample.token_count == len(sample.token_ids)

    return _each_answer(run, ok, "the reported number of tokens in each answer")


@rule("test06", divisions=_CLOSED, submitted_only=True)
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
    text = run.submitted.verify_accuracy_txt if run.submitted else None
    if text is None:
        return verdict(False, "no verify_accuracy.txt", "; ".join(wanted))
    lines = {line.strip() for line in text.splitlines()}
    absent = [line for line in wanted if line not in lines]
    found = "these three lines" if not absent else f"no line '{absent[0]}'"
    return verdict(not absent, found, "; ".join(wanted))


def accuracy_verdict(verdicts: Sequence[Verdict]) -> bool | None:
    """Whether an accuracy run's verdicts amount to a pass; None where the gate was not judged."""
    if any(v.status == "failed" for v in verdicts):
        return False
    return None if any(v.status == "not judged" for v in verdicts) else True
