"""Damages and forgeries of a result of the official HTTP client, each with the rules that see it.

    python -m evidence.endpoints.client_damages INFERENCE [--write]

prints each beside the verdict of the official checker, and rewrites the tables of
docs/evidence/official-checker.md with --write; INFERENCE is a checkout of
github.com/mlcommons/inference. A damage changes members of a file, by their path, or writes a whole
text. Of a made result of llama3.1-8b, Server, unless it names another.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evidence.tables import PAGES, write_cells
from evidence.verdicts import official_verdict, own_verdict
from meta_tests.features.endpoints.client_breaks import (
    ACCURACY,
    CONFIG,
    EDGE,
    ES_TTFT,
    EVENTS,
    FIRST,
    LOAD,
    MEASUREMENTS,
    NO_CONFIG,
    NO_SCORES,
    NO_SUMMARY,
    OFFLINE,
    OSS,
    QWEN,
    R1,
    RUN,
    SERVER,
    START,
    SUMMARY,
    SYSTEM,
    WAN,
    WITH_EVENTS,
    Break,
    each,
    instead,
    issued_at,
    later,
    sent_before,
)
from meta_tests.features.endpoints.made_official_client import write_client_submission
from meta_tests.tampering.member_changes import GONE, change_file, scaled, times
from mlperf_suite.benchmarks.rounds import ROUNDS


def _damage(file: str, change: Any, rules: str, where: str = SERVER) -> Break:
    return Break(where, file, change, rules)


_EVENTS = "events_agree"
CLIENT_DAMAGES: dict[str, Break] = {
    # Files
    "no config.yaml": _damage(CONFIG, GONE, f"{NO_CONFIG} required_files"),
    "config.yaml is a list": _damage(CONFIG, "[1, 2]", NO_CONFIG),
    "config.yaml is not YAML": _damage(CONFIG, "a: [1", NO_CONFIG),
    "config.yaml makes an object": _damage(CONFIG, "!!python/object/apply:os.getcwd []", NO_CONFIG),
    "config.yaml is nested deeply": _damage(CONFIG, "[" * 100_000, NO_CONFIG),
    "config.yaml holds itself": _damage(
        CONFIG,
        "settings: &a\n  runtime: *a\n",
        "scenario_type load_pattern config_of_its_run seeds min_duration",
    ),
    "no result_summary.json": _damage(SUMMARY, GONE, f"{NO_SUMMARY} required_files"),
    "an empty summary": _damage(SUMMARY, "", f"{NO_SUMMARY} required_files"),
    "a summary that is cut": _damage(SUMMARY, '{"n_samples_issued": 3', NO_SUMMARY),
    "a summary that is a list": _damage(SUMMARY, "[]", NO_SUMMARY),
    "a summary with complete twice": _damage(
        SUMMARY, '{"complete": false, "complete": true}', NO_SUMMARY
    ),
    "a summary nested deeply": _damage(SUMMARY, "[" * 100_000, NO_SUMMARY),
    "a text for the count": _damage(SUMMARY, {"n_samples_issued": "14368"}, NO_SUMMARY),
    "true for the count": _damage(SUMMARY, {"n_samples_failed": False}, NO_SUMMARY),
    "NaN tokens/s": _damage(SUMMARY, {"tps": float("nan")}, NO_SUMMARY),
    "infinite TTFT": _damage(SUMMARY, {ES_TTFT: float("inf")}, NO_SUMMARY),
    "a negative TTFT": _damage(SUMMARY, {ES_TTFT: -1.0}, "ttft_limit distributions"),
    "no state": _damage(SUMMARY, {"state": GONE}, NO_SUMMARY),
    "no accuracy_results.json": _damage(ACCURACY, GONE, f"{NO_SCORES} required_files"),
    "scores that are an object": _damage(ACCURACY, {"accuracy_scores": {}}, NO_SCORES),
    "no scores": _damage(
        ACCURACY, {"accuracy_scores": []}, "accuracy_samples accuracy_complete accuracy_gate"
    ),
    "no measurements.json": _damage(MEASUREMENTS, GONE, "required_files measurements"),
    "a field of the measurements is empty": _damage(
        MEASUREMENTS, {"retraining": ""}, "measurements"
    ),
    "no README.md": _damage("README.md", GONE, "required_files"),
    "no system description": _damage(
        SYSTEM, GONE, "required_files system_description system_fields"
    ),
    "another submitter in the description": _damage(
        SYSTEM, {"submitter": "B"}, "system_description"
    ),
    "an edge system": _damage(SYSTEM, {"system_type": "edge"}, "system_description"),
    "no cooling": _damage(SYSTEM, {"cooling": ""}, "system_fields"),
    # Configuration
    "type offline in Server": _damage(CONFIG, {"type": "offline"}, "scenario_type"),
    "type submission": _damage(CONFIG, {"type": "submission"}, "scenario_type"),
    "type online in Offline": _damage(CONFIG, {"type": "online"}, "scenario_type", OFFLINE),
    "concurrency load called Server": _damage(
        CONFIG, {f"{LOAD}type": "concurrency"}, "load_pattern config_of_its_run"
    ),
    "max_throughput called Server": _damage(
        CONFIG, {f"{LOAD}type": "max_throughput"}, "load_pattern config_of_its_run"
    ),
    "poisson called Offline": _damage(
        CONFIG, {f"{LOAD}type": "poisson"}, "load_pattern config_of_its_run", OFFLINE
    ),
    "concurrency 8 called SingleStream": _damage(
        CONFIG, {f"{LOAD}target_concurrency": 8}, "load_pattern config_of_its_run", EDGE
    ),
    "no rate": _damage(CONFIG, {f"{LOAD}target_qps": GONE}, "load_pattern config_of_its_run"),
    "another rate than the run's": _damage(
        CONFIG, {f"{LOAD}target_qps": times(2)}, "config_of_its_run window"
    ),
    "a rate too low for the window": _damage(
        CONFIG, {f"{LOAD}target_qps": times(0.5)}, "config_of_its_run window"
    ),
    "seeds of v6.0": _damage(
        CONFIG, {f"{RUN}dataloader_random_seed": 14276810075590677512}, "seeds config_of_its_run"
    ),
    "a schedule of its own": _damage(
        CONFIG, {f"{RUN}scheduler_random_seed": 42}, "seeds config_of_its_run"
    ),
    "no seed": _damage(CONFIG, {f"{RUN}scheduler_random_seed": GONE}, "seeds config_of_its_run"),
    "another seed in the run": _damage(
        SUMMARY, {"run_config.scheduler_random_seed": 42}, "config_of_its_run"
    ),
    "no run_config": _damage(SUMMARY, {"run_config": GONE}, "config_of_its_run"),
    "a minimum of 10 s": _damage(CONFIG, {f"{RUN}min_duration_ms": 10_000}, "min_duration"),
    "no minimum duration": _damage(CONFIG, {f"{RUN}min_duration_ms": GONE}, "min_duration"),
    "more planned than issued": _damage(
        CONFIG, {f"{RUN}n_samples_to_issue": 10**6}, "every_request_answered"
    ),
    "power logs": _damage("performance/power/spl.txt", "Time,1,Watts,100\n", "power_logs"),
    # The run
    "interrupted": _damage(SUMMARY, {"state": "interrupted"}, "run_complete"),
    "complete: false": _damage(SUMMARY, {"complete": False}, "run_complete"),
    "all but one failed": _damage(SUMMARY, {"n_samples_failed": 14_367}, "every_request_answered"),
    "one failed": _damage(SUMMARY, {"n_samples_failed": 1}, "every_request_answered"),
    "fewer completed than issued": _damage(
        SUMMARY, {"n_samples_completed": 14_000}, "every_request_answered rates distributions"
    ),
    "3 samples in a second": _damage(
        SUMMARY,
        {
            "n_samples_issued": 3,
            "n_samples_completed": 3,
            "duration_ns": 10**9,
            "legacy_loadgen_window_duration_ns": None,
        },
        "every_request_answered whole_dataset lasted rates distributions window",
    ),
    "a duration of 5 minutes": _damage(SUMMARY, {"duration_ns": 300 * 10**9}, "lasted window"),
    "no duration": _damage(SUMMARY, {"duration_ns": None}, "lasted window"),
    "half of the data set": _damage(
        SUMMARY,
        {"n_samples_issued": 6684, "n_samples_completed": 6684},
        "every_request_answered whole_dataset rates window distributions",
    ),
    "TTFT at its limit": _damage(SUMMARY, {ES_TTFT: 2e9}, "ttft_limit distributions"),
    "TTFT that has no estimate": _damage(SUMMARY, {ES_TTFT: None}, "ttft_limit distributions"),
    "no estimates": _damage(SUMMARY, {"ttft.early_stopping_percentiles": GONE}, "ttft_limit"),
    "a smaller estimate of TTFT": _damage(SUMMARY, {ES_TTFT: 1e9}, "distributions"),
    "a smaller p99 and estimate of TTFT": _damage(
        SUMMARY, {ES_TTFT: 1e9, "ttft/percentiles/99.0": 1e9}, "distributions"
    ),
    "TPOT over its limit": _damage(
        SUMMARY, {"tpot/early_stopping_percentiles/99.0": 1.2e8}, "tpot_limit distributions"
    ),
    "no TPOT": _damage(SUMMARY, {"tpot": {}}, "tpot_limit distributions"),
    "smaller percentiles of TTFT": _damage(
        SUMMARY,
        {
            f"ttft/{kind}/99.{n}": times(0.8)
            for kind in ("percentiles", "early_stopping_percentiles")
            for n in (0, 9)
        },
        "distributions",
    ),
    "a mean that is smaller": _damage(SUMMARY, {"ttft.avg": times(0.9)}, "distributions"),
    "a total that is larger": _damage(
        SUMMARY, {"output_sequence_lengths.total": times(2)}, "rates distributions"
    ),
    "a count of the histogram": _damage(
        SUMMARY, {"latency.histogram.counts": lambda c: [c[0] + 500, *c[1:]]}, "distributions"
    ),
    "a median of its own": _damage(SUMMARY, {"latency.median": times(0.9)}, "distributions"),
    "tokens/s doubled": _damage(SUMMARY, {"tps": times(2)}, "rates"),
    "requests/s doubled": _damage(SUMMARY, {"qps": times(2)}, "rates"),
    "no tokens/s": _damage(SUMMARY, {"tps": None}, "rates"),
    "requests/s of all requests": _damage(SUMMARY, {"qps": lambda q: q * 14_368 / 14_367}, "rates"),
    "half of the window": _damage(
        SUMMARY,
        {"legacy_loadgen_window_duration_ns": lambda w: w // 2, "tps": times(2), "qps": times(2)},
        "window",
    ),
    "a window beyond the duration": _damage(
        SUMMARY, {"legacy_loadgen_window_duration_ns": lambda w: w * 2}, "rates window"
    ),
    "tokens/s doubled in Offline": _damage(SUMMARY, {"tps": times(2)}, "rates", OFFLINE),
    "a request longer than the run": _damage(SUMMARY, {"latency.max": 10**12}, "window", OFFLINE),
    "gpt-oss-120b with short answers": _damage(
        SUMMARY, {"output_sequence_lengths.avg": 900.0}, "mean_tokens distributions", OSS
    ),
    "qwen3-vl over its limit": _damage(
        SUMMARY,
        {"latency/early_stopping_percentiles/99.0": 1.21e10},
        "latency_limit distributions",
        QWEN,
    ),
    "5% more tokens": _damage(
        SUMMARY,
        {
            "output_sequence_lengths.total": lambda total: total * 21 / 20,
            "output_sequence_lengths.avg": times(1.05),
            "tps": times(1.05),
        },
        "distributions",
    ),
    "a mean that is smaller, without a histogram": _damage(
        SUMMARY, {"ttft.avg": times(0.9), "ttft.histogram": GONE}, "distributions"
    ),
    "one token more": _damage(
        SUMMARY,
        {
            "output_sequence_lengths.total": lambda total: total + 1,
            "output_sequence_lengths.avg": lambda mean: mean + 1 / 14_368,
            "tps": lambda tps: tps * (1 + 1 / (14_368 * 128)),
        },
        "distributions",
    ),
    "half a token more": _damage(
        SUMMARY, {"output_sequence_lengths.max": lambda most: most + 0.5}, "distributions"
    ),
    "a p99 of TTFT in parts of ns": _damage(
        SUMMARY, {"ttft/percentiles/99.0": lambda ns: ns - 0.5}, "distributions"
    ),
    "every figure of TPOT halved": _damage(SUMMARY, {"tpot": scaled(0.5)}, "distributions"),
    "every figure of tokens doubled": _damage(
        SUMMARY,
        {"output_sequence_lengths": scaled(2), "tps": times(2)},
        "accuracy_lengths",
    ),
    "every figure of tokens doubled in Offline": _damage(
        SUMMARY,
        {"output_sequence_lengths": scaled(2), "tps": times(2)},
        "accuracy_lengths",
        OFFLINE,
    ),
    "a standard deviation that is doubled": _damage(
        SUMMARY, {"ttft.std_dev": times(2.0)}, "distributions"
    ),
    "a standard deviation of 0": _damage(
        SUMMARY, {"output_sequence_lengths.std_dev": 0.0}, "distributions"
    ),
    "10% more tokens of lengths that differ much": _damage(
        SUMMARY,
        {
            "output_sequence_lengths.total": times(1.1),
            "output_sequence_lengths.avg": times(1.1),
            "output_sequence_lengths.std_dev": times(1.1),
            "tps": times(1.1),
        },
        "distributions",
        R1,
    ),
    "a p90 in another bucket": _damage(
        SUMMARY, {"ttft/percentiles/90.0": times(0.95)}, "distributions"
    ),
    "buckets that overlap": _damage(
        SUMMARY,
        {"latency.histogram.buckets": lambda b: [[0.5 * b[0][0], b[0][1]], *b[:-1]]},
        "distributions",
    ),
    "a mean of next to nothing": _damage(
        SUMMARY, {"ttft.avg": 5e-324, "ttft.histogram": GONE}, "distributions"
    ),
    "LoadGen's window in Offline": _damage(
        SUMMARY,
        {
            "legacy_loadgen_window_duration_ns": 610 * 10**9,
            "tps": lambda tps: tps * 640 / 610,
            "qps": lambda qps: qps * 640 / 610 * 14_367 / 14_368,
        },
        "rates window",
        OFFLINE,
    ),
    # Events
    "events.jsonl is empty": _damage(EVENTS, "", _EVENTS, WITH_EVENTS),
    "events.jsonl is no JSON": _damage(EVENTS, "events", _EVENTS, WITH_EVENTS),
    "events.jsonl is a list": _damage(EVENTS, "[]", _EVENTS, WITH_EVENTS),
    "an event nested deeply": _damage(EVENTS, '{"data": ' + "[" * 100_000, _EVENTS, WITH_EVENTS),
    "an event without its time": _damage(
        EVENTS, lambda t: '{"event_type": "sample.issued"}\n' + t, _EVENTS, WITH_EVENTS
    ),
    "an event at NaN": _damage(
        EVENTS,
        lambda t: '{"event_type": "sample.issued", "timestamp_ns": NaN}\n' + t,
        _EVENTS,
        WITH_EVENTS,
    ),
    "events.jsonl is cut": _damage(EVENTS, lambda t: t[: len(t) // 2], _EVENTS, WITH_EVENTS),
    "events.jsonl ends at the first": _damage(
        EVENTS, instead("session.started", "session.ended", at=0), _EVENTS, WITH_EVENTS
    ),
    "tracking never started": _damage(EVENTS, instead(START, at=0), _EVENTS, WITH_EVENTS),
    "tracking started earlier": _damage(
        EVENTS,
        instead("session.started", START, at=0),
        f"{_EVENTS} salt",
        WITH_EVENTS,
    ),
    "one request was never issued": _damage(EVENTS, instead("sample.issued"), _EVENTS, WITH_EVENTS),
    "one request was issued twice": _damage(
        EVENTS,
        instead("sample.issued", "sample.issued", "sample.issued"),
        _EVENTS,
        WITH_EVENTS,
    ),
    "one request never ended": _damage(EVENTS, instead("sample.complete"), _EVENTS, WITH_EVENTS),
    "one request failed in events.jsonl": _damage(
        EVENTS,
        instead("sample.complete", "error.client", "sample.complete"),
        _EVENTS,
        WITH_EVENTS,
    ),
    "one request had no first token": _damage(
        EVENTS, instead("sample.recv_first"), _EVENTS, WITH_EVENTS
    ),
    "first tokens 1 ns later": _damage(EVENTS, later("sample.recv_first", 1), _EVENTS, WITH_EVENTS),
    "answers 1 ms later": _damage(EVENTS, later("sample.complete", 10**6), _EVENTS, WITH_EVENTS),
    "requests issued 1 ns earlier": _damage(
        EVENTS, later("sample.issued", -1), _EVENTS, WITH_EVENTS
    ),
    "answers that were cut": _damage(
        EVENTS,
        each("sample.complete", lambda event, _: [event | {"finish_reason": "length"}]),
        _EVENTS,
        WITH_EVENTS,
    ),
    "an estimate of TTFT 1 ns smaller than its events": _damage(
        SUMMARY, {ES_TTFT: lambda ns: ns - 1}, _EVENTS, WITH_EVENTS
    ),
    "a percentile 1 ns smaller than its events": _damage(
        SUMMARY, {"latency/percentiles/75.0": lambda ns: ns - 1}, _EVENTS, WITH_EVENTS
    ),
    "a duration longer than its events": _damage(
        SUMMARY, {"duration_ns": lambda ns: ns + 1}, _EVENTS, WITH_EVENTS
    ),
    "a window shorter than its events": _damage(
        SUMMARY,
        {
            "legacy_loadgen_window_duration_ns": times(0.99),
            "tps": times(1 / 0.99),
            "qps": times(1 / 0.99),
        },
        _EVENTS,
        WITH_EVENTS,
    ),
    "a histogram that its events have not": _damage(
        SUMMARY,
        {"latency.histogram.counts": lambda c: [c[0] - 1, c[1] + 1, *c[2:]]},
        _EVENTS,
        WITH_EVENTS,
    ),
    "a standard deviation that its events have not": _damage(
        SUMMARY, {"latency.std_dev": times(1.0001)}, _EVENTS, WITH_EVENTS
    ),
    "a prompt of one token more than its events": _damage(
        SUMMARY, {"input_sequence_lengths.max": lambda most: most + 1}, _EVENTS, WITH_EVENTS
    ),
    "the mean of prompts that its events have not": _damage(
        SUMMARY,
        {"input_sequence_lengths.avg": times(1.0001)},
        "events_agree distributions",
        WITH_EVENTS,
    ),
    "a prompt that was cut": _damage(
        EVENTS,
        each("sample.issued", lambda e, n: [e | {"data": ["PromptData", None, []]} if n else e]),
        f"{_EVENTS} whole_dataset",
        WITH_EVENTS,
    ),
    "a salt in each prompt": _damage(
        EVENTS,
        each("sample.issued", lambda e, n: [e | {"data": ["PromptData", f"[{n:016x}] made up"]}]),
        "salt",
        WITH_EVENTS,
    ),
    "a salt in each prompt of token ids": _damage(
        EVENTS,
        each("sample.issued", lambda e, n: [e | {"data": ["PromptData", None, [1, n, 7]]}]),
        "salt events_agree",
        WITH_EVENTS,
    ),
    "salts of few samples of token ids": _damage(
        EVENTS,
        each(
            "sample.issued",
            lambda e, n: [e | {"data": ["PromptData", None, [1, n % 500, *range(50)]]}],
        ),
        "salt events_agree whole_dataset",
        WITH_EVENTS,
    ),
    "requests at equal distances": _damage(
        EVENTS, issued_at(lambda n: n * 10**6), f"{_EVENTS} issue_times", WITH_EVENTS
    ),
    "a tenth of the prompts sent before": _damage(
        EVENTS, sent_before(1_337), "warmup_prompts", WITH_EVENTS
    ),
    "a salt in words": _damage(
        EVENTS,
        each("sample.issued", lambda e, n: [e | {"data": ["PromptData", f"salt {n}: made up"]}]),
        "salt",
        WITH_EVENTS,
    ),
    # Accuracy
    "a score of 0": _damage(ACCURACY, {f"{FIRST}score": 0.0}, "accuracy_gate", R1),
    "a score below the gate": _damage(ACCURACY, {f"{FIRST}score": 80.54}, "accuracy_gate", R1),
    "a share for percents": _damage(ACCURACY, {f"{FIRST}score": 0.81}, "accuracy_gate", R1),
    "a score of 810": _damage(ACCURACY, {f"{FIRST}score": 810.0}, "accuracy_gate", R1),
    "a score of null": _damage(ACCURACY, {f"{FIRST}score": None}, "accuracy_gate", R1),
    "a score of true": _damage(ACCURACY, {f"{FIRST}score": True}, NO_SCORES, R1),
    "a score in words": _damage(ACCURACY, {f"{FIRST}score": "good"}, "accuracy_gate", R1),
    "answers that are too short": _damage(
        ACCURACY,
        {f"{FIRST}output_sequence_lengths.total": 4388 * 3000},
        "accuracy_gate accuracy_lengths",
        R1,
    ),
    "rouge2 below its gate": _damage(ACCURACY, {f"{FIRST}score.rouge2": "15.0"}, "accuracy_gate"),
    "no rougeL": _damage(ACCURACY, {f"{FIRST}score.rougeL": GONE}, "accuracy_gate"),
    "gen_len above its limit": _damage(
        ACCURACY, {f"{FIRST}score.gen_len": "9999999"}, "accuracy_gate"
    ),
    "qwen3-vl below its gate": _damage(ACCURACY, {f"{FIRST}score": 0.782}, "accuracy_gate", QWEN),
    "gpt-oss-120b fails in its third data set": _damage(
        ACCURACY, {"accuracy_scores.2.score": 0.1}, "accuracy_gate", OSS
    ),
    "a third of gpt-oss-120b": _damage(
        ACCURACY, {"accuracy_scores": lambda s: s[:1]}, "accuracy_samples", OSS
    ),
    "every answer is missing": _damage(
        ACCURACY,
        {
            f"{FIRST}response_counts": {
                "issued": 13_368,
                "scored": 0,
                "empty": 0,
                "missing": 13_368,
            }
        },
        "accuracy_complete",
    ),
    "one answer is missing": _damage(
        ACCURACY, {f"{FIRST}response_counts.missing": 1}, "accuracy_complete"
    ),
    "every answer is empty": _damage(
        ACCURACY, {f"{FIRST}response_counts.empty": 13_368}, "accuracy_complete"
    ),
    "no counts of answers": _damage(
        ACCURACY, {f"{FIRST}response_counts": GONE}, "accuracy_complete"
    ),
    "accuracy not complete": _damage(ACCURACY, {f"{FIRST}complete": False}, "accuracy_complete"),
    "1,000 samples of accuracy": _damage(
        ACCURACY,
        {f"{FIRST}total_samples": 1000},
        "accuracy_samples accuracy_complete accuracy_lengths",
    ),
    "repeats that do not add up": _damage(
        ACCURACY, {f"{FIRST}num_repeats": 2}, "accuracy_complete"
    ),
    "scores of the performance data set": _damage(
        ACCURACY,
        {f"{FIRST}dataset_type": "performance"},
        "accuracy_samples accuracy_complete accuracy_gate",
    ),
    # Audits
    "an audit that failed": _damage(
        "audit/audit_output_caching_test.json",
        '{"test": "output_caching_test", "passed": false}',
        "audits",
    ),
    "an audit by another name": _damage(
        "audit/audit_output_caching_test.json", '{"test": "x", "passed": true}', "audits"
    ),
    "passed in words": _damage(
        "audit/audit_output_caching_test.json",
        '{"test": "output_caching_test", "passed": "yes"}',
        "audits",
    ),
    "wan-2.2 without its audit": _damage(
        "audit/audit_output_caching_test.json", GONE, "audits", WAN
    ),
}
"""Every damage by name."""
SCENARIOS = {
    "llama3.1-8b": ("Offline", "Server", "Interactive"),
    "llama3.1-8b-edge": ("Offline", "SingleStream"),
    "gpt-oss-120b": ("Offline", "Server", "Interactive"),
    "deepseek-r1": ("Offline", "Server", "Interactive"),
    "qwen3-vl-235b-a22b": ("Offline", "Server", "Interactive"),
    "wan-2.2-t2v-a14b": ("Offline", "SingleStream"),
    "qwen3.6-27b": ("SingleStream",),
}
"""Of each benchmark that the client may measure, the scenarios of an honest submission."""


def _empty_scenario(benchmark: Path) -> None:
    shutil.rmtree(benchmark / "Interactive")
    (benchmark / "Interactive").mkdir()


def _published(benchmark: Path) -> None:
    """The files as the client's scripts/publish_submission.py puts them."""
    for scenario in benchmark.iterdir():
        run = scenario / "performance" / "run_1"
        run.mkdir()
        for name in (SUMMARY, CONFIG):
            (scenario / name).rename(run / Path(name).name)


