"""Messages in events.jsonl, counted in the chat template of the client's tokenizer."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.features.endpoints.judging.official_client_submissions import events_of
from mlperf_suite.features.endpoints.official_client_results.client_events import RunEvents
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    OfficialClientConfig,
)

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which day?"}]
CALL = {"id": "1", "type": "function", "function": {"name": "day", "arguments": '{"at": 3}'}}
WITH_CALL = [*MESSAGES, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
TEMPLATE = (
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{% for k, v in c.function.arguments.items() %}{{ k }} is {{ v }}{% endfor %}{% endfor %}"
    "{% endfor %}{{ tools | length if tools else 'no' }} tools{{ mood }}{{ tool_choice }}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a tokenizer whose tokens are characters, with a template that has calls, tools
    and arguments in it."""
    characters = {chr(number): number for number in range(128)}
    made = Tokenizer(BPE(characters, []))
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    return tmp_path


def events_in(
    folder: Path, model: Path | None = None, *, issued: object = None, **later: object
) -> RunEvents:
    """The events of a run of one request, whose answer lasted 100 ns after its first token."""
    events: list[dict[str, object]] = [
        {"event_type": "session.start_performance_tracking", "timestamp_ns": 1}
    ]
    events += [
        {"event_type": f"sample.{kind}", "timestamp_ns": at, "sample_uuid": "a", "data": of}
        for at, (kind, of) in zip((10, 20, 120), ({"issued": issued} | later).items(), strict=False)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    model = model or folder
    read = events_of(
        folder, OfficialClientConfig(model_params={"name": f"made/{model.name}"}), model
    )
    assert isinstance(read, RunEvents)
    return read


def sent(folder: Path, *chat: object, model: Path | None = None) -> RunEvents:
    """The events of a request with these messages, tools and so on."""
    return events_in(folder, model, issued=["PromptData", None, None, *chat])


def answered(folder: Path, *parts: object) -> RunEvents:
    """The events of an answer of this output, reasoning and these calls."""
    return events_in(folder, recv_first=None, complete=["TextModelOutput", *parts])


@pytest.mark.parametrize(
    ("chat", "text"),
    [
        ([MESSAGES], "Be brief.Which day?no tools"),
        ([WITH_CALL], "Be brief.Which day?at is 3no tools"),
        ([MESSAGES, [{"type": "function"}] * 2], "Be brief.Which day?2 tools"),
        ([MESSAGES, None, {"mood": "calm"}], "Be brief.Which day?no toolscalm"),
        ([MESSAGES, None, None, None, "auto"], "Be brief.Which day?no toolsauto"),
    ],
)
def test_messages_are_counted_as_the_template_has_them(
    folder: Path, chat: list[object], text: str
) -> None:
    events = sent(folder, *chat)
    assert events.inputs.tolist() == [len(text)]
    assert events.uncounted_inputs == ""


def test_the_models_own_template_counts(tmp_path: Path) -> None:
    events = sent(tmp_path, MESSAGES, model=embedded_model_dir())
    tokenizer = load_tokenizer(str(embedded_model_dir()))
    whole = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, return_dict=False)
    assert events.inputs.tolist() == [len(whole)]


@pytest.mark.parametrize(
    "chat",
    [
        [MESSAGES, None, None, "{{ messages | length }}"],
        [MESSAGES, None, {"padding": "max_length", "max_length": 10**12}],
        [MESSAGES, None, {"tokenize": False}],
        [MESSAGES, None, ["calm"]],
        [MESSAGES, 3],
        [["Which day?"]],
        [7],
        # Without a tokenizer.
        [],
    ],
)
def test_what_could_harm_or_has_no_template_is_not_counted(folder: Path, chat: list[Any]) -> None:
    if not chat:
        (folder / "tokenizer.json").unlink()
    events = sent(folder, *(chat or [MESSAGES]))
    assert events.inputs.tolist() == []
    assert "chat template" in events.uncounted_inputs


PARTS = [
    {"index": 1, "id": "2", "function": {"name": "week", "arguments": ""}},
    {"index": 0, "id": "1", "type": "function", "function": {"name": "day", "arguments": '{"a'}},
    {"index": 0, "function": {"arguments": 't": 3}'}},
    {"index": 1, "function": {"arguments": '{"by": 4}'}},
]
STREAMED = [[PARTS[0], PARTS[1]], [PARTS[2]], [PARTS[3]]]


@pytest.mark.parametrize(
    ("parts", "whole", "later"),
    [
        # Reasoning comes before content, and calls after both.
        ([["Day ", "three"], ["Let me ", "think"]], "Let me think:Day three", "think:Day three"),
        (["Day three", "Let me think"], "Let me think:Day three", ":"),
        (["Day three", ["Let me ", "think"]], "Let me think:Day three", "think:Day three"),
        (["", None, [CALL]], ":at is 3", ":at is 3"),
        ([[], None, STREAMED], ":at is 3by is 4", None),
        ([["Day ", "three"], None, STREAMED], ":Day threeat is 3by is 4", ":threeat is 3by is 4"),
    ],
)
def test_reasoning_and_calls_are_counted_as_the_template_has_them(
    folder: Path, parts: list[object], whole: str, later: str | None
) -> None:
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.reasoning_content }}:"
        "{{ m.content }}{% for c in m.tool_calls or [] %}{% if c.function.arguments is mapping %}"
        "{% for k, v in c.function.arguments.items() %}{{ k }} is {{ v }}{% endfor %}"
        "{% else %}{{ c.function.arguments }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
    )

    def count(text: str) -> int:
        return len(text) - len(":")

    events = answered(folder, *parts)
    assert (events.uncounted, events.lengths.tolist()) == ("", [count(whole)])
    if later is not None:
        expected = [100 / count(later)] if count(later) else []
        assert events.tpot.tolist() == expected


@pytest.mark.parametrize(
    "parts",
    [
        ["a", None, [[7]]],
        ["a", None, 7],
        ["a", None, [[{"index": []}]]],
        ["a", None, [[{"function": 3}]]],
        ["a", "b", [[{"function": {"arguments": {}}}]]],
    ],
)
def test_calls_that_are_none_are_not_counted(folder: Path, parts: list[object]) -> None:
    events = answered(folder, *parts)
    assert events.lengths.tolist() == [] and "chat template" in events.uncounted
