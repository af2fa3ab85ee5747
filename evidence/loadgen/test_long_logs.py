"""Logs of real size take little memory, and texts made to keep a reader busy are read at once."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from meta_tests.judging.unreadable_files import within
from meta_tests.made_runs import MadeRun
from meta_tests.tampering.rule_breaks import not_passed
from mlperf_suite import strict_json
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.loadgen.logs import ACCURACY, read_logs
from mlperf_suite.loadgen.timeline import TIMELINE_JSON, Timeline, read_timeline, write_timeline
from mlperf_suite.rules import judge
from mlperf_suite.rules.accuracy_files import parse_accuracy_txt


def test_texts_of_many_empty_parts_are_read_at_once() -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    run.summary += "TTFT Early Stopping Result:\n\nTPOT Early Stopping Result:\n" * 100_000
    with within(300):
        assert "summary_agrees" in not_passed(judge(run.facts()))


def test_a_member_twice_among_many_is_found_at_once() -> None:
    names = [f"n{number}" for number in range(300_000)]
    with within(300), pytest.raises(strict_json.RepeatedMemberError, match="'last' twice"):
        strict_json.loads("{" + ",".join(f'"{name}":0' for name in (*names, "last", "last")) + "}")


@pytest.mark.parametrize("text", ["{" + '"f1": 1 ' * 400_000, '{"f1": 1 }' * 300_000 + "x"])
def test_a_long_line_of_an_accuracy_txt_is_read_at_once(text: str) -> None:
    with within(300):
        assert parse_accuracy_txt(text).scores == {}


def test_long_answers_take_little_more_than_their_tokens(tmp_path: Path) -> None:
    answers, tokens = 100, 4000
    data = b"".join((1000 + i).to_bytes(4, "little") for i in range(tokens)).hex().upper()
    rows = [json.dumps({"seq_id": i, "qsl_idx": i, "data": data}) for i in range(answers)]
    (tmp_path / ACCURACY).write_text("[\n" + ",\n".join(rows) + "\n]\n")
    tracemalloc.start()
    try:
        log = read_logs(tmp_path).accuracy
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(log.samples) == answers and log.samples[-1].token_ids[-1] == 1000 + tokens - 1
    # The log has 8 bytes for each, Python's integers 28 and a tuple 8 more.
    assert highest < 6 * answers * tokens


def test_reading_takes_a_few_times_the_memory_of_the_file(tmp_path: Path) -> None:
    """As Python's numbers, the columns would take ten times that of the arrays."""
    issued_ms = [1.5 * number for number in range(20_000)]
    first_ms, last_ms = ([at + later for at in issued_ms] for later in (11.125, 28.5))
    parts = {name: [0.5] * 20_000 for name in ("issue", "tokens")}
    timeline = Timeline(
        issued_ms,
        first_ms,
        last_ms,
        [100] * 20_000,
        samples=range(20_000),
        prompt_tokens=[10] * 20_000,
        preempted=[0] * 20_000,
        parts_ms=parts,
    )
    write_timeline(tmp_path, timeline)
    read_timeline(tmp_path)
    tracemalloc.start()
    try:
        assert read_timeline(tmp_path) is not None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3.5 * (tmp_path / TIMELINE_JSON).stat().st_size
