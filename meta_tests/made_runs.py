"""Made-up runs that obey every rule: their logs as LoadGen writes them, and submissions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.audits import MIX, SAME, TEST06, Audit, Mode
from mlperf_suite.benchmarks.definition import (
    COUNTED_IN_A_SENTENCE,
    MIN_DURATION_MS,
    Benchmark,
    Scenario,
)
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.compliance.accuracy_txt import parse_accuracy_txt
from mlperf_suite.compliance.caching import ANSWER_TOKENS, LOOKS, Block, Caching, Kind
from mlperf_suite.compliance.facts import Division, RunFacts, SubmittedTexts
from mlperf_suite.compliance.submission_rules import SYSTEM_FIELDS_FILLED, SYSTEM_FIELDS_PRESENT
from mlperf_suite.engines.protocol import ClientFigures, EndpointFigures, RemoteRun
from mlperf_suite.loadgen.load_plan import AUDIT_MODES, CACHING, TEST_MODES
from mlperf_suite.loadgen.logs import (
    ACCURACY,
    DETAIL,
    AccuracyLog,
    LoggedSample,
    RunLogs,
    parse_detail,
)

HASH = "0123456789abcdef" * 4


def every_scenario() -> list[tuple[Benchmark, Scenario]]:
    return [(b, s) for b in BENCHMARKS.values() for s in b.scenarios]


def remote_run(
    busy_share: float = 0.3,
    out_ms: float | None = 0.2,
    back_ms: float | None = 0.3,
    departures: tuple[str, ...] = (),
    cached: int | None = 0,
) -> RemoteRun:
    """What an engine behind a network tells of a run on two servers, the second of which says that
    so many tokens came from a cache."""
    times = {"p50": 40.0, "p90": 80.5, "p99": 120.25}
    return RemoteRun(
        ClientFigures(2, busy_share, out_ms, back_ms, connections=64, resent=3),
        (
            EndpointFigures("http://one:8000", 60, 6000, times, {"p50": 900.0, "p99": 1800.0}, 0),
            EndpointFigures(
                "http://two:8000", 24, 2400, times, {"p50": 950.0, "p99": 1900.0}, cached
            ),
        ),
        departures,
    )


def line(key: str, value: object, *, error: bool = False, warning: bool = False) -> str:
    """One line of a detail log."""
    entry = {
        "key": key,
        "value": value,
        "time_ms": 0.1,
        "namespace": "mlperf::logging",
        "event_type": "POINT_IN_TIME",
        "metadata": {
            "is_error": error,
            "is_warning": warning,
            "file": "made.cc",
            "line_no": 1,
            "pid": 1,
            "tid": 1,
        },
    }
    return f":::MLLOG {json.dumps(entry)}"


def audit_of(benchmark: Benchmark, mode: Mode) -> Audit | None:
    """The audit of a mode; TEST06's logs are judged whatever they are of."""
    return benchmark.audit(mode) or (TEST06 if mode == "test06" else None)


