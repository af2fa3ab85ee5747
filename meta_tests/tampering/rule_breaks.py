"""A break of each rule: what is changed in a run that obeys all of them."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from meta_tests.made_runs import (
    DETAILS,
    P99,
    MadeRun,
    as_printed,
    audit_values,
    cut_log,
    line,
    remote_run,
)
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.loadgen.clock_watch import FLOOR_S
from mlperf_suite.loadgen.load_plan import LIMIT_KEYS
from mlperf_suite.loadgen.logs import AccuracyLog, LoggedSample
from mlperf_suite.rules import rule_named, rules_for
from mlperf_suite.rules.accuracy_files import MAX_ACCURACY_LOG_BYTES
from mlperf_suite.rules.accuracy_rules import METRICS, gate_name
from mlperf_suite.rules.facts import Facts
from mlperf_suite.rules.limits import FULL_SHARE, MAX_DELAY_MS
from mlperf_suite.rules.registry import every_rule
from mlperf_suite.rules.verdict import Verdict

MODES: tuple[Mode, ...] = ("accuracy", "performance", "test06")
Break = Callable[[MadeRun, st.DataObject], object]

NO_NUMBER: st.SearchStrategy[Any] = st.sampled_from(
    [None, "600000", [], {}, True, float("nan"), float("inf"), 10**400]
)
"""What may stand where a number belongs; None is a line that is not there."""
AGREEMENT = frozenset(r.name for r in every_rule() if r.whole_log) | {
    "test06_issue_order",
    *(f"{audit}_log_agrees" for audit in ("test06", "test07", "test09", "test01")),
}
"""The rules that compare figures of a log with one another.

