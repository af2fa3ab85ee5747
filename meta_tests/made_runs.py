"""Made-up runs that obey every rule: their logs as LoadGen writes them, and submissions."""

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from meta_tests.made_details import Details, Load, of_features
from mlperf_suite.benchmarks.audits import TEST06, Audit, Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import (
    COUNTED_IN_A_SENTENCE,
    LOADGEN,
    MIN_DURATION_MS,
    Benchmark,
    Scenario,
)
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.engines.protocol import ClientFigures, EndpointFigures, RemoteRun, StreamFigures
from mlperf_suite.loadgen.clock_watch import FLOOR_S, ClockFigures
from mlperf_suite.loadgen.load_plan import AUDIT_MODES, loadgen_mode
from mlperf_suite.loadgen.logs import (
    ACCURACY,
    DETAIL,
    POWER_FORMAT,
    AccuracyLog,
    LoggedSample,
    RunLogs,
    parse_detail,
)
from mlperf_suite.rules.accuracy_files import parse_accuracy_txt
from mlperf_suite.rules.facts import (
    AnswerTokens,
    ComparedRuns,
    Division,
    RunFacts,
    SessionFacts,
    SubmittedTexts,
)
from mlperf_suite.rules.registry import SERVER
from mlperf_suite.rules.stopping_criterion import discarded_queries, queries_needed

HASH = "0123456789abcdef" * 4
PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
LATENCIES = {
    "latency": ("result_{}_percentile_latency_ns", "result_{}_latency_ns"),
    "ttft": ("result_first_token_{}_percentile_latency_ns", "result_first_token_{}_latency_ns"),
    "tpot": ("result_time_per_output_token_{}_percentile_ns", "result_time_to_output_token_{}"),
}
"""By the names of `Scenario.limits`, the keys of percentiles and of minimum, mean and maximum."""
P99 = {name: percentile.format("99.00") for name, (percentile, _) in LATENCIES.items()}
DETAILS: Details = next((module.DETAILS for module in of_features("made_details")), Details())


def every_scenario() -> list[tuple[Benchmark, Scenario]]:
    """Each that LoadGen runs."""
    return [(b, s) for b in BENCHMARKS.values() if b.run_kind == LOADGEN for s in b.scenarios]


def remote_run(
    busy_share: float = 0.3,
    out_ms: float | None = 0.2,
    back_ms: float | None = 0.3,
    departures: tuple[str, ...] = (),
    cached: int | None = 0,
    waited: int = 0,
    full: bool | None = None,
) -> RemoteRun:
    """What an engine behind a network tells of a run on two servers, the second of which says that
    so many tokens came from a cache. `waited`: requests that waited in the client."""
    ttft, whole = {"p50": 40.0, "p90": 80.5, "p99": 120.25}, {"p50": 900.0, "p99": 1800.0}
    one = EndpointFigures("http://one:8000", 60, 6000, ttft, whole, 0)
    slower = {"p50": 950.0, "p99": 1900.0}
    two = EndpointFigures("http://two:8000", 24, 2400, ttft, slower, cached)
    client = ClientFigures(2, busy_share, out_ms, back_ms, 64, 3, waited, full)
    return RemoteRun(client, (one, two), departures)


def stream_figures(tpot_ms: float = 8.0, later_ms: float | None = 9.0) -> StreamFigures:
    """Of 84 streamed answers, with these p99 of TPOT."""
    tokens = {"p50": 1, "p99": 4}
    later = {} if later_ms is None else {"p50": later_ms, "p99": later_ms}
    return StreamFigures(84, tokens, tokens, 0, {"p50": tpot_ms, "p99": tpot_ms}, later)


_MADE_BY = {"file": "made.cc", "line_no": 1, "pid": 1, "tid": 1}


