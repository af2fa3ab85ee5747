"""Conversations held at fixed concurrencies: salts, delays, figures, and points that fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from meta_tests.reports.outputs import page_rows
from meta_tests.servers.chat_stand_in import Events, chat_server, delta, last
from meta_tests.session.test_agent_replay import MODELS, rows, written
from meta_tests.session.test_executor import make
from mlperf_suite.__main__ import main
from mlperf_suite.datasets.agent_sessions import read_sessions
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.engines.closed_loop import LoopTimes
from mlperf_suite.engines.endpoint.chat_engine import ChatEndpoint
from mlperf_suite.results.curve_area import StepCurve
from mlperf_suite.results.curve_figures import REHEARSAL
from mlperf_suite.scorers.bash_calls import InlineScorer
from mlperf_suite.scorers.scorer import Answer
from mlperf_suite.session.agent_curve import Trajectories, agent_point, sampling_of
from mlperf_suite.session.agent_replay import asked_server, cache_reuse
from mlperf_suite.session.plan import CurveKey

__all__ = ["make"]  # the fixture

SALT = re.compile(r"\[salt: ([0-9a-f]{16})\]\n\n(.*)\n\n\[salt: ([0-9a-f]{16})\]", re.DOTALL)


def measured(
    file: Path, answer: Any, *more: str, pause_s: float = 0.0
) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """The exit status, the curve's file and the requests."""
    out = file.parent / "curve.json"
    words = ["--curve", "qwen3_6-35b-a3b", "--point-seconds", "0.3", "--max-tokens", "5"]
    with chat_server(answer, {"/v1/models": lambda: MODELS}, pause_s=pause_s) as server:
        command = ["replay", str(file), "--endpoint", server.url, "--model", "m"]
        status = main([*command, *words, "--out", str(out), *more])
        bodies = server.bodies
    return status, json.loads(out.read_text()), bodies


def says_hello(body: dict[str, Any]) -> Events:
    return [delta(content="hello"), delta(content=" you"), *last()]


def test_a_curve_of_conversations_is_a_rehearsal_with_its_interactivity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, rows("a", ["ls", "ls"]) + rows("b", ["ls"]))
    status, content, bodies = measured(file, says_hello, "--most-concurrency", "2", pause_s=0.02)
    points = content["curve"]["points"]
    assert [point["concurrency"] for point in points] == [1, 2]
    if status == 0:
        assert all(point["outcome"] == "measured" for point in points)
        assert all(point["interactivity"] > 0 and point["output_tokens"] > 0 for point in points)
    assert content["mark"] == REHEARSAL
    body = bodies[0]
    assert (body["top_k"], body["presence_penalty"], body["max_tokens"]) == (20, 1.5, 5)
    assert body["chat_template_kwargs"] == {"preserve_thinking": True} and "seed" not in body
    assert SALT.fullmatch(body["messages"][0]["content"])[2] == "Help."  # type: ignore[index]
    page = file.parent / "curve.html"
    text = page.read_text()
    assert REHEARSAL in text and "tokens of turns ÷ their time" in text
    assert [row[0] for row in page_rows(text) if row[0] in ("1", "2")][-2:] == ["1", "2"]
    assert REHEARSAL in capsys.readouterr().out


def test_limit_leaves_out_the_later_conversations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, rows("a", ["ls"]) + rows("b", ["ls"]))
    measured(file, says_hello, "--most-concurrency", "1", "--limit", "1")
    assert f"{REHEARSAL}: 1 conversation, " in capsys.readouterr().out


def test_salts_are_a_passs_and_a_conversations(tmp_path: Path) -> None:
    sessions = read_sessions(written(tmp_path, rows("a", ["ls", "ls"]) + rows("b", ["ls"])))

    def salts_of(trajectories: Trajectories) -> list[list[tuple[str, str]]]:
        found = []
        for _ in range(4):
            _, turns, _ = trajectories.next()
            texts = [messages[0]["content"] for _, messages in turns]
            found.append([(m[1], m[3]) for text in texts if (m := SALT.fullmatch(text))])
        return found

    first, second, third, _ = salts_of(Trajectories(sessions))
    assert len(set(first)) == 1 and len(first) == 2
    assert first[0][0] == second[0][0] != third[0][0]
    assert first[0][1] not in (second[0][1], third[0][1])
    assert salts_of(Trajectories(sessions))[0] != first


