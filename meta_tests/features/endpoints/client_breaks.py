"""Breaks of single rules in results of the official HTTP client, and values at a rule's bounds.

Many more are in evidence/endpoints.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from meta_tests.tampering.member_changes import GONE, FileChange, scaled, times

SUMMARY, ACCURACY = "performance/result_summary.json", "accuracy/accuracy_results.json"
CONFIG, MEASUREMENTS = "config.yaml", "measurements.json"
AUDIT = "audit/audit_output_caching_test.json"
EVENTS, WITH_EVENTS = "events.jsonl", "llama3.1-8b/Interactive"
"""The file of a run's events, and the scenario of an honest submission that has it."""
SYSTEM, POWER_SUPPLIES = (f"../../../../systems/box{end}" for end in (".json", "_power.yaml"))
SERVER, OFFLINE = "llama3.1-8b/Server", "llama3.1-8b/Offline"
EDGE, OSS, R1 = "llama3.1-8b-edge/SingleStream", "gpt-oss-120b/Server", "deepseek-r1/Server"
QWEN, WAN = "qwen3-vl-235b-a22b/Server", "wan-2.2-t2v-a14b/Offline"
TOOLS = "qwen3.6-27b/SingleStream"


@dataclass(frozen=True)
class Break:
    """A change of a file of a scenario, and the rules that see it, without their prefix."""

    where: str
    file: str
    change: FileChange
    rules: str
    name: str = "text"

    def __str__(self) -> str:
        words = list(self.change) if isinstance(self.change, dict) else self.name
        return f"{self.where} {self.file.rpartition('/')[2]} {words}: {self.rules or 'none'}"


def file_breaks(where: str, file: str, *rows: tuple[FileChange, str]) -> list[Break]:
    return [Break(where, file, change, rules) for change, rules in rows]


RUN, LOAD, FIRST = "settings.runtime.", "settings.load_pattern.", "accuracy_scores.0."
_COUNTS = ("n_samples_issued", "n_samples_completed")
_ES, _P = "early_stopping_percentiles", "percentiles"
ES_TTFT, _ES_TPOT = f"ttft/{_ES}/99.0", f"tpot/{_ES}/99.0"
_WINDOW, _LENGTHS = "legacy_loadgen_window_duration_ns", "output_sequence_lengths"
NO_SUMMARY = NO_SCORES = NO_CONFIG = "files_readable"
"""What depends on a file that cannot be read is not judged."""
_UNSCORED = "accuracy_samples accuracy_complete accuracy_gate"
DIFFERS = "load_pattern config_of_its_run"
_FEWER = "every_request_answered rates distributions"


def _more_tokens(factor: float) -> dict[str, Any]:
    return {_LENGTHS: scaled(factor), "tps": times(factor)}


def answer_counts(**counts: int) -> dict[str, Any]:
    return {f"{FIRST}response_counts.{name}": count for name, count in counts.items()}


