"""Conversations held at fixed concurrencies: salts, delays, figures, and points that fail."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.features.chats.recorded_sessions import MODELS, rows, written
from meta_tests.features.servers.chat_stand_in import Events, chat_server, delta, last
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.chats.agent_sessions import read_sessions
from mlperf_suite.features.chats.bash_calls import InlineScorer
from mlperf_suite.features.chats.chat_client import ChatClient, ChatEndpoint
from mlperf_suite.features.endpoints.curve.agent_points import (
    ConversationPoints,
    agent_point,
    saltable,
    sampling_of,
)
from mlperf_suite.features.endpoints.curve.closed_loop import LoopTimes
from mlperf_suite.features.endpoints.curve.curve_area import StepCurve
from mlperf_suite.features.endpoints.curve.curve_figures import (
    NO_ENDPOINTS_RESULT,
    CurveFigures,
    CurvePoint,
)
from mlperf_suite.features.endpoints.curve.curve_kind import CurveKey
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.server_facts import find_server_facts
from mlperf_suite.results import typed_json
from mlperf_suite.results.run_folder import read_object
from mlperf_suite.scorers.scorer import Answer

CURVES = "mlperf_suite.features.endpoints.curve.curves"
SALT = re.compile(r"\[salt: ([0-9a-f]{16})\]\n\n(.*)\n\n\[salt: ([0-9a-f]{16})\]", re.DOTALL)


@pytest.fixture(autouse=True)
def not_bound(monkeypatch: MonkeyPatch) -> None:
    """The server of these tests is in this process, whose time would count as the client's."""
    monkeypatch.setattr("mlperf_suite.features.endpoints.curve.agent_points.FULL_SHARE", 100.0)


def measured(
    file: Path, answer: Any, *, pause_s: float = 0.0
) -> tuple[CurvePoint, list[dict[str, Any]]]:
    """A point of two conversations at once, and the requests."""
    fields, sampling = sampling_of("qwen3_6-35b-a3b", 5)
    clients: list[ChatClient] = []

    def connect(connections: int) -> ChatClient:
        clients.append(ChatClient(target, "m", connections=connections, fields=fields))
        return clients[-1]

    with chat_server(answer, pause_s=pause_s) as server:
        target = parse_endpoint(server.url)
        points = ConversationPoints(read_sessions(file), connect, dict, sampling, timeout_s=60.0)
        point = points.measure(2, 0.3)
    # Or they would be open beside the next point.
    assert not any(client._pool._open for client in clients)
    return point, server.bodies


def says_hello(body: dict[str, Any]) -> Events:
    return [delta(content="hello"), delta(content=" you"), *last()]


def test_a_point_of_conversations_has_its_interactivity_and_turns(tmp_path: Path) -> None:
    file = written(tmp_path, rows("a", ["ls", "ls"]) + rows("b", ["ls"]))
    point, bodies = measured(file, says_hello, pause_s=0.02)
    assert point.interactivity and point.output_tokens > 0
    assert point.turns is not None and point.turns.missing == 0
    assert (point.turns.tokens_a_turn, point.turns.inline_score) == (3, 0)
    body = bodies[0]
    assert (body["top_k"], body["presence_penalty"], body["max_tokens"]) == (20, 1.5, 5)
    assert body["chat_template_kwargs"] == {"preserve_thinking": True} and "seed" not in body
    assert SALT.fullmatch(body["messages"][0]["content"])[2] == "Help."  # type: ignore[index]


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

    point, bodies = measured(written(tmp_path, rows("a", ["ls", "ls"])), fails_later)
    assert point.outcome == "failed" and point.reason.startswith("a, turn 2: ")
    assert len(bodies[-1]["messages"]) == 4
    assert point.turns is not None and point.turns.missing >= 1


def test_a_turn_whose_pieces_are_all_held_back_is_answered_at_its_end(tmp_path: Path) -> None:
    def held_back(body: dict[str, Any]) -> Events:
        return [{"choices": [{"delta": {}}]}, *last(tokens=5)]

    point, _ = measured(written(tmp_path, rows("a", ["ls"])), held_back, pause_s=0.02)
    assert point.turns is not None and point.turns.missing == 0


