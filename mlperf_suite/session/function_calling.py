"""Function calling on a chat server: BFCL v4's 995 samples, asked one after another, and both
gates of edge-agentic (qwen3.6-27b, round v6.1)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.engines.endpoint.chat import ChatRequest
from mlperf_suite.engines.endpoint.chat_client import ChatClient, ChatServer
from mlperf_suite.engines.endpoint.config import parse_endpoint
from mlperf_suite.results.run_folder import write_whole
from mlperf_suite.scorers.function_calls import (
    GATES,
    FunctionCallScores,
    checked_answers,
    drawn_samples,
    scores,
)
from mlperf_suite.session.agent_replay import SAMPLING, TURN_TIMEOUT_S

Answers = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class CallingRequest:
    """Whom to ask, and where the scores go. `python`: that of the environment with bfcl-eval;
    `limit`: the first so many samples of each subset alone."""

    endpoint: str
    model: str
    python: Path
    out: Path
    limit: int | None = None


def run_function_calling(request: CallingRequest, say: Callable[[str], None]) -> bool:
    """Ask, check, write the scores and say them; whether both gates are met."""
    samples = _limited(drawn_samples(request.python), request.limit)
    say(f"{len(samples)} samples")
    key = os.environ.get("API_KEY")
    answers = asyncio.run(_answers_of(request, key, samples, say))
    verdicts = checked_answers(request.python, answers)
    result = scores({sample["id"]: sample["subset"] for sample in samples}, verdicts)
    content = asdict(result) | {"gates": GATES, "limit": request.limit, "verdicts": verdicts}
    write_whole(request.out, json.dumps(content | {"calls": answers}, indent=2) + "\n")
    say("\n".join(calling_lines(result, request.limit)))
    say(str(request.out))
    return request.limit is None and result.passed


async def _answers_of(
    request: CallingRequest,
    key: str | None,
    samples: Sequence[Mapping[str, Any]],
    say: Callable[[str], None],
) -> Answers:
    # The client belongs to the loop that it is used in.
    client = ChatClient(parse_endpoint(request.endpoint), request.model, key=key)
    return await ask_samples(client, samples, say)


def _limited(samples: list[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    taken: dict[str, int] = {}
    chosen = []
    for sample in samples:
        taken[sample["subset"]] = taken.get(sample["subset"], 0) + 1
        if limit is None or taken[sample["subset"]] <= limit:
            chosen.append(sample)
    return chosen


async def ask_samples(
    server: ChatServer, samples: Sequence[Mapping[str, Any]], say: Callable[[str], None]
) -> Answers:
    """The tool calls of each answer, by the sample's id. A sample without an answer is missing."""
    answers: Answers = {}
    for sample in samples:
        request = ChatRequest(sample["messages"], SAMPLING, sample["tools"], TURN_TIMEOUT_S)
        turn = await server.ask(request)
        if turn.failure:
            say(f"{sample['id']}: {turn.failure}")
        else:
            answers[sample["id"]] = [call.as_json() for call in turn.answer.tool_calls]
    return answers


def calling_lines(result: FunctionCallScores, limit: int | None) -> list[str]:
    """The scores as lines of text. With a limit no gate judges them."""
    lines = [f"samples: {result.samples}, missing: {result.missing}"]
    for name, value in (("overall", result.overall), ("normalized", result.normalized)):
        verdict = "passed" if value >= GATES[name] else "failed"
        verdict = verdict if limit is None else "not judged, too few samples"
        lines.append(f"{name}: {value:.2f}%, required {GATES[name]:.2f}%: {verdict}")
    return lines + [f"{name}: {value:.2f}%" for name, value in result.categories.items()]
