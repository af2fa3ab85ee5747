"""Every rule of a run, one function each: what it looks at, what it demands.

Sources: the MLPerf Inference rules, and the official submission checker
(tools/submission/submission_checker in github.com/mlcommons/inference), named where they differ.
A rule never raises for what is in a log: what cannot be read fails it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlperf_suite.accuracy.rouge import RougeScores
from mlperf_suite.benchmarks.rounds import Round, round_of_seeds
from mlperf_suite.benchmarks.table import MIN_DURATION_MS, Benchmark, Scenario
from mlperf_suite.benchmarks.tasks import Baseline
from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.loadgen.plan import TEST_MODES, Mode

EARLY_STOPPING_MIN_QUERIES = 64
"""Early stopping cannot estimate a 90th or 99th percentile from fewer (MLPerf Inference rules)."""
SINGLE_STREAM_MIN_QUERIES = 1024
"""SingleStream's minimum where early stopping is not used (MLPerf Inference rules)."""
LAST_KEY: dict[Mode, str] = {"accuracy": "power_end", "performance": "num_errors"}
"""What LoadGen writes at the very end of a run of each mode."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All that a rule may look at.

    `scores` and `baseline`: an accuracy run's, None where there are none. `accuracy_passed`: of
    the same system, None where no accuracy run was made. `smoke`: rules may be shortened.
    """

    benchmark: Benchmark
    scenario: Scenario
    mode: Mode
    round: Round
    logs: RunLogs
    smoke: bool = False
    samples: int | None = None
    scores: RougeScores | None = None
    baseline: Baseline | None = None
    high_accuracy: bool = False
    accuracy_passed: bool | None = None

    @property
    def gate(self) -> float:
        """The fraction of the baseline to reach; 0 without a baseline."""
        if self.baseline is None:
            return 0.0
        return self.baseline.high_gate if self.high_accuracy else self.baseline.gate


Check = Callable[[RunFacts], Verdict]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named check. `scenarios`: those it holds for. `shortens`: smoke asks for less of it."""

    name: str
    mode: Mode
    check: Check
    scenarios: tuple[str, ...]
    shortens: bool

    @property
    def says(self) -> str:
        """The rule in a sentence."""
        return (self.check.__doc__ or "").strip().splitlines()[0]

    def judge(self, run: RunFacts) -> Verdict:
        verdict = replace(self.check(run), rule=self.name)
        if verdict.status == "failed" and self.shortens and run.smoke:
            why = "shortened for smoke"
            return replace(verdict, status="shortened", why=why)
        return verdict


RULES: list[Rule] = []
_EVERY = ("Offline", "Server", "Interactive", "SingleStream")


def rule(
    mode: Mode, scenarios: tuple[str, ...] = _EVERY, *, shortens: bool = False
) -> Callable[[Check], Check]:
    """Register a function as the rule of its name."""

    def register(check: Check) -> Check:
        RULES.append(Rule(check.__name__, mode, check, scenarios, shortens))
        return check

    return register


def rules_for(scenario: str, mode: Mode) -> list[Rule]:
    """The rules of a scenario's run, in the order in which they are told."""
    return [r for r in RULES if r.mode == mode and scenario in r.scenarios]


def judge(run: RunFacts) -> list[Verdict]:
    """Apply every rule of the run's scenario and mode."""
    return [r.judge(run) for r in rules_for(run.scenario.name, run.mode)]


def _verdict(ok: bool, found: object, required: object, why: str = "") -> Verdict:
    return Verdict("", "passed" if ok else "failed", str(found), str(required), why)


def _missing(key: str, required: object) -> Verdict:
    return _verdict(False, "nothing", required, f"{key} is not in the detail log")


def _at_least(run: RunFacts, key: str, required: float, unit: str) -> Verdict:
    found = run.logs.detail.number(key)
    demand = f"at least {required:,} {unit}".rstrip()
    if found is None:
        return _missing(key, demand)
    return _verdict(found >= required, f"{found:,} {unit}".rstrip(), demand)


def _is_true(run: RunFacts, key: str) -> Verdict:
    found = run.logs.detail[key]
    return _missing(key, "true") if found is None else _verdict(found is True, found, "true")


# Of every run


def _log_is_whole(run: RunFacts) -> Verdict:
    """LoadGen's detail log can be read from its first line to its last."""
    damage = list(run.logs.detail.damage)
    if run.logs.detail[LAST_KEY[run.mode]] is None and not damage:
        damage.append("the last entries are missing")
    return _verdict(not damage, damage[0] if damage else "whole", "whole")


def _no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error."""
    errors = run.logs.detail.errors
    return _verdict(not errors, f"{len(errors)} errors", "0 errors", errors[0] if errors else "")


def _test_mode(run: RunFacts) -> Verdict:
    """The log is of the run that it is taken for: this scenario, accuracy or performance."""
    detail = run.logs.detail
    found = f"{detail['effective_scenario']} {detail['effective_test_mode']}"
    wanted = f"{run.scenario.loadgen_scenario} {TEST_MODES[run.mode]}"
    return _verdict(found == wanted, found, wanted)


def _seeds(run: RunFacts) -> Verdict:
    """The three random seeds are those of the round."""
    found = {name: run.logs.detail[f"effective_{name}"] for name in run.round.seeds}
    differing = [name for name, seed in run.round.seeds.items() if found[name] != seed]
    required = f"the seeds of {run.round.name}"
    if not differing:
        return _verdict(True, required, required)
    other = round_of_seeds(found)
    described = ", ".join(f"{name} {found[name]}" for name in differing)
    return _verdict(False, f"the seeds of {other.name}" if other else described, required)


def _loadgen_unmodified(run: RunFacts) -> Verdict:
    """LoadGen was built from a release, without local changes."""
    found = run.logs.detail["loadgen_git_status_message"]
    if found is None:
        return _missing("loadgen_git_status_message", "no local change")
    return _verdict(found == "", found or "no local change", "no local change")


# Of an accuracy run


@rule("accuracy")
def accuracy_log_is_whole(run: RunFacts) -> Verdict:
    """The accuracy run's detail log and accuracy log can be read in whole."""
    verdict = _log_is_whole(run)
    if verdict.passed and run.logs.accuracy.damage:
        return _verdict(False, run.logs.accuracy.damage[0], "whole")
    return verdict


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
    """Every sample that LoadGen has was answered once."""
    wanted = run.logs.detail.number("qsl_reported_total_count")
    found = run.logs.accuracy.first_of_each()
    if wanted is None:
        return _missing("qsl_reported_total_count", "every sample")
    return _verdict(
        set(found) == set(range(int(wanted))), f"{len(found):,} samples", f"{int(wanted):,} samples"
    )