def detail_entries(
    benchmark: Benchmark, scenario: Scenario, mode: Mode, round_: Round
) -> dict[str, Any]:
    """The keys and values of a valid detail log, in LoadGen's order."""
    ttft_ms, tpot_ms = (
        (scenario.limits.ttft_ms, scenario.limits.tpot_ms) if scenario.limits else (100, 100)
    )
    offline, streams = scenario.name == "Offline", scenario.name == "SingleStream"
    entries: dict[str, Any] = {
        "loadgen_version": "made up",
        "loadgen_git_status_message": "",
        "sut_name": "PySUT",
        "qsl_name": "PyQSL",
        "qsl_reported_total_count": benchmark.samples_of(mode),
        "qsl_reported_performance_count": benchmark.samples_of(mode),
        "requested_scenario": scenario.loadgen_scenario,
        "requested_min_query_count": 100,
        "requested_use_token_latencies": True,
        "requested_server_ttft_latency": int(ttft_ms * 1e6),
        "requested_server_tpot_latency": int(tpot_ms * 1e6),
        "effective_scenario": scenario.loadgen_scenario,
        "effective_test_mode": TEST_MODES[mode],
        "effective_samples_per_query": 2 * benchmark.samples if offline else 1,
        "effective_target_latency_ns": 0,
        "effective_target_latency_percentile": 0.9 if streams else 0.99,
        "effective_min_duration_ms": MIN_DURATION_MS,
        "effective_min_query_count": 1 if offline else 100,
        **{f"effective_{name}": seed for name, seed in round_.seeds.items()},
        "effective_accuracy_log_rng_seed": 0,
        "effective_accuracy_log_sampling_target": 0,
        "effective_performance_sample_count": benchmark.samples,
        "effective_accuracy_sample_count": benchmark.samples_of(mode),
        "effective_sample_concatenate_permutation": True,
    }
    generated = 2 * benchmark.samples
    audit = audit_of(benchmark, mode)
    if audit is not None:
        entries |= audit.took
        generated = audit.queries
    entries |= {
        "generated_query_count": 1 if offline else generated,
        "generated_samples_per_query": generated if offline else 1,
        "power_begin": "now",
        "power_end": "then",
    }
    if mode != "accuracy":
        entries |= {
            "result_validity": "VALID",
            "result_min_duration_met": True,
            "result_min_queries_met": True,
            "early_stopping_met": True,
            "early_stopping_ttft_result": " * Run successful.",
            "early_stopping_tpot_result": " * Run successful.",
            "result_query_count": 1 if offline else 24_576,
            # What the official checker reads besides.
            "result_99.00_percentile_latency_ns": 5_000_000,
            "result_mean_latency_ns": 4_000_000,
            "result_samples_per_second": 12.5,
            "result_completed_samples_per_sec": 12.5,
            "early_stopping_latency_ss": 5_000_000,
            scenario.metric: 1234.5,
        }
        if scenario.limits:
            entries["result_first_token_99.00_percentile_latency_ns"] = int(ttft_ms * 0.9e6)
            entries["result_time_per_output_token_99.00_percentile_ns"] = int(tpot_ms * 0.9e6)
        entries["num_errors"] = 0
    return entries


@lru_cache(maxsize=8)
def _answers(count: int, tokens: int = 3) -> tuple[LoggedSample, ...]:
    ids = tuple(range(11, 11 + tokens))
    return tuple(LoggedSample(i, ids, (11,), tokens) for i in range(count))


@lru_cache(maxsize=16)
def _cut_log(count: int, streams: bool) -> str:
    """A cut accuracy log of so many samples, the first and the last of which are left."""
    first = ', "token_data" : "0B000000"' if streams else ""
    rows = [
        f'{{ "seq_id" : {i}, "qsl_idx" : {i}, "data" : "0B0000000C0000000D000000"'
        f'{first}, "token_count" : 3 }}'
        for i in (*range(36), *range(count - 36, count))
    ]
    return "[\n" + ",\n".join(rows[:36]) + "\n\n...\n\n" + ",\n".join(rows[36:]) + "\n]\n"


AT_ONCE = 3
"""The samples of a made block of the caching audit."""


@dataclass
class MadeBlock:
    """A block of a caching audit: `entries` of its log beside the audit's, and its answers."""

    kind: Kind
    entries: dict[str, Any]
    answers: list[tuple[int, tuple[int, ...]]]


def made_blocks() -> list[MadeBlock]:
    """As few blocks as an audit has, none of a kind faster than the other."""
    tokens = tuple(range(11, 11 + ANSWER_TOKENS))
    kinds: tuple[Kind, ...] = ("mix", "same")
    return [
        MadeBlock(
            kind,
            {"result_max_latency_ns": 400_000_000},
            [(0 if kind == "same" else index, tokens) for index in range(AT_ONCE)],
        )
        for pair in range(LOOKS[0])
        for kind in kinds[:: 1 if pair % 2 else -1]
    ]


