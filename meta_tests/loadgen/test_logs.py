"""Reading LoadGen's logs: nothing in them raises, and nothing wrong in them goes unnoticed."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, every_scenario, line
from mlperf_suite.loadgen import logs as logs_module
from mlperf_suite.loadgen.logs import (
    ACCURACY,
    DETAIL,
    SUMMARY,
    TokenIds,
    parse_accuracy,
    parse_detail,
    read_logs,
)


def test_a_detail_log_is_read_by_key() -> None:
    lines = [line("a", 1), line("b", "two"), line("c", None)]
    told = [line("e", "bad", error=True), line("w", "hm", warning=True)]
    log = parse_detail("\n".join(lines + told) + "\n")
    assert (log["a"], log["b"], log["c"], log["d"]) == (1, "two", None, None)
    assert (log.errors, log.warnings, log.damage) == (("bad",), ("hm",), ())


@pytest.mark.parametrize("value", [0, -1, 2**64, 0.5, "1", True, None, float("nan"), 2**64 + 1])
def test_a_number_has_at_most_64_bits(value: Any) -> None:
    log = parse_detail(line("a", value))
    number = value if value in (0, -1, 2**64, 0.5) and value is not True else None
    assert log.number("a") == number
    assert log.milliseconds("a") == (None if number is None else number / 1e6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no marker",
        ":::MLLOG ",
        ":::MLLOG []",
        ':::MLLOG {"key": "a", "value": 1}',
        ':::MLLOG {"key": "a", "value": 1, "metadata": {"is_error": "no"}}',
        ":::MLLOG " + "[" * 100_000,
        ':::MLLOG {"key": "a", "value": ' + "9" * 5000 + "}",
    ],
)
def test_damage_is_a_fact_about_the_log(text: Any) -> None:
    assert parse_detail(text).damage


def test_what_is_said_twice_is_damage_and_a_message_is_not(tmp_path: Path) -> None:
    twice = parse_detail("\n".join([line("effective_x", 1)] * 2))
    assert twice.damage == ("line 2 says effective_x a second time",)
    assert parse_detail("\n".join([line("generic_message", "a")] * 2)).damage == ()
    log = parse_detail(line("result_x", 1).removesuffix("}") + ', "value": 2}')
    assert log["result_x"] is None
    assert log.damage[0].endswith("twice in one object")
    (tmp_path / ACCURACY).write_text('[\n{"qsl_idx": 1, "qsl_idx": 2, "data": ""}\n]\n')
    (damage,) = read_logs(tmp_path).accuracy.damage
    assert damage == "not JSON: 'qsl_idx' twice in one object"


def test_a_detail_log_of_any_length_is_read_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "_MAX_ENTRIES", 3)
    monkeypatch.setattr(logs_module, "_MAX_LINE_BYTES", 400)
    monkeypatch.setattr(logs_module, "_buffer", bytearray(400))
    lines = [line("w", "hm", warning=True)] * 5 + [line("long", "x" * 2000), line("result_x", 1)]
    (tmp_path / DETAIL).write_text("\n".join(lines))
    log = read_logs(tmp_path).detail
    assert (len(log.entries), len(log.warnings), log["result_x"]) == (3, 3, 1)
    *parts, end = log.damage
    assert {part.partition(" is ")[2] for part in parts} == {"not an MLLOG entry"}
    assert end == "more than 3 entries"


@given(
    st.recursive(
        st.integers() | st.text() | st.booleans() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_a_line_in_loadgens_own_form_reads_like_any_other(value: Any) -> None:
    own = line("a", value)
    other = own.replace('{"key"', '{ "key"').replace('"namespace"', '"other": "x", "namespace"')
    assert parse_detail(own) == parse_detail(other)


def test_a_line_ends_at_its_newline_alone() -> None:
    """Other characters at which Python splits lines may stand in LoadGen's texts."""
    log = parse_detail(line("sut_name", "x").replace('"x"', '"a\x85b\u2028c"') + "\r\n")
    assert log["sut_name"] == "a\x85b\u2028c"
    assert log.damage == ()


@pytest.mark.parametrize(
    ("answers", "told", "tokens"),
    [
        # Counted in four bytes each, which makes twice as many.
        ([[7] * 20, [9]], [40, 2], [[7] * 20, [9]]),
        ([[7] * 20, []], [20, 0], [[7] * 20, []]),
        # Of a token each twice, as of the caching audit: [12, 0] is no int64.
        ([[12, 7]], [4], [[12, 0, 7, 0]]),
        ([[12, 7]], [2], [[12, 7]]),
        # Of a model whose every output is 0.
        ([[0] * 20, [0]], [40, 2], [[0] * 40, [0] * 2]),
        ([[], []], [0, 0], [[], []]),
    ],
)
def test_tokens_of_eight_bytes_are_told_by_all_answers(
    answers: list[list[int]], told: list[int], tokens: list[list[int]]
) -> None:
    rows = [
        {"qsl_idx": index, "data": "".join(i.to_bytes(8, "little").hex() for i in ids)}
        for index, ids in enumerate(answers)
    ]
    rows = [row | {"token_count": count} for row, count in zip(rows, told, strict=True)]
    log = parse_accuracy(json.dumps(rows))
    assert [list(sample.token_ids) for sample in log.samples] == tokens


