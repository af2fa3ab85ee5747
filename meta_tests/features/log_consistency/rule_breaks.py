"""A break of each rule on logs that do not agree with themselves."""

import math
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import strategies as st

from meta_tests.features.log_consistency.made_details import LOADGEN_FILES
from meta_tests.made_runs import MadeRun, as_printed
from meta_tests.tampering.rule_breaks import Break, drawn_fact, in_modes, pick, put
from mlperf_suite.features.log_consistency.log_clock import DATE_FORMAT
from mlperf_suite.features.log_consistency.log_figures import (
    LATENCY,
    TPOT,
    TTFT,
    LatencyKeys,
    most_tokens,
)


def stamp_back(run: MadeRun, data: st.DataObject) -> None:
    # The watch of the clock goes by power_end.
    first, *keys = (key for key in run.entries if not key.startswith("power_"))
    wrong = st.sampled_from([math.nan, math.inf, "0.1", None, 10**400])
    wrong |= st.floats(-1e9, run.stamp_ms(first) - 1e-6)
    run.stamps[pick(data, *keys)] = data.draw(wrong)


def shift_end(run: MadeRun, data: st.DataObject) -> None:
    run.ended_ms += data.draw(st.floats(-1e5, -10) | st.floats(1e4, 1e9))


def other_date(run: MadeRun, data: st.DataObject) -> None:
    late = timedelta(seconds=data.draw(st.integers(7, 893)) + 900 * data.draw(st.integers(-9, 9)))
    dated = datetime.strptime(run.entries["test_datetime"], DATE_FORMAT) - late
    put(run, "test_datetime", dated.strftime(DATE_FORMAT))


def swapped_samples(run: MadeRun, data: st.DataObject) -> None:
    order = list(run.entries["loaded_qsl_set"])
    at = data.draw(st.integers(1, len(order) - 1))
    order[0], order[at] = order[at], order[0]
    put(run, "loaded_qsl_set", pick(data, order, order[1:], [], {}, "x"))


def other_number(key: str, least: float = 0.001) -> Break:
    """A figure that is more than a printed digit off."""

    def apply(run: MadeRun, data: st.DataObject) -> None:
        was = run.entries[key]
        wrong = was * pick(data, 1 - least, 1 + least, 0.5, 2.0)
        put(run, key, math.ceil(wrong) if isinstance(was, int) else as_printed(wrong))

    return apply


def other_files(run: MadeRun, data: st.DataObject) -> None:
    files = dict(LOADGEN_FILES)
    path = pick(data, *sorted(files))
    if data.draw(st.booleans()):
        files[path] = pick(data, "0" * 40, "", "x" * 40)
    else:
        del files[path]
    put(run, "loadgen_file_sha1", pick(data, files, files, [], {}))


def other_summary(run: MadeRun, data: st.DataObject) -> None:
    lines = run.summary.splitlines()
    at = pick(data, *[n for n, line in enumerate(lines) if ":" in line])
    lines[at] = f"{lines[at].partition(':')[0]}: {pick(data, '1e6', 'x', '', '13.7')}"
    run.summary = pick(data, "\n".join(lines), "", "made up")


def other_answers(run: MadeRun, data: st.DataObject) -> None:
    assert run.accuracy_tokens is not None
    apart = data.draw(st.floats(0.1, 0.9) | st.floats(1.1, 5))
    wrong_tokens = replace(run.accuracy_tokens, mean=run.accuracy_tokens.mean * apart)
    run.accuracy_tokens = pick(data, wrong_tokens, None)


def more_queries(run: MadeRun, data: st.DataObject) -> None:
    more = data.draw(st.integers(1, 10**6))
    put(run, "result_query_count", run.entries["generated_query_count"] + more)


def other_rate(run: MadeRun, data: st.DataObject) -> None:
    key = {
        "Offline": "result_samples_per_second",
        "SingleStream": "result_qps_without_loadgen_overhead",
    }.get(run.scenario.name, "result_completed_samples_per_sec")
    other_number(key, 0.1)(run, data)


def other_token_rate(run: MadeRun, data: st.DataObject) -> None:
    """Rates of more tokens than the answers may have; of one of two that then do not agree."""
    if run.scenario.name == "Offline" or data.draw(st.booleans()):
        most = 2 * (most_tokens(run.facts()) or 1)
        for key in list(run.entries):
            if "token" in key and ("throughput" in key or "per_sec" in key):
                put(run, key, as_printed(run.entries[key] * most))
    else:
        other_number("result_token_throughput")(run, data)


def issued_when_it_cannot_be(run: MadeRun, data: st.DataObject) -> None:
    """The last query before it was due, or long after the last answer."""
    key = "result_token_throughput_with_loadgen_overhead"
    factor = data.draw(st.floats(1.001, 10) | st.floats(0.01, 0.2))
    put(run, key, as_printed(run.entries[key] * factor))


def latencies(run: MadeRun) -> tuple[LatencyKeys, ...]:
    return (LATENCY, TTFT, TPOT) if run.scenario.streams else (LATENCY,)


def out_of_order(run: MadeRun, data: st.DataObject) -> None:
    keys = pick(data, *latencies(run)).places
    at = data.draw(st.integers(1, len(keys) - 1))
    put(run, keys[at], run.entries[keys[at - 1]] - data.draw(st.integers(1, 10**6)))