def line(
    key: str, value: object, *, ms: float = 0.1, error: bool = False, warning: bool = False
) -> str:
    metadata = {"is_error": error, "is_warning": warning} | _MADE_BY
    kind = {"namespace": "mlperf::logging", "event_type": "POINT_IN_TIME", "metadata": metadata}
    return f":::MLLOG {json.dumps({'key': key, 'value': value, 'time_ms': ms} | kind)}"


def audit_of(benchmark: Benchmark, mode: Mode) -> Audit | None:
    """The audit of a mode; TEST06's logs are judged whatever they are of."""
    return benchmark.audit(mode) or (TEST06 if mode == "test06" else None)


BEGAN = datetime(2026, 3, 4, 10, 0, 0, 500_000)
"""When a made-up run of the first benchmark issued its first query. Those of the others are a few
ms later and longer, since no two runs have the same times."""
MADE_MS, FIRST_MS = 250.0, 0.1
"""The timestamps of the entries on the queries that were made, and of those before."""
TOKENS = 3
"""Of an answer in an accuracy log, and in a performance run where nothing says another mean."""
_ENDS = ("begin", "end")
_ENDING = ("logger_", "power_", "result_", "early_stopping_", "num_errors")


def detail_entries(
    benchmark: Benchmark, scenario: Scenario, mode: Mode, round_: Round
) -> dict[str, Any]:
    """The keys and values of a valid detail log, in LoadGen's order."""
    if BENCHMARKS.get(benchmark.id) is benchmark:
        return dict(_cached_entries(benchmark.id, scenario.name, mode, round_))
    return _detail_entries(benchmark, scenario, mode, round_)


@lru_cache(maxsize=128)
def _cached_entries(
    benchmark_id: str, scenario_name: str, mode: Mode, round_: Round
) -> dict[str, Any]:
    benchmark = BENCHMARKS[benchmark_id]
    return _detail_entries(benchmark, benchmark.scenario(scenario_name), mode, round_)


