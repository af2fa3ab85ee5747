"""perf.gpu: the model that it makes, its stages, and its page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer

from meta_tests.features.accelerators import fake_nvml
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.errors import EngineError
from perf import gpu
from perf.gpu import ON_GPU, Clock, Device, Measurement, main
from perf.gpu_engine import VOCABULARY, make_model, make_prompts
from perf.gpu_page import ANSWER, Latency, PrecisionFigures, Record, Smoke, render

SYSTEM: dict[str, object] = {
    "vllm_version": "0.32.0",
    "torch_version": "2.13.0",
    "loadgen_version": "6.0.17",
    "cpu": "a cpu",
}
STAGES = ("smoke", "warm-up", "offline", "server")


def test_the_model_has_the_8b_shape_and_a_tokenizer_of_any_text(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    per_layer = 4096 * (4096 * 2 + 1024 * 2 + 14336 * 3)
    weights = 32 * per_layer + 2 * VOCABULARY * 4096
    assert (config["num_hidden_layers"], config["hidden_size"]) == (32, 4096)
    assert 8.0e9 < weights < 8.1e9
    assert tokenizer.get_vocab_size() == VOCABULARY
    assert tokenizer.decode(tokenizer.encode("any text: 뭐든지").ids) == "any text: 뭐든지"
    assert config["eos_token_id"] == tokenizer.token_to_id(settings["eos_token"])


def test_prompts_are_as_long_as_the_benchmarks_and_share_no_beginning() -> None:
    prompts = make_prompts(500, 128_000, 705, 2500)
    lengths = [len(prompt) for prompt in prompts]
    assert 660 < sum(lengths) / len(lengths) < 750
    assert max(lengths) <= 2500
    assert len({tuple(prompt[:4]) for prompt in prompts}) == len(prompts)


class _Time:
    """Seconds that pass as it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Subject:
    """An engine of 1,000 tokens/s, on a clock of its own, which may end in a measurement."""

    measurements: list[str]
    time: _Time
    fails_at = ""

    def __init__(self, engine: Any, *_: object) -> None:
        self._engine = engine

    def _spend(self, name: str, seconds: float) -> None:
        self.measurements.append(name)
        self.time.now += seconds
        if name == self.fails_at:
            self._engine.alive = False
            raise TimeoutError

    def warm_up(self, count: int) -> None:
        self._spend("warm-up", 5.0)

    def bare_offline(self, count: int) -> float:
        self._spend("bare", count * ANSWER / 1000)
        return 1000.0

    def bare_tokens(self, count: int) -> int:
        self._spend("smoke", 1.0)
        return count * ANSWER

    def suite_offline(self, count: int) -> float:
        self._spend("suite", count * ANSWER / 1000)
        return 990.0

    def suite_server(self, qps: float, count: int) -> tuple[float, float, list[float]]:
        self._spend(f"server {qps:.2f}", count / qps)
        return 50.0 if "warm-up" in self.measurements else 500.0, 10.0, [0.0] * count

    def bare_server(self, at_s: Sequence[float]) -> tuple[float, float]:
        self._spend("bare server", 10.0)
        return 48.0, 9.5


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> type[_Subject]:
    monkeypatch.setattr(gpu, "Subject", _Subject)
    _Subject.measurements, _Subject.time, _Subject.fails_at = [], _Time(), ""
    return _Subject


def load(config: VllmConfig) -> Any:
    if config.model == "broken":
        raise EngineError("no usable GPU: ...")
    _Subject.time.now += 60.0
    return SimpleNamespace(alive=True, close=lambda: None)


def measure(
    seconds: float, tmp_path: Path, stages: Sequence[str] = STAGES, model: str = "m"
) -> PrecisionFigures:
    figures = PrecisionFigures("bf16")
    clock = Clock(seconds, _Subject.time)
    measurement = Measurement(
        VllmConfig(model), figures, [[1]], ON_GPU, clock, tmp_path, None, load
    )
    for stage in stages:
        measurement.make(stage)
    return figures


def test_what_is_measured_and_in_which_order(subject: type[_Subject], tmp_path: Path) -> None:
    figures = measure(1000.0, tmp_path)
    assert figures.smoke == Smoke(60.0, 32 * ANSWER)
    assert (figures.load_s, figures.cold, figures.warm) == (60.0, 500.0, 50.0)
    assert figures.offline == [(1000.0, 990.0)] * 2
    # A drift of the machine favours neither.
    assert subject.measurements[4:10] == ["bare", "bare", "suite", "bare", "bare", "suite"]
    peak = 990 / ANSWER
    assert [latency.qps for latency in figures.server] == pytest.approx([peak / 3, peak * 2 / 3])
    assert figures.left_out == {}
    # Loading is no part of a stage.
    assert figures.seconds["warm-up"] == pytest.approx(8 + 5 + 8)