@dataclass
class MadeRun:
    """A run that obeys every rule until somebody changes it.

    `broken_lines`: texts put after the detail log's first entry. `answers`: the accuracy log's.
    `cut_log`: the accuracy log as it is submitted.
    `remote`: what an engine behind a network told of it, None of one in this process.
    `cached_tokens`: prompt tokens that the engine counted as taken from a cache. `caching`: of a
    caching audit, the blocks.
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
        self.departures: tuple[str, ...] | None = None if self.submitted else ()
        untold = self.submitted or (self.remote is not None and self.remote.cached_untold)
        self.cached_tokens: int | None = None if untold else 0
        self.caching = made_blocks() if self.mode == CACHING else []
        self.entries = detail_entries(self.benchmark, self.scenario, self.mode, self.round)
        self.broken_lines: list[str] = []
        audit = audit_of(self.benchmark, self.mode)
        count = self.benchmark.samples_of(self.mode) if self.mode != "test06" else 100
        low, high = (audit and audit.mean_tokens) or (3, 3)
        self.answers: list[LoggedSample] = list(_answers(count, round((low + high) / 2)))
        self.accuracy_damage: tuple[str, ...] = ()
        self.accuracy_bytes = 8199
        self.cut_log = _cut_log(self.benchmark.samples_of("accuracy"), self.scenario.streams)
        self.scores = self.good_scores()
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
        if self.accuracy_passed is None and self.mode == "performance":
            self.accuracy_passed = True

    def good_scores(self) -> dict[str, float]:
        reference = self.benchmark.reference
        scores = {one.name: float(one.value) for one in reference.expected}
        scores.setdefault("gen_len", 1000.0)
        scores[self.benchmark.counted_as] = float(reference.answers)
        return scores

    @property
    def detail_text(self) -> str:
        lines = [line(key, value) for key, value in self.entries.items()]
        return "\n".join([lines[0], *self.broken_lines, *lines[1:]]) + "\n"

    @property
    def accuracy_txt(self) -> str:
        said = self.scores.get(COUNTED_IN_A_SENTENCE)
        counted = f"{COUNTED_IN_A_SENTENCE}: {said:.0f}\n" if said is not None else ""
        figures = ", ".join(
            f"'{name}': {value}"
            for name, value in self.scores.items()
            if name != COUNTED_IN_A_SENTENCE
        )
        closing = f"\nhash={self.hash}\n" if self.hash is not None else ""
        return f"\nResults\n\n{counted}{{{figures}}}\n{closing}"

    @property
    def verify_txt(self) -> str:
        return "\n".join(self.verify) + "\n"

    @property
    def accuracy_json(self) -> str:
        rows = [
            {
                "seq_id": i,
                "qsl_idx": sample.index,
                "data": _hex(sample.token_ids),
                **_said("token_data", sample.first_token_ids and _hex(sample.first_token_ids)),
                **_said("token_count", sample.token_count),
            }
            for i, sample in enumerate(self.answers)
        ]
        return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"

    def _caching_facts(self) -> Caching:
        """The blocks, each with the run's own entries and lines in its log."""
        blocks = []
        for block in self.caching:
            took = (SAME if block.kind == "same" else MIX).of(AT_ONCE).took
            entries = {**self.entries, **took, **block.entries}
            lines = [line(key, value) for key, value in entries.items()]
            text = "\n".join([lines[0], *self.broken_lines, *lines[1:]])
            answers = AccuracyLog(
                tuple(LoggedSample(i, tokens) for i, tokens in block.answers), self.accuracy_damage
            )
            logs = RunLogs(Path("made"), parse_detail(text), "", answers)
            blocks.append(Block(block.kind, logs))
        return Caching(tuple(blocks), AT_ONCE, self.cached_tokens)

    def facts(self, detail_text: str | None = None) -> RunFacts:
        """The run as the rules see it, with `detail_text` in place of its own log."""
        folder = Path("made")
        logs = RunLogs(
            folder,
            parse_detail(self.detail_text if detail_text is None else detail_text),
            "",
            AccuracyLog(tuple(self.answers), self.accuracy_damage),
            {name: folder / name for name in (DETAIL, ACCURACY)},
            {ACCURACY: self.accuracy_bytes},
        )
        texts = SubmittedTexts(self.accuracy_txt, self.verify_txt, self.cut_log)
        scores = parse_accuracy_txt(self.accuracy_txt).scores
        return RunFacts(
            self.benchmark,
            self.scenario,
            self.mode,
            self.round,
            logs,
            scores=scores if self.mode in ("accuracy", "test07") else None,
            reference=self.benchmark.reference,
            accuracy_passed=self.accuracy_passed,
            division=self.division,
            submitted=texts if self.submitted else None,
            eos_token_ids=self.benchmark.eos_token_ids,
            departures=self.departures,
            cached_tokens=self.cached_tokens,
            caching=self._caching_facts() if self.mode == CACHING else None,
            remote=self.remote,
        )


