"""edge-agentic's smoke form on the real engine: from the project's own data to verdicts."""

from __future__ import annotations

from pathlib import Path

from meta_tests.suite_runs import run_suite
from mlperf_suite.features.chats.qwen3_6_27b import QWEN3_6_27B

SHORTENED = {
    *("replay_settings", "whole_sessions", "context_length"),
    *("accuracy_calling_settings", "accuracy_whole_questions"),
}
UNJUDGED = {"accuracy_calling_overall", "accuracy_calling_normalized", "calling_passed"}


def test_a_smoke_run_on_the_real_engine_goes_from_data_to_verdicts(tmp_path: Path) -> None:
    session = run_suite(tmp_path, "--benchmark", QWEN3_6_27B.id)
    assert session.exit_code == 0, session.output
    found = session.statuses()
    assert {rule for rule, status in found.items() if status == "shortened"} == SHORTENED
    # Whether bfcl-eval is installed depends on the machine.
    unjudged = {rule for rule, status in found.items() if status == "not judged"}
    assert unjudged - {"accuracy_calls_checked"} == UNJUDGED
    assert "failed" not in found.values()
    replay, performance = session.summary.parts["run.replay"], session.summary.run.performance
    assert replay and (replay.conversations, replay.turns, replay.missing) == (3, 11, 0)
    assert replay.score is not None and set(replay.by_turn) == {"1", "2 to 10"}
    assert performance and performance.ttft_ms and performance.tokens_per_sec
    report = (session.folder / "report.md").read_text()
    assert "3 conversations, 11 turns, 0 missing" in report and "without LoadGen" in report