def test_interactivity_is_the_tokens_of_turns_by_their_time() -> None:
    times = LoopTimes()
    times.issued_s.extend([0.0, 0.0, 3.0, 5.0])
    times.first_s.extend([0.5, 1.0, 3.5, 5.5])
    times.ended_s.extend([2.0, 4.0, 5.0, 8.0])
    times.tokens.extend([10, 20, 30, 30])
    times.issuing_s = 8.0
    point = agent_point(times, 2)
    assert point.interactivity == pytest.approx(90 / 11)
    assert point.tps_per_user == point.interactivity
    assert point.system_tps == pytest.approx(90 / 8)
    rates = [block.interactivity for block in point.blocks]
    assert rates == [0, 5, 0, 5, 15, 0, 0, 10]
    # A block in which no turn ended has no figure of a user.
    assert StepCurve([point]).points == [point]


def test_the_first_turn_without_an_answer_ends_its_point(tmp_path: Path) -> None:
    def fails_later(body: dict[str, Any]) -> Events:
        return says_hello(body) if len(body["messages"]) == 2 else [delta(content="half")]

    file = written(tmp_path, rows("a", ["ls", "ls"]))
    status, content, bodies = measured(file, fails_later)
    (point,) = content["curve"]["points"]
    assert (status, point["outcome"]) == (1, "failed")
    assert len(bodies[-1]["messages"]) == 4
    assert point["reason"].startswith("a, turn 2: ")
    assert content["turns"]["1"]["missing"] == 1


def test_a_turn_whose_pieces_are_all_held_back_is_answered_at_its_end(tmp_path: Path) -> None:
    def held_back(body: dict[str, Any]) -> Events:
        return [{"choices": [{"delta": {}}]}, *last(tokens=5)]

    _, content, _ = measured(written(tmp_path, rows("a", ["ls"])), held_back, pause_s=0.02)
    assert "without a token" not in content["curve"]["points"][0].get("reason", "")
    assert content["turns"]["1"]["missing"] == 0


def test_conversations_need_a_system_prompt_for_the_salt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{k: v for k, v in row.items() if k != "system"} for row in rows("a", ["ls"])]
    command = ["replay", str(written(tmp_path, lines)), "--endpoint", "http://127.0.0.1:9"]
    command += ["--model", "m", "--curve", "kimi-k3", "--out", str(tmp_path / "curve.json")]
    assert main(command) == 2
    assert "a has no system prompt to salt" in capsys.readouterr().err
    assert main([*command, "--most-concurrency", "0"]) == 2


class StandInChat(ChatEndpoint):
    """The chat server of a test as a session's engine."""

    url = ""

    def __init__(self, settings: dict[str, object], dies_in: str | None) -> None:
        super().__init__(*asked_server(self.url, "m"))


def test_a_session_measures_the_curve_of_an_agentic_benchmark(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlperf_suite.session.curves.SMOKE_POINT_S", 0.2)
    monkeypatch.setattr(
        "mlperf_suite.session.curves.next_probe", lambda rates: 1 - len(rates) or None
    )
    key = CurveKey("kimi-k3")
    with chat_server(says_hello, {"/v1/models": lambda: MODELS}, pause_s=0.01) as server:
        monkeypatch.setattr(StandInChat, "url", server.url)
        options = {"benchmark": ["kimi-k3"], "endpoint": [server.url]}
        session = make(key, kind=StandInChat, **options, warmup="1")
        assert session.suite.make(key).failure is None
    turns = json.loads((session.folder / "turns.json").read_text())
    assert turns["1"]["missing"] == 0 and turns["1"]["turns"] > 0
    curve = json.loads((session.folder / "curve.json").read_text())
    assert curve["rehearsal"] and curve["points"][0]["interactivity"] > 0


def test_the_inline_score_is_the_mean_of_turns_with_programs() -> None:
    def message(command: str) -> str:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        return json.dumps({"tool_calls": [{"function": function}]})

    answers = [
        Answer(Sample("", message(recorded)), (), message(given))
        for recorded, given in (("ls", "ls"), ("ls", "cat x"), ("unknown", "ls"))
    ]
    scores = InlineScorer().score(answers)
    assert scores.values == {"inline": 50.0}
    assert scores.per_answer["inline"] == (100.0, 0.0, None)


def test_each_benchmark_has_its_sampling() -> None:
    fields, sampling = sampling_of("kimi-k3")
    assert (fields, sampling.max_tokens, sampling.temperature) == ({}, 8192, 1.0)
    assert sampling_of("deepseek-v4_1-flash") == (fields, sampling)
    fields, sampling = sampling_of("qwen3_6-35b-a3b", 32)
    assert (fields["top_k"], sampling.top_p, sampling.max_tokens) == (20, 0.95, 32)
    assert cache_reuse([]).words() == "KV reuse: not judged, the server reports no cached tokens"
