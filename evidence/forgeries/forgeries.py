"""Forge submission trees: a rule of the suite detects each, the official checker accepts most.

    python -m evidence.forgeries.forgeries --checker INFERENCE --write

The tree is an honest closed tree of llama2-70b-99.9 in Offline and Server, with logs that LoadGen
wrote; INFERENCE is a checkout of github.com/mlcommons/inference. Prints a row for each forgery of a
copy of the tree; --write puts the rows into docs/evidence/forgeries.md. Without a checker its
column stays as it is in that page. LoadGen's results.cc, loadgen.cc and test_settings_internal.cc
show what a log contains twice.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from evidence.log_edits import DetailFile, Entry, New, answers_edited, is_, log_values
from evidence.tables import PAGES, rewrite_table, table_after
from evidence.tree_edits import Change, Home, Tampering, system_field
from evidence.verdicts import copies, official_verdict, tamper
from meta_tests.judging.trees import broken_rules
from meta_tests.tampering.edits import replaced, text_edited, together
from meta_tests.tampering.trees import LLAMA2, round_of_tree, unpack
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY

BENCHMARK = "llama2-70b-99.9"
_POWER_TIME = "%m-%d-%Y %H:%M:%S.%f"
_RUN = ("performance", "run_1")
_ACCURACY = ("accuracy",)
_TEST06 = ("TEST06", "performance", "run_1")
Row = dict[str, Any]
"""An entry of an accuracy log."""


def _forged(fakes: str, change: Change, rules: str = "") -> Tampering:
    """A change to an honest tree that the official checker accepts, what it makes readers believe,
    and the rules that detect it, separated by spaces."""
    return Tampering(change, frozenset(rules.split()), fakes)


# The summary, which repeats the detail log's figures

_LABELS = (
    (r"result_(min|max|mean)_latency_ns", "{} latency (ns)"),
    (r"result_(\d\S+)_percentile_latency_ns", "{} percentile latency (ns)"),
    (r"result_first_token_(min|max|mean)_latency_ns", "{} First Token latency (ns)"),
    (r"result_first_token_(\d\S+)_percentile_latency_ns", "{} percentile first token latency (ns)"),
    (r"result_time_to_output_token_(min|max|mean)", "{} Time per Output Token (ns)"),
    (
        r"result_time_per_output_token_(\S+)_percentile_ns",
        "{} percentile time to output token (ns)",
    ),
    (r"result_samples_per_second", "Samples per second"),
    (r"result_tokens_per_second", "Tokens per second"),
    (r"result_completed_samples_per_sec", "Completed samples per second"),
    (r"result_completed_tokens_per_second", "Completed tokens per second"),
    (r"result_scheduled_samples_per_sec", "Scheduled samples per second"),
    (r"result_validity", "Result is"),
    (r"result_perf_constraints_met", "  Performance constraints satisfied"),
    (r"result_min_duration_met", "  Min duration satisfied"),
    (r"result_min_queries_met", "  Min queries satisfied"),
    (r"early_stopping_met", "  Early stopping satisfied"),
    (r"sut_name", "SUT name"),
    (r"effective_(m\w+_duration)_ms", "{} (ms)"),
    (r"requested_server_(\w+)_latency", "{}_latency (ns)"),
    (r"effective_(\w+)", "{}"),
)
"""The names of the detail log's figures in the summary."""
_TWO_DECIMALS = re.compile(r"result_(completed|scheduled)_\w+")


def _print(summary: Path, key: str, value: object) -> None:
    """Write a figure to every place where the summary has it."""
    for pattern, label in _LABELS:
        if match := re.fullmatch(pattern, key):
            name = label.format(
                *(part.title() if part in _WORDS else part for part in match.groups())
            )
            line = rf"^({re.escape(name)}\s*: ).*$"
            text = summary.read_text(encoding="utf-8")
            text = re.sub(line, rf"\g<1>{_figure_text(key, value)}", text, flags=re.MULTILINE)
            summary.write_text(text, encoding="utf-8")
            return


_WORDS = ("min", "max", "mean")


def _figure_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        yes = "Yes" if value else "NO"
        return yes if key.endswith("_met") else f"{value:d}"
    return f"{value:.2f}" if _TWO_DECIMALS.fullmatch(key) else f"{value}"


# Changes


def _folder(home: Home, scenario: str, run: tuple[str, ...]) -> Path:
    return home.place("results", scenario).joinpath(*run)


def detail(
    changes: Mapping[str, New], scenario: str = "Server", run: tuple[str, ...] = _RUN
) -> Change:
    """Change values in the detail log alone, by patterns of its keys."""
    return log_values(lambda home: _folder(home, scenario, run), changes)


def in_both(
    changes: Mapping[str, New], scenario: str = "Server", run: tuple[str, ...] = _RUN
) -> Change:
    """Change values in the detail log, and in the summary where it has them."""
    return together(summary(changes, scenario, run), detail(changes, scenario, run))


def summary(
    changes: Mapping[str, New], scenario: str = "Server", run: tuple[str, ...] = _RUN
) -> Change:
    """Change values in the summary alone."""

    def change(home: Home) -> None:
        folder = _folder(home, scenario, run)
        log = DetailFile(folder)
        for pattern, new in changes.items():
            for key, value in log.change(pattern, new).items():
                _print(folder / SUMMARY, key, value)

    return change


def times(factor: float) -> New:
    """Multiply a figure by a factor, with as many digits as LoadGen writes."""

    def new(value: Any) -> object:
        return round(value * factor) if isinstance(value, int) else float(f"{value * factor:.6g}")

    return new


def clock(change_ms: Callable[[float], float], scenario: str = "Server") -> Change:
    """Change each timestamp in a performance run's detail log."""

    def change(home: Home) -> None:
        with DetailFile(_folder(home, scenario, _RUN)) as log:
            for entry in log.entries:
                entry.content["time_ms"] = round(change_ms(entry.content["time_ms"]), 6)

    return change


def later(seconds: float) -> New:
    """Shift a time of day, in LoadGen's power format, by some seconds."""

    def new(value: Any) -> object:
        time = datetime.strptime(value, _POWER_TIME) + timedelta(seconds=seconds)
        return time.strftime(_POWER_TIME)[:-3]

    return new


def answers(
    scenario: str, change_rows: Callable[[list[Row]], list[Row]], audit: str = "TEST06"
) -> Change:
    """Change the answers in an audit's accuracy log."""
    return answers_edited(
        lambda home: home.audit(audit, scenario) / "accuracy" / ACCURACY, change_rows
    )


def words(pattern: str, new: str, scenario: str = "Server") -> Change:
    """Replace text in the summary of the performance run."""
    return replaced(pattern, new, lambda home: _folder(home, scenario, _RUN) / SUMMARY)


def line_twice(key: str, again: str) -> Change:
    """Put more members behind those of a line of the performance run's detail log."""
    return replaced(
        rf'^(:::MLLOG {{"key": "{key}".*"event_type": "POINT_IN_TIME")',
        rf"\g<1>, {again}",
        lambda home: _folder(home, "Server", _RUN) / DETAIL,
    )


def copied(source: tuple[str, ...], target: tuple[str, ...]) -> Change:
    """Replace a file or folder of the benchmark with another."""

    def change(home: Home) -> None:
        root = home.place("results", "Server").parent
        old, new = root.joinpath(*source), root.joinpath(*target)
        if old.is_dir():
            shutil.rmtree(new)
            shutil.copytree(old, new)
        else:
            shutil.copyfile(old, new)

    return change


