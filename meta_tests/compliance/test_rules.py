"""The rules: a valid run passes all of them, and a break of one rule is seen by that rule alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, audit_values, every_scenario, line
from mlperf_suite.benchmarks.definition import BENCHMARKS, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.benchmarks.workload import BASELINES
from mlperf_suite.compliance.rules import (
    MAX_ACCURACY_LOG_BYTES,
    RULES,
    judge,
    rules_for,
)
from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.loadgen.load_plan import Mode
from mlperf_suite.loadgen.logs import DETAIL, LoggedSample

MODES: tuple[Mode, ...] = ("accuracy", "performance", "test06")
Draw = Callable[[st.SearchStrategy[object]], object]
Break = Callable[[MadeRun, st.DataObject], None]

TTFT_P99 = "result_first_token_99.00_percentile_latency_ns"
TPOT_P99 = "result_time_per_output_token_99.00_percentile_ns"
NO_NUMBER = st.sampled_from([None, "600000", [], {}, True, float("nan"), float("inf"), 10**400])
"""What may stand where a number belongs; None is a line that is not there."""
NOT_TRUE = st.sampled_from([False, None, 1, "true", []])


def runs(modes: tuple[Mode, ...] = MODES) -> st.SearchStrategy[MadeRun]:
    return st.builds(
        lambda where, mode, round_, submitted: MadeRun(*where, mode, round_, submitted=submitted),
        st.sampled_from(every_scenario()),
        st.sampled_from(modes),
        st.sampled_from(list(ROUNDS.values())),
        st.booleans(),
    )


def rule_names(run: MadeRun) -> list[str]:
    rules = rules_for(
        run.benchmark,
        run.scenario,
        run.mode,
        run.division,
        submitted=run.submitted,
        in_session=run.departures is not None,
    )
    return [r.name for r in rules]


def not_passed(verdicts: list[Verdict]) -> dict[str, str]:
    return {v.rule: v.line for v in verdicts if not v.passed}


def put(run: MadeRun, key: str, value: object) -> None:
    """Set a key of the detail log, or take its line out."""
    if value is None:
        del run.entries[key]
    else:
        run.entries[key] = value


# One break for each rule


def bad_number(key: str, low: int, high: int) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        put(run, key, data.draw(st.integers(low, high) | NO_NUMBER))

    return apply


def not_true(key: str) -> Break:
    return lambda run, data: put(run, key, data.draw(NOT_TRUE))


def whole(run: MadeRun, data: st.DataObject) -> None:
    junk = data.draw(st.sampled_from(["not a log line", ":::MLLOG {", ':::MLLOG {"key": 1}']))
    run.broken_lines.append(junk)


def error(run: MadeRun, data: st.DataObject) -> None:
    run.broken_lines.append(line("error_runtime", data.draw(st.text()), error=True))


def mode(run: MadeRun, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        other = "AccuracyOnly" if run.mode != "accuracy" else "PerformanceOnly"
        put(run, "effective_test_mode", data.draw(st.sampled_from([other, "SubmissionRun", None])))
    else:
        put(run, "effective_scenario", data.draw(st.sampled_from(["MultiStream", None, 3])))


def modified(run: MadeRun, data: st.DataObject) -> None:
    put(run, "loadgen_git_status_message", data.draw(st.sampled_from([" M loadgen.cc", None, 0])))


def validity(run: MadeRun, data: st.DataObject) -> None:
    put(run, "result_validity", data.draw(st.sampled_from(["INVALID", "valid", "", True, None])))


def reported(run: MadeRun, data: st.DataObject) -> None:
    put(run, run.scenario.metric, data.draw(st.integers(-(10**9), 0) | NO_NUMBER))


def samples(key: str) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        put(run, key, data.draw(st.integers(0, run.benchmark.samples - 1) | NO_NUMBER))

    return apply


def over(key: str, limit: str) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        at = int(getattr(run.scenario.limits, limit) * 1e6)
        put(run, key, data.draw(st.integers(at, 10**15) | NO_NUMBER))

    return apply


def targets(run: MadeRun, data: st.DataObject) -> None:
    key = data.draw(
        st.sampled_from(["requested_server_ttft_latency", "requested_server_tpot_latency"])
    )
    put(run, key, data.draw(st.integers(6_000_000_001, 10**15) | NO_NUMBER | st.just(0)))


def percentile(run: MadeRun, data: st.DataObject) -> None:
    other = st.sampled_from([0.5, 0.97, 0.999, 99, 90, 0])
    put(run, "effective_target_latency_percentile", data.draw(other | NO_NUMBER))


def wrong_seed(run: MadeRun, data: st.DataObject) -> None:
    key = f"effective_{data.draw(st.sampled_from(sorted(run.round.seeds)))}"
    old = run.entries[key]
    put(run, key, data.draw(st.sampled_from([old + 1, 0, float(old), str(old), None, True])))


def every_sample(run: MadeRun, data: st.DataObject) -> None:
    if run.submitted:
        run.scores["gen_num"] = data.draw(st.integers(0, run.benchmark.samples - 1))
    else:
        del run.answers[data.draw(st.integers(0, len(run.answers) - 1))]


def whole_dataset(run: MadeRun, data: st.DataObject) -> None:
    wrong = st.integers(0, run.benchmark.samples - 1) | st.sampled_from(["13368", [], 10**400])
    put(run, "effective_accuracy_sample_count", data.draw(wrong))


def below_gate(name: str) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        baseline = BASELINES[run.benchmark.id]
        least = baseline.gated[name] * baseline.gate
        wrong = st.floats(0, least * 0.99999) | st.just(100.5) | st.just(float("9" * 400))
        run.scores[name] = round(data.draw(wrong), 4)
        if data.draw(st.booleans()):
            del run.scores[name]

    return apply


def length(name: str) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        good = run.scores[name]
        run.scores[name] = round(good * data.draw(st.floats(0, 0.85) | st.floats(1.15, 9)), 2)

    return apply


def hash_line(run: MadeRun, data: st.DataObject) -> None:
    run.hash = data.draw(st.sampled_from([None, "", "abc", "z" * 64, "0" * 63, "0" * 65]))


def uncut(run: MadeRun, data: st.DataObject) -> None:
    run.accuracy_bytes = data.draw(st.integers(MAX_ACCURACY_LOG_BYTES + 1, 10**9) | st.just(0))


def accuracy_failed(run: MadeRun, data: st.DataObject) -> None:
    run.accuracy_passed = False


def audit(run: MadeRun, data: st.DataObject) -> None:
    put(run, *data.draw(st.sampled_from([*audit_values(), ("effective_min_duration_ms", None)])))


def few_answers(run: MadeRun, data: st.DataObject) -> None:
    del run.answers[data.draw(st.integers(1, 99)) :]


def change_answer(change: Callable[[MadeRun, LoggedSample, st.DataObject], LoggedSample]) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(run.answers) - 1))
        run.answers[at] = change(run, run.answers[at], data)

    return apply


def other_first(run: MadeRun, answer: LoggedSample, data: st.DataObject) -> LoggedSample:
    return replace(answer, first_token_ids=data.draw(st.sampled_from([None, (), (99,), (11, 13)])))


def two_eos(run: MadeRun, answer: LoggedSample, data: st.DataObject) -> LoggedSample:
    eos = st.sampled_from(run.benchmark.eos_token_ids)
    tail = tuple(data.draw(st.lists(eos, min_size=2, max_size=4)))
    # An answer of nothing but EOS, and one with some before its end.
    tokens = tail if data.draw(st.booleans()) else (*answer.token_ids, *tail)
    return LoggedSample(answer.index, tokens, tokens[:1], len(tokens))


def other_count(run: MadeRun, answer: LoggedSample, data: st.DataObject) -> LoggedSample:
    return replace(answer, token_count=data.draw(st.sampled_from([None, 0, 2, 4, 10**9])))


def unverified(run: MadeRun, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, 2))
    name = run.verify[at].partition(":")[0]
    other = ["", f"{name}: False"]
    if at == 0:
        other.append(f"{name}: {'True' if run.scenario.name == 'Offline' else 'Skipped'}")
    run.verify[at] = data.draw(st.sampled_from(other))


def lost_answers(run: MadeRun, data: st.DataObject) -> None:
    run.accuracy_damage = ("entry 7: no hex string",)


def other_generation(run: MadeRun, data: st.DataObject) -> None:
    run.departures = (data.draw(st.text(min_size=1)),)


BREAKS: dict[str, Break] = {
    "accuracy_log_is_whole": whole,
    "accuracy_no_loadgen_errors": error,
    "accuracy_test_mode": mode,
    "accuracy_every_sample": every_sample,
    "accuracy_whole_dataset": whole_dataset,
    **{
        f"accuracy_{name.lower()}": below_gate(name)
        for name in ("rouge1", "rouge2", "rougeL", "rougeLsum", "exact_match", "gsm8k", "mbxp")
    },
    "accuracy_gen_len": length("gen_len"),
    "accuracy_tokens_per_sample": length("tokens_per_sample"),
    "accuracy_hash": hash_line,
    "accuracy_log_is_cut": uncut,
    "accuracy_generation": other_generation,
    "accuracy_loadgen_unmodified": modified,
    "result_valid": validity,
    "log_is_whole": whole,
    "no_loadgen_errors": error,
    "test_mode": mode,
    "result_reported": reported,
    "generation": other_generation,
    "min_duration": bad_number("effective_min_duration_ms", -1, 599_999),
    "performance_sample_count": samples("effective_performance_sample_count"),
    "offline_samples_per_query": samples("effective_samples_per_query"),
    "ttft_limit": over(TTFT_P99, "ttft_ms"),
    "tpot_limit": over(TPOT_P99, "tpot_ms"),
    "latency_targets": targets,
    "target_percentile": percentile,
    "early_stopping": not_true("early_stopping_met"),
    "min_queries": bad_number("result_query_count", 0, 63),
    "seeds": wrong_seed,
    "equal_issue_mode": not_true("effective_sample_concatenate_permutation"),
    "token_latencies": not_true("requested_use_token_latencies"),
    "loadgen_unmodified": modified,
    "accuracy_passed": accuracy_failed,
    "test06_log_is_whole": lost_answers,
    "test06_settings": audit,
    "test06_test_mode": mode,
    "test06_no_loadgen_errors": error,
    "test06_sample_count": few_answers,
    "test06_first_token": change_answer(other_first),
    "test06_eos": change_answer(two_eos),
    "test06_token_count": change_answer(other_count),
    "test06_verified": unverified,
}


def test_every_rule_has_a_break():
    assert set(BREAKS) == {r.name for r in RULES}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", every_scenario(), ids=lambda w: f"{w[0].id}-{w[1].name}")
def test_a_valid_run_passes_every_rule(where, mode):
    for round_ in ROUNDS.values():
        for submitted in (False, True):
            run = MadeRun(*where, mode, round_, submitted=submitted)
            verdicts = judge(run.facts())
            assert verdicts
            assert not_passed(verdicts) == {}


@pytest.mark.parametrize("name", BREAKS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_break_of_one_rule_is_seen_by_that_rule_alone(name, data):
    (rule,) = [r for r in RULES if r.name == name]
    fitting = [
        (b, s)
        for b, s in every_scenario()
        if rule.holds_for(b, s, "closed", submitted=True, in_session=True)
    ]
    benchmark, scenario = data.draw(st.sampled_from(fitting))
    submitted = rule.submitted_only or (not rule.session_only and data.draw(st.booleans()))
    run = MadeRun(benchmark, scenario, rule.mode, submitted=submitted)
    BREAKS[name](run, data)
    assert list(not_passed(judge(run.facts()))) == [name]


@settings(max_examples=60, deadline=None)
@given(run=runs(), data=st.data())
def test_the_open_division_lacks_the_gates_alone(run, data):
    closed = rule_names(run)
    run.division = "open"
    dropped = set(closed) - set(rule_names(run))
    gates = {"accuracy_hash", "accuracy_gen_len", "accuracy_tokens_per_sample"}
    gates |= {f"accuracy_{name.lower()}" for b in BASELINES.values() for name in b.gated}
    gates |= {"offline_samples_per_query", "accuracy_passed"}
    assert all(name in gates or name.startswith("test06_") for name in dropped)
    assert not gates & set(rule_names(run))
    assert not_passed(judge(run.facts())) == {}


@pytest.mark.parametrize("mode", ["accuracy", "performance"])
def test_logs_alone_are_not_judged_by_what_only_a_session_knows(mode):
    run = MadeRun(*every_scenario()[0], mode)
    in_session = {v.rule for v in judge(run.facts())}
    run.departures = None
    alone = {v.rule for v in judge(run.facts())}
    assert in_session - alone == {"accuracy_generation" if mode == "accuracy" else "generation"}


def test_smoke_shortens_and_never_passes():
    run = MadeRun(*every_scenario()[0], "performance")
    run.entries["effective_min_duration_ms"] = 10_000
    verdicts = {v.rule: v for v in judge(replace(run.facts(), smoke=True))}
    assert verdicts["min_duration"].status == "shortened"
    assert not verdicts["min_duration"].passed
    assert verdicts["seeds"].passed


@pytest.mark.parametrize(("queries", "failed"), [(1024, []), (1023, ["min_queries"])])
def test_single_stream_without_early_stopping_needs_1024_queries(queries, failed):
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    run.entries = {k: v for k, v in run.entries.items() if not k.startswith("early_stopping")}
    run.entries["result_query_count"] = queries
    assert list(not_passed(judge(run.facts()))) == failed


JUST_ENOUGH = {
    "result_query_count": (64, ("Server", "Interactive", "SingleStream")),
    "effective_min_duration_ms": (600_000, ("Server", "Offline")),
    "effective_samples_per_query": (13_368, ("Offline",)),
    "effective_performance_sample_count": (13_368, ("Server", "Offline")),
}


@pytest.mark.parametrize("key", JUST_ENOUGH)
def test_just_enough_is_enough(key):
    value, scenarios = JUST_ENOUGH[key]
    for where in every_scenario():
        if where[0].samples == 13_368 and where[1].name in scenarios:
            run = MadeRun(*where, "performance")
            run.entries[key] = value
            assert not_passed(judge(run.facts())) == {}


@pytest.mark.parametrize(
    "where", [w for w in every_scenario() if w[1].limits], ids=lambda w: f"{w[0].id}-{w[1].name}"
)
def test_a_latency_just_below_its_limit_passes(where):
    limits = where[1].limits
    run = MadeRun(*where, "performance")
    run.entries[TTFT_P99] = int(limits.ttft_ms * 1e6) - 1
    run.entries[TPOT_P99] = int(limits.tpot_ms * 1e6) - 1
    assert not_passed(judge(run.facts())) == {}
    for key in ("requested_server_ttft_latency", "requested_server_tpot_latency"):
        run.entries[key] //= 2
    assert not_passed(judge(run.facts())) == {}


@pytest.mark.parametrize("row", BENCHMARKS.values(), ids=lambda row: row.id)
def test_lengths_at_their_limits_pass(row):
    run = MadeRun(row, row.scenarios[0], "accuracy", submitted=True)
    run.accuracy_bytes = MAX_ACCURACY_LOG_BYTES
    baseline = BASELINES[row.id]
    low, high = baseline.tokens_per_sample or (0.0, 0.0)
    if baseline.gen_len:
        low, high = baseline.gen_len * 0.901, baseline.gen_len * 1.099
    name = "gen_len" if baseline.gen_len else "tokens_per_sample"
    for length_ in (low, high):
        run.scores[name] = round(length_, 6)
        assert not_passed(judge(run.facts())) == {}


def test_a_part_of_the_data_is_compared_with_its_share():
    run = MadeRun(*every_scenario()[0], "accuracy")
    run.scores |= {"gen_len": 8_167_644 / 8, "gen_num": 13_368 / 8}
    assert not_passed(judge(run.facts())) == {}
    run.submitted = True
    assert "accuracy_gen_len" in not_passed(judge(run.facts()))


def test_two_eos_inside_an_answer_are_none_at_its_end():
    run = MadeRun(*every_scenario()[0], "test06")
    eos = run.benchmark.eos_token_ids[0]
    run.answers[0] = LoggedSample(0, (eos, eos, 5, eos), (eos,), 4)
    run.answers[1] = LoggedSample(1, (eos,), (eos,), 1)
    assert not_passed(judge(run.facts())) == {}


def test_without_eos_ids_the_end_of_an_answer_is_not_judged():
    run = MadeRun(*every_scenario()[0], "test06")
    verdicts = judge(replace(run.facts(), eos_token_ids=None))
    assert [v.status for v in verdicts if not v.passed] == ["not judged"]


def test_an_audit_run_may_say_that_two_conf_files_were_read():
    run = MadeRun(*every_scenario()[0], "test06")
    run.broken_lines.append(line("error", "Multiple conf files are used", error=True))
    run.entries["num_errors"] = 1
    assert not_passed(judge(run.facts())) == {}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "found nothing, required at least 600,000 ms (effective_min_duration_ms is not in"),
        ("6e5", "found 6e5, required at least 600,000 ms (effective_min_duration_ms is no number"),
        (9_000, "found 9,000 ms, required at least 600,000 ms"),
    ],
)
def test_a_verdict_says_what_was_found_and_what_is_required(value, said):
    run = MadeRun(*every_scenario()[0], "performance")
    put(run, "effective_min_duration_ms", value)
    assert said in not_passed(judge(run.facts()))["min_duration"]


def test_a_damaged_accuracy_log_counts_where_it_is_not_cut():
    run = MadeRun(*every_scenario()[0], "accuracy")
    run.accuracy_damage = ("not JSON",)
    assert list(not_passed(judge(run.facts()))) == ["accuracy_log_is_whole"]
    run.submitted = True
    assert not_passed(judge(run.facts())) == {}


def test_seeds_of_another_round_are_named():
    run = MadeRun(*every_scenario()[0], "performance", ROUNDS["v5.1"])
    facts = replace(run.facts(), round=ROUNDS["v6.1"])
    (found,) = [v for v in judge(facts) if not v.passed]
    assert (found.rule, found.found) == ("seeds", "the seeds of v5.1")


@pytest.mark.parametrize("row", BENCHMARKS.values(), ids=lambda row: row.id)
def test_each_benchmark_is_judged_by_its_own_figures(row):
    names = {r.metric for r in rules_for(row, row.scenarios[0], "accuracy")} - {None}
    assert names == BASELINES[row.id].metrics


# Damage


class Listening(dict):
    """A log's values that remember which keys were asked for."""

    def __init__(self, values):
        super().__init__(values)
        self.asked = set()

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)