def _detail_entries(
    benchmark: Benchmark, scenario: Scenario, mode: Mode, round_: Round
) -> dict[str, Any]:
    limits_ms = {"ttft": 100, "tpot": 100, "latency": 0, **scenario.limits}
    ttft_ms, tpot_ms = limits_ms["ttft"], limits_ms["tpot"]
    offline, single = scenario.name == "Offline", scenario.name == "SingleStream"
    audit = audit_of(benchmark, mode)
    loaded = min(benchmark.samples, benchmark.samples_of(mode))
    # So that ten minutes, and a tenth more in Offline, take less than two of the whole data set.
    qps = 1.8 * benchmark.samples / 600
    answer_ns = int((ttft_ms + (TOKENS - 1) * tpot_ms) * 0.9e6)
    qps = 1e9 / answer_ns if single else float(f"{qps:.3g}")
    least = 2 * benchmark.samples if offline else 100
    samples = least if offline else 1
    unique = audit is not None and audit.unique
    short = audit is not None and not audit.compares
    if audit is not None and short:
        least = audit.queries
        samples = (loaded if unique else least) if offline else 1
    equal, min_ms = not short, 0 if short else MIN_DURATION_MS
    if single:
        expected_count = int(2 * min_ms / 1e3 * qps)
        effective_least = max(least, expected_count)
        effective_least += loaded - effective_least % loaded if equal else 0
    else:
        effective_least = 1 if offline else least
    order = DETAILS.loaded(round_.qsl_rng_seed, benchmark.samples_of(mode))
    seeds = {**round_.seeds, "accuracy_log_rng_seed": 0}
    rate_key = {
        "Offline": "requested_offline_expected_qps",
        "Server": "requested_server_target_qps",
        "SingleStream": "requested_single_stream_expected_latency_ns",
    }[scenario.loadgen_scenario]
    entries: dict[str, Any] = {
        "loadgen_version": "6.0.17 @ made up",
        "loadgen_build_date_utc": "2026-02-01T10:00:00.000000",
        "loadgen_git_commit_date": "2026-01-02T10:00:00Z",
        "loadgen_git_status_message": "",
        "test_datetime": BEGAN.replace(microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "sut_name": "PySUT",
        "qsl_name": "PyQSL",
        "qsl_reported_total_count": benchmark.samples_of(mode),
        "qsl_reported_performance_count": benchmark.samples_of(mode),
        "requested_scenario": scenario.loadgen_scenario,
        "requested_test_mode": loadgen_mode(mode),
        rate_key: answer_ns if single else qps,
        "requested_min_duration_ms": min_ms,
        "requested_min_query_count": least,
        **{f"requested_{name}": seed for name, seed in seeds.items()},
        "requested_sample_concatenate_permutation": equal,
        **({"requested_use_token_latencies": True} if scenario.counts_tokens else {}),
        "requested_server_ttft_latency": int(ttft_ms * 1e6),
        "requested_server_tpot_latency": int(tpot_ms * 1e6),
        "requested_server_target_latency_ns": int(limits_ms["latency"] * 1e6),
        "effective_scenario": scenario.loadgen_scenario,
        "effective_test_mode": loadgen_mode(mode),
        "effective_samples_per_query": samples,
        "effective_target_qps": as_printed(qps),
        "effective_target_latency_ns": int(limits_ms["latency"] * 1e6),
        "effective_target_latency_percentile": 0.9 if single else 0.99,
        "effective_target_duration_ms": 0 if offline else min_ms,
        "effective_min_duration_ms": min_ms,
        "effective_min_query_count": effective_least,
        "effective_min_sample_count": effective_least * samples,
        **{f"effective_{name}": seed for name, seed in seeds.items()},
        "effective_accuracy_log_sampling_target": 0,
        "effective_performance_issue_unique": unique,
        "effective_performance_sample_count": loaded if unique else benchmark.samples,
        "effective_accuracy_sample_count": benchmark.samples_of(mode),
        "effective_sample_concatenate_permutation": equal,
        **(audit.effective if audit else {}),
        "loaded_qsl_set": list(order if mode == "accuracy" else order[:loaded]),
    }
    load = DETAILS.load(entries, loaded, mode == "accuracy")
    entries |= {
        "generated_query_count": load.queries,
        "generated_samples_per_query": load.samples,
        "generated_query_duration": load.duration_ns,
    }
    count = load.samples if offline else load.queries
    if single and mode == "performance":
        count = effective_least
    tokens = _tokens(benchmark, count) if audit is None else count * _tokens_logged(audit)
    answers = _Answers(count, tokens, ttft_ms * 0.9e6, tpot_ms * 0.9e6)
    last_s = {
        "Offline": answers.most_ns,
        "Server": load.last_ns + answers.most_ns,
        "SingleStream": answers.sum_ns,
    }[scenario.loadgen_scenario] / 1e9
    # Slower than it might be, so that an Offline run takes its ten minutes.
    number = [*BENCHMARKS, benchmark.id].index(benchmark.id)
    took_s = max(last_s, min_ms / 1e3) + number / 1e3 if offline else last_s
    if offline:
        answers = _Answers(count, answers.tokens, took_s * 1e9, 0)
        took_s = answers.most_ns / 1e9
    began = BEGAN + timedelta(milliseconds=number)
    entries |= {
        "power_begin": _for_power(began),
        "power_end": _for_power(began + timedelta(seconds=took_s)),
    }
    if mode != "accuracy":
        entries |= _results(scenario, answers, load, took_s)
    return DETAILS.every_line(entries, scenario, mode == "accuracy")


def _tokens_logged(audit: Audit) -> int:
    """Of each answer in an audit's log."""
    low, high = audit.mean_tokens or (TOKENS, TOKENS)
    return round((low + high) / 2)


def as_printed(figure: float) -> float:
    """A double as LoadGen's logs have it, with six digits."""
    return float(f"{figure:.6g}")


def _for_power(moment: datetime) -> str:
    return moment.strftime("%m-%d-%Y %H:%M:%S.%f")[:-3]


def _tokens(benchmark: Benchmark, count: int) -> int:
    """Those of a performance run's answers: as many as the accuracy's are expected to have."""
    tokens_per_sample = benchmark.reference.of("tokens_per_sample")
    return round(count * (tokens_per_sample.value if tokens_per_sample else TOKENS))


@dataclass(frozen=True)
class _Answers:
    """The answers of a run whose tokens come at one pace: `tokens` of all of them, in ns."""

    count: int
    tokens: int
    ttft_ns: float
    tpot_ns: float

    def first(self, place: Any) -> Any:
        """Its TTFT: no two are the same. `place` may be an array, as in the methods below."""
        return int(self.ttft_ns) + place

    def further(self, place: Any) -> Any:
        """Its TPOT: no ten are the same."""
        return int(self.tpot_ns) + place // 8 * bool(self.tpot_ns)

    def of(self, place: Any) -> Any:
        """The latency of the answer at a place in their order, shortest first."""
        longer = self.tokens % self.count
        tokens = self.tokens // self.count + (place >= self.count - longer)
        return self.first(place) + (tokens - 1) * self.further(place)

    @property
    def most_ns(self) -> int:
        most: int = self.of(self.count - 1)
        return most

    @property
    def sum_ns(self) -> int:
        return int(self.of(np.arange(self.count)).sum())


def _estimated(answers: _Answers, percentile: float) -> int:
    """Early stopping's estimate of a percentile of TTFT; 0 with too few answers."""
    discarded = discarded_queries(answers.count, percentile)
    return answers.first(answers.count - discarded) if discarded else 0


def _stopped(scenario: Scenario, answers: _Answers) -> dict[str, str]:
    """LoadGen's words on early stopping: of a SingleStream run with estimates, of an audit at a
    rate that it has too few queries, where TPOT is looked at first."""
    names = ("ttft_", "tpot_") if scenario.counts_tokens else ("",)
    texts = dict.fromkeys(names, " * Run successful.")
    more = queries_needed(0, 0.99) - answers.count
    if scenario.name == "Offline":
        texts = dict.fromkeys(texts, "")
    elif scenario.name in SERVER and more > 0:
        texts = dict.fromkeys(names, "") | {
            names[-1]: f" * Run unsuccessful.  * Processed {answers.count} queries.  * Would need "
            f"to run at least {more} more queries,  with the run being successful if every "
            "additional  query were under latency."
        }
    elif scenario.name == "SingleStream":
        count = answers.count
        over, over_all = (discarded_queries(count, p) for p in (0.9, 0.99))
        for name, of in (("ttft_", answers.first), ("tpot_", answers.further)):
            texts[name] = (
                f" * Processed at least 64 queries ({count}).  * Would discard {over - 1} highest "
                "latency queries.  * Early stopping 90.0th percentile estimate: "
                f"{of(count - over)}  * "
            )
            texts[name] += (
                f"Early stopping 99.0th percentile estimate: {of(count - over_all)}"
                if over_all
                else "Not enough queries processed for 99.0th percentile  early stopping estimate "
                "(would need to process at  least 662 total queries)."
            )
    return {f"early_stopping_{name}result": text for name, text in texts.items()}


def _results(scenario: Scenario, answers: _Answers, load: Load, took_s: float) -> dict[str, Any]:
    """What LoadGen says of a performance run's answers."""
    offline, single = scenario.name == "Offline", scenario.name == "SingleStream"
    mean_ns, stopped = answers.sum_ns // answers.count, _stopped(scenario, answers)
    met = not any("unsuccessful" in text for text in stopped.values())
    entries: dict[str, Any] = {
        "result_validity": "VALID" if met else "INVALID",
        **({} if offline or single else {"result_perf_constraints_met": True}),
        "result_min_duration_met": True,
        "result_min_queries_met": True,
        "early_stopping_met": met,
        **stopped,
        "result_query_count": 1 if offline else answers.count,
    }
    if offline:
        entries["result_samples_per_second"] = as_printed(answers.count / took_s)
    elif single:
        issued_s = took_s - answers.most_ns / 1e9
        entries |= {
            "result_qps_with_loadgen_overhead": as_printed((answers.count - 1) / issued_s),
            "result_qps_without_loadgen_overhead": as_printed(1e9 / mean_ns),
            "early_stopping_latency_ss": _estimated(answers, 0.9),
            "early_stopping_latency_ms": _estimated(answers, 0.99),
        }
    else:
        due_s = load.last_ns / 1e9
        entries |= {
            "result_overlatency_query_count": answers.count if scenario.counts_tokens else 0,
            "result_scheduled_samples_per_sec": as_printed((answers.count - 1) / due_s),
            "result_completed_samples_per_sec": as_printed((answers.count - 1) / took_s),
        }
    total = answers.tokens
    of_each = (answers.of, answers.first, answers.further)
    for (percentile, extreme), of in list(zip(LATENCIES.values(), of_each, strict=True))[
        : 1 if offline else 3
    ]:
        for number in PERCENTILES:
            entries[percentile.format(number)] = of(int(answers.count * (float(number) / 100)))
        for name, place in (("min", 0), ("max", answers.count - 1)):
            entries[extreme.format(name)] = of(place)
        entries[extreme.format("mean")] = int(of(np.arange(answers.count)).sum()) // answers.count
    if offline:
        entries["result_tokens_per_second"] = as_printed(total / took_s)
    else:
        entries |= {
            "result_token_throughput_with_loadgen_overhead": as_printed(
                total / (issued_s if single else due_s)
            ),
            "result_token_throughput": as_printed(total / (mean_ns * answers.count)),
            "result_completed_tokens_per_second": as_printed(total / took_s),
        }
    return {**entries, "num_errors": 0}


_OFFICIAL_LINES: dict[str, Callable[[float], str]] = {
    "word_accuracy": lambda v: f"Word Error Rate: {100 - v}%, accuracy={v}%\n",
    "f1": lambda v: f'{{"f1": {v / 100}}}\n',
}
"""Scores that official scripts print in a line of their own kind."""


def answers_in_order(
    entries: dict[str, Any], mode: Mode, count: int, tokens: int = TOKENS
) -> tuple[LoggedSample, ...]:
    """The answers of a log, in the order in which LoadGen issued their samples."""
    order = DETAILS.issued(entries, mode == "accuracy", count)
    assert len(order) == count
    return _answers_of(order, tokens)


@lru_cache(maxsize=32)
def _answers_of(order: tuple[int, ...], tokens: int) -> tuple[LoggedSample, ...]:
    rest = tuple(range(13, 11 + tokens))
    return tuple(
        LoggedSample(index, (11, 1000 + index, *rest), (11,), tokens, place)
        for place, index in enumerate(order)
    )


def with_a_long_one(answers: Sequence[LoggedSample], longest: int) -> tuple[LoggedSample, ...]:
    """The answers, the last of them longer by so many tokens."""
    *others, last = answers
    tokens = (*last.token_ids, *range(13, 13 + longest))
    return (*others, replace(last, token_ids=tokens, token_count=len(tokens)))


def cut_log(answers: tuple[LoggedSample, ...], streams: bool, longest: int) -> str:
    """A cut accuracy log, which has the first answers and the last, as long as one has to be."""
    answers = with_a_long_one(answers, longest)
    first = ', "token_data" : "0B000000"' if streams else ""
    rows = [
        f'{{ "seq_id" : {sample.place}, "qsl_idx" : {sample.index}, '
        f'"data" : "{_hex(sample.token_ids)}"{first}, "token_count" : {sample.token_count} }}'
        for sample in (*answers[:36], *answers[-36:])
    ]
    return "[\n" + ",\n".join(rows[:36]) + "\n\n...\n\n" + ",\n".join(rows[36:]) + "\n]\n"


_parsed = lru_cache(maxsize=8)(parse_detail)
"""A run is judged several times."""
RIGHT_CLOCK = ClockFigures(1e6, 0.0, FLOOR_S, 0.0, 0.0)
"""The clocks of a made-up run, which is not longer than 1e6 s."""


@dataclass
class MadeRun:
    """A run that obeys every rule until somebody changes it.

    `broken_lines`: texts put after the detail log's first entry. `answers`: the accuracy log's.
    `stamps`: timestamps of single keys' entries, in ms, in place of their own. `cut_log`: the
    accuracy log as it is submitted.
    `remote`: what an engine behind a network told of it, None of one in this process.
    `cached_tokens`: prompt tokens that the engine counted as taken from a cache.
    """

    benchmark: Benchmark
    scenario: Scenario
    mode: Mode
    round: Round = field(default_factory=lambda: ROUNDS["v5.1"])
    division: Division = "closed"
    submitted: bool = False
    accuracy_passed: bool | None = None
    remote: RemoteRun | None = None

    def __post_init__(self) -> None:
        # A submission does not tell how it was generated.
        self.deviations: tuple[str, ...] | None = None if self.submitted else ()
        untold = self.submitted or (self.remote is not None and self.remote.cached_untold)
        self.cached_tokens: int | None = None if untold else 0
        self.clock: ClockFigures = RIGHT_CLOCK
        self.entries = detail_entries(self.benchmark, self.scenario, self.mode, self.round)
        times = [datetime.strptime(self.entries[f"power_{end}"], POWER_FORMAT) for end in _ENDS]
        self.ended_ms = MADE_MS + (times[1] - times[0]).total_seconds() * 1e3 + 2.0
        self.stamps: dict[str, Any] = {}
        self.broken_lines: list[str] = []
        audit = audit_of(self.benchmark, self.mode)
        count = self.benchmark.samples_of(self.mode) if self.mode != "test06" else 100
        logged = answers_in_order(
            self.entries, self.mode, count, _tokens_logged(audit) if audit else TOKENS
        )
        self.answers: list[LoggedSample] = list(logged)
        self.accuracy_damage: tuple[str, ...] = ()
        self.accuracy_bytes = 8199
        self.cut_log = cut_log(logged, self.scenario.streams, self.longest)
        self.scores = self.good_scores()
        mean = self.scores.get("tokens_per_sample", float(TOKENS))
        self.accuracy_tokens: AnswerTokens | None = AnswerTokens(mean, self.benchmark.samples)
        self.summary = DETAILS.summary(self.entries)
        self.hash: str | None = HASH
        first = "Skipped" if self.scenario.name == "Offline" else "True"
        self.verify = [
            f"First token check pass: {first}",
            "EOS check pass: True",
            "Sample length check pass: True",
            "TEST06 verification complete",
        ]
        if self.mode in AUDIT_MODES[1:]:
            self.verify = ["TEST PASS"]
        self.verify_rates = ["TEST PASS"] if audit and audit.compares else []
        rate = self.entries.get("result_samples_per_second")
        self.compared = ComparedRuns(AccuracyLog(logged), self.scores, rate)
        if self.accuracy_passed is None and self.mode == "performance":
            self.accuracy_passed = True

    @property
    def longest(self) -> int:
        """At least a quarter of what a reference has for tokens, or of an end, if it has them."""
        has_tokens = not (self.benchmark.reference.of("gen_len") or self.benchmark.answers_as_text)
        return 126 if has_tokens else 6

    def good_scores(self) -> dict[str, float]:
        reference = self.benchmark.reference
        scores = {sample.name: float(sample.value) for sample in reference.scores}
        scores.setdefault("gen_len", 1000.0)
        scores[self.benchmark.counted_as] = float(reference.answers)
        return scores

    @property
    def detail_text(self) -> str:
        lines = [line(key, value, ms=self.stamp_ms(key)) for key, value in self.entries.items()]
        return "\n".join([lines[0], *self.broken_lines, *lines[1:]]) + "\n"

    def stamp_ms(self, key: str) -> float:
        if key in self.stamps:
            stamp: float = self.stamps[key]
            return stamp
        if not key.startswith(_ENDING):
            return MADE_MS if key.startswith("generated_") else FIRST_MS
        return self.ended_ms

    @property
    def accuracy_txt(self) -> str:
        count = self.scores.get(COUNTED_IN_A_SENTENCE)
        sentence = f"{COUNTED_IN_A_SENTENCE}: {count:.0f}\n" if count is not None else ""
        lines = [_OFFICIAL_LINES[n](v) for n, v in self.scores.items() if n in _OFFICIAL_LINES]
        figures = ", ".join(
            f"'{name}': {value}"
            for name, value in self.scores.items()
            if name != COUNTED_IN_A_SENTENCE and name not in _OFFICIAL_LINES
        )
        closing = f"\nhash={self.hash}\n" if self.hash is not None else ""
        return f"\nResults\n\n{sentence}{''.join(lines)}{{{figures}}}\n{closing}"

    @property
    def verify_txt(self) -> str:
        return "\n".join(self.verify) + "\n"

    @property
    def accuracy_json(self) -> str:
        streams = self.scenario.streams
        lines = []
        for sample in self.answers:
            first = sample.first_token_ids if streams else None
            with_first = "" if first is None else f', "token_data" : "{_hex(first)}"'
            count = "" if sample.token_count is None else f', "token_count" : {sample.token_count}'
            lines.append(
                f'{{ "seq_id" : {sample.place}, "qsl_idx" : {sample.index}, '
                f'"data" : "{_hex(sample.token_ids)}"{with_first}{count} }}'
            )
        return "[\n" + ",\n".join(lines) + "\n]\n"

    def facts(self, detail_text: str | None = None) -> RunFacts:
        """The run as the rules see it, with `detail_text` in place of its own log."""
        logs = RunLogs(
            Path("made"),
            _parsed(self.detail_text if detail_text is None else detail_text),
            self.summary,
            AccuracyLog(tuple(self.answers), self.accuracy_damage),
            {DETAIL: 1, ACCURACY: self.accuracy_bytes},
            None if self.submitted else self.clock,
        )
        rates = tuple(self.verify_rates)
        texts = SubmittedTexts(self.accuracy_txt, self.verify_txt, self.cut_log, rates)
        scores = parse_accuracy_txt(self.accuracy_txt).scores
        session = None
        if self.deviations is not None:
            session = SessionFacts(
                self.deviations, remote=self.remote, cached_tokens=self.cached_tokens
            )
        return RunFacts(
            self.benchmark,
            self.scenario,
            self.mode,
            self.round,
            logs,
            scores=scores if self.mode in ("accuracy", "test07", "test01") else None,
            reference=self.benchmark.reference,
            accuracy_passed=self.accuracy_passed,
            division=self.division,
            submitted=texts if self.submitted else None,
            eos_token_ids=self.benchmark.eos_token_ids,
            vocabulary=self.benchmark.vocabulary,
            session=session,
            accuracy_tokens=self.accuracy_tokens,
            compared=self.compared,
        )


def made_classes() -> dict[Mode, type[MadeRun]]:
    """Those of features' own modes, each in the feature's module `made_audits`."""
    modules = of_features("made_audits")
    return {mode: made for module in modules for mode, made in module.MADE_RUNS.items()}


def _hex(token_ids: Sequence[int]) -> str:
    return array("i", token_ids).tobytes().hex().upper()


def write_run(folder: Path, run: MadeRun) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DETAIL).write_text(run.detail_text)
    (folder / "mlperf_log_summary.txt").write_text(run.summary)


def audit_values() -> Iterator[tuple[str, object]]:
    """Each audit setting's key in the detail log, with a value that it must not have."""
    for key, value in TEST06.effective.items():
        yield key, not value if isinstance(value, bool) else 2
