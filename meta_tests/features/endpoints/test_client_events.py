"""events.jsonl of the official HTTP client: counted as its aggregator counts."""

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from meta_tests.features.endpoints.made_inputs import (
    SYSTEM,
    Salt,
    hexadecimal,
    marker,
    salted,
    streams,
    users,
    write_lines,
)
from mlperf_suite.features.endpoints.official_client_results import client_events, sent_prompts
from mlperf_suite.features.endpoints.official_client_results.client_events import (
    RunEvents,
    read_events,
)

Event = tuple[int, str, str] | tuple[int, str, str, object]
START: Event = (10, "session.start_performance_tracking", "")
STOP: Event = (90, "session.stop_performance_tracking", "")


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def read(folder: Path, *events: Event, tokens: bool = True) -> RunEvents:
    """The figures of events, each with or without data; `tokens`: whether there is a tokenizer."""
    path = write_lines(folder / "events.jsonl", events)
    counted, problem = read_events(path, words if tokens else None)
    assert counted is not None, problem
    return counted


def test_the_window_ends_with_the_request_that_was_issued_last(tmp_path: Path) -> None:
    of_a = (11, "sample.issued", "a"), (80, "sample.complete", "a")
    of_b = (12, "sample.issued", "b"), (50, "sample.complete", "b")
    never_ends = (13, "sample.issued", "c")
    counted = read(tmp_path, START, of_a[0], of_b[0], never_ends, of_b[1], of_a[1])
    assert (counted.duration_ns, counted.window_ns) == (70, 39)
    assert (counted.issued, counted.completed) == (3, 2)


def test_each_start_of_tracking_is_a_block_of_its_own(tmp_path: Path) -> None:
    again, needless = ((at, "session.start_performance_tracking", "") for at in (100, 105))
    of_a = (11, "sample.issued", "a"), (30, "sample.complete", "a")
    of_b = (110, "sample.issued", "b"), (130, "error.client", "b"), (130, "sample.complete", "b")
    counted = read(tmp_path, START, *of_a, STOP, again, needless, *of_b)
    assert counted.duration_ns == 20 + 30
    assert counted.failed == 1


def test_nothing_counts_once_the_session_ended(tmp_path: Path) -> None:
    end = (12, "session.ended", "")
    assert read(tmp_path, START, end, (13, "sample.issued", "a")) == read(tmp_path, START)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "\n",
        '{"event_type": "sample.issued", "timestamp_ns": -1}',
        '{"event_type": "sample.issued", "timestamp_ns": true}',
        '{"event_type": 1, "timestamp_ns": 1}',
        '{"event_type": "\udcff", "timestamp_ns": 1}',
        '{"a": ' + '{"a": ' * 100_000,
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert read_events(path) == (None, "events.jsonl: line 1 is not an event")


def test_a_fifo_and_a_folder_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    for path in (tmp_path / "events.jsonl", tmp_path):
        counted, problem = read_events(path)
        assert counted is None
        assert problem.startswith(f"{path.name} cannot be read: ")


def answered(folder: Path, *data: object, first: bool = True) -> RunEvents:
    """A run of one request for each answer, first tokens after 5 ns and the last after 25 ns."""
    events = [START]
    for number, answer in enumerate(data):
        start, uuid = 100 * (number + 1), f"{number}"
        events.append((start, "sample.issued", uuid))
        if first:
            events.append((start + 5, "sample.recv_first", uuid))
        events.append((start + 25, "sample.complete", uuid, answer))
    return read(folder, *events)


@pytest.mark.parametrize("rest", [[["think"], None], [None, [{"name": "f"}]]])
def test_what_takes_the_chat_template_is_not_counted(tmp_path: Path, rest: list[object]) -> None:
    plain, structured = ["TextModelOutput", "a b"], ["TextModelOutput", "a b", *rest]
    assert "chat template" in answered(tmp_path, plain, structured, plain).uncounted


def sent(folder: Path, *data: object, tokens: bool = True) -> RunEvents:
    """A run of one request for each prompt, none of which was answered."""
    issued = [(11, "sample.issued", f"{n}", prompt) for n, prompt in enumerate(data)]
    return read(folder, START, *issued, tokens=tokens)


def test_more_texts_than_are_counted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_events, "TEXTS_AT_ONCE", 4)
    numbers = range(7)
    prompts = [["PromptData", "a" + " b" * n] for n in numbers]
    assert sent(tmp_path, *prompts).inputs.tolist() == [1 + n for n in numbers]
    events = answered(tmp_path, *(["TextModelOutput", ["a", " b" * n]] for n in numbers))
    assert events.lengths.tolist() == [1 + n for n in numbers]
    assert len(events.tpot) == 6


# Prompts of token ids: a salt is found by what they have in common, and so is what is wrong


def test_drawn_salts_have_no_fault() -> None:
    for make in (hexadecimal, marker):
        for passes, samples, system in ((2, 30, []), (4, 300, SYSTEM)):
            counted = salted(passes, make, samples, system)
            assert counted.is_salted is True
            assert list(counted.faults) == []


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda draw: marker(draw, 2), "salts of 2 tokens"),
        (lambda draw: [7] * 4 + marker(draw, 1), "salts of 1 tokens"),
        (lambda draw: [draw.randrange(2) for _ in range(24)], "salts of token ids that vary in 2"),
    ],
)
def test_each_fault_has_its_words(make: Salt, fault: str) -> None:
    (words,) = salted(4, make, 300).faults
    assert words.startswith(fault)


def test_a_salted_prompt_sent_again_and_one_behind_the_users_text_are_told() -> None:
    draw = random.Random(2)
    texts = users(50, draw)
    prompts = [[*SYSTEM, *marker(draw), *text] for _ in range(3) for text in texts]
    (words,) = streams([*prompts, *prompts[:9]]).faults
    assert words == "9 prompts of token ids sent before"
    end = list(range(40))
    prompts = [[*SYSTEM, *text, *marker(draw), *end] for _ in range(3) for text in texts]
    # All end alike, so all are taken for one sample: its salt is all that differs.
    assert [*streams(prompts).faults] != []
    prompts = [[*SYSTEM, *text[:40], *marker(draw), *text] for _ in range(3) for text in texts]
    (words,) = streams(prompts).faults
    assert words == "salts behind 40 tokens of the user's text"


def test_of_many_prompts_some_samples_are_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_prompts, "_MAX_KEPT_TOKENS", 2**14)
    draw = random.Random(4)
    texts = users(200, draw)
    counted = streams([[*SYSTEM, *marker(draw), *text] for _ in range(3) for text in texts])
    assert counted.count == 600
    assert counted._kept <= 2**14
    assert {len(rows) for rows in counted._by_tail.values()} == {3}
    assert counted.is_salted is True
    assert list(counted.faults) == []
