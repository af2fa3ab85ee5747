"""Ranges: none and no import where nobody asked, one after the other where somebody did."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from meta_tests.loadgen.made_plans import PROMPTS, a_plan
from meta_tests.stand_in import Delays, StandInEngine
from meta_tests.suite_runs import ROOT
from mlperf_suite import ranges
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.runner import run_loadgen


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a profiler would see: the begin and the end of each range."""
    log: list[str] = []

    def start_range(message: str, domain: str) -> str:
        assert domain == "mlperf_suite"
        log.append(f"+{message}")
        return message

    fake = SimpleNamespace(start_range=start_range, end_range=lambda of: log.append(f"-{of}"))
    monkeypatch.setitem(sys.modules, "nvtx", fake)
    ranges.turn_on()
    yield log
    ranges.turn_off()


def test_nothing_is_imported_or_drawn_where_nobody_asked() -> None:
    code = (
        "import sys; from mlperf_suite import ranges; import mlperf_suite.session.executor\n"
        "with ranges.named('x'): pass\n"
        "assert 'nvtx' not in sys.modules and not ranges.are_on()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_range_ends_whatever_happens_in_it(events: list[str]) -> None:
    with ranges.named("run"), ranges.named("issue"):
        pass
    with pytest.raises(KeyError), ranges.named("breaks"):
        raise KeyError
    assert events == ["+run", "+issue", "-issue", "-run", "+breaks", "-breaks"]
    # A phase begins once.
    phases = ranges.Phases()
    for name in ("issue", "issue", "drain"):
        phases.begin(name)
    phases.end()
    assert events[6:] == ["+issue", "-issue", "+drain", "-drain"]


def test_each_phase_of_loadgen_has_a_range(events: list[str], tmp_path: Path) -> None:
    engine = StandInEngine(Delays(), lambda _: [1, 2, 3])
    run_loadgen(a_plan(), engine, PROMPTS, Generation(), tmp_path)
    engine.close()
    begun = [name[1:] for name in events if name[0] == "+"]
    phases = ("start", "load samples", "issue", "drain", "write logs")
    assert begun == [f"LoadGen: {phase}" for phase in phases]
    assert [name[1:] for name in events if name[0] == "-"] == begun


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(UsageError, match=r"--profile-run cuda: .*-m pip install nvtx'"):
        ranges.turn_on()
    assert not ranges.are_on()
