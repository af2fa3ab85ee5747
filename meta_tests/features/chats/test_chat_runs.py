"""edge-agentic's smoke form: from the project's conversations and questions to verdicts."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_tests.features.servers.chat_stand_in import Events, call_piece, chat_server, delta, last
from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import RunError, UsageError
from mlperf_suite.features.chats.chat import ChatAnswer, ChatRequest
from mlperf_suite.features.chats.chat_client import ChatServer, ChatTurn
from mlperf_suite.features.chats.chat_runs import _Watched
from mlperf_suite.features.chats.kind import KIND
from mlperf_suite.features.chats.qwen3_6_27b import QWEN3_6_27B
from mlperf_suite.results.run_folder import read_summary, run_folders
from mlperf_suite.results.schema import Summary
from mlperf_suite.settings import resolve_settings

NAME = QWEN3_6_27B.id
WORDS = ("--benchmark", NAME)
SHORTENED = {
    *("replay_settings", "whole_sessions"),
    *("accuracy_calling_settings", "accuracy_whole_questions"),
}
GATES = {"accuracy_calling_overall", "accuracy_calling_normalized"}


def summary_of(session: SuiteRun) -> tuple[Summary, Path]:
    (folder,) = [path for path in run_folders(session.results_dir) if NAME in path.name]
    summary = read_summary(folder)
    assert summary is not None
    return summary, folder


def statuses(summary: Summary) -> dict[str, str]:
    return {v.rule: v.status for v in summary.verdicts}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_suite(tmp_path_factory.mktemp("runs"), "-p", "meta_tests.stand_in_plugin", *WORDS)


def test_a_smoke_run_goes_from_data_to_verdicts(smoke: SuiteRun) -> None:
    assert smoke.exit_code == 0, smoke.output
    summary, folder = summary_of(smoke)
    found = statuses(summary)
    # A stand-in engine's context is as long as any.
    assert {rule for rule, status in found.items() if status == "shortened"} == SHORTENED
    unjudged = {rule for rule, status in found.items() if status == "not judged"}
    # Its own gates are not judged, so that performance has no accuracy that passed; whether
    # bfcl-eval is installed depends on the machine.
    assert unjudged - {"accuracy_calls_checked"} == GATES | {"calling_passed"}
    assert "failed" not in found.values()
    replay, performance = summary.parts["run.replay"], summary.run.performance
    assert replay and (replay.conversations, replay.turns, replay.missing) == (3, 11, 0)
    assert replay.score is not None and set(replay.by_turn) == {"1", "2 to 10"}
    assert performance and performance.ttft_ms and performance.tokens_per_sec
    assert len(json.loads((folder / "Accuracy" / "calls.json").read_text())) == 24
    assert json.loads((folder / "Performance" / "replay.json").read_text())["expected"] == 11
    report = (folder / "report.md").read_text()
    assert "The conversations" in report and "3 conversations, 11 turns, 0 missing" in report
    assert "the score is not a result" in report
    assert "without LoadGen" in report and "LoadGen says" not in report


# An endpoint


def answer(body: dict[str, Any]) -> Events:
    """A call of the first tool; a word where there is none, as in the first request."""
    if "tools" not in body:
        return [delta(content="a"), *last("length")]
    name = body["tools"][0]["function"]["name"]
    return [call_piece(0, '{"command": "ls"}', name), *last("tool_calls")]


def test_a_server_is_asked_one_by_one_and_what_never_ends_fails_its_rule(tmp_path: Path) -> None:
    """Endless: the arguments of one question's tool call, and the reasoning of one turn."""
    endless = {4: call_piece(0, "[" * 100_000, "f"), 27: delta(reasoning="hm, " * 25_000)}
    numbers = itertools.count(1)

    def hostile(body: dict[str, Any]) -> Events:
        event = endless.get(next(numbers))
        return answer(body) if event is None else itertools.repeat(event)

    with chat_server(hostile) as server:
        words = ("--endpoint", server.url, "--served-model-name", "m")
        session = run_suite(tmp_path, *WORDS, *words)
    assert session.exit_code == 1, session.output
    verdicts = {v.rule: v for v in summary_of(session)[0].verdicts}
    failures = {rule for rule, verdict in verdicts.items() if verdict.status == "failed"}
    endless_ones = {"accuracy_every_question", "every_turn", "replay_no_reasoning"}
    # The stand-in counts seven tokens for any prompt.
    counts = {"replay_counts", "accuracy_calling_counts", "calling_passed"}
    assert failures == counts | endless_ones
    assert "characters of a tool call's arguments" in verdicts["accuracy_every_question"].line
    assert "characters of reasoning" in verdicts["every_turn"].line
    bodies = server.bodies[1:]
    # Two turns follow the one without an answer in its conversation.
    assert len(bodies) == 24 + 11 - 2
    assert {(b["temperature"], b["seed"], b["max_tokens"]) for b in bodies} == {(0.0, 42, 32)}


class Lost:
    """A server that answers a first request, with reasoning, and no other."""

    def __init__(self) -> None:
        self.asked, self.is_closed = 0, False

    async def ask(self, *args: Any, **options: Any) -> ChatTurn:
        self.asked += 1
        answer = ChatAnswer()
        answer.read(json.dumps(delta(reasoning="hm")).encode())
        return ChatTurn(answer, 0.0, None, 0.0, "" if self.asked == 1 else "gone")

    def close(self) -> None:
        self.is_closed = True


def test_a_run_ends_after_several_requests_in_a_row_without_an_answer() -> None:
    server, seen = Lost(), list[tuple[int, int]]()
    watched = _Watched(lambda: server, lambda *counts: seen.append(counts))

    async def ask_many(watched: ChatServer) -> None:
        for _ in range(9):
            await watched.ask(ChatRequest([], Generation(1)))

    with pytest.raises(RunError, match="3 requests in a row have no answer: gone"):
        watched.run(ask_many)
    assert (server.asked, server.is_closed, seen) == (4, True, [(1, 0), (2, 1), (3, 2)])
    assert (watched.reasoned, watched.failures) == (4, ["gone"] * 3)


# What is refused, and prompts


def test_engines_that_it_does_not_measure_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = ["http://127.0.0.1:9", "http://127.0.0.1:8"]
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"profile": "official"}, "an official run measures a server"),
        ({"endpoint": urls}, "name one server"),
    ]
    for options, words in refusals:
        settings = resolve_settings({"benchmark": [NAME], **options}, {})
        with pytest.raises(UsageError, match=words):
            KIND.check_engine(QWEN3_6_27B, settings)
    several = SimpleNamespace(one_by_one=False)
    monkeypatch.setattr("mlperf_suite.features.chats.kind.source_of", lambda _: several)
    with pytest.raises(UsageError, match="name one server"):
        KIND.check_engine(QWEN3_6_27B, resolve_settings({"benchmark": [NAME]}, {}))


def test_it_shares_a_session_with_no_other_benchmark(tmp_path: Path) -> None:
    session = run_suite(tmp_path, *WORDS, "--benchmark", "llama3.1-8b-edge", "--plan")
    assert session.exit_code == 4 and "select it alone" in session.output