def test_a_stage_by_name_warms_the_engine_up(subject: type[_Subject], tmp_path: Path) -> None:
    figures = measure(1000.0, tmp_path, ["server"])
    assert subject.measurements[:2] == ["warm-up", "suite"]
    assert len(figures.server) == 2
    assert figures.cold is None


@pytest.mark.parametrize(
    ("seconds", "left_out"),
    [
        (100.0, ["warm-up", "offline", "server"]),
        (125.0, ["offline", "server"]),
        (180.0, ["server", "offline"]),
    ],
)
def test_what_there_is_no_time_for_is_said(
    subject: type[_Subject], tmp_path: Path, seconds: float, left_out: list[str]
) -> None:
    figures = measure(seconds, tmp_path)
    assert sorted(figures.left_out) == sorted(left_out)
    words = figures.left_out["server"][0]
    assert words.endswith("no time was left")
    page = render(Record("a GPU", SYSTEM, {"bf16": figures}))
    assert f"- bf16, server: {words}" in page


def test_a_failing_stage_costs_only_those_of_its_engine(
    subject: type[_Subject], tmp_path: Path
) -> None:
    subject.fails_at = "bare"
    figures = measure(1000.0, tmp_path)
    assert figures.cold == 500.0
    assert figures.left_out == {
        "offline": ["TimeoutError: TimeoutError"],
        "server": ["its engine ended"],
    }
    broken = measure(1000.0, tmp_path, model="broken")
    assert broken.left_out == {
        "smoke": ["EngineError: no usable GPU: ..."],
        "warm-up": ["EngineError: no usable GPU: ..."],
        "offline": ["its engine did not load"],
        "server": ["its engine did not load"],
    }


@pytest.mark.parametrize(
    ("visible", "used_gib", "joules"),
    [(None, 1.0, 1000.0), ("1,0", 70.0, 5000.0), ("GPU-1", 70.0, 5000.0), ("7", None, None)],
)
def test_memory_and_energy_are_those_of_the_gpu_that_the_engine_uses(
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    used_gib: float | None,
    joules: float | None,
) -> None:
    def memory(gib: int) -> SimpleNamespace:
        return SimpleNamespace(total=80 * 2**30, used=gib * 2**30)

    fake_nvml.install(
        monkeypatch,
        fake_nvml.gpu(0, MemoryInfo=memory(1)),
        fake_nvml.gpu(1, MemoryInfo=memory(70), TotalEnergyConsumption=5_000_000),
    )
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    device = Device()
    assert (device.used_gib(), device.energy_j()) == (used_gib, joules)
    assert ("NVML does not name" in device.name()) is (joules is None)


def figures() -> PrecisionFigures:
    server = [Latency("a third", 10.0, (48.0, 50.5), (9.0, 9.1))]
    smoke = Smoke(8.0, 4096)
    offline = [(5000.0, 4990.0)]
    seconds = {"offline": 48.0}
    return PrecisionFigures(
        "fp8", 71.0, 70.2, smoke, 1024, offline, 0.11, 400.0, 60.0, server, seconds
    )


def test_the_page_names_the_device_and_stands_beside_the_published() -> None:
    device = "NVIDIA H100 80GB HBM3 (driver 580.95)"
    page = render(Record(device, SYSTEM, {"fp8": figures()}))
    assert f"{device}, with a model of Llama-3.1-8B's shape" in page
    assert "5,777 tokens/s" in page
    assert "has not run on a GPU" not in page
    assert "| fp8 | 1024 | 5,000 | 4,990 | 0.998 | 0.110 | 71 | 70.2 |" in page
    assert "| fp8 | a third of the peak | 10.00 | 48.0 | 50.5 | +2.5 | 9.0 | 9.1 | +0.1 |" in page
    assert "| fp8 | offline | 48 |" in page


def test_a_later_call_adds_to_the_page_of_the_same_device_alone(tmp_path: Path) -> None:
    page = tmp_path / "new" / "gpu.md"
    Record("a GPU", SYSTEM, {"fp8": figures()}).write(page)
    same = Record("a GPU", SYSTEM).continues(page)
    assert same.of("fp8") == figures()
    assert Record("another", SYSTEM).continues(page).precisions == {}
    page.with_suffix(".json").write_text("{")
    assert Record("a GPU", SYSTEM).continues(page).precisions == {}


def test_every_stage_with_the_build_for_cpus(tmp_path: Path) -> None:
    """The real engine: the page says that it is no GPU's, whatever NVML finds."""
    page, logs = tmp_path / "gpu.md", tmp_path / "logs"
    assert main(["--minutes=60", f"--out={page}", f"--logs={logs}"]) == 0
    text = page.read_text()
    assert "**This has not run on a GPU.**" in text
    assert "5,777" not in text
    measured = json.loads(page.with_suffix(".json").read_text())["precisions"]["auto"]
    assert list(measured["seconds"]) == list(STAGES)
    assert (logs / "auto" / "engine.log").stat().st_size
    assert list(logs.glob("auto/*-offline/mlperf_log_summary.txt"))