PRESENCE_ONLY = {"power_end"}
"""Keys of which a rule asks only that they are there."""
UNDECIDED_BY = {
    # Repeated to the reader.
    "early_stopping_ttft_result",
    "early_stopping_tpot_result",
    # LoadGen 5.1 does not write it; qsl_reported_total_count then takes its place.
    "effective_accuracy_sample_count",
}
"""Keys that a rule reads and whose absence decides nothing."""


def keys_read(run: MadeRun) -> list[str]:
    """The keys of the run's log that any of its rules decides by."""
    facts = run.facts()
    values = Listening(facts.logs.detail.values)
    detail = replace(facts.logs.detail, values=values)
    judge(replace(facts, logs=replace(facts.logs, detail=detail)))
    return sorted(values.asked & set(run.entries) - UNDECIDED_BY)


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_a_line_that_a_rule_reads_is_never_missed(run, data):
    key = data.draw(st.sampled_from(keys_read(run)))
    del run.entries[key]
    assert not_passed(judge(run.facts()))


@settings(max_examples=200, deadline=None)
@given(run=runs(), data=st.data())
def test_a_value_of_a_wrong_kind_never_passes(run, data):
    asked = [key for key in keys_read(run) if key not in PRESENCE_ONLY]
    key = data.draw(st.sampled_from(asked))
    wrong = data.draw(
        st.sampled_from([[], {}, "", "x", -1, float("nan"), 10**400, [[1]], "\ud800"])
    )
    run.entries[key] = "x" if wrong == run.entries[key] else wrong
    assert not_passed(judge(run.facts()))


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_a_truncated_log_never_passes(run, data):
    text = run.detail_text
    at = data.draw(st.integers(0, len(text.rstrip()) - 1))
    assert not_passed(judge(run.facts(text[:at])))


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_a_line_that_cannot_be_read_never_passes(run, data):
    lines = run.detail_text.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    cut = data.draw(st.integers(1, len(lines[at]) - 1))
    lines[at] = data.draw(st.sampled_from([lines[at][:cut], lines[at][cut:], "\0" * cut]))
    assert not_passed(judge(run.facts("\n".join(lines))))


