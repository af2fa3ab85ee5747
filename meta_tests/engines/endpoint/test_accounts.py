"""What is counted of a run against servers, and what their words are compared with."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.percentile import percentile
from mlperf_suite.engines.endpoint.accounts import (
    ClientAccount,
    DepartureAccount,
    EndpointAccount,
)
from mlperf_suite.engines.endpoint.messages import Done


def done(tokens: int = 4, **said: Any) -> Done:
    told: dict[str, Any] = {
        "sent": 10.0,
        "connecting": 0.0,
        "first": 10.5,
        "arrived": 11.0,
        "resent": 0,
        "prompt_tokens": 9,
        "completion_tokens": tokens,
        "cached_tokens": None,
        "finish_reason": "stop",
        "other_model": None,
    }
    return Done(1, list(range(tokens)), **(told | said))


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_one_of_the_values_at_loadgens_place(
    values: list[float], share: float
) -> None:
    found = percentile(sorted(values), share)
    assert found == sorted(values)[min(int(len(values) * share), len(values) - 1)]


def test_an_endpoints_figures_are_those_of_its_answers() -> None:
    account = EndpointAccount("http://a")
    account.add(done(4, cached_tokens=3), 10.0, streamed=True)
    account.add(done(2), 9.0, streamed=True)
    found = account.figures(began=4.0)
    assert found.ended_s == 7.0
    assert (found.requests, found.tokens, found.cached_tokens) == (2, 6, 3)
    assert found.ttft_ms == {"p50": 1500.0, "p90": 1500.0, "p99": 1500.0}
    assert found.latency_ms["p50"] == 2000.0
    nothing = EndpointAccount("http://b").figures(began=4.0)
    assert (nothing.ttft_ms, nothing.ended_s) == ({}, None)


def words(*answers: tuple[Done, int, int, bool]) -> tuple[str, ...]:
    account = DepartureAccount()
    for answer, most, least, ids in answers:
        account.add(answer, 9, most, least, ids=ids)
    return account.words()


def test_an_answer_as_it_was_asked_for_is_no_departure() -> None:
    assert words((done(), 8, 1, True), (done(8, finish_reason="length"), 8, 1, True)) == ()


def test_each_departure_is_told_with_its_number_and_an_example() -> None:
    cut = done(4, finish_reason="length")
    assert words((cut, 8, 1, True), (done(), 8, 1, True), (cut, 8, 1, True)) == (
        "2 of 3 answers cut short by the server's own limit (4 tokens of 8)",
    )
    for answer, told in (
        (done(other_model="another"), "made by another model (another)"),
        (done(prompt_tokens=10), "with another prompt length in usage (10 tokens for 9)"),
        (done(completion_tokens=11), "with another token count in usage (11 tokens for 4)"),
        (done(9), "longer than asked for (9 tokens for 8)"),
        (done(finish_reason="abort"), "ended for another reason (abort)"),
    ):
        assert words((answer, 8, 1, True)) == (f"1 of 1 answers {told}",)
    assert words((done(1), 8, 3, True)) == (
        "1 of 1 answers shorter than asked for (1 tokens for 3)",
    )


def test_text_is_counted_by_another_tokenizer_and_not_compared() -> None:
    counted = done(4, completion_tokens=5, finish_reason="length")
    assert words((counted, 8, 1, False)) == ()


def test_text_that_was_cut_is_noticed_to_within_a_tenth() -> None:
    cut = done(2, completion_tokens=2, finish_reason="length")
    assert words((cut, 128, 1, False)) == (
        "1 of 1 answers cut short by the server's own limit (2 tokens of 128)",
    )
    untold = done(120, completion_tokens=None, finish_reason="length")
    assert words((untold, 128, 1, False)) == ()


def test_a_servers_words_are_kept_as_one_printable_line() -> None:
    (told,) = words((done(finish_reason="\x1b[31m\n" + "a" * 2000), 8, 1, True))
    assert told.isprintable() and len(told) < 200


def test_the_clients_delay_leaves_out_what_the_network_took() -> None:
    account = ClientAccount()
    account.sent(done(sent=10.25, connecting=0.2), 10.0)
    account.told(0.003)
    found = account.figures({0: 0.4, 1: 0.1}, 2.0)
    assert (found.processes, found.busy_share) == (2, 0.2)
    assert (found.out_ms, found.back_ms) == (50.0, 3.0)
    assert ClientAccount().figures({0: 0.0}, 1.0).out_ms is None
