"""The steady state of a point: which super-passes count, and what a run without them is called."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.endpoints.made_inputs import PASS_S, SIZE, passes_of, write_lines
from mlperf_suite.features.endpoints.official_client_results import super_passes
from mlperf_suite.features.endpoints.official_client_results.package_files import SteadyState
from mlperf_suite.features.endpoints.official_client_results.steady_state import (
    _has_change_point,
    _trend_variance,
    steady_state,
)
from mlperf_suite.features.endpoints.official_client_results.super_passes import read_super_passes


def state_of(levels_ms: Sequence[float], least_s: float = 1200.0) -> SteadyState:
    return steady_state(passes_of(levels_ms, noise=0.02), SIZE, SIZE, least_s)


@pytest.mark.parametrize(
    ("levels_ms", "status", "verdict"),
    [
        ([10.0] * 6, "windowable", "STEADY STATE"),
        ([7.0, 10.0, 10.0, 10.0, 10.0, 10.0], "windowable", "STEADY STATE"),
        ([10.0] * 4, "insufficient_passes", "not found"),
        ([10.0 * 1.1**i for i in range(12)], "insufficient_duration", "drifting_up"),
        ([10.0 * 0.9**i for i in range(12)], "insufficient_duration", "drifting_down"),
        ([10.0, 20.0] * 6, "insufficient_duration", "not found"),
        ([10.0] * 32 + [13.0] * 8, "windowable", "anomaly"),
    ],
)
def test_each_shape_has_its_name(levels_ms: list[float], status: str, verdict: str) -> None:
    state = state_of(levels_ms)
    assert (state.status, state.verdict) == (status, verdict)
    assert (state.window.passes is not None) == (status == "windowable")


def test_a_window_that_is_too_short_is_told_from_a_drift() -> None:
    state = state_of([10.0] * 6, least_s=1600.0)
    assert (state.status, state.verdict) == ("insufficient_duration", "STEADY STATE")
    assert set(state.state.values()) == {"Plateau"}


def test_a_noisy_window_must_last_longer() -> None:
    """A variation of 5.9% needs six super-passes for a mean within 5%."""
    noisy = [10.0, 9.4, 10.6, 9.4, 10.6, 9.4]
    assert state_of(noisy, least_s=600.0).status == "insufficient_duration"
    assert state_of([*noisy, 10.6, 9.4], least_s=600.0).status == "windowable"


def test_a_rise_of_values_that_follow_each_other_is_no_trend() -> None:
    """Mann-Kendall alone, without the correction for autocorrelation, finds one."""
    levels = [10.4, 10.1, 10.4, 10.0, 10.5, 10.4, 10.5, 10.4, 11.1, 10.4, 10.8, 10.7, 10.9]
    state = steady_state(passes_of([10.4, *levels]), SIZE, SIZE, PASS_S * len(levels) - 1)
    assert state.status == "windowable"


def test_a_trend_and_a_change_point_are_those_of_the_literature() -> None:
    """Hamed and Rao's variance, computed with numpy.correlate; Pettitt's K of the other values is
    35 in both directions, and significant from 33.9."""
    assert _trend_variance([1, 3, 2, 4, 5, 7, 6, 8, 9, 9]) == pytest.approx(232.894545)
    values = [1, 2, 3, 4, 5, 7, 6, 8, 9, 10, 11, 12]
    assert _has_change_point(values) and _has_change_point(values[::-1])


def test_a_part_of_the_data_set_and_long_latencies_are_no_steady_state() -> None:
    assert steady_state(passes_of([10.0]), SIZE + 1, SIZE, 600.0).status == "partial_dataset"
    passes = passes_of([10.0] * 6)
    for one in passes:
        one.latency = [int(400e9)] * SIZE
    assert steady_state(passes, SIZE, SIZE, 1200.0).status == "insufficient_duration"


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def write_events(path: Path, answers: Sequence[Any]) -> Path:
    """Two requests before the measurement, of which one fails, then one for each answer."""
    events: list[tuple[Any, ...]] = [
        (0, "session.started", ""),
        (100, "sample.issued", "w1"),
        (200, "sample.issued", "w2"),
        (300, "error.generic", "w1"),
        (1000, "session.start_performance_tracking", ""),
    ]
    for number, data in enumerate(answers):
        start, uuid = 1000 + 100 * number, f"{number}"
        events.append((start, "sample.issued", uuid))
        events.append((start + 20, "sample.recv_first", uuid))
        events.append((start + 80, "sample.complete", uuid, data))
    events.append((9000, "session.stop_performance_tracking", ""))
    return write_lines(path, [*events, (9001, "sample.issued", "late")])


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (["TextModelOutput", ["a", " b c", " d"]], 3),
        (["TextModelOutput", "a b c"], 0),
        (["TextModelOutput", ["d e"], ["a", " b c "]], 4),
        (["TextModelOutput", "d e", ["a", " b "]], 3),
        (["TextModelOutput", "d e", "a b"], 0),
        (["TextModelOutput", [1, 2]], 0),
    ],
)
def test_tpot_counts_what_comes_after_the_first_chunk(
    tmp_path: Path, answer: Any, tokens: int
) -> None:
    path = write_events(tmp_path / "events.jsonl", [answer])
    (one,), _ = read_super_passes(path, 5, count_words)
    assert one.tpot == ([60 / tokens] if tokens else [])


def test_an_answer_without_a_first_chunk_has_a_latency_alone(tmp_path: Path) -> None:
    path = write_events(tmp_path / "events.jsonl", [["TextModelOutput", "a b"]])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "recv_first" not in line))
    (one,), _ = read_super_passes(path, 5, count_words)
    assert (one.latency, one.tpot) == ([80], [])


def test_requests_are_bucketed_by_issue_and_the_warm_up_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More answers than are counted at once.
    monkeypatch.setattr(super_passes, "TEXTS_AT_ONCE", 2)
    answer = ["TextModelOutput", ["a", " b"]]
    path = write_events(tmp_path / "events.jsonl", [answer] * 5)
    passes, warmup = read_super_passes(path, 2, count_words)
    assert [p.tpot for p in passes] == [[60.0] * 2, [60.0] * 2, [60.0]]
    issues = [(p.issued, p.first_ns, p.last_ns) for p in passes]
    assert issues == [(2, 1000, 1100), (2, 1200, 1300), (1, 1400, 1400)]
    assert [p.latency for p in passes] == [[80, 80], [80, 80], [80]]
    assert (warmup.issued, warmup.failed) == (2, 1)
    assert warmup.duration_s == pytest.approx(900e-9)
