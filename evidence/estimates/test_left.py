"""What is left of a session: the steps to come, as announced or, later, as measured."""

from __future__ import annotations

from types import SimpleNamespace

from pytest import MonkeyPatch

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.run_kind import Selection
from mlperf_suite.session.timing import run_sizing
from mlperf_suite.session.timing.run_sizing import RunSizing
from mlperf_suite.settings import resolve_settings

PLAN = plan_session(Selection([RunKey(LLAMA3_1_8B.id, "Offline", "accuracy")]))


def test_a_step_that_takes_longer_takes_nothing_of_others(
    monkeypatch: MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(run_sizing, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    monkeypatch.setattr(run_sizing, "_END_S", 2.0)
    session = RunSizing(Inputs(resolve_settings({}, {}), [LLAMA3_1_8B]), PLAN, {})
    load, probe, warm_up, run = PLAN.steps
    assert session.left_s() is None
    assert session.announce({load: 30, probe: 5, warm_up: 2, run: 15}) == 54
    assert session.left_s() == 54
    session.begin(load)
    clock.now_s += 10
    assert session.left_s() == 44
    clock.now_s += 100
    assert session.left_s() == 24
    session.keep_duration(load, 110)
    session.begin(probe)
    assert session.left_s() == 24
    for step in (probe, warm_up, run):
        session.keep_duration(step, 1)
    assert session.left_s() == 2