What breaks another rule may be seen by one of them as well: a figure does not change alone.
"""
FOLLOWING = {
    "accuracy_whole_dataset": {"accuracy_every_sample"},
    "accuracy_log_ends": {"accuracy_answers"},
    "accuracy_tokens_per_sample": {"accuracy_every_sample"},
    "test01_answers": {"test01_same_answers"},
    "test01_log_is_whole": {"test01_same_answers"},
    "test07_log_is_whole": {"test07_every_sample"},
    "test09_log_is_whole": {"test09_every_sample", "test09_mean_tokens"},
    # One ROUGE figure changed alone no longer fits the others.
    **{f"accuracy_rouge{kind}": {"accuracy_score_figures"} for kind in ("1", "2", "l", "lsum")},
}
"""Rules that a break of another one breaks as well: they judge by the same entry of the log."""
NOT_TRUE: tuple[Any, ...] = (False, None, 1, "true", [])


def rule_names(run: MadeRun) -> list[str]:
    rules = rules_for(
        run.benchmark,
        run.scenario,
        run.mode,
        run.division,
        submitted=run.submitted,
        in_session=run.deviations is not None,
    )
    return [r.name for r in rules]


def verdict_on(facts: Facts, rule: str) -> Verdict:
    """Of one rule, without the time of all others."""
    asked = rule_named(rule)
    assert asked is not None
    return asked.judge(facts)


def not_passed(verdicts: list[Verdict]) -> dict[str, str]:
    return {v.rule: v.line for v in verdicts if not v.passed}


def without_agreement(verdicts: list[Verdict]) -> dict[str, str]:
    """Those that did not pass, apart from the rules that compare a log with itself."""
    return {name: line for name, line in not_passed(verdicts).items() if name not in AGREEMENT}


def check_cut_log(run: MadeRun, *rules: str) -> None:
    """A submitted log may be cut: these rules of its mode do not judge it then."""
    facts = run.facts()
    logs = replace(facts.logs, accuracy=AccuracyLog((), ("not JSON: cut",)))
    for rule in rules:
        verdict = verdict_on(replace(facts, logs=logs), f"{run.mode}_{rule}")
        assert verdict.status == "not judged" and "may be cut" in verdict.why
    assert facts.submitted is not None
    for submitted in (None, replace(facts.submitted, accuracy_log=None)):
        damaged = replace(facts, logs=logs, submitted=submitted)
        assert verdict_on(damaged, f"{run.mode}_log_is_whole").status == "failed"


def put(run: MadeRun, key: str, value: object) -> None:
    """Set a key of the detail log, or take its line out."""
    if value is None:
        del run.entries[key]
    else:
        run.entries[key] = value


# One break for each rule


def pick(data: st.DataObject, *values: Any) -> Any:
    return data.draw(st.sampled_from(values))


def drawn(key: str, *values: object) -> Break:
    return lambda run, data: put(run, key, pick(data, *values))


def drawn_fact(name: str, *values: object) -> Break:
    return lambda run, data: setattr(run, name, pick(data, *values))


def bad_number(key: str, low: int, high: int) -> Break:
    return lambda run, data: put(run, key, data.draw(st.integers(low, high) | NO_NUMBER))


def too_few_samples(key: str) -> Break:
    return lambda run, data: bad_number(key, 0, run.benchmark.samples - 1)(run, data)


def whole(run: MadeRun, data: st.DataObject) -> None:
    run.broken_lines.append(pick(data, "not a log line", ":::MLLOG {", ':::MLLOG {"key": 1}'))


def error(run: MadeRun, data: st.DataObject) -> None:
    run.broken_lines.append(line("error_runtime", data.draw(st.text()), error=True))


def mode(run: MadeRun, data: st.DataObject) -> None:
    wrong_mode = "AccuracyOnly" if run.mode != "accuracy" else "PerformanceOnly"
    key, values = pick(
        data,
        ("effective_test_mode", [wrong_mode, "SubmissionRun", None]),
        ("effective_scenario", ["MultiStream", None, 3]),
    )
    put(run, key, pick(data, *values))


def over(limit: str) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        # A latency may be at its limit, TTFT and TPOT may not.
        least = int(run.scenario.limits[limit] * 1e6) + (limit == "latency")
        bad_number(P99[limit], least, 10**15)(run, data)

    return apply


def targets(run: MadeRun, data: st.DataObject) -> None:
    key = LIMIT_KEYS[pick(data, *run.scenario.limits)]
    put(run, key, data.draw(st.integers(12_000_000_001, 10**15) | NO_NUMBER | st.just(0)))


def wrong_seed(run: MadeRun, data: st.DataObject) -> None:
    key = f"effective_{pick(data, *sorted(run.round.seeds))}"
    old = run.entries[key]
    put(run, key, pick(data, old + 1, 0, float(old), str(old), None, True))


def every_sample(run: MadeRun, data: st.DataObject) -> None:
    if run.submitted:
        fewer = st.integers(0, run.benchmark.samples_of("accuracy") - 1)
        run.scores[run.benchmark.counted_as] = data.draw(fewer)
    else:
        del run.answers[data.draw(st.integers(0, len(run.answers) - 1))]


def whole_dataset(run: MadeRun, data: st.DataObject) -> None:
    wrong = st.integers(0, run.benchmark.samples_of("accuracy") - 1)
    wrong |= st.sampled_from(["13368", [], 10**400])
    put(run, "effective_accuracy_sample_count", data.draw(wrong))


def below_gate(name: str) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        reference = run.benchmark.reference.of(name)
        assert reference is not None
        wrong = st.floats(0, reference.low() * 0.99999) | st.sampled_from([100.5, float("9" * 400)])
        run.scores[name] = round(data.draw(wrong), 4)
        if data.draw(st.booleans()):
            del run.scores[name]

    return apply


def length(name: str) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        factor = data.draw(st.floats(0, 0.85) | st.floats(1.15, 9))
        run.scores[name] = round(run.scores[name] * factor, 2)

    return apply


def other_ends(run: MadeRun, data: st.DataObject) -> None:
    text = run.cut_log
    place, next_place = (f'"seq_id" : {answer.place},' for answer in run.answers[:2])
    sample, next_sample = (f'"qsl_idx" : {answer.index},' for answer in run.answers[:2])
    run.cut_log = pick(
        data,
        *("", "[\n]\n", "x" * len(text), text[2:], text[:-4], text[: len(text) // 2]),
        text.replace("...", ""),
        text.replace(next_place, place),
        text.replace(next_sample, sample),
        text.replace(sample, f'"qsl_idx" : {10**9},'),
    )


def other_tokens(run: MadeRun, data: st.DataObject) -> None:
    text = run.cut_log
    # Of an answer that is text, the number of tokens is not known.
    counts = () if run.benchmark.answers_as_text else (0, 2, 4)
    wrong = [text.replace('"token_count" : 3', f'"token_count" : {n}', 1) for n in counts]
    empty, other = ', "token_data" : ""', ', "token_data" : "0C000000"'
    if run.scenario.streams:
        first = ', "token_data" : "0B000000"'
        wrong += [text.replace(first, new, 1) for new in ("", empty, other)]
    else:
        wrong.append(text.replace(', "token_count"', f'{other}, "token_count"', 1))
    run.cut_log = pick(data, *wrong)


def audit(run: MadeRun, data: st.DataObject) -> None:
    put(run, *pick(data, *audit_values(), ("effective_min_duration_ms", None)))


def audit_that_compares(run: MadeRun, data: st.DataObject) -> None:
    key = pick(data, "rng_seed", "sampling_target")
    put(run, f"effective_accuracy_log_{key}", pick(data, None, 0, 100, 4096.5))


def unlike_answer(run: MadeRun, data: st.DataObject) -> None:
    """One answer differs, and the accuracies are too far apart or not known."""
    change_answer(lambda _, of, __: replace(of, token_ids=of.token_ids[::-1]))(run, data)
    scores = {name: score * 1.0102 for name, score in run.scores.items()}
    run.compared = replace(run.compared, scores=pick(data, None, {}, scores))


def other_speed(run: MadeRun, data: st.DataObject) -> None:
    factor = data.draw(st.floats(0.01, 0.9) | st.floats(1.12, 50))
    rate = (run.compared.samples_per_s or 0) * factor
    run.compared = replace(run.compared, samples_per_s=rate)


def change_answer(change: Callable[[MadeRun, LoggedSample, st.DataObject], LoggedSample]) -> Break:
    def apply(run: MadeRun, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(run.answers) - 1))
        run.answers[at] = change(run, run.answers[at], data)

    return apply


def other_figures(run: MadeRun, data: st.DataObject) -> None:
    """Figures of accuracy.txt that no answers have, beside those that are judged."""
    count = run.scores.get("gen_num") or run.scores.setdefault("gen_num", 100.0)
    run.scores |= {"gen_tok_len": 1e-3 * count}


def other_text(run: MadeRun, data: st.DataObject) -> None:
    """A token that the model has not, or one answer for all samples."""
    size = run.benchmark.vocabulary
    token = pick(data, 12, -1, *([] if size is None else [size, 2**31 - 1]))
    for row in range(len(run.answers)) if token == 12 else [0]:
        first, _, *rest = run.answers[row].token_ids
        run.answers[row] = replace(run.answers[row], token_ids=(first, token, *rest))
    run.cut_log = cut_log(tuple(run.answers), run.scenario.streams, run.longest)


def other_first(run: MadeRun, answer: LoggedSample, data: st.DataObject) -> LoggedSample:
    return replace(answer, first_token_ids=pick(data, None, (), (99,), (11, 13)))


def two_eos(run: MadeRun, answer: LoggedSample, data: st.DataObject) -> LoggedSample:
    eos = st.sampled_from(run.benchmark.eos_token_ids)
    tail = tuple(data.draw(st.lists(eos, min_size=2, max_size=4)))
    # An answer of nothing but EOS, and one with some before its end.
    tokens = tail if data.draw(st.booleans()) else (*answer.token_ids, *tail)
    return LoggedSample(answer.index, tokens, tokens[:1], len(tokens), answer.place)


def other_count(run: MadeRun, answer: LoggedSample, data: st.DataObject) -> LoggedSample:
    return replace(answer, token_count=pick(data, None, 0, 2, 4, 10**9))


def unverified(run: MadeRun, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, 2))
    name = run.verify[at].partition(":")[0]
    first = f"{name}: {'True' if run.scenario.name == 'Offline' else 'Skipped'}"
    run.verify[at] = pick(data, "", f"{name}: False", *[first] * (at == 0))


def unissued(run: MadeRun, data: st.DataObject) -> None:
    """As officially: some samples issued twice, and others never."""
    place = data.draw(st.integers(0, len(run.answers) - 2))
    run.answers[place] = run.answers[place + 1]


def low_score(run: MadeRun, data: st.DataObject) -> None:
    run.scores["exact_match"] = round(data.draw(st.floats(0, 60.69)), 3)


def other_length(run: MadeRun, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 1150) | st.integers(1407, 3000))
    rest = (7,) * (length - 1)
    run.answers = [
        LoggedSample(a.index, (1000 + a.index, *rest), (1000 + a.index,), length)
        for a in run.answers
    ]


def other_generation(run: MadeRun, data: st.DataObject) -> None:
    departures = (data.draw(st.text(min_size=1)),)
    if data.draw(st.booleans()):
        run.remote = remote_run(departures=departures)
    else:
        run.deviations = departures


def busy_client(run: MadeRun, data: st.DataObject) -> None:
    full = st.floats(FULL_SHARE) | st.just(float("nan"))
    if data.draw(st.booleans()):
        run.remote = remote_run(waited=data.draw(st.integers(1)), full=False)
    elif run.scenario.name == "Offline" or data.draw(st.booleans()):
        run.remote = remote_run(busy_share=data.draw(full))
    else:
        late = st.floats(MAX_DELAY_MS, exclude_min=True) | st.sampled_from([None, float("nan")])
        delays: dict[str, Any] = {pick(data, "out_ms", "back_ms"): data.draw(late)}
        run.remote = remote_run(**delays)


def set_clock(run: MadeRun, data: st.DataObject) -> None:
    """A clock that was set, or LoadGen's log too long or too short for the run."""
    gain = data.draw(st.floats(2 * FLOOR_S, 1e4)) * pick(data, -1, 1)
    faults = {"gain_s": gain}, {"elapsed_s": -1.0}, {"answering_s": 1e7}
    run.clock = replace(run.clock, **pick(data, *faults))


