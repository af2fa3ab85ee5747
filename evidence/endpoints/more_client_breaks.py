"""Further breaks of single rules in results of the official HTTP client."""

from meta_tests.features.endpoints.client_breaks import (
    ACCURACY,
    CONFIG,
    DIFFERS,
    EDGE,
    ES_TTFT,
    EVENTS,
    FIRST,
    LOAD,
    OFFLINE,
    OSS,
    R1,
    RUN,
    SERVER,
    SUMMARY,
    WITH_EVENTS,
    answer_counts,
    each,
    file_breaks,
    prompts,
)
from meta_tests.tampering.member_changes import GONE, times

BREAKS = [
    *file_breaks(
        SERVER,
        CONFIG,
        ({f"{LOAD}target_qps": times(1.001)}, "config_of_its_run"),
        ({f"{LOAD}target_qps": times(0.93)}, "config_of_its_run window"),
        ({f"{LOAD}target_qps": times(1.2)}, "config_of_its_run window"),
        ({f"{LOAD}target_concurrency": 8}, "config_of_its_run"),
        ({f"{RUN}n_samples_to_issue": 14_369}, "every_request_answered"),
    ),
    *file_breaks(
        SERVER,
        SUMMARY,
        ({"state": "interrupted"}, "run_complete"),
        ({"n_samples_failed": 1}, "every_request_answered"),
        ({"n_samples_issued": 14_369}, "every_request_answered"),
        (
            {"n_samples_issued": 13_368, "n_samples_completed": 13_368},
            "every_request_answered rates distributions",
        ),
        ({ES_TTFT: None}, "ttft_limit distributions"),
        ({ES_TTFT: lambda ns: ns + 1e9}, "ttft_limit distributions"),
        ({"ttft/percentiles/90.0": times(0.95)}, "distributions"),
    ),
    *file_breaks(SERVER, "README.md", (GONE, "required_files")),
    *file_breaks(OFFLINE, CONFIG, ({f"{LOAD}type": "poisson"}, DIFFERS)),
    *file_breaks(
        OFFLINE, SUMMARY, ({"tps": times(2)}, "rates"), ({"latency.max": 10**12}, "window")
    ),
    *file_breaks(
        OSS, SUMMARY, ({"output_sequence_lengths.avg": 1150.37}, "mean_tokens distributions")
    ),
    *file_breaks(EDGE, CONFIG, ({f"{LOAD}target_concurrency": 8}, DIFFERS)),
    *file_breaks(
        SERVER,
        ACCURACY,
        ({f"{FIRST}score.rouge2": "15.0"}, "accuracy_gate"),
        ({f"{FIRST}score.rougeL": GONE}, "accuracy_gate"),
        ({f"{FIRST}score.gen_len": "9999999"}, "accuracy_gate"),
        ({f"{FIRST}total_samples": 13_367}, "accuracy_samples accuracy_complete"),
        ({f"{FIRST}num_repeats": 2}, "accuracy_complete"),
        ({f"{FIRST}response_counts": GONE}, "accuracy_complete"),
        (answer_counts(missing=1), "accuracy_complete"),
        (answer_counts(scored=13_367), "accuracy_complete"),
    ),
    *file_breaks(
        R1,
        ACCURACY,
        ({f"{FIRST}score": 100.1}, "accuracy_gate"),
        ({f"{FIRST}score": None}, "accuracy_gate"),
    ),
    *file_breaks(
        WITH_EVENTS,
        EVENTS,
        (
            each("sample.complete", lambda event, _: [event | {"finish_reason": "made up"}]),
            "events_agree",
        ),
        (prompts(lambda n: [f"made up {n % 12_031}"]), "whole_dataset"),
    ),
    *file_breaks(
        WITH_EVENTS,
        SUMMARY,
        ({"input_sequence_lengths.max": lambda most: most + 1}, "events_agree"),
        ({"input_sequence_lengths.avg": times(1.0001)}, "events_agree distributions"),
    ),
]