def _accuracy_txt(home: Home) -> Path:
    return home.accuracy_txt("Server")


def accuracy_log(change_text: Callable[[str], str], scenario: str = "Server") -> Change:
    """Change the text of a cut accuracy log."""
    return text_edited(lambda home: home.accuracy(scenario) / ACCURACY, change_text)


def _first_answer_again(text: str) -> str:
    first = re.search(r'"data" : "([0-9A-F]+)"', text)
    assert first is not None
    return re.sub(
        r'"data" : "([0-9A-F]{64})[0-9A-F]*',
        lambda m: f'"data" : "{first[1][: len(m[0]) - 10]}',
        text,
    )


def _first_sample_again(text: str) -> str:
    first, *_, last = re.findall(r'"qsl_idx" : (\d+)', text)
    return text.replace(f'"qsl_idx" : {last}', f'"qsl_idx" : {first}')


def _number_of(row: Row) -> Row:
    """Which sample an answer is of, and its place in the run."""
    return {key: row[key] for key in ("seq_id", "qsl_idx")}


def verified(edit: Callable[[str], str], scenario: str = "Server") -> Change:
    """Change the text of TEST06's verify_accuracy.txt."""
    return text_edited(lambda home: home.test06(scenario) / "verify_accuracy.txt", edit)


def shortened_accuracy(scenario: str) -> Change:
    """An accuracy run that is done 10 ms after it began."""

    def change(home: Home) -> None:
        with DetailFile(_folder(home, scenario, _ACCURACY)) as log:
            begin = log.entries[log.before("generated_query_count")].content["time_ms"]
            for entry in log.entries:
                stamp = entry.content["time_ms"]
                entry.content["time_ms"] = min(stamp, round(begin + 10 + stamp / 1e6, 6))
            (start,) = (e.content["value"] for e in log.entries if e.key == "power_begin")
            log.change("power_end", is_(later(0.01)(start)))

    return change


def _one_token_each(text: str) -> str:
    """Each answer in the ends, and what is left of one, cut to its first token."""
    text = re.sub(r"([0-9A-F]{8})[0-9A-F]+", r"\g<1>", text)
    return re.sub(r'"token_count" : \d+', '"token_count" : 1', text)


def _hash_of_offline(home: Home) -> None:
    path = home.accuracy_txt("Server")
    offline = re.search(r"hash=\w+", home.accuracy_txt("Offline").read_text(encoding="utf-8"))
    assert offline is not None
    path.write_text(re.sub(r"hash=\w+", offline[0], path.read_text(encoding="utf-8")))


def _dataset_repeated(text: str) -> str:
    """Entries from number 10 on repeat the first entry's sample."""
    first = re.search(r'"seq_id" : 0, "qsl_idx" : (\d+)', text)
    if first is None:
        raise ValueError("no first entry")
    return re.sub(r'("seq_id" : [1-9]\d+, "qsl_idx" : )\d+', rf"\g<1>{first[1]}", text)


def _other_order(samples: list[int]) -> list[int]:
    """Shuffled as if with another seed."""
    return random.Random(7).sample(samples, len(samples))