OF_FILES = [
    *file_breaks(
        SERVER,
        CONFIG,
        (GONE, f"{NO_CONFIG} required_files"),
        ("[1, 2]", NO_CONFIG),
        # Configuration
        ({"type": "offline"}, "scenario_type"),
        ({f"{LOAD}type": "max_throughput"}, DIFFERS),
        ({f"{LOAD}target_qps": GONE}, DIFFERS),
        ({f"{RUN}dataloader_random_seed": 42}, "seeds config_of_its_run"),
        ({"model_params.max_new_tokens": 5}, "config_of_its_run"),
        ({"model_params.max_new_tokens": 128}, ""),
        ({"model_params.name": "/models/DeepSeek-R1-Distill-Llama-8B"}, "config_of_its_run"),
        ({"model_params.name": "meta-llama/Llama-3.1-8B-Instruct"}, ""),
        ({f"{RUN}min_duration_ms": 599_999}, "min_duration"),
        ({f"{RUN}n_samples_to_issue": 0}, ""),
    ),
    *file_breaks(
        SERVER,
        SUMMARY,
        (GONE, f"{NO_SUMMARY} required_files"),
        ("[]", NO_SUMMARY),
        ({"run_config": GONE}, "config_of_its_run"),
        # The run
        ({"complete": False}, "run_complete"),
        ({"test_started_at": 4_102_444_800 * 10**9}, "run_complete"),
        ({f"{_LENGTHS}.avg": 0.9}, "every_request_answered distributions accuracy_lengths"),
        ({"finish_reason_counts": {"length": 14_225}}, "distributions"),
        ({"finish_reason_counts": {"length": 14_224}}, ""),
        (dict.fromkeys(_COUNTS, 13_367), f"whole_dataset {_FEWER}"),
        ({"duration_ns": 600 * 10**9 - 10**6}, "lasted window"),
        ({"duration_ns": None}, "lasted window"),
        # Limits: 2 s to the first token, 100 ms for each later one
        ({ES_TTFT: 2e9}, "ttft_limit distributions"),
        ({_ES_TPOT: 1e8}, "tpot_limit distributions"),
        # Rates and the window
        ({"tps": times(1 + 1e-8)}, "rates"),
        ({"tps": times(1 + 1e-10)}, ""),
        ({_LENGTHS: {}}, "rates distributions"),
        ({_WINDOW: times(2)}, "rates window"),
        # Series
        ({"ttft.avg": times(1 + 1e-8)}, "distributions"),
        ({"ttft.min": lambda ns: -ns}, "distributions"),
        ({f"ttft/{_P}/99.0": lambda ns: ns - 0.5}, "distributions"),
        ({"tpot": scaled(0.5)}, "distributions"),
        ({"ttft.std_dev": times(2.0)}, "distributions"),
        ({"latency.histogram.counts": lambda c: [c[0] + 500, *c[1:]]}, "distributions"),
        ({"ttft.histogram.buckets": lambda b: b[:-1]}, "distributions"),
        ({"ttft.histogram.buckets": lambda b: [b[1], b[0], *b[2:]]}, "distributions"),
        ({f"ttft/{_ES}/of tomorrow": 1.0}, ""),
        ({"ttft": scaled(9.0)}, "ttft_limit distributions"),
        ({"input_sequence_lengths": {}}, ""),
        (_more_tokens(2), "accuracy_lengths"),
    ),
    *file_breaks(
        SERVER,
        MEASUREMENTS,
        (GONE, "required_files measurements"),
        ({"retraining": ""}, "measurements"),
    ),
    *file_breaks(
        SERVER,
        SYSTEM,
        (GONE, "required_files system_description system_fields"),
        ({"submitter": "B"}, "system_description"),
        ({"cooling": ""}, "system_fields"),
    ),
    *file_breaks(SERVER, "performance/power/spl.txt", ("Time,1,Watts,100\n", "power_logs")),
    *file_breaks(SERVER, POWER_SUPPLIES, ("[1, 2", "system_description")),
    # Other scenarios and benchmarks
    *file_breaks(
        OFFLINE,
        CONFIG,
        ({"type": "online"}, "scenario_type"),
    ),
    *file_breaks(
        OFFLINE,
        SUMMARY,
        ({_WINDOW: 64 * 10**10}, "rates window"),
        (_more_tokens(2), "accuracy_lengths"),
    ),
    *file_breaks(
        OSS,
        SUMMARY,
        ({f"{_LENGTHS}.avg": 1406.03}, "mean_tokens distributions"),
        ({f"{_LENGTHS}.avg": None}, "mean_tokens distributions"),
    ),
    *file_breaks(
        TOOLS,
        CONFIG,
        ({f"{RUN}dataloader_random_seed": 42, f"{RUN}min_duration_ms": 0}, "config_of_its_run"),
    ),
    *file_breaks(QWEN, SUMMARY, ({f"latency/{_ES}/99.0": 1.3e10}, "latency_limit distributions")),
    # Accuracy
    *file_breaks(
        SERVER,
        ACCURACY,
        (GONE, f"{NO_SCORES} required_files"),
        ({"accuracy_scores": {}}, NO_SCORES),
        ({"accuracy_scores": []}, _UNSCORED),
        ({f"{FIRST}dataset_type": "performance"}, _UNSCORED),
        ({"accuracy_scores": lambda s: s * 2}, "accuracy_samples accuracy_gate"),
        ({f"{FIRST}complete": False}, "accuracy_complete"),
        ({f"{FIRST}num_repeats": GONE}, ""),
        (answer_counts(empty=13_368), "accuracy_complete"),
        (answer_counts(empty=13_367), ""),
        # 22.7 requests/s were answered: 1,000 times as fast are 0.589 s.
        ({f"{FIRST}duration_s": 0.5}, "accuracy_complete"),
        ({f"{FIRST}duration_s": 0.6}, ""),
        # A tenth, and 6 standard deviations of a mean of which nothing is said.
        ({f"{FIRST}{_LENGTHS}.total": 13_368 * 117}, ""),
        ({f"{FIRST}{_LENGTHS}.total": 13_368 * 115}, "accuracy_lengths"),
        ({f"{FIRST}{_LENGTHS}": {"total": 13_368 * 115, "std_dev": 100.0}}, ""),
        ({f"{FIRST}{_LENGTHS}": {"total": 13_368 * 110, "std_dev": 1e2}}, "accuracy_lengths"),
        ({f"{FIRST}{_LENGTHS}": {}}, ""),
    ),
    *file_breaks(
        R1,
        ACCURACY,
        # 99% of the reference's 81.3582
        ({f"{FIRST}score": 80.5447}, ""),
        ({f"{FIRST}score": 80.5446}, "accuracy_gate"),
        ({f"{FIRST}total_samples": 0}, _UNSCORED),
        ({f"{FIRST}{_LENGTHS}": {}}, "accuracy_gate"),
        ({f"{FIRST}{_LENGTHS}.total": 4388 * 3000}, "accuracy_gate accuracy_lengths"),
    ),
    # Audits
    *file_breaks(
        SERVER,
        AUDIT,
        ('{"test": "output_caching_test", "passed": false}', "audits"),
        ('{"test": "x", "passed": true}', "audits"),
        ('{"test": "output_caching_test", "passed": true}', ""),
    ),
    *file_breaks(WAN, AUDIT, (GONE, "audits")),
]