_OF_BOTH_RUNS: dict[str, Break] = {
    "log_is_whole": whole,
    "no_loadgen_errors": error,
    "test_mode": mode,
    "generation": other_generation,
    "loadgen_clock": set_clock,
    "loadgen_unmodified": drawn("loadgen_git_status_message", " M loadgen.cc", "NA", None),
}
"""Of rules of a performance run that an accuracy run has as well."""
_OF_EVERY_AUDIT: dict[str, Break] = {
    "answers": other_text,
    "log_is_whole": drawn_fact("accuracy_damage", ("entry 7: no hex string",)),
    "settings": audit,
    "loadgen_clock": set_clock,
    "test_mode": mode,
    "no_loadgen_errors": error,
}
_OF_COMPLETE_AUDITS: dict[str, Break] = {
    "every_sample": unissued,
    "verified": drawn_fact(
        "verify",
        *([], ["TEST FAIL"], ["passed"]),
        *(["TEST PASS", more] for more in ("Accuracy check pass: False", "TEST06 verification")),
    ),
}
"""Of TEST07 and TEST09."""


def in_modes(breaks: dict[str, Break], *prefixes: str) -> dict[str, Break]:
    """The breaks by the names that their rules have in each mode."""
    return {f"{prefix}{name}": change for prefix in prefixes for name, change in breaks.items()}


