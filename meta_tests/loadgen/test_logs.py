"""Reading LoadGen's logs: nothing in them raises, and nothing wrong in them goes unnoticed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, every_scenario, line
from mlperf_suite.loadgen.logs import (
    ACCURACY,
    DETAIL,
    SUMMARY,
    parse_accuracy,
    parse_detail,
    read_logs,
)


def test_a_detail_log_is_read_by_key():
    log = parse_detail("\n".join([line("a", 1), line("b", "two"), line("c", None)]) + "\n")
    assert (log["a"], log["b"], log["c"], log["d"]) == (1, "two", None, None)
    assert log.damage == ()


def test_errors_and_warnings_are_told_apart():
    text = "\n".join([line("e", "bad", error=True), line("w", "hm", warning=True), line("m", 1)])
    log = parse_detail(text)
    assert (log.errors, log.warnings) == (("bad",), ("hm",))


@pytest.mark.parametrize(
    "value", ["1", True, None, [], float("nan"), float("inf"), -(10**400), 10**400, 2**64 + 1]
)
def test_what_is_no_number_of_64_bits_is_none(value):
    log = parse_detail(line("a", value))
    assert log.number("a") is None
    assert log.milliseconds("a") is None


@pytest.mark.parametrize("value", [0, -1, 2**64, 0.5])
def test_numbers_are_kept(value):
    assert parse_detail(line("a", value)).number("a") == value


def test_nanoseconds_become_milliseconds():
    assert parse_detail(line("a", 2_500_000)).milliseconds("a") == 2.5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no marker",
        ":::MLLOG ",
        ":::MLLOG []",
        ':::MLLOG {"key": 1}',
        ':::MLLOG {"key": "a", "value": 1}',
        ':::MLLOG {"key": "a", "value": 1, "metadata": {}}',
        ':::MLLOG {"key": "a", "value": 1, "metadata": {"is_error": "no"}}',
        ":::MLLOG " + "[" * 100_000,
        ':::MLLOG {"key": "a", "value": ' + "9" * 5000 + "}",
    ],
)
def test_damage_is_a_fact_about_the_log(text):
    assert parse_detail(text).damage


def test_a_setting_said_twice_is_damage_and_a_message_is_not():
    twice = parse_detail("\n".join([line("effective_x", 1)] * 2))
    assert twice.damage == ("line 2 says effective_x a second time",)
    assert parse_detail("\n".join([line("generic_message", "a")] * 2)).damage == ()


def test_a_line_ends_at_its_newline_alone():
    """Other characters at which Python splits lines may stand in LoadGen's texts."""
    log = parse_detail(line("sut_name", "x").replace('"x"', '"a\x85b\u2028c"') + "\r\n")
    assert log["sut_name"] == "a\x85b\u2028c"
    assert log.damage == ()


def test_an_accuracy_log_is_read_token_by_token():
    run = MadeRun(*every_scenario()[1], "test06")
    log = parse_accuracy(run.accuracy_json)
    assert log.damage == ()
    assert list(log.samples) == run.answers


def test_of_samples_answered_twice_the_first_counts():
    rows = [{"qsl_idx": 3, "data": "01000000"}, {"qsl_idx": 3, "data": "02000000"}]
    assert parse_accuracy(json.dumps(rows)).first_of_each()[3].token_ids == (1,)


@pytest.mark.parametrize(
    "row",
    [
        3,
        {},
        {"qsl_idx": 1},
        {"qsl_idx": "1", "data": ""},
        {"qsl_idx": -1, "data": ""},
        {"qsl_idx": True, "data": ""},
        {"qsl_idx": 1.5, "data": ""},
        {"qsl_idx": 1, "data": "zz"},
        {"qsl_idx": 1, "data": "010000"},
        {"qsl_idx": 1, "data": 7},
        {"qsl_idx": 1, "data": "", "token_count": "3"},
        {"qsl_idx": 1, "data": "", "token_data": None},
    ],
)
def test_a_damaged_answer_is_left_out_and_said(row):
    log = parse_accuracy(json.dumps([row, {"qsl_idx": 2, "data": "01000000"}]))
    assert len(log.damage) == 1
    assert [s.index for s in log.samples] == [2]


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_no_text_raises(text):
    assert parse_detail(text).damage or not text.strip()
    parse_accuracy(text)


def test_absent_and_unreadable_files_are_damage(tmp_path):
    (tmp_path / DETAIL).mkdir()
    logs = read_logs(tmp_path)
    assert logs.detail.damage and logs.accuracy.damage
    assert (logs.summary, logs.files, logs.sizes) == ("", {}, {})


def test_files_are_read_with_their_sizes(tmp_path):
    (tmp_path / DETAIL).write_bytes(line("sut_name", "a?").encode().replace(b"?", b"\xff"))
    (tmp_path / SUMMARY).write_text("fine")
    (tmp_path / ACCURACY).write_text("[]")
    logs = read_logs(tmp_path)
    assert logs.sizes[ACCURACY] == 2
    assert logs.summary == "fine"
    assert logs.detail.damage == ("not UTF-8 throughout",)
