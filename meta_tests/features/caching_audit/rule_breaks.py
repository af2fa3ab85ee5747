"""A break of each rule of the caching audit."""

from typing import Any

from hypothesis import strategies as st

from meta_tests.features.caching_audit.made_audits import AT_ONCE, MadeAudit, MadeBlock
from meta_tests.tampering.rule_breaks import drawn_fact, error, pick, set_clock, whole
from mlperf_suite.features.caching_audit.block_times import ANSWER_TOKENS


def faster(run: MadeAudit, data: st.DataObject) -> None:
    """One sample over and over is faster in every pair, by more than the audit lets pass."""
    share = data.draw(st.floats(1.101, 1000))
    for block in run.caching:
        noise = data.draw(st.floats(1, 2))
        same = block.kind == "same"
        block.entries["result_max_latency_ns"] = int(4e8 / (share * noise if same else 1))


def block_of(run: MadeAudit, data: st.DataObject) -> MadeBlock:
    return run.caching[data.draw(st.integers(0, len(run.caching) - 1))]


def other_samples(run: MadeAudit, data: st.DataObject) -> None:
    block = block_of(run, data)
    kind = pick(data, "an answer less", "other samples", "half a pair", "no turns")
    if kind == "an answer less":
        del block.answers[data.draw(st.integers(0, AT_ONCE - 1))]
    elif kind == "other samples":
        block.answers = [(index + 1, tokens) for index, tokens in block.answers]
    else:
        run.caching += [block] * (1 if kind == "half a pair" else 2)


def other_answer(run: MadeAudit, data: st.DataObject) -> None:
    block = block_of(run, data)
    at = data.draw(st.integers(0, AT_ONCE - 1))
    wrong_length = st.integers(0, 9).filter(lambda tokens: tokens != ANSWER_TOKENS)
    block.answers[at] = (block.answers[at][0], (7,) * data.draw(wrong_length))


def other_block_settings(run: MadeAudit, data: st.DataObject) -> None:
    key, value = pick(
        data,
        ("effective_min_duration_ms", 600_000),
        ("effective_sample_concatenate_permutation", True),
        ("effective_accuracy_log_sampling_target", AT_ONCE - 1),
        ("effective_test_mode", "AccuracyOnly"),
        ("effective_scenario", "MultiStream"),
        ("requested_min_query_count", 1),
    )
    block_of(run, data).entries[key] = value


BREAKS: dict[str, Any] = {
    "caching_loadgen_clock": set_clock,
    "caching_speed": faster,
    "caching_prompt_tokens": drawn_fact("cached_tokens", 1, 2, 10**9),
    "caching_samples": other_samples,
    "caching_answers": other_answer,
    "caching_settings": other_block_settings,
    "caching_log_is_whole": whole,
    "caching_no_loadgen_errors": error,
}
