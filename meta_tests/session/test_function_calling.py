"""Function calling: scores from verdicts, both gates, and a run on a server without a model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from meta_tests.conftest import ROOT
from meta_tests.servers.chat_stand_in import Events, call_piece, chat_stand_in, delta, last
from mlperf_suite.__main__ import main
from mlperf_suite.engines.endpoint.chat_client import ChatClient
from mlperf_suite.engines.endpoint.config import parse_endpoint
from mlperf_suite.errors import SuiteError
from mlperf_suite.scorers.bfcl_worker import check, drawn
from mlperf_suite.scorers.function_calls import drawn_samples, scores
from mlperf_suite.session.function_calling import ask_samples, calling_lines

BFCL = ROOT / ".bfcl/bin/python"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def test_the_official_shares_of_subsets() -> None:
    assert [drawn(n, "non_live") for n in (400, 200, 100, 50, 25)] == [248, 124, 62, 31, 25]
    assert [drawn(n, "live") for n in (258, 1053, 16, 24)] == [25, 105, 16, 24]
    assert [drawn(n, "hallucination") for n in (240, 884)] == [24, 88]


def test_scores_weigh_categories_as_officially() -> None:
    subsets = {"a": "simple_python", "b": "simple_java", "c": "multiple", "d": "irrelevance"}
    subsets |= {"e": "live_simple", "f": "live_multiple", "g": "live_multiple"}
    result = scores(subsets, {"a": 1, "b": 0, "c": 1, "e": 1, "f": 0, "g": 1})
    assert result.categories == {"non_live": 75.0, "hallucination": 0.0, "live": 66.67}
    assert (result.overall, result.normalized, result.missing) == (57.14, 47.22, 1)


@pytest.mark.parametrize(
    ("wrong", "missing", "passed"), [(0, 0, True), (20, 0, False), (0, 1, False)]
)
def test_a_gate_needs_both_scores_and_every_sample(wrong: int, missing: int, passed: bool) -> None:
    subsets = {str(i): "multiple" for i in range(100)}
    verdicts = {str(i): int(i >= wrong) for i in range(100 - missing)}
    result = scores(subsets, verdicts)
    assert result.passed is passed
    assert ("failed" in "".join(calling_lines(result, None))) is (wrong > 0)
    assert "not judged" in "".join(calling_lines(result, 1))


def test_where_no_call_is_right_any_call_is_wrong() -> None:
    sample: dict[str, Any] = {"subset": "irrelevance", "reference": [], "functions": []}
    assert (check(sample, []), check(sample, [{"function": {}}])) == (1, 0)


def test_calls_arrive_by_id_and_lost_answers_are_missing() -> None:
    def answer(body: dict[str, Any]) -> Events:
        assert (body["tools"], body["tool_choice"]) == ([TOOL], "auto")
        if body["messages"][0]["content"] == "lost":
            return [delta(content="half")]
        return [call_piece(0, '{"a"', "f"), call_piece(0, ": 1}"), *last("tool_calls")]

    async def run() -> dict[str, Any]:
        async with chat_stand_in(answer) as server:
            client = ChatClient(parse_endpoint(server.url), "m")
            messages = {name: [{"role": "user", "content": name}] for name in ("x", "lost")}
            samples = [{"id": n, "messages": m, "tools": [TOOL]} for n, m in messages.items()]
            return await ask_samples(client, samples, lambda line: None)

    answers = asyncio.run(run())
    assert list(answers) == ["x"]
    assert answers["x"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}


def test_without_the_environment_the_message_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="run make bfcl"):
        drawn_samples(tmp_path / "python")
    words = ["--endpoint", "http://127.0.0.1:9", "--model", "m", "--python", str(tmp_path / "no")]
    assert main(["function-calls", *words]) == 2


@pytest.mark.skipif(not BFCL.is_file(), reason="needs make bfcl")
def test_the_official_draw_has_995_samples() -> None:
    assert len(drawn_samples(BFCL)) == 995
