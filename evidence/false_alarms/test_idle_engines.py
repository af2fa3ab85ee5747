"""An engine that stops working is always found, whatever it did before."""

from __future__ import annotations

import psutil
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.hang_detector import IDLE_S, POLL_S, Judgement, ProcessSnapshot, Snapshot


def process(cpu_s: float) -> ProcessSnapshot:
    return ProcessSnapshot("12 (engine)", psutil.STATUS_SLEEPING, cpu_s)


@given(data=st.data())
def test_an_engine_that_stops_working_is_always_flagged(data: st.DataObject) -> None:
    """Whatever it did before."""
    history, now, sign, cpu = [], 0.0, 0, 0.0
    for _ in range(data.draw(st.integers(0, 30))):
        now += data.draw(st.floats(POLL_S, 3))
        sign += data.draw(st.integers(0, 1))
        cpu += data.draw(st.floats(0, POLL_S))
        history.append(Snapshot(now, sign, data.draw(st.integers(0, 3)), (process(cpu),)))
    history += [
        Snapshot(now + i * POLL_S, sign, 1, (process(cpu),))
        for i in range(1, int(IDLE_S / POLL_S) + 5)
    ]
    judgement = Judgement()
    assert any(judgement.hangs(look) for look in history)