def _part_again(samples: list[int]) -> list[int]:
    """The first tenth of the samples, ten times."""
    part = samples[: len(samples) // 10 + 1]
    return (part * 10)[: len(samples)]


def _other_samples(rows: list[Row]) -> list[Row]:
    """Answers of other, chosen samples, under the same numbers in the run."""
    return [row | {"qsl_idx": (row["qsl_idx"] + 1000) % 24576} for row in rows]


def _spliced(home: Home) -> None:
    """The performance run's settings, followed by the results of the TEST06 run."""
    run, short = (_folder(home, "Server", folder) for folder in (_RUN, _TEST06))
    with DetailFile(run) as log:
        results = DetailFile(short)
        at = results.before("generated_query_count")
        log.entries = log.entries[: log.before("generated_query_count")] + results.entries[at:]
        log.change("early_stopping_met", is_(True))
        log.change("result_validity", is_("VALID"))


def _two_runs(home: Home) -> None:
    """The log of another run, appended to this one's."""
    run, audit = (_folder(home, "Server", folder) for folder in (_RUN, _TEST06))
    with DetailFile(run) as log:
        log.entries += DetailFile(audit).entries


def _accuracy_at_once(home: Home) -> None:
    """The accuracy run began a minute or so after the performance run."""
    begins = [
        datetime.strptime(entry.content["value"], _POWER_TIME)
        for run in (_ACCURACY, _RUN)
        for entry in DetailFile(_folder(home, "Server", run)).entries
        if entry.key == "power_begin"
    ]
    _accuracy_later(60 + int((begins[1] - begins[0]).total_seconds()), "Server")(home)


def _accuracy_days_later(days: int, scenario: str) -> Change:
    return _accuracy_later(86_400 * days, scenario)


def _accuracy_later(seconds: int, scenario: str) -> Change:
    """Move every date of an accuracy run."""
    form = "%Y-%m-%dT%H:%M:%SZ"

    def new(value: Any) -> object:
        return (datetime.strptime(value, form) + timedelta(seconds=seconds)).strftime(form)

    changes = {"power_(begin|end)": later(seconds), "test_datetime": new}
    return detail(changes, scenario, _ACCURACY)


def _second_system(home: Home) -> None:
    """The same logs again, as the results of a larger system."""
    results, described = home.path / "results", json.loads(home.system_json.read_text())
    shutil.copytree(results / home.system, results / "Larger")
    described |= {"system_name": "Larger", "accelerators_per_node": "8"}
    (home.path / "systems" / "Larger.json").write_text(json.dumps(described), encoding="utf-8")


def _an_error_in_passing(home: Home) -> None:
    """A LoadGen error that is not marked as an error."""
    with DetailFile(_folder(home, "Server", _RUN)) as log:
        error = log.entries[-1].content | {
            "key": "error_runtime",
            "value": "Ending early: Ran out of generated queries to issue before the minimum query "
            "count and test duration were reached.",
        }
        log.entries.insert(-1, Entry("", error))


def _without_counts(home: Home) -> None:
    """A detail log that does not count LoadGen's retries."""
    with DetailFile(_folder(home, "Server", _RUN)) as log:
        log.entries = [entry for entry in log.entries if not entry.key.startswith("logger_")]


def _other_hash(of: str) -> New:
    def new(hashes: dict[str, str]) -> object:
        (file,) = (name for name in hashes if name.endswith(of))
        return hashes | {file: hashes[file][::-1]}

    return new


def _longer_answers(scenario: str, share: float) -> Change:
    """A longer mean of the accuracy run's answers, and no other words about their length."""
    return replaced(
        r"'tokens_per_sample': 294.0",
        f"'tokens_per_sample': {294 * (1 + share):.1f}",
        lambda home: home.accuracy_txt(scenario),
    )


def _warned(home: Home) -> None:
    """A warning of LoadGen that the summary does not count."""
    with DetailFile(_folder(home, "Server", _RUN)) as log:
        last = log.entries[-1].content
        warning = last | {
            "key": "warning_generic_message",
            "value": "PerfClock and system_clock differ by more than 0.1%!  pc_sc_ratio: 1.008",
            "metadata": last["metadata"] | {"is_warning": True},
        }
        log.entries.insert(-1, Entry("", warning))


def _percentiles(
    name: str, places: tuple[str, ...], value: int, scenario: str = "Server"
) -> Change:
    """Give some places of a kind of latency one value; `name` has {} for the place."""
    return in_both({re.escape(name.format(place)): is_(value) for place in places}, scenario)


_TTFT = r"result_first_token_\S+_latency_ns"
_TPOT = r"result_time_(per|to)_output_token_\S+"
_LATENCY = r"result_(min|max|mean|\d\S+percentile)_latency_ns"
_TOKEN_RATES = (
    r"result_completed_tokens_per_second|result_token_throughput(_with_loadgen_overhead)?"
)
_SHARES = (0.04, 0.08, 0.15)
_ALL = (
    *("min", "max", "mean"),
    *(f"{share}_percentile" for share in ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")),
)
_SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")

FORGERIES: dict[str, Tampering] = {
    # The figure that a result is compared by
    "tokens/s times 1.5 (Server)": _forged(
        "answers 1.5 times as long",
        in_both({"result_completed_tokens_per_second": times(1.5)}),
        "issued_token_rate token_rate token_times tokens_as_in_accuracy",
    ),
    "tokens/s and samples/s times 1.5 (Server)": _forged(
        "a system 1.5 times as fast",
        in_both({r"result_completed_(tokens|samples)_per_\w+": times(1.5)}),
        "issued_token_rate query_rate",
    ),
    "every rate of queries and of tokens times 1.5 (Server)": _forged(
        "the same, with the figure for LoadGen's overhead adjusted",
        in_both(
            {
                r"result_(completed|scheduled)_(tokens|samples)_per_\w+": times(1.5),
                "result_token_throughput_with_loadgen_overhead": times(1.5),
            }
        ),
        "query_rate scheduled_rate validity_agrees",
    ),
    "tokens/s times 1.2 (Offline)": _forged(
        "a fifth more tokens in the same time",
        in_both({"result_tokens_per_second": times(1.2)}, "Offline"),
        "tokens_as_in_accuracy",
    ),
    "tokens/s and samples/s times 1.2 (Offline)": _forged(
        "a system a fifth faster",
        in_both({r"result_(tokens|samples)_per_second": times(1.2)}, "Offline"),
        "query_rate tokens_as_in_accuracy",
    ),
    "twice the samples in the same time (Offline)": _forged(
        "one query with twice the samples",
        in_both(
            {
                r"result_(tokens|samples)_per_second": times(2),
                "generated_samples_per_query": times(2),
            },
            "Offline",
        ),
        "generated_queries",
    ),
    "all rates times 1.2, all latencies divided by it (Offline)": _forged(
        "a faster system whose latencies agree with it",
        in_both(
            {r"result_(tokens|samples)_per_second": times(1.2), _LATENCY: times(1 / 1.2)}, "Offline"
        ),
        "query_rate validity_agrees",
    ),
    # One file and not the other
    "tokens/s in the summary alone (Server)": _forged(
        "a better figure in the file that people open",
        summary({"result_completed_tokens_per_second": times(1.5)}),
        "summary_agrees",
    ),
    "tokens/s and samples/s in the detail log alone (Server)": _forged(
        "a better figure in the file that the checker opens",
        detail({r"result_completed_(tokens|samples)_per_\w+": times(1.03)}),
        "issued_token_rate query_rate summary_agrees",
    ),
    "TTFT halved in the summary alone (Server)": _forged(
        "half the time to first token", summary({_TTFT: times(0.5)}), "summary_agrees"
    ),
    "TTFT halved in the detail log alone (Server)": _forged(
        "half the time to first token, where it is checked",
        detail({_TTFT: times(0.5)}),
        "summary_agrees token_times",
    ),
    "the summary says INVALID (Server)": _forged(
        "a valid result: the detail log was edited, the summary forgotten",
        summary({"result_validity": is_("INVALID")}),
        "summary_agrees",
    ),
    "the summary of another run (Server)": _forged(
        "a separate run: the summary is the audit's",
        copied(("Server", *_TEST06, SUMMARY), ("Server", *_RUN, SUMMARY)),
        "summary_agrees",
    ),
    # Latencies
    "p99 TTFT below p97 (Server)": _forged(
        "one percentile that meets the limit",
        in_both({"result_first_token_99.00_percentile_latency_ns": times(0.5)}),
        "percentile_order",
    ),
    "p99 TPOT below p50 (Server)": _forged(
        "one percentile that meets the limit",
        in_both({"result_time_per_output_token_99.00_percentile_ns": times(0.5)}),
        "mean_in_percentiles percentile_order token_times",
    ),
    "latencies in falling order (Server)": _forged(
        "percentiles of a log written by hand",
        together(
            in_both({"result_50.00_percentile_latency_ns": is_(1_705_000_000)}),
            in_both({"result_99.90_percentile_latency_ns": is_(1_515_200_000)}),
        ),
        "mean_in_percentiles percentile_order token_times",
    ),
    "mean latency below the minimum (Server)": _forged(
        "a faster answer on average",
        in_both({"result_mean_latency_ns": times(0.8)}),
        "issued_token_rate mean_in_percentiles token_rate token_times tokens_as_in_accuracy",
    ),
    "the longest latency below p99.9 (Server)": _forged(
        "no stall in the run", in_both({"result_max_latency_ns": times(0.9)}), "percentile_order"
    ),
    "every TTFT percentile halved, its mean kept (Server)": _forged(
        "half the time to first token",
        in_both({r"result_first_token_\d\S+_percentile_latency_ns": times(0.5)}),
        "mean_in_percentiles percentile_order",
    ),
    "every TPOT figure halved (Server)": _forged(
        "half the time for each token", in_both({_TPOT: times(0.5)}), "token_times"
    ),
    "every latency a tenth, TTFT and TPOT kept (Server)": _forged(
        "whole answers in a tenth of the time",
        in_both({_LATENCY: times(0.1)}),
        "issued_token_rate percentile_order query_rate token_rate token_times "
        "tokens_as_in_accuracy",
    ),
    "every TTFT longer than the answers it begins (Server)": _forged(
        "another scenario's times to first token",
        in_both({_TTFT: times(1.9e9 / 283_884_450)}),
        "percentile_order token_times",
    ),
    "the latencies of a run of a minute (Offline)": _forged(
        "each answer ten times as early",
        in_both({_LATENCY: times(0.1)}, "Offline"),
        "query_rate tokens_as_in_accuracy validity_agrees",
    ),
    # Time
    "every timestamp a tenth (Server)": _forged(
        "ten minutes: the log is that of one minute", clock(lambda ms: ms / 10), "time_span"
    ),
    "every timestamp times 1.2 (Offline)": _forged(
        "a longer run", clock(lambda ms: ms * 1.2, "Offline"), "time_span"
    ),
    "timestamps end after five minutes (Server)": _forged(
        "ten minutes: it was stopped after five", clock(lambda ms: min(ms, 300_000.0)), "time_span"
    ),
    "timestamps go back (Server)": _forged(
        "one run: the results were written by an earlier one",
        clock(lambda ms: ms if ms < 300_000 else ms - 621_709.0),
        "time_span time_stamps",
    ),
    "power_end five minutes early (Server)": _forged(
        "less energy for the same work: the meter's window is cut",
        detail({"power_end": later(-300)}),
        "query_rate time_span",
    ),
    "power_begin and power_end of another day (Server)": _forged(
        "power that was measured at another time",
        detail({"power_(begin|end)": later(86_400 * 3)}),
        "clock_dates",
    ),
    "another date of the test (Server)": _forged(
        "a run within the round: it is a year old",
        detail({"test_datetime": lambda value: "2025" + value[4:]}),
        "clock_dates",
    ),
    "power_end before power_begin (Offline)": _forged(
        "a window of no length",
        detail({"power_end": later(-610)}, "Offline"),
        "query_rate time_span",
    ),
    "asked for one minute, said to be ten (Server)": _forged(
        "the minimum duration: only the effective value was edited",
        detail({"requested_min_duration_ms": is_(60_000)}),
        "settings_took",
    ),
    "the minimum duration not met (Server)": _forged(
        "a valid result: LoadGen's own reason was left in",
        in_both({"result_min_duration_met": is_(False)}),
        "validity_agrees",
    ),
    # Load
    "a higher target rate (Server)": _forged(
        "more load than there was",
        in_both({"(requested_server|effective)_target_qps": times(1.5)}),
        "generated_queries scheduled_rate",
    ),
    "a higher effective target rate (Server)": _forged(
        "more load than was asked for",
        in_both({"effective_target_qps": times(1.5)}),
        "generated_queries scheduled_rate settings_took",
    ),
    "a higher expected rate (Offline)": _forged(
        "a query that was sized for a faster system",
        in_both({"(requested_offline_expected|effective_target)_qps": times(2)}, "Offline"),
        "generated_queries settings_took",
    ),
    "more queries than were issued (Server)": _forged(
        "a longer run at the same rate",
        in_both({"result_query_count": times(2)}),
        "issued_token_rate queries_issued query_rate token_rate token_times "
        "tokens_as_in_accuracy validity_agrees",
    ),
    "more queries generated and answered (Server)": _forged(
        "a longer run at the same rate",
        in_both({"(generated|result|result_overlatency)_query_count": times(2)}),
        "generated_queries issued_token_rate query_rate token_rate token_times "
        "tokens_as_in_accuracy",
    ),
    "a shorter schedule (Server)": _forged(
        "the same queries in less time",
        in_both({"generated_query_duration": times(0.9)}),
        "generated_queries",
    ),
    "a higher scheduled rate (Server)": _forged(
        "more load than there was",
        in_both({"result_scheduled_samples_per_sec": times(1.1)}),
        "query_rate scheduled_rate validity_agrees",
    ),
    "queries of other seeds (Server)": _forged(
        "the round's seeds: the samples came in another order",
        detail({"loaded_qsl_set": _other_order}),
        "loaded_samples",
    ),
    "one sample over and over (Server)": _forged(
        "all samples: one was loaded repeatedly",
        detail({"loaded_qsl_set": lambda samples: [samples[0]] * len(samples)}),
        "loaded_samples",
    ),
    "a tenth of the samples, ten times (Offline)": _forged(
        "all samples: the shortest were chosen",
        detail({"loaded_qsl_set": _part_again}, "Offline"),
        "loaded_samples",
    ),
    "a thousand samples loaded (Offline)": _forged(
        "all samples",
        detail({"loaded_qsl_set": lambda samples: samples[:1000]}, "Offline"),
        "generated_queries loaded_samples",
    ),
    "the same sample in each query, said so (Server)": _forged(
        "a performance run: each query repeats one sample",
        in_both({"(requested|effective)_performance_issue_same": is_(True)}),
        "samples_drawn",
    ),
    "each sample once, said so (Server)": _forged(
        "a performance run: it is of another kind",
        in_both({"(requested|effective)_performance_issue_unique": is_(True)}),
        "samples_drawn",
    ),
    "a looser TTFT limit for early stopping (Server)": _forged(
        "queries enough for the percentile",
        in_both({"requested_server_ttft_latency": times(5)}),
        "latency_targets",
    ),
    "seeds asked for are others (Server)": _forged(
        "the round's seeds: only the effective ones were edited",
        detail({f"requested_{seed}": is_(1) for seed in _SEEDS}),
        "settings_took",
    ),
    # Accuracy
    "the accuracy log of Offline (Server)": _forged(
        "an accuracy run of its own",
        copied(("Offline", "accuracy", ACCURACY), ("Server", "accuracy", ACCURACY)),
        "accuracy_issue_order accuracy_log_tokens",
    ),
    "the accuracy log and its hash of Offline (Server)": _forged(
        "an accuracy run of its own",
        together(
            copied(("Offline", "accuracy", ACCURACY), ("Server", "accuracy", ACCURACY)),
            copied(("Offline", "accuracy", "accuracy.txt"), ("Server", "accuracy", "accuracy.txt")),
        ),
        "accuracy_issue_order accuracy_log_tokens",
    ),
    "the hash of Offline's accuracy log (Server)": _forged(
        "its own accuracy log: the hash is another result's",
        _hash_of_offline,
        "logs_of_its_own",
    ),
    **{
        f"answers of one token, and counted so ({scenario})": _forged(
            "answers of 294 tokens on average, as accuracy.txt has it",
            accuracy_log(_one_token_each, scenario),
            "accuracy_log_tokens",
        )
        for scenario in ("Server", "Offline")
    },
    "the data set's beginning again at the accuracy log's end (Server)": _forged(
        "every sample: a part was answered several times",
        accuracy_log(_dataset_repeated),
        "accuracy_issue_order accuracy_log_ends",
    ),
    "an accuracy log of two brackets (Server)": _forged(
        "an accuracy log", accuracy_log(lambda text: "[\n]\n"), "accuracy_log_ends"
    ),
    "an accuracy log of other text (Server)": _forged(
        "an accuracy log", accuracy_log(lambda text: "x" * len(text)), "accuracy_log_ends"
    ),
    "the accuracy log's order is another (Server)": _forged(
        "answers of this run: their samples are in another order",
        accuracy_log(lambda text: text.replace('"qsl_idx" : 22372', '"qsl_idx" : 17')),
        "accuracy_issue_order",
    ),
    "a token that the model has not (Server)": _forged(
        "answers of the model: one token is beyond its vocabulary",
        accuracy_log(lambda text: text.replace("2F0000005B03", "2F0000005BFF", 1)),
        "accuracy_answers",
    ),
    "the tokens of a model with more of them (Server)": _forged(
        "answers of llama2: they are another model's",
        accuracy_log(lambda text: text.replace("1E000000", "1EF40100")),
        "accuracy_answers",
    ),
    "negative tokens (Server)": _forged(
        "answers of the model: they are padded with -1",
        accuracy_log(lambda text: text.replace("1E000000", "FFFFFFFF")),
        "accuracy_answers",
    ),
    "one answer for all samples (Offline)": _forged(
        "answers: each sample has the first one's",
        accuracy_log(_first_answer_again, "Offline"),
        "accuracy_answers",
    ),
    "answers without tokens (Offline)": _forged(
        "answers: they are empty",
        accuracy_log(
            lambda text: re.sub(
                r'"data" : "[0-9A-F]*", "token_count" : \d+', '"data" : "", "token_count" : 0', text
            ),
            "Offline",
        ),
        "accuracy_answers",
    ),
    "answers cut to ten tokens (Offline)": _forged(
        "whole answers: the rest of each was cut off",
        accuracy_log(
            lambda text: re.sub(r'("data" : "[0-9A-F]{80})[0-9A-F]*"', r'\1"', text), "Offline"
        ),
        "accuracy_log_tokens",
    ),
    "a sample answered twice (Server)": _forged(
        "each sample once: the last entry is the first one's again",
        accuracy_log(_first_sample_again),
        "accuracy_issue_order accuracy_log_ends",
    ),
    "rougeL above rouge1 (Server)": _forged(
        "better answers: no longest sequence has more words than the answer",
        replaced(r"'rougeL': [\d.]+", "'rougeL': 78.1", _accuracy_txt),
        "accuracy_score_figures",
    ),
    "rouge2 above rouge1 (Server)": _forged(
        "better answers: pairs of words cannot fit better than the words",
        replaced(r"'rouge2': [\d.]+", "'rouge2': 78.1", _accuracy_txt),
        "accuracy_score_figures",
    ),
    "rougeLsum above rouge1 (Server)": _forged(
        "better answers, in a figure that no limit is on",
        replaced(r"'gen_num'", "'rougeLsum': 79.9, 'gen_num'", _accuracy_txt),
        "accuracy_score_figures",
    ),
    "fewer tokens in all than the mean says (Server)": _forged(
        "answers as long as they should be: their sum says otherwise",
        replaced(
            r"'gen_num'", "'gen_len': 9000000, 'gen_tok_len': 2457600, 'gen_num'", _accuracy_txt
        ),
        "accuracy_score_figures",
    ),
    "fewer characters than tokens (Server)": _forged(
        "answers of words: most tokens have no character",
        replaced(
            r"'gen_num'", "'gen_len': 24576, 'gen_tok_len': 7225344, 'gen_num'", _accuracy_txt
        ),
        "accuracy_score_figures",
    ),
    **{
        f"{figure} in accuracy.txt (Server)": _forged(
            "figures that agree: one that would not is not a number",
            replaced(r"'gen_num'", f"{figure}, 'gen_num'", _accuracy_txt),
            "accuracy_score_figures",
        )
        for figure in (
            "'gen_tok_len': nan",
            "'gen_len': -1, 'gen_tok_len': 7225344",
            "'gen_tok_len': 1, 'gen_tok_len': 2",
        )
    },
    "an accuracy run of no time (Server)": _forged(
        "an accuracy run: it ended before its queries were due",
        shortened_accuracy("Server"),
        "accuracy_time_span same_system",
    ),
    "an accuracy run of no time (Offline)": _forged(
        "an accuracy run: it answered far more samples/s than the system does",
        shortened_accuracy("Offline"),
        "same_system",
    ),
    "an accuracy run of a day to come (Server)": _forged(
        "an accuracy run of this round",
        _accuracy_days_later(7300, "Server"),
        "accuracy_clock_dates",
    ),
    "only a thousand queries in the accuracy run (Server)": _forged(
        "every sample",
        detail({"generated_query_count": is_(1000)}, run=_ACCURACY),
        "accuracy_generated_queries",
    ),
    "the accuracy run loaded a part, ten times (Server)": _forged(
        "every sample: the easy ones were chosen",
        detail({"loaded_qsl_set": _part_again}, run=_ACCURACY),
        "accuracy_loaded_samples",
    ),
    "shorter answers in accuracy.txt (Server)": _forged(
        "the length of the performance run's answers: it gave others",
        replaced(r"'tokens_per_sample': [\d.]+", "'tokens_per_sample': 268.0", _accuracy_txt),
        "tokens_as_in_accuracy",
    ),
    "accuracy of a part of the data (Server)": _forged(
        "every sample: 10,000 were scored",
        replaced(r"'gen_num': \d+", "'gen_num': 10000", _accuracy_txt),
        "accuracy_every_sample",
    ),
    "a word for a hash (Server)": _forged(
        "the whole accuracy log's hash",
        replaced(r"hash=\w+", "hash=sha256", _accuracy_txt),
        "accuracy_hash",
    ),
    "accuracy was measured on another system (Server)": _forged(
        "the system that was fast",
        in_both({"sut_name": is_("Reference")}, run=_ACCURACY),
        "same_system",
    ),
    "accuracy with another LoadGen (Server)": _forged(
        "the same setup",
        detail(
            {
                "loadgen_version": is_("6.0.14 @ 0000000000"),
                "loadgen_build_date_(local|utc)": is_("2026-03-01T10:00:00.000000"),
            },
            run=_ACCURACY,
        ),
        "accuracy_clock_dates accuracy_loadgen_files",
    ),
    # TEST06
    "TEST06: one answer a hundred times (Server)": _forged(
        "100 answers",
        answers("Server", lambda rows: [rows[0] | {"seq_id": row["seq_id"]} for row in rows]),
        "test06_answers test06_issue_order",
    ),
    "TEST06: answers of other samples (Server)": _forged(
        "answers that LoadGen drew", answers("Server", _other_samples), "test06_issue_order"
    ),
    "TEST06: answers of ten tokens (Server)": _forged(
        "answers as in the run",
        answers(
            "Server",
            lambda rows: [row | {"data": row["data"][:80], "token_count": 10} for row in rows],
        ),
        "test06_log_agrees",
    ),
    "TEST06: no answer (Server)": _forged(
        "100 answers: the official script passes an empty log",
        answers("Server", lambda rows: []),
        "test06_eos test06_first_token test06_sample_count test06_token_count",
    ),
    "TEST06: another first token (Server)": _forged(
        "verify_accuracy.txt of a better run",
        answers("Server", lambda rows: [row | {"token_data": "01000000"} for row in rows]),
        "test06_first_token",
    ),
    "TEST06: Offline's answers (Server)": _forged(
        "a run of the audit in Server",
        together(
            copied(
                ("Offline", "TEST06", "accuracy", ACCURACY),
                ("Server", "TEST06", "accuracy", ACCURACY),
            ),
            answers("Server", lambda rows: [row | {"token_data": row["data"][:8]} for row in rows]),
        ),
        "test06_issue_order",
    ),
    "TEST06: the performance run's logs (Server)": _forged(
        "a run of the audit",
        copied(("Server", *_RUN), ("Server", *_TEST06)),
        "test06_issue_order test06_settings",
    ),
    "TEST06 skipped its first tokens (Server)": _forged(
        "that they cannot be had",
        replaced(
            "First token check pass: True",
            "First token check pass: Skipped",
            lambda home: home.test06("Server") / "verify_accuracy.txt",
        ),
        "test06_verified",
    ),
    "TEST06: a check that passed and failed (Server)": _forged(
        "a passed check: a second line says that it failed",
        verified(lambda text: text + "First token check pass: False\n"),
        "test06_verified",
    ),
    "TEST06: skipped and passed at once (Offline)": _forged(
        "a first token check, where Offline reports no first token",
        verified(lambda text: text + "First token check pass: True\n", "Offline"),
        "test06_verified",
    ),
    "TEST06: the verification failed (Server)": _forged(
        "a passed audit: its last line says otherwise",
        verified(lambda text: text.replace("verification complete", "verification failed")),
        "test06_verified",
    ),
    "TEST06: TEST FAIL after its checks (Server)": _forged(
        "a passed audit: its script's verdict was left in",
        verified(lambda text: text + "TEST FAIL\n"),
        "test06_verified",
    ),
    "TEST06: the words of another audit (Server)": _forged(
        "one audit: the file is another one's, with three lines added",
        verified(lambda text: f"TEST09: Verify Output Token Length\nTEST PASS\n{text}"),
        "test06_verified",
    ),
    "TEST06: a failed verify_performance.txt beside it (Server)": _forged(
        "a passed audit: the other file says that it failed",
        lambda home: (home.test06("Server") / "verify_performance.txt").write_text("TEST FAIL\n"),
        "test06_verified",
    ),
    "TEST06: one answer under the right numbers (Server)": _forged(
        "100 answers: each sample has the same tokens",
        answers("Server", lambda rows: [rows[0] | _number_of(row) for row in rows]),
        "test06_answers",
    ),
    "TEST06: one answer for most samples (Offline)": _forged(
        "100 answers: 60 samples have the same tokens",
        answers("Offline", lambda rows: [rows[0] | _number_of(r) for r in rows[:60]] + rows[60:]),
        "test06_answers",
    ),
    "TEST06: a token that the model has not (Server)": _forged(
        "answers of the model: the last token is beyond its vocabulary",
        answers("Server", lambda rows: [r | {"data": r["data"][:-8] + "FFFF0000"} for r in rows]),
        "test06_answers",
    ),
    "TEST06: negative tokens (Offline)": _forged(
        "answers of the model: the last token is -1",
        answers("Offline", lambda rows: [r | {"data": r["data"][:-8] + "FFFFFFFF"} for r in rows]),
        "test06_answers",
    ),
    "TEST06: answers without tokens (Offline)": _forged(
        "answers: they are empty, and of the reported number of tokens",
        answers("Offline", lambda rows: [r | {"data": "", "token_count": 0} for r in rows]),
        "test06_answers test06_log_agrees",
    ),
    # LoadGen and the system
    "a LoadGen with another results.cc (Server)": _forged(
        "the released LoadGen: the file that computes results was changed",
        detail({"loadgen_file_sha1": _other_hash("/results.cc")}),
        "loadgen_files",
    ),
    "a LoadGen without hashes (Server)": _forged(
        "the released LoadGen", detail({"loadgen_file_sha1": is_({})}), "loadgen_files"
    ),
    "an older LoadGen under the newer one's name (Server)": _forged(
        "the round's LoadGen",
        detail({"loadgen_version": is_("6.0.14 @ 4c52c8e3b1")}),
        "loadgen_files",
    ),
    "a LoadGen with local changes (Server)": _forged(
        "the released LoadGen: its git status says otherwise",
        detail({"loadgen_git_status_message": is_(" M results.cc")}),
        "loadgen_unmodified",
    ),
    "a LoadGen that does not exist (Server)": _forged(
        "a LoadGen too new to be known, of which nothing can be judged",
        detail({"loadgen_version": is_("9.9.9 @ 0123456789")}),
        "loadgen_files log_lines",
    ),
    "a LoadGen that does not exist, with lines of its own (Server)": _forged(
        "the same: the lines on the run's end are left out",
        together(detail({"loadgen_version": is_("9.9.9 @ 0123456789")}), _without_counts),
        "loadgen_files log_lines",
    ),
    "a LoadGen between two releases (Offline)": _forged(
        "the released LoadGen, in a version that never was",
        detail({"loadgen_version": is_("6.0.99 @ 0123456789")}, "Offline"),
        "loadgen_files",
    ),
    "a LoadGen without a number (Server)": _forged(
        "a build of one's own, of which nothing can be judged",
        detail({"loadgen_version": is_("unreleased")}),
        "loadgen_files log_lines",
    ),
    "accuracy with a LoadGen that does not exist (Server)": _forged(
        "a LoadGen too new to be known",
        detail({"loadgen_version": is_("9.9.9 @ 0123456789")}, run=_ACCURACY),
        "accuracy_loadgen_files accuracy_log_lines",
    ),
    "TEST06 with a LoadGen that does not exist (Server)": _forged(
        "a LoadGen too new to be known",
        detail({"loadgen_version": is_("9.9.9 @ 0123456789")}, run=_TEST06),
        "test06_log_agrees",
    ),
    "TEST06 with another logging.cc (Server)": _forged(
        "the released LoadGen: the file that logs answers was changed",
        detail({"loadgen_file_sha1": _other_hash("/logging.cc")}, run=_TEST06),
        "test06_log_agrees",
    ),
    "TEST06 with a LoadGen without hashes (Offline)": _forged(
        "the released LoadGen",
        detail({"loadgen_file_sha1": is_({})}, "Offline", _TEST06),
        "test06_log_agrees",
    ),
    "an error of LoadGen marked as none (Server)": _forged(
        "a run without errors", _an_error_in_passing, "log_lines"
    ),
    "two runs in one log (Server)": _forged(
        "one run",
        _two_runs,
        "early_stopping equal_issue_mode log_is_whole min_duration result_valid",
    ),
    "the settings of one run, the results of another (Server)": _forged(
        "ten minutes: the results are of four seconds",
        _spliced,
        "clock_dates generated_queries log_lines scheduled_rate summary_agrees "
        "time_span validity_agrees",
    ),
    # The figure that a result is compared by, by a little
    **{
        f"tokens/s up by {share:.0%} (Offline)": _forged(
            "longer answers in the same time",
            in_both({"result_tokens_per_second": times(1 + share)}, "Offline"),
            "tokens_as_in_accuracy",
        )
        for share in _SHARES
    },
    **{
        f"tokens/s and samples/s up by {share:.0%} (Offline)": _forged(
            "a faster system",
            in_both({r"result_(tokens|samples)_per_second": times(1 + share)}, "Offline"),
            "query_rate tokens_as_in_accuracy",
        )
        for share in _SHARES
    },
    **{
        f"tokens/s up by {share:.0%} (Server)": _forged(
            "longer answers in the same time",
            in_both({"result_completed_tokens_per_second": times(1 + share)}),
            "issued_token_rate token_rate token_times tokens_as_in_accuracy",
        )
        for share in _SHARES
    },
    **{
        f"tokens/s and samples/s up by {share:.0%} (Server)": _forged(
            "a faster system",
            in_both({r"result_completed_(tokens|samples)_per_\w+": times(1 + share)}),
            "issued_token_rate query_rate",
        )
        for share in _SHARES
    },
    **{
        f"each figure of tokens up by {share:.0%} (Server)": _forged(
            "longer answers in the same time: the rates agree with each other",
            in_both({_TOKEN_RATES: times(1 + share)}),
            "token_times tokens_as_in_accuracy",
        )
        for share in _SHARES
    },
    **{
        f"each figure of tokens and accuracy.txt's mean up by {share:.0%} (Server)": _forged(
            "longer answers in both runs: the times between tokens were forgotten",
            together(in_both({_TOKEN_RATES: times(1 + share)}), _longer_answers("Server", share)),
            # The longest are also longer than the reference allows.
            "token_times" + " accuracy_tokens_per_sample" * (share > 0.1),
        )
        for share in _SHARES
    },
    "tokens/s up by 4%, accuracy.txt's mean but not its sum (Offline)": _forged(
        "longer answers in both runs",
        together(
            replaced(
                r"'tokens_per_sample': 294.0",
                "'tokens_per_sample': 305.8, 'gen_tok_len': 7225344",
                lambda home: home.accuracy_txt("Offline"),
            ),
            in_both({"result_tokens_per_second": times(1.04)}, "Offline"),
        ),
        "accuracy_score_figures",
    ),
    # Latencies that no run has
    "every TTFT a thousandth (Server)": _forged(
        "answers that begin at once", in_both({_TTFT: times(0.001)}), "percentile_order token_times"
    ),
    "every TTFT a hundredth (Server)": _forged(
        "answers that begin at once", in_both({_TTFT: times(0.01)}), "token_times"
    ),
    "every TTFT but the mean a thousandth (Server)": _forged(
        "answers that begin at once",
        in_both({r"result_first_token_(min|max|\d\S+)_latency_ns": times(0.001)}),
        "mean_in_percentiles percentile_order",
    ),
    "a least TTFT of 0 (Server)": _forged(
        "an answer that began before it was asked for",
        in_both({"result_first_token_min_latency_ns": is_(0)}),
        "percentile_order",
    ),
    "a least latency of 0 (Server)": _forged(
        "an answer in no time",
        in_both({"result_min_latency_ns": is_(0)}),
        "percentile_order validity_agrees",
    ),
    "a least latency of 0 (Offline)": _forged(
        "an answer in no time",
        in_both({"result_min_latency_ns": is_(0)}, "Offline"),
        "percentile_order",
    ),
    "every latency the same (Server)": _forged(
        "a system without any spread",
        _percentiles("result_{}_latency_ns", _ALL, 1_517_879_938),
        "percentile_order query_rate",
    ),
    "every TTFT the same (Server)": _forged(
        "a system without any spread",
        _percentiles("result_first_token_{}_latency_ns", _ALL, 52_024_833),
        "percentile_order",
    ),
    "every TPOT the same (Server)": _forged(
        "a system without any spread",
        together(
            _percentiles("result_time_per_output_token_{}_ns", _ALL[3:], 5_002_917),
            _percentiles("result_time_to_output_token_{}", _ALL[:3], 5_002_917),
        ),
        "percentile_order",
    ),
    "TTFT of p50 and p90 the same (Server)": _forged(
        "less time to first token for most answers",
        _percentiles("result_first_token_{}_latency_ns", ("90.00_percentile",), 50_416_095),
        "percentile_order",
    ),
    "TTFT of p99 and p99.9 the same (Server)": _forged(
        "no stall in the run",
        _percentiles("result_first_token_{}_latency_ns", ("99.90_percentile",), 72_551_193),
        "percentile_order",
    ),
    "the longest TTFT is p99.9's (Server)": _forged(
        "no stall in the run",
        _percentiles("result_first_token_{}_latency_ns", ("max",), 121_461_883),
        "percentile_order",
    ),
    # LoadGen's own sentences
    **{
        f"the summary says {sentence}: NO (Server)": _forged(
            "a valid result: one sentence of LoadGen was left in",
            words(f"^(  {sentence}) ?: Yes", r"\g<1> : NO"),
            "summary_agrees",
        )
        for sentence in (
            "Performance constraints satisfied",
            "Min duration satisfied",
            "Min queries satisfied",
            "Early stopping satisfied",
        )
    },
    "the summary says Min duration satisfied: NO (Offline)": _forged(
        "a valid result: one sentence of LoadGen was left in",
        words("Min duration satisfied : Yes", "Min duration satisfied : NO", "Offline"),
        "summary_agrees",
    ),
    "the summary recommends a lower rate (Server)": _forged(
        "a valid result: LoadGen's advice was left in",
        words(
            "^TTFT Early Stopping Result:",
            "Recommendations:\n * TTFT constrain not met: Reduce target QPS to improve latency.\n"
            "TTFT Early Stopping Result:",
        ),
        "summary_agrees",
    ),
    "the summary says that early stopping was unsuccessful (Server)": _forged(
        "a valid result: LoadGen's words were left in",
        words(
            r"^(TTFT Early Stopping Result:\n) \* Run successful\.",
            r"\g<1> * Run unsuccessful.\n * Processed 24576 queries.\n * Would need to run at "
            "least 359 more queries,\n with the run being successful if every additional\n query "
            "were under latency.",
        ),
        "summary_agrees",
    ),
    "early stopping's words say that it was unsuccessful (Server)": _forged(
        "early stopping was met: LoadGen's words were left in",
        together(
            words(
                r"^(TPOT Early Stopping Result:\n) \* Run successful\.",
                r"\g<1> * Run unsuccessful.",
            ),
            detail({"early_stopping_tpot_result": is_(" * Run unsuccessful.")}),
        ),
        "validity_agrees",
    ),
    "early stopping's words are of no run (Server)": _forged(
        "early stopping was met: the words are not LoadGen's",
        together(
            words(r"^(TTFT Early Stopping Result:\n) \* Run successful\.", r"\g<1> * Not needed."),
            detail({"early_stopping_ttft_result": is_(" * Not needed.")}),
        ),
        "validity_agrees",
    ),
    "the summary counts errors (Server)": _forged(
        "a run without errors: the detail log was edited, the summary forgotten",
        words("^No errors encountered during test.", "2 ERRORS encountered. See detailed log."),
        "summary_agrees",
    ),
    "the summary does not say whether there were errors (Server)": _forged(
        "a run without errors: LoadGen's sentence was cut off",
        words("^No errors encountered during test.", ""),
        "summary_agrees",
    ),
    "the summary counts warnings (Server)": _forged(
        "a run without warnings: the detail log was edited, the summary forgotten",
        words("^No warnings encountered during test.", "3 warnings encountered. See detailed log."),
        "summary_agrees",
    ),
    "the detail log has a warning that the summary does not count (Server)": _forged(
        "a run without warnings: the summary was edited", _warned, "summary_agrees"
    ),
    "the summary has no percentiles (Server)": _forged(
        "latencies that nobody reads", words(r"^\d\d\.\d\d percentile.*\n", ""), "summary_agrees"
    ),
    "the summary has no limits (Server)": _forged(
        "limits that nobody reads", words(r"^t[tp].t_latency \(ns\): .*\n", ""), "summary_agrees"
    ),
    "the summary has a figure of its own (Server)": _forged(
        "a better figure, in a line that LoadGen does not write",
        words("^(Completed tokens per second: .*)", r"\g<1>\nSustained tokens per second: 18000"),
        "summary_agrees",
    ),
    # Settings that the run contradicts
    "at most ten queries at once (Server)": _forged(
        "a light load: 60 were answered at once on average",
        in_both({"(requested_server|effective)_max_async_queries": is_(10)}),
        "queries_issued",
    ),
    "at most a thousand queries (Server)": _forged(
        "a run that LoadGen would have ended after a thousand queries",
        in_both({"(requested|effective)_max_query_count": is_(1000)}),
        "queries_issued",
    ),
    "at most five minutes (Server)": _forged(
        "a run that LoadGen would have ended after five minutes",
        in_both({"(requested|effective)_max_duration_ms": is_(300_000)}),
        "queries_issued",
    ),
    "no query over its latency (Server)": _forged(
        "that every query was within a limit: of 0 ns",
        detail({"result_overlatency_query_count": is_(0)}),
        "validity_agrees",
    ),
    "twelve queries over their latency (Server)": _forged(
        "that all but twelve queries were within a limit: of 0 ns",
        detail({"result_overlatency_query_count": is_(12)}),
        "validity_agrees",
    ),
    "a latency limit that every query kept (Server)": _forged(
        "a limit of two seconds: every query is counted as over it",
        detail({"(requested_server|effective)_target_latency_ns": is_(2_000_000_000)}),
        "validity_agrees",
    ),
    "more queries asked for than were made (Server)": _forged(
        "a run of a million queries",
        in_both({"(requested|effective)_min_query_count|effective_min_sample_count": is_(10**6)}),
        "generated_queries scheduled_rate validity_agrees",
    ),
    "a longer minimum duration (Server)": _forged(
        "a run of 20 minutes",
        in_both(
            {"(requested|effective)_min_duration_ms|effective_target_duration_ms": is_(1_200_000)}
        ),
        "generated_queries scheduled_rate time_span validity_agrees",
    ),
    # Counts that are not a number
    **{
        f"{key} {value} (Server)": _forged(
            "a count: no number contradicts another",
            detail({key: is_(value)}, run=run),
            rules,
        )
        for key, value, run, rules in (
            ("logger_tls_total_log_cas_fail_count", math.nan, _RUN, "log_lines"),
            ("get_sut_name_duration_ns", math.inf, _RUN, "log_lines"),
            ("qsl_reported_performance_count", -1, _RUN, "log_lines"),
            ("requested_server_ttft_latency", math.nan, _ACCURACY, "accuracy_log_lines"),
        )
    },
    # A member twice: which is meant depends on the reader
    **{
        f"{key} twice in one line (Server)": _forged(
            "what the reader's JSON library takes of two values",
            line_twice(key, again),
            f"log_is_whole {more}",
        )
        for key, again, more in (
            ("result_validity", '"value": "VALID"', "result_valid"),
            ("result_completed_tokens_per_second", '"value": 18000.0', "result_reported"),
            ("result_first_token_99.00_percentile_latency_ns", '"value": 1000000', "ttft_limit"),
            ("num_errors", '"key": "num_errors"', ""),
            ("power_end", '"time_ms": 621706.874592', ""),
        )
    },
    "an answer's sample twice in the accuracy log (Server)": _forged(
        "what the reader's JSON library takes of two samples",
        accuracy_log(lambda text: re.sub(r'("qsl_idx" : \d+),', r"\g<1>, \g<1>,", text)),
        "accuracy_log_ends",
    ),
    "TEST06: each answer's tokens twice (Server)": _forged(
        "what the reader's JSON library takes of two answers",
        replaced(
            r'("token_count": \d+|"token_count" : \d+)',
            r"\g<1>, \g<1>",
            lambda home: home.test06("Server") / "accuracy" / ACCURACY,
        ),
        "test06_eos test06_first_token test06_log_is_whole test06_sample_count test06_token_count",
    ),
    "accelerators twice in the system's description": _forged(
        "as many accelerators as the reader's JSON library takes",
        replaced(r"^\{", '{"accelerators_per_node": "1", ', lambda home: home.system_json, 1),
        "system_description system_fields",
    ),
    "the type of weights twice in measurements.json (Server)": _forged(
        "what the reader's JSON library takes of two types",
        replaced(
            r"^\{",
            '{"weight_data_types": "fp4", ',
            lambda home: home.measurements("Server") / "measurements.json",
            1,
        ),
        "measurements",
    ),
    # LoadGen's commit
    "the log of another commit of LoadGen (Server)": _forged(
        "the commit beside LoadGen's version",
        detail({"loadgen_git_log_message": is_("4c52c8e3b1 Increment version to 6.0.14")}),
        "loadgen_files",
    ),
    "another commit beside LoadGen's version (Server)": _forged(
        "the commit of a release",
        detail({"loadgen_version": is_("6.0.17 @ 0123456789")}),
        "loadgen_files",
    ),
    "the same logs with other last digits as a second system's": _forged(
        "that a larger system was measured, a nanosecond off",
        together(
            _second_system,
            in_both({_LATENCY: lambda ns: ns + 1, _TTFT: lambda ns: ns + 1}),
            in_both({_LATENCY: lambda ns: ns + 1}, "Offline"),
            _accuracy_days_later(1, "Server"),
            _accuracy_days_later(1, "Offline"),
        ),
        "logs_of_its_own",
    ),
    "a negative number of accelerators": _forged(
        "a system", system_field("accelerators_per_node", "-8"), "system_fields"
    ),
    "the same logs as the results of a second system": _forged(
        "that a larger system was measured", _second_system, "logs_of_its_own"
    ),
}
"""By name, which says what was done and in which scenario."""
NOT_SEEN: dict[str, Tampering] = {
    "tokens/s and accuracy.txt's mean up by 4% (Offline)": _forged(
        "longer answers in both runs: the accuracy log that shows their lengths is cut to 8 kB",
        together(
            in_both({"result_tokens_per_second": times(1.04)}, "Offline"),
            _longer_answers("Offline", 0.04),
        ),
    ),
    "every latency the same (Offline)": _forged(
        "no spread: a system may return the answers of its one query all at once",
        _percentiles("result_{}_latency_ns", _ALL, 605_275_472_380, "Offline"),
    ),
    "the longest TPOT is p99.9's (Server)": _forged(
        "no stall in the run: the answers of a batch may all have the longest",
        _percentiles("result_time_to_output_token_{}", ("max",), 5_186_128),
    ),
    "the target rate of another run in user.conf (Server)": _forged(
        "another setting: the log says what LoadGen ran with, and honest files differ from it",
        replaced("= 39.322", "= 52", lambda home: home.measurements("Server") / "user.conf"),
    ),
    "other counters of LoadGen's own work (Server)": _forged(
        "a log that was written without waiting: nothing else in it depends on that",
        detail({r"logger_\w+|get_sut_name_duration_ns": is_(0)}),
    ),
    "an accuracy run within the performance run (Server)": _forged(
        "one system: a second one answered for accuracy, as in 8 public results",
        _accuracy_at_once,
    ),
    "better scores in accuracy.txt (Server)": _forged(
        "better answers: the log that they follow from is not submitted",
        replaced(r"'rouge1': [\d.]+", "'rouge1': 79.9", _accuracy_txt),
    ),
    "another hash in accuracy.txt (Server)": _forged(
        "the hash of the whole accuracy log, which is not submitted",
        replaced(r"hash=\w+", f"hash={'5a' * 32}", _accuracy_txt),
    ),
    "every TTFT figure a tenth less, in both files (Server)": _forged(
        "less time to first token: of single answers the logs say nothing",
        in_both({_TTFT: times(0.9)}),
    ),
    "coalesced queries (Server)": _forged(
        "single queries: LoadGen handed them over in groups, which 20 public results say too",
        in_both({"requested_server_coalesce_queries": is_(True)}),
    ),
    "another accelerator in the system's description": _forged(
        "another machine", system_field("accelerator_model_name", "another")
    ),
}
"""Forgeries that contradict nothing the logs contain twice: no rule can detect them."""


PAGE = PAGES / "forgeries.md"
HEADERS = {
    "| forgery | what it fakes | official checker | here: the rules that fail |": FORGERIES,
    "| forgery | what it fakes | official checker | here |": NOT_SEEN,
}
"""The page's two tables."""


def forge(tree: Path, forgery: Tampering, round_: Round) -> None:
    """Change a tree in place."""
    tamper(tree, forgery, round_, BENCHMARK)


def names_on_the_page(header: str) -> list[str]:
    return [row.split(" | ")[0].removeprefix("| ") for row in table_after(PAGE, header)]


def rows(
    tree: Path, round_: Round, forgeries: Mapping[str, Tampering], checker: Path | None, header: str
) -> Iterator[str]:
    """A row for each forgery: what it fakes, the official verdict and the rules that fail."""
    before = {row.split(" | ")[0]: row.split(" | ")[2] for row in table_after(PAGE, header)}
    for name, copy in copies(tree, forgeries, round_, BENCHMARK):
        official = before.get(f"| {name}", "not tried")
        if checker is not None:
            official = official_verdict(copy, checker, round_)
        own = ", ".join(f"`{rule}`" for rule in sorted(broken_rules(copy, round_))) or "nothing"
        yield f"| {name} | {forgeries[name].fakes} | {official} | {own} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checker", type=Path)
    parser.add_argument("--write", action="store_true", help="into the page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = unpack(LLAMA2, Path(folder))
        for header, forgeries in HEADERS.items():
            table = []
            for row in rows(tree, round_of_tree(LLAMA2), forgeries, options.checker, header):
                print(row, flush=True)
                table.append(row)
            if options.write:
                rewrite_table(PAGE, header, table)


if __name__ == "__main__":
    main()