@pytest.mark.parametrize(
    "row",
    [
        3,
        {"qsl_idx": 1},
        {"qsl_idx": -1, "data": ""},
        {"qsl_idx": True, "data": ""},
        {"qsl_idx": 1, "data": "zz"},
        {"qsl_idx": 1, "data": "010000"},
        {"qsl_idx": 1, "data": 7},
        {"qsl_idx": 1, "data": "", "token_count": "3"},
        {"qsl_idx": 1, "data": "", "token_data": None},
    ],
)
def test_a_damaged_answer_is_left_out_and_said(row: Any) -> None:
    log = parse_accuracy(json.dumps([row, {"qsl_idx": 2, "data": "01000000"}]))
    assert len(log.damage) == 1
    assert [s.index for s in log.samples] == [2]


def test_an_accuracy_log_is_read_token_by_token(tmp_path: Path) -> None:
    run = MadeRun(*every_scenario()[1], "test06")
    log = parse_accuracy(run.accuracy_json)
    assert (list(log.samples), log.damage) == (run.answers, ())
    # Of samples answered twice the first counts.
    rows = [{"qsl_idx": 3, "data": "01000000"}, {"qsl_idx": 3, "data": "02000000"}]
    assert parse_accuracy(json.dumps(rows)).first_of_each()[3].token_ids == (1,)
    for layout in (f"[\n\n{_ENTRY}\n]\n\n", f"[{_ENTRY}]", f"[\r\n{_ENTRY}\r\n]"):
        (tmp_path / ACCURACY).write_text(layout)
        log = read_logs(tmp_path).accuracy
        assert (len(log.samples), log.damage) == (1, ())


def test_answers_in_columns_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    run = MadeRun(*every_scenario()[1], "test06")
    rows = [*json.loads(run.accuracy_json), {"qsl_idx": 3, "data": "", "token_data": ""}]
    rows.append({"qsl_idx": 2**63, "data": ""})
    few = parse_accuracy(json.dumps(rows))
    assert next(iter(few.samples)) is next(iter(few.samples))
    monkeypatch.setattr(logs_module, "_SMALL", 0)
    many = parse_accuracy(json.dumps(rows))
    assert next(iter(many.samples)) is not next(iter(many.samples))
    assert many == few and many.samples[1:3] == few.samples[1:3] and len(many.damage) == 1
    assert (many.indices, many.places) == (few.indices, few.places)
    assert many.token_counts == few.token_counts


def test_files_are_read_with_their_sizes(tmp_path: Path) -> None:
    (tmp_path / DETAIL).write_bytes(line("sut_name", "a?").encode().replace(b"?", b"\xff"))
    (tmp_path / SUMMARY).write_text("fine")
    (tmp_path / ACCURACY).write_text("[]")
    logs = read_logs(tmp_path)
    assert logs.files[ACCURACY] == 2
    assert logs.summary == "fine"
    assert logs.detail.damage == ("not UTF-8 throughout",)
    # What is absent or no file is damage.
    (tmp_path / "other" / DETAIL).mkdir(parents=True)
    logs = read_logs(tmp_path / "other")
    assert logs.detail.damage == (f"{DETAIL} cannot be read: Is a directory",)
    assert logs.accuracy.damage == (f"{ACCURACY} cannot be read: No such file or directory",)
    assert (logs.summary, logs.files) == ("", {})


_ENTRY = '{"qsl_idx": 1, "data": "01000000"}'


@pytest.mark.parametrize(
    "text",
    [
        f"[\n{_ENTRY},\n]\n",
        f"[\n{_ENTRY}\n{_ENTRY}\n]\n",
        f"[\n{_ENTRY}\n]\n{_ENTRY}\n",
        f"[\n{_ENTRY}\n",
        f"[\n{_ENTRY},,\n{_ENTRY}\n]\n",
        f"[\n\x0c{_ENTRY}\n]\n",
        f"{_ENTRY}\n",
        "",
    ],
)
def test_what_is_no_list_as_a_whole_is_none_by_entry(tmp_path: Path, text: Any) -> None:
    (tmp_path / ACCURACY).write_text(text)
    log = read_logs(tmp_path).accuracy
    assert log == parse_accuracy(text)
    assert (log.samples, len(log.damage)) == ((), 1)


@given(
    ids=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9),
    second=st.lists(st.integers(0, 2), max_size=2),
    cut=st.slices(9),
)
def test_token_ids_are_a_sequence_like_a_tuple(ids: Any, second: Any, cut: Any) -> None:
    token_ids = TokenIds(b"".join(i.to_bytes(4, "little", signed=True) for i in ids))
    assert token_ids == tuple(ids) and tuple(ids) == token_ids and token_ids == ids
    assert (token_ids == tuple(second)) == (ids == second)
    assert (
        list(token_ids) == ids and len(token_ids) == len(ids) and token_ids[cut] == tuple(ids[cut])
    )
    assert hash(token_ids) == hash(tuple(ids))
    assert pickle.loads(pickle.dumps(token_ids)) == token_ids
    assert token_ids != str(ids)