def _as_configured(benchmark: Path) -> None:
    """MLCommons' configuration of edge-agentic: seed 42, no minimum duration."""
    seeds = dict.fromkeys(("scheduler_random_seed", "dataloader_random_seed"), 42)
    runtime = {f"{RUN}{name}": seed for name, seed in seeds.items()}
    repeated = {f"run_config.{name}": seed for name, seed in seeds.items()}
    for file, changes in (
        (CONFIG, runtime | {f"{RUN}min_duration_ms": 0}),
        (SUMMARY, repeated),
    ):
        change_file(benchmark / "SingleStream" / file, changes)


CLIENT_TREES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a scenario's folder is empty": ("llama3.1-8b", _empty_scenario),
    "an empty folder beside the scenarios": ("llama3.1-8b", lambda b: (b / "Empty").mkdir()),
    "the layout of publish_submission.py": ("llama3.1-8b", _published),
    "MLCommons' configuration of edge-agentic": ("qwen3.6-27b", _as_configured),
    "no Offline": ("llama3.1-8b", lambda b: shutil.rmtree(b / "Offline")),
    "Server alone beside Offline": ("llama3.1-8b", lambda b: shutil.rmtree(b / "Interactive")),
}
"""What is changed in a benchmark's folder of an honest submission."""


def tree_of(name: str, honest: Path, folder: Path) -> Path:
    """A copy of an honest submission with a change of its folders or of what is in all of them."""
    benchmark, change = CLIENT_TREES[name]
    shutil.copytree(honest / benchmark, folder)
    change(folder / "closed/Someone/results/box" / benchmark)
    return folder