def _said(name: str, value: object) -> dict[str, object]:
    return {} if value is None else {name: "" if value == () else value}


def _hex(token_ids: tuple[int, ...]) -> str:
    return b"".join(t.to_bytes(4, "little", signed=True) for t in token_ids).hex().upper()


def write_run(folder: Path, run: MadeRun) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DETAIL).write_text(run.detail_text)
    (folder / "mlperf_log_summary.txt").write_text("made up\n")


def system_fields() -> dict[str, str]:
    """A system's description with something in every field."""
    fields = dict.fromkeys((*SYSTEM_FIELDS_FILLED, *SYSTEM_FIELDS_PRESENT), "made up")
    return fields | {"number_of_nodes": "1", "accelerators_per_node": "0"}


def write_submission(
    root: Path,
    benchmark: Benchmark,
    round_: Round,
    *,
    division: Division = "closed",
    submitter: str = "Someone",
    system: str = "box",
    scenarios: tuple[str, ...] | None = None,
    name: str | None = None,
) -> Path:
    """Write a submission that obeys every rule, in the round's layout; returns its folder.

    `scenarios`: all that the round offers by default, of the benchmark's own where it offers none.
    `name`: what the tree calls the benchmark.
    """
    submission = root / division / submitter
    for scenario in benchmark.offered_in(round_.name) or benchmark.scenarios:
        if scenarios is None or scenario.name in scenarios:
            path = (system, name or benchmark.id, scenario.name)
            _write_result(submission, path, benchmark, scenario, round_, division)
    systems = submission / "systems"
    systems.mkdir(exist_ok=True)
    described = system_fields() | {
        "submitter": submitter,
        "division": division,
        "status": "available",
        "system_type": benchmark.category,
    }
    (systems / f"{system}.json").write_text(json.dumps(described))
    (submission / ("src" if round_.layout == "v6" else "code")).mkdir(exist_ok=True)
    return submission


def _write_result(
    submission: Path,
    path: tuple[str, str, str],
    benchmark: Benchmark,
    scenario: Scenario,
    round_: Round,
    division: Division,
) -> None:
    result = submission.joinpath("results", *path)
    v6 = round_.layout == "v6"
    measurements = result if v6 else submission.joinpath("measurements", *path)
    audits = result if v6 else submission.joinpath("compliance", *path)
    accuracy = MadeRun(benchmark, scenario, "accuracy", round_)
    write_run(result / "accuracy", accuracy)
    (result / "accuracy" / "accuracy.txt").write_text(accuracy.accuracy_txt)
    (result / "accuracy" / ACCURACY).write_text(accuracy.cut_log)
    write_run(result / "performance" / "run_1", MadeRun(benchmark, scenario, "performance", round_))
    measurements.mkdir(parents=True, exist_ok=True)
    (measurements / "user.conf").write_text("made up\n")
    (measurements / "README.md").write_text("made up\n")
    described = dict.fromkeys(
        (
            "input_data_types",
            "retraining",
            "starting_weights_filename",
            "weight_data_types",
            "weight_transformations",
        ),
        "made up",
    )
    file = "measurements.json" if v6 else f"{path[0]}_{scenario.name}.json"
    (measurements / file).write_text(json.dumps(described))
    for audit in benchmark.audits if division == "closed" else ():
        made = MadeRun(benchmark, scenario, audit.mode, round_)
        (audits / audit.name / "accuracy").mkdir(parents=True)
        (audits / audit.name / "accuracy" / ACCURACY).write_text(made.accuracy_json)
        (audits / audit.name / audit.verified_in).write_text(made.verify_txt)


def audit_values() -> Iterator[tuple[str, object]]:
    """Each audit setting's key in the detail log, with a value that it must not have."""
    for key, wanted in TEST06.took.items():
        yield key, not wanted if isinstance(wanted, bool) else 2