BREAKS: dict[str, Break] = {
    **in_modes(_OF_BOTH_RUNS, "", "accuracy_"),
    **in_modes(_OF_EVERY_AUDIT, "test06_", "test07_", "test09_", "test01_"),
    **in_modes(_OF_COMPLETE_AUDITS, "test07_", "test09_"),
    "test01_settings": audit_that_compares,
    "test01_same_answers": unlike_answer,
    "test01_same_rate": other_speed,
    "test01_full_length": bad_number("effective_min_duration_ms", -1, 599_999),
    "test01_verified": drawn_fact("verify_rates", [], ["TEST FAIL"], ["passed"]),
    "accuracy_answers": other_text,
    "accuracy_score_figures": other_figures,
    "accuracy_every_sample": every_sample,
    "accuracy_whole_dataset": whole_dataset,
    **{gate_name(name): below_gate(name) for name in METRICS},
    "accuracy_gen_len": length("gen_len"),
    "accuracy_tokens_per_sample": length("tokens_per_sample"),
    "accuracy_hash": drawn_fact("hash", None, "", "abc", "z" * 64, "0" * 63, "0" * 65),
    "accuracy_log_is_cut": drawn_fact("accuracy_bytes", 0, MAX_ACCURACY_LOG_BYTES + 1, 10**9),
    "accuracy_log_ends": other_ends,
    "accuracy_log_tokens": other_tokens,
    "result_valid": drawn("result_validity", "INVALID", "valid", "", True, None),
    "result_reported": lambda run, data: bad_number(run.scenario.metric, -(10**9), 0)(run, data),
    "min_duration": bad_number("effective_min_duration_ms", -1, 599_999),
    "performance_sample_count": too_few_samples("effective_performance_sample_count"),
    "offline_samples_per_query": too_few_samples("effective_samples_per_query"),
    "ttft_limit": over("ttft"),
    "tpot_limit": over("tpot"),
    "latency_limit": over("latency"),
    "latency_targets": targets,
    "target_percentile": drawn(
        "effective_target_latency_percentile", 0.5, 0.97, 0.999, 99, 90, 0, None, "0.99", [], True
    ),
    "early_stopping": drawn("early_stopping_met", *NOT_TRUE),
    "min_queries": bad_number("result_query_count", 0, 63),
    "seeds": wrong_seed,
    "equal_issue_mode": drawn("effective_sample_concatenate_permutation", *NOT_TRUE),
    "token_latencies": drawn("requested_use_token_latencies", *NOT_TRUE),
    "accuracy_passed": drawn_fact("accuracy_passed", False),
    "client_bound": busy_client,
    "test06_sample_count": lambda run, _: run.answers.pop(),
    "test06_first_token": change_answer(other_first),
    "test06_eos": change_answer(two_eos),
    "test06_token_count": change_answer(other_count),
    "test06_verified": unverified,
    "test07_score": low_score,
    "test09_mean_tokens": other_length,
    "cached_prompt_tokens": drawn_fact("cached_tokens", 1, 2, 10**9),
}


