"""Traces of production: what is read of each format, and files that end in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.replay.made_traces import ROW, exported, span, written
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.replay import production_traces
from mlperf_suite.features.replay.production_traces import TraceRequest, kind_of, read_trace


def test_mooncakes_rows_are_requests_since_the_first(tmp_path: Path) -> None:
    file = written(tmp_path, ROW, "", ROW | {"timestamp": 30482.5, "hash_ids": [46, 48]})
    trace = read_trace(file)
    assert (trace.kind, trace.notes) == ("mooncake", ())
    assert trace.requests == (
        TraceRequest(0.0, 1000, 52, (46, 47)),
        TraceRequest(3.0005, 1000, 52, (46, 48)),
    )
    assert len(read_trace(file, 1).requests) == 1
    # Out of order they are sorted, and an empty answer has a token.
    late, early = ROW | {"timestamp": 5000}, ROW | {"timestamp": 1000, "output_length": 0}
    trace = read_trace(written(tmp_path, late, early))
    assert [(r.at_s, r.answer) for r in trace.requests] == [(0.0, 1), (4.0, 52)]
    assert len(trace.notes) == 2 and "sorted" in trace.notes[0]


@pytest.mark.parametrize("indent", [None, 2])
def test_spans_of_models_are_requests(tmp_path: Path, indent: int | None) -> None:
    chat = {"gen_ai.operation.name": "chat"}
    spans = [
        span("1544712662000000000", "9", "4", **chat),
        span("1544712660000000000", 7, 3, **chat),
        span("1544712661000000000", **{"gen_ai.operation.name": "invoke_agent"}),
        {"name": "a database", "startTimeUnixNano": "1", "attributes": []},
    ]
    trace = read_trace(written(tmp_path, json.dumps(exported(*spans), indent=indent)))
    assert trace.kind == "OpenTelemetry"
    assert trace.requests == (TraceRequest(0.0, 7, 3), TraceRequest(2.0, 9, 4))
    # One a line, and with their former names.
    former = span("5000000000")
    for attribute, name in zip(former["attributes"], ("prompt", "completion"), strict=True):
        attribute["key"] = f"gen_ai.usage.{name}_tokens"
    trace = read_trace(written(tmp_path, exported(span("1000000000")), exported(former)))
    assert [request.at_s for request in trace.requests] == [0.0, 4.0]


def test_the_kind_is_known_by_the_content(tmp_path: Path) -> None:
    assert kind_of(written(tmp_path, {"conversation_id": "a", "turn": 1})) == "sessions"
    assert kind_of(written(tmp_path, ROW, name="conversations.txt")) == "mooncake"
    for rows in ([{"a": 1}], []):
        with pytest.raises(DatasetError, match="neither recorded sessions"):
            kind_of(written(tmp_path, *rows))


HOSTILE = [
    (ROW | {"timestamp": -1}, "Expected `float` >= 0.0 - at `$.timestamp`"),
    (ROW | {"timestamp": float("nan")}, "Expected `float` >= 0.0"),
    (ROW | {"timestamp": float("inf")}, "Expected `float` <= 1e+300"),
    (ROW | {"timestamp": True}, "got `bool` - at `$.timestamp`"),
    (ROW | {"input_length": 10**12}, "Expected `int` <= 10000000 - at `$.input_length`"),
    (ROW | {"input_length": 0}, "Expected `int` >= 1 - at `$.input_length`"),
    (ROW | {"output_length": 1.5}, "Expected `int`, got `float` - at `$.output_length`"),
    (ROW | {"hash_ids": [1]}, "1 `hash_ids` for 1,000 tokens, not 2"),
    (ROW | {"hash_ids": [1, -2]}, "Expected `int` >= 0 - at `$.hash_ids[1]`"),
    (ROW | {"hash_ids": "12"}, "got `str` - at `$.hash_ids`"),
    ("[1]", "not an object"),
    ('{"timestamp": 1, "timestamp": 2}', "twice in one object"),
    ("{" * 5, "no JSON"),
]


@pytest.mark.parametrize(("row", "why"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_row_is_named_in_one_line(tmp_path: Path, row: Any, why: str) -> None:
    with pytest.raises(DatasetError) as caught:
        read_trace(written(tmp_path, ROW, row, ROW))
    message = str(caught.value)
    assert "line 2: " in message and why in message and len(message) < 400


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (exported(span("-1")), r"`int` >= 0 - at `.+\.startTimeUnixNano`"),
        (exported(span("1", "9" * 30)), "`int` <= 10000000 - at "),
        (exported(span("1", str(10**12))), r"`int` <= 10000000 - at `\$\[0\]\.intValue`"),
        (exported({"startTimeUnixNano": 1, "attributes": 1}), r"got `int` - at `.+\.attributes`"),
        (exported(), "has no request"),
    ],
)
def test_hostile_spans(tmp_path: Path, content: Any, why: str) -> None:
    with pytest.raises(DatasetError, match=why):
        read_trace(written(tmp_path, content))


def test_times_years_apart_and_too_many_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, ROW, ROW | {"timestamp": 1e14})
    with pytest.raises(DatasetError, match="more than a year apart"):
        read_trace(file)
    monkeypatch.setattr(production_traces, "_MAX_REQUESTS", 2)
    file = written(tmp_path, ROW, ROW, ROW)
    with pytest.raises(DatasetError, match="more than 2 requests: --limit N"):
        read_trace(file)
    assert len(read_trace(file, 2).requests) == 2