def other_mean(run: MadeRun, data: st.DataObject) -> None:
    family = pick(data, *latencies(run))
    beyond = run.entries[family.places[-1]] * data.draw(st.floats(1.01, 100))
    below = run.entries[family.places[0]] * data.draw(st.floats(0, 0.99))
    put(run, family.mean, int(pick(data, below, beyond)))


def faster_tokens(run: MadeRun, data: st.DataObject) -> None:
    """TPOTs that do not make up the latencies."""
    # Not so slow that a limit is passed as well.
    factor = data.draw(st.floats(0.1, 0.9) | st.floats(1.05, 1.1))
    for key in (*TPOT.places, TPOT.mean):
        put(run, key, int(run.entries[key] * factor))


def other_verdict(run: MadeRun, data: st.DataObject) -> None:
    key = pick(data, "result_min_duration_met", "result_min_queries_met")
    put(run, key, pick(data, False, "INVALID", None, 1))


def other_lines(run: MadeRun, data: st.DataObject) -> None:
    """A line that decides nothing is lost, stands elsewhere, or is another scenario's."""
    key_of_line = pick(data, "logger_tls_total_log_cas_fail_count", "qsl_name")
    place = list(run.entries).index(key_of_line)
    value = run.entries.pop(key_of_line)
    how = pick(data, "lost", "moved", "foreign")
    if how != "lost":
        entries = list(run.entries.items())
        at = data.draw(st.integers(1, 40).filter(lambda at: at != place))
        key = key_of_line if how == "moved" else "result_qps_with_loadgen_overhead"
        run.entries = dict([*entries[:at], (key, value), *entries[at:]])


def other_setting(run: MadeRun, data: st.DataObject) -> None:
    names = (
        "effective_max_duration_ms requested_max_query_count requested_schedule_rng_seed "
        "requested_test_mode requested_print_timestamps effective_target_duration_ms "
        "effective_min_sample_count effective_max_async_queries "
        "requested_accuracy_sample_count_override requested_performance_sample_count_override"
    )
    put(run, pick(data, *names.split()), pick(data, 7, "x", [], math.nan))


def chosen_samples(run: MadeRun, data: st.DataObject) -> None:
    settings = ("performance_issue_same", True), ("accuracy_log_sampling_target", 100)
    name, value = pick(data, *settings)
    for prefix in ("requested", "effective"):
        put(run, f"{prefix}_{name}", value)


def other_places(run: MadeRun, data: st.DataObject) -> None:
    """The samples of two answers are those of each other's places."""
    if run.submitted and run.mode == "accuracy":
        first = run.cut_log.partition('"qsl_idx" : ')[2].partition(",")[0]
        run.cut_log = run.cut_log.replace(f'"qsl_idx" : {first},', f'"qsl_idx" : {int(first) + 1},')
        return
    first_answer = run.answers[0]
    others = [n for n, other in enumerate(run.answers) if other.index != first_answer.index]
    at = others[data.draw(st.integers(0, len(others) - 1))]
    second = run.answers[at]
    run.answers[0] = replace(first_answer, place=second.place)
    run.answers[at] = replace(second, place=first_answer.place)


def other_audit_log(run: MadeRun, data: st.DataObject) -> None:
    # TEST01 logs a part of its answers.
    in_lines = run.scenario.name == "SingleStream" or run.mode == "test01"
    if in_lines or data.draw(st.booleans()):
        pick(
            data,
            *(other_lines, other_setting, other_files, swapped_samples),
            *(stamp_back, shift_end, other_date, other_rate, out_of_order, other_verdict),
        )(run, data)
    else:
        for key in ("result_completed_tokens_per_second", "result_tokens_per_second"):
            if key in run.entries:
                put(run, key, as_printed(run.entries[key] * data.draw(st.floats(1.01, 9))))


_OF_BOTH_RUNS: dict[str, Break] = {
    "log_lines": other_lines,
    "settings_took": other_setting,
    "samples_drawn": chosen_samples,
    "time_stamps": stamp_back,
    "time_span": shift_end,
    "clock_dates": other_date,
    "loaded_samples": swapped_samples,
    "generated_queries": other_number("generated_query_duration"),
    "loadgen_files": other_files,
}
_OF_EVERY_AUDIT: dict[str, Break] = {"log_agrees": other_audit_log}
BREAKS: dict[str, Break] = {
    **in_modes(_OF_BOTH_RUNS, "", "accuracy_"),
    **in_modes(_OF_EVERY_AUDIT, "test06_", "test07_", "test09_", "test01_"),
    "accuracy_issue_order": other_places,
    "test06_issue_order": other_places,
    "scheduled_rate": other_number("result_scheduled_samples_per_sec"),
    "queries_issued": more_queries,
    "query_rate": other_rate,
    "token_rate": other_token_rate,
    "issued_token_rate": issued_when_it_cannot_be,
    "percentile_order": out_of_order,
    "mean_in_percentiles": other_mean,
    "summary_agrees": other_summary,
    "accuracy_summary_agrees": drawn_fact("summary", "made up", "1 ERROR encountered.\n"),
    "tokens_as_in_accuracy": other_answers,
    "token_times": faster_tokens,
    "validity_agrees": other_verdict,
}