@settings(max_examples=60, deadline=None)
@given(run=runs(), data=st.data())
def test_a_key_said_twice_never_passes(run, data):
    asked = [key for key in keys_read(run) if not key.startswith(("loadgen_", "power_"))]
    key = data.draw(st.sampled_from(asked))
    run.broken_lines.append(line(key, run.entries[key]))
    assert not_passed(judge(run.facts()))


@settings(max_examples=200, deadline=None)
@given(run=runs(), data=st.data())
def test_random_bytes_never_raise_and_are_told_in_one_line(run, data):
    raw = bytearray(run.detail_text.encode())
    for _ in range(data.draw(st.integers(1, 20))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for found in judge(run.facts(raw.decode("utf-8", errors="replace"))):
        assert found.line.isprintable()
        json.dumps(found.as_json()).encode()


@settings(max_examples=100, deadline=None)
@given(run=runs(), text=st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_any_text_in_place_of_a_log_fails(run, text):
    assert not_passed(judge(run.facts(text)))


def test_a_missing_detail_log_fails_every_rule_that_needs_it():
    run = MadeRun(*every_scenario()[0], "performance")
    facts = run.facts("")
    files = {k: v for k, v in facts.logs.files.items() if k != DETAIL}
    failed = not_passed(judge(replace(facts, logs=replace(facts.logs, files=files))))
    needless = {"no_loadgen_errors", "accuracy_passed", "generation"}
    assert set(rule_names(run)) - set(failed) == needless