@rule("accuracy", shortens=True)
def accuracy_whole_dataset(run: RunFacts) -> Verdict:
    """The accuracy run takes the benchmark's whole data set."""
    return _at_least(run, "qsl_reported_total_count", run.benchmark.samples, "samples")


def _rouge(name: str) -> Check:
    def check(run: RunFacts) -> Verdict:
        if run.baseline is None or run.scores is None:
            return _no_baseline(run)
        baseline = run.baseline.rouge[name]
        found, required = getattr(run.scores, name), baseline * run.gate
        return _verdict(
            found >= required,
            f"{found:.4f}",
            f"at least {required:.4f}",
            f"{run.gate * 100:g}% of the baseline {baseline:.4f}",
        )

    check.__name__ = f"accuracy_{name.lower()}"
    check.__doc__ = f"{name} reaches its gate: 99% of the baseline, 99.9% with --high-accuracy."
    return check


def _no_baseline(run: RunFacts) -> Verdict:
    why = "no baseline for this model and data" if run.scores else "nothing was scored"
    return Verdict("", "not judged" if run.scores else "failed", "no baseline", "a baseline", why)


for _name in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
    rule("accuracy")(_rouge(_name))


@rule("accuracy")
def accuracy_gen_len(run: RunFacts) -> Verdict:
    """The length of all answers, in characters, is within 10% of the baseline's."""
    if run.baseline is None or run.scores is None:
        return _no_baseline(run)
    baseline, tolerance = run.baseline.gen_len, run.baseline.gen_len_tolerance
    # A subset, as in a shortened official run, is compared with its share.
    expected = baseline * run.scores.gen_num / run.baseline.gen_num
    low, high = expected * (1 - tolerance), expected * (1 + tolerance)
    return _verdict(
        low <= run.scores.gen_len <= high,
        f"{run.scores.gen_len:,} characters",
        f"{low:,.0f} to {high:,.0f} characters",
    )


@rule("accuracy")
def accuracy_loadgen_unmodified(run: RunFacts) -> Verdict:
    """The accuracy run's LoadGen was built without local changes."""
    return _loadgen_unmodified(run)


# Of a performance run


@rule("performance")
def result_valid(run: RunFacts) -> Verdict:
    """LoadGen's own verdict on the run is VALID."""
    found = run.logs.detail["result_validity"]
    advice = run.logs.detail["result_invalid_reason"]
    if found is None:
        return _missing("result_validity", "VALID")
    return _verdict(found == "VALID", found, "VALID", "" if advice is None else str(advice))


@rule("performance")
def log_is_whole(run: RunFacts) -> Verdict:
    """The performance run's detail log can be read in whole."""
    return _log_is_whole(run)


@rule("performance")
def no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in the performance run."""
    return _no_loadgen_errors(run)


@rule("performance")
def test_mode(run: RunFacts) -> Verdict:
    """The performance run was made in PerformanceOnly mode of this scenario."""
    return _test_mode(run)


@rule("performance", shortens=True)
def min_duration(run: RunFacts) -> Verdict:
    """The run is set to last at least ten minutes."""
    return _at_least(run, "effective_min_duration_ms", MIN_DURATION_MS, "ms")


@rule("performance", shortens=True)
def performance_sample_count(run: RunFacts) -> Verdict:
    """LoadGen draws from at least the benchmark's number of samples."""
    return _at_least(run, "effective_performance_sample_count", run.benchmark.samples, "samples")


@rule("performance", ("Offline",), shortens=True)
def offline_samples_per_query(run: RunFacts) -> Verdict:
    """Offline's one query has at least as many samples as the data set."""
    return _at_least(run, "effective_samples_per_query", run.benchmark.samples, "samples")


@rule("performance")
def seeds(run: RunFacts) -> Verdict:
    """The performance run's three random seeds are those of the round."""
    return _seeds(run)


@rule("performance")
def equal_issue_mode(run: RunFacts) -> Verdict:
    """Every sample is issued equally often (sample_concatenate_permutation).

    The official checker tests this the wrong way round; the rule is mlperf.conf's.
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


@rule("performance")
def accuracy_passed(run: RunFacts) -> Verdict:
    """The accuracy run of the same system passed; without it a performance counts nothing."""
    if run.accuracy_passed is None:
        why = "no accuracy run was made with it"
        return Verdict("", "not judged", "no accuracy run", "accuracy passed", why)
    found = "accuracy passed" if run.accuracy_passed else "accuracy failed"
    return _verdict(run.accuracy_passed, found, "accuracy passed")


def accuracy_verdict(verdicts: Sequence[Verdict]) -> bool | None:
    """Whether an accuracy run's verdicts amount to a pass; None where the gate was not judged."""
    if any(v.status == "failed" for v in verdicts):
        return False
    return None if any(v.status == "not judged" for v in verdicts) else True