# Small forgeries of a made run's logs: values in both files, words in the summary, lines


NO_ERRORS, NO_WARNINGS = "^No errors encountered during test.", "^No warnings encountered.*"
COMPLETED = r"^(Completed samples per second :) .*"

Forgery = Callable[[MadeRun], object]


def made(scenario: str = "Server", mode: Mode = "performance") -> MadeRun:
    where = LLAMA3_1_8B.scenario(scenario)
    return MadeRun(LLAMA3_1_8B, where, mode, ROUNDS["v6.1"], submitted=True)


def both(**entries: Any) -> Forgery:
    """Values of the detail log, and of the summary where it has them; functions of the old."""

    def forge(run: MadeRun) -> None:
        for key, new in entries.items():
            run.entries[key] = new(run.entries[key]) if callable(new) else new
        run.summary = DETAILS.summary(run.entries)

    return forge


def times(factor: float, *keys: str) -> Forgery:
    """Figures of both files times a factor."""

    def scaled(figure: Any) -> Any:
        is_whole = isinstance(figure, int)
        return round(figure * factor) if is_whole else as_printed(figure * factor)

    return both(**dict.fromkeys(keys, scaled))


def words(old: str, new: str) -> Forgery:
    """Other words in the summary alone, which must have the old ones."""

    def forge(run: MadeRun) -> None:
        run.summary, count = re.subn(old, new, run.summary, flags=re.MULTILINE)
        assert count

    return forge


def more_lines(*lines: str) -> Forgery:
    return lambda run: run.broken_lines.extend(lines)


def place_of(key: str, other: str) -> Forgery:
    """A latency that is another one, in both files."""
    return lambda run: both(**{key: run.entries[other]})(run)


def asked_for(name: str, value: object) -> Forgery:
    return both(**{f"requested_{name}": value, f"effective_{name}": value})