def write_honest_submissions(root: Path) -> None:
    """For each benchmark a folder with an honest submission."""
    for name, scenarios in SCENARIOS.items():
        benchmark, scenario = WITH_EVENTS.split("/")
        with_events = scenario if name == benchmark else None
        write_client_submission(root / name, name, scenarios, with_events=with_events)


def damaged(name: str, honest: Path, folder: Path) -> Path:
    """A copy of an honest submission with a damage."""
    damage = CLIENT_DAMAGES[name]
    benchmark, scenario = damage.where.split("/")
    shutil.copytree(honest / benchmark, folder)
    path = folder / "closed/Someone/results/box" / benchmark / scenario / damage.file
    change_file(path, damage.change)
    return folder


PAGE = PAGES / "official-checker.md"
HEADER = "| damage | official | here: the rules that fail |"
_DAMAGES, _TREES = "## Results of the official HTTP client", "Whole trees, made from the same"
"""What stands before each table of the page."""


def main(arguments: list[str]) -> None:
    checker, is_written = Path(arguments[0]), "--write" in arguments
    round_ = ROUNDS["v6.1"]
    with tempfile.TemporaryDirectory() as temporary:
        honest = Path(temporary) / "honest"
        write_honest_submissions(honest)
        for names, write, place in (
            (CLIENT_DAMAGES, damaged, _DAMAGES),
            (CLIENT_TREES, tree_of, _TREES),
        ):
            rows = []
            for name in names:
                tree = write(name, honest, Path(temporary) / "tree")
                row = (name, official_verdict(tree, checker, round_), own_verdict(tree, round_))
                print(f"| {' | '.join(row)} |", flush=True)
                rows.append(row)
                shutil.rmtree(tree)
            if is_written:
                write_cells(PAGE, HEADER, rows, place)


if __name__ == "__main__":
    main(sys.argv[1:])
