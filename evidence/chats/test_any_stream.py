"""Chat answers in any pieces and any mixture, and any bytes in the place of an event."""

import itertools
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.features.servers.chat_stand_in import call_piece, delta, last
from mlperf_suite.features.chats.chat import ChatAnswer
from mlperf_suite.features.servers.adapters import AnswerError


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[a:b] for a, b in itertools.pairwise([0, *places, len(text)])]


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, str, list[str], list[dict[str, Any]]]:
    """Content, reasoning and arguments of calls, and events that make them up, in any mixture."""
    content, reasoning = draw(st.text(max_size=30)), draw(st.text(max_size=30))
    arguments = draw(st.lists(st.text(max_size=20), max_size=3))
    name = draw(st.sampled_from(["reasoning", "reasoning_content"]))
    lanes = [
        [delta(content=piece) for piece in draw(cuts(content))],
        [delta(**{name: piece}) for piece in draw(cuts(reasoning))],
    ]
    for index, text in enumerate(arguments):
        pieces = draw(cuts(text))
        lanes.append([call_piece(index, pieces[0], f"f{index}")])
        lanes[-1] += [call_piece(index, piece) for piece in pieces[1:]]
    order = draw(st.permutations([i for i, lane in enumerate(lanes) for _ in lane]))
    return content, reasoning, arguments, [lanes[i].pop(0) for i in order]


@given(streams())
def test_an_answer_is_the_same_however_its_stream_is_cut(
    stream: tuple[str, str, list[str], list[dict[str, Any]]],
) -> None:
    content, reasoning, arguments, events = stream
    answer = ChatAnswer()
    for event in (*events, *last("tool_calls", tokens=5)):
        answer.read(json.dumps(event).encode())
    assert (answer.content, answer.reasoning) == (content, reasoning)
    assert [call.arguments for call in answer.tool_calls] == arguments
    assert [call.name for call in answer.tool_calls] == [f"f{i}" for i in range(len(arguments))]
    assert (answer.finish_reason, answer.completion_tokens) == ("tool_calls", 5)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists))
@settings(max_examples=200)
def test_any_event_is_an_answer_or_an_answer_error(content: Any) -> None:
    event = content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        ChatAnswer().read(event)
    except AnswerError as error:
        assert len(str(error)) < 400