def test_a_point_of_turns_in_one_piece_has_no_ttft_and_tpot(tmp_path: Path) -> None:
    point, _ = measured(
        written(tmp_path, rows("a", ["ls"])), lambda _: [delta(content="x" * 9), *last(tokens=9)]
    )
    assert point.interactivity and point.tpot_p90_ms is None and point.ttft_p90_ms is None
    assert "answers in one piece" in point.reason


def test_conversations_need_a_system_prompt_for_the_salt(tmp_path: Path) -> None:
    lines = [{k: v for k, v in row.items() if k != "system"} for row in rows("a", ["ls"])]
    with pytest.raises(DatasetError, match="file: a has no system prompt to salt"):
        saltable(read_sessions(written(tmp_path, lines)), "file")


class StandInChat(ChatEndpoint):
    """The chat server of a test as a session's engine."""

    url = ""

    def __init__(self, settings: dict[str, object], dies_in: str | None) -> None:
        config = EndpointConfig((parse_endpoint(self.url),), "m", None, 0, chat=True)
        super().__init__(config, find_server_facts(config, config.targets[0]))


@pytest.fixture
def curve(make: Any, monkeypatch: MonkeyPatch) -> Any:
    """Measures a curve of one point in a session."""
    monkeypatch.setattr(f"{CURVES}.SMOKE_POINT_S", 0.2)
    monkeypatch.setattr(f"{CURVES}.PROBE_POINT_S", 0.2)
    monkeypatch.setattr(f"{CURVES}.next_probe", lambda rates: 1 - len(rates) or None)
    key = CurveKey("kimi-k3")

    def measure(**options: Any) -> Any:
        with chat_server(says_hello, {"/v1/models": lambda: MODELS}, pause_s=0.01) as server:
            monkeypatch.setattr(StandInChat, "url", server.url)
            options |= {"benchmark": ["kimi-k3"], "endpoint": [server.url], "warmup": "1"}
            options["served_model_name"] = "m"
            session = make(key, kind=StandInChat, **options)
            assert session.suite.make(key).failure is None
            session.suite.close()
            return session, server.bodies

    return measure


def test_a_session_measures_the_curve_of_an_agentic_benchmark(curve: Any, tmp_path: Path) -> None:
    file = written(tmp_path, rows("a", ["ls", "ls"]))
    session, bodies = curve(dataset=str(file), max_new_tokens="7")
    # Of one token: whether the server answers at all.
    assert {body["max_tokens"] for body in bodies} == {1, 7}
    figures = typed_json.read(CurveFigures, read_object(session.folder / "curve.json"))
    assert figures is not None and figures.rehearsal
    (point, *_) = figures.points
    assert point.interactivity and point.turns is not None
    assert point.turns.turns > point.turns.missing == 0
    report = (session.folder / "report.md").read_text()
    assert NO_ENDPOINTS_RESULT in report and "tokens of turns ÷ their time" in report
    assert "inline score of at least 58.32% and 425 to 520 tokens per turn" in report


def test_an_official_point_is_longer(curve: Any, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    lengths: list[bool] = []
    timeouts: list[float] = []

    def seconds(concurrency: int, *, agentic: bool) -> float:
        lengths.append(agentic)
        return 0.2

    def points(*arguments: Any) -> ConversationPoints:
        timeouts.append(arguments[-1])
        return ConversationPoints(*arguments)

    monkeypatch.setattr(f"{CURVES}.min_duration_s", seconds)
    monkeypatch.setattr(f"{CURVES}.ConversationPoints", points)
    options = {"profile": "official", "model": "embedded", "allow_other_model": "true"}
    curve(dataset=str(written(tmp_path, rows("a", ["ls"]))), **options)
    assert lengths and all(lengths) and timeouts == [600.0]


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
