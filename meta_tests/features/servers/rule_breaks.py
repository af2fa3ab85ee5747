"""A break of each rule on how a server's answers arrived."""

from dataclasses import replace

from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, remote_run, stream_figures
from meta_tests.tampering.rule_breaks import Break


def held_back(run: MadeRun, data: st.DataObject) -> None:
    """TPOT hidden in the first event, or answers in one piece."""
    limit_ms = run.scenario.limits["tpot"]
    stream = stream_figures(limit_ms / 2, data.draw(st.floats(limit_ms, 1e6)))
    if data.draw(st.booleans()):
        at_once = data.draw(st.integers(1 + stream.answers // 100, stream.answers))
        later = stream.later_tpot_ms if data.draw(st.booleans()) else {}
        stream = replace(stream, at_once=at_once, later_tpot_ms=later)
    run.remote = replace(remote_run(), stream=stream)


def from_memory(run: MadeRun, data: st.DataObject) -> None:
    repeats = data.draw(st.integers(1, 10_000))
    least = repeats // 10 + 1
    stream = replace(stream_figures(), repeats=repeats, from_memory=data.draw(st.integers(least)))
    run.remote = replace(remote_run(), stream=stream)


BREAKS: dict[str, Break] = {
    "streamed_answers": held_back,
    "repeated_samples": from_memory,
}
FOLLOWING = {"streamed_answers": {"ttft_limit", "tpot_limit"}}
"""These are not judged then."""