# Events

Event = dict[str, Any]


def each(kind: str, change: Callable[[Event, int], list[Event]]) -> Callable[[str], str]:
    """What makes of each event of a kind, and its number among them, none or several."""

    def changed(text: str) -> str:
        numbers = count()
        events = [
            new
            for line in text.splitlines()
            for event in [json.loads(line)]
            for new in (change(event, next(numbers)) if event["event_type"] == kind else [event])
        ]
        return "".join(json.dumps(event) + "\n" for event in events)

    return changed


def later(kind: str, by_ns: int) -> Callable[[str], str]:
    return each(kind, lambda event, _: [event | {"timestamp_ns": event["timestamp_ns"] + by_ns}])


def instead(kind: str, *kinds: str, at: int = 500) -> Callable[[str], str]:
    """One event of a kind becomes events of others."""
    return each(
        kind, lambda event, n: [event | {"event_type": k} for k in kinds] if n == at else [event]
    )


def prompts(make: Callable[[int], list[Any]]) -> Callable[[str], str]:
    """Prompts of their own, but for the request before the measurement."""
    return each("sample.issued", lambda e, n: [e | {"data": ["PromptData", *make(n)]} if n else e])


def issued_at(ns: Callable[[int], int]) -> Callable[[str], str]:
    """Times of requests since the measurement began, by their numbers."""
    return each("sample.issued", lambda e, n: [e | {"timestamp_ns": 10**9 + ns(n)} if n else e])


def sent_before(count_: int) -> Callable[[str], str]:
    """The first prompts of the measurement, sent before it too."""

    def changed(text: str) -> str:
        lines = text.splitlines(keepends=True)
        sent = [line for line in lines if '"sample.issued"' in line][1 : count_ + 1]
        return "".join([lines[0], *sent, *lines[1:]])

    return changed


START = "session.start_performance_tracking"
_OF_REQUESTS: dict[str, dict[str, FileChange]] = {
    "events_agree": {
        "what is not an event": "events",
        "two sessions": instead("session.started", "session.started", "session.started", at=0),
        "one without an end": instead("sample.complete"),
    },
    "events_agree whole_dataset": {"prompts that were cut": prompts(lambda n: [None, []])},
    "issue_times events_agree": {
        "requests in one burst": issued_at(lambda n: n + (n > 9) * 10**9),
        "requests all at once": issued_at(lambda n: 0),
    },
    "salt": {
        "a salt in one prompt": prompts(
            lambda n: [f"{'[0a1b2c3d4e5f6071] ' * (n == 9)}made up {n % 13_368}"]
        ),
        "a text for each prompt": prompts(lambda n: [f"salt {n}: made up"]),
    },
    "whole_dataset": {
        "one prompt": prompts(lambda n: ["made up again"]),
    },
    "warmup_prompts": {"prompts sent before": sent_before(1_337)},
    "": {"few prompts sent before": sent_before(1_336)},
}
_WINDOW_OF_ITS_OWN = {_WINDOW: times(0.99), "tps": times(1 / 0.99), "qps": times(1 / 0.99)}
OF_EVENTS = [
    Break(WITH_EVENTS, EVENTS, change, rules, name)
    for rules, changes in _OF_REQUESTS.items()
    for name, change in changes.items()
]
OF_EVENTS.append(Break(WITH_EVENTS, SUMMARY, _WINDOW_OF_ITS_OWN, "events_agree"))
"""Breaks in what happened to each request, or in what the summary says of it."""
