"""Logs of LoadGen of any content and with any damage: none raises, and both readers agree."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.loadgen.logs import ACCURACY, parse_accuracy, parse_detail, read_logs


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_no_text_raises(text: Any) -> None:
    assert parse_detail(text).damage or not text.strip()
    parse_accuracy(text)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4), st.booleans())
def test_tokens_of_eight_bytes_are_told_from_tokens_that_are_zero(
    tokens: list[int], counted: bool
) -> None:
    """Answers of a token each twice, as of the caching audit: [12, 0] is no int64."""
    wide = b"".join(token.to_bytes(8, "little") for token in tokens)
    row = {"qsl_idx": 0, "data": wide.hex().upper()}
    count = {"token_count": len(tokens)} if counted else {}
    assert parse_accuracy(json.dumps([row | count])).first_of_each()[0].token_ids == tuple(tokens)
    narrow = [part for token in tokens for part in (token, 0)]
    log = parse_accuracy(json.dumps([row | {"token_count": len(narrow)}]))
    assert log.first_of_each()[0].token_ids == tuple(narrow)


_ROWS: list[Any] = [
    {"seq_id": 0, "qsl_idx": 1, "data": "0100000002000000"},
    {"seq_id": 1, "qsl_idx": 0, "data": "", "token_data": "03000000", "token_count": 0},
    {"seq_id": 2, "qsl_idx": 2, "data": "zz", "ü": "]"},
    [],
    "],",
    None,
]
_PIECES = [
    ",",
    "[",
    "]",
    "]\n",
    "\n",
    "\r\n",
    "{",
    "}",
    " ",
    "\ufeff",
    "\x85",
    '"',
    "1" * 5000,
    "[" * 9999,
]


@given(
    rows=st.lists(st.sampled_from(_ROWS), max_size=4),
    between=st.sampled_from([",\n", ",\r\n", ",", "\n,\n", ", \n\n"]),
    indent=st.sampled_from([None, None, 1]),
    changes=st.lists(
        st.tuples(
            st.integers(0, 300),
            st.integers(0, 3),
            st.sampled_from(_PIECES).map(str.encode) | st.binary(max_size=2),
        ),
        max_size=2,
    ),
)
def test_a_log_reads_alike_by_entry_and_as_a_whole(
    rows: Any, between: Any, indent: Any, changes: Any
) -> None:
    """However it is laid out or damaged."""
    content = f"[\n{between.join(json.dumps(row, indent=indent) for row in rows)}\n]\n".encode()
    for place, removed, put in changes:
        at = place % (len(content) + 1)
        content = content[:at] + put + content[at + removed :]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ACCURACY).write_bytes(content)
        logs = read_logs(Path(folder))
    assert logs.accuracy == parse_accuracy(content.decode("utf-8", errors="replace"))
    assert logs.files[ACCURACY] == len(content)
