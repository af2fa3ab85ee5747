"""perf.gpu: the model that it makes, its plan, and its page; no engine is loaded here."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.errors import EngineError
from perf import gpu
from perf.gpu import (
    ON_GPU,
    Clock,
    Latency,
    PrecisionFigures,
    make_model,
    make_prompts,
    measure,
    render,
)

SYSTEM: dict[str, object] = {
    "vllm_version": "0.32.0",
    "torch_version": "2.13.0",
    "loadgen_version": "6.0.17",
    "cpu": "a cpu",
}


def test_the_model_has_the_8b_shape_and_a_tokenizer_of_any_text(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    per_layer = 4096 * (4096 * 2 + 1024 * 2 + 14336 * 3)
    weights = 32 * per_layer + 2 * gpu.VOCABULARY * 4096
    assert (config["num_hidden_layers"], config["hidden_size"]) == (32, 4096)
    assert 8.0e9 < weights < 8.1e9
    assert tokenizer.get_vocab_size() == gpu.VOCABULARY
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
    """An engine of 1,000 tokens/s, on a clock of its own."""

    measurements: list[str]
    time: _Time

    def __init__(self, engine: object, prompts: object) -> None:
        del engine, prompts

    def _spend(self, name: str, seconds: float) -> None:
        self.measurements.append(name)
        self.time.now += seconds

    def warm_up(self, count: int) -> None:
        self._spend("warm-up", 5.0)

    def bare_offline(self, count: int) -> float:
        self._spend("bare", count * gpu.ANSWER / 1000)
        return 1000.0

    def suite_offline(self, count: int) -> float:
        self._spend("suite", count * gpu.ANSWER / 1000)
        return 990.0

    def suite_server(self, qps: float, count: int) -> tuple[float, float, list[float]]:
        self._spend(f"server {qps:.2f}", count / qps)
        return 50.0 if "warm-up" in self.measurements else 500.0, 10.0, [0.0] * count

    def bare_server(self, at_s: Sequence[float]) -> tuple[float, float]:
        self._spend("bare server", 10.0)
        return 48.0, 9.5


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> type[_Subject]:
    @contextlib.contextmanager
    def loaded(config: VllmConfig, figures: PrecisionFigures) -> Iterator[None]:
        if config.model == "broken":
            raise EngineError("no usable GPU: ...")
        figures.load_s = 60.0
        yield None

    monkeypatch.setattr(gpu, "loaded", loaded)
    monkeypatch.setattr(gpu, "Subject", _Subject)
    _Subject.measurements, _Subject.time = [], _Time()
    return _Subject


def test_what_is_measured_and_in_which_order(subject: type[_Subject]) -> None:
    figures = measure(VllmConfig("m"), "bf16", [[1]], ON_GPU, Clock(1000.0, subject.time))
    assert (figures.cold, figures.warm) == (500.0, 50.0)
    assert figures.offline == [(1000.0, 990.0)] * 2
    # A drift of the machine favours neither.
    assert subject.measurements[3:8] == ["bare", "suite", "bare", "bare", "suite"]
    peak = 990 / gpu.ANSWER
    assert [latency.qps for latency in figures.server] == pytest.approx([peak / 3, peak * 2 / 3])
    assert figures.left_out == []


def test_what_there_is_no_time_for_is_said(subject: type[_Subject]) -> None:
    figures = measure(VllmConfig("m"), "bf16", [[1]], ON_GPU, Clock(60.0, subject.time))
    assert len(figures.offline) == 1
    assert figures.left_out[0] == "Offline: 1 of 2 pairs, no time was left"
    assert len(figures.left_out) == 3
    assert "- bf16: Server at a third of the peak: no time was left" in render(
        "a GPU", SYSTEM, [figures]
    )


@pytest.mark.parametrize(
    ("seconds", "count", "left_out"),
    [
        (-1.0, 0, "all but the time to load"),
        (7.0, 1, "the warm-up, Offline and Server"),
        (14.0, 3, "Offline and Server"),
    ],
)
def test_a_machine_that_is_too_slow_for_the_time_ends_in_it(
    subject: type[_Subject], seconds: float, count: int, left_out: str
) -> None:
    figures = measure(VllmConfig("m"), "bf16", [[1]], ON_GPU, Clock(seconds, subject.time))
    assert len(subject.measurements) == count
    assert figures.left_out == [f"{left_out}: no time was left"]
    assert f"- bf16: {left_out}: no time was left" in render(None, SYSTEM, [figures])


def test_a_precision_that_fails_does_not_end_it(subject: type[_Subject]) -> None:
    configs = [("bf16", VllmConfig("m")), ("fp8", VllmConfig("broken"))]
    clock = Clock(1000.0, subject.time)
    bf16, fp8 = gpu._figures_of(configs, [[1]], ON_GPU, clock)
    assert bf16.offline and not fp8.offline
    assert fp8.left_out == ["no usable GPU: ..."]


def _figures(**changes: Any) -> PrecisionFigures:
    server = [Latency("a third", 10.0, (48.0, 50.5), (9.0, 9.1))]
    return PrecisionFigures(
        "fp8", 71.0, 70.2, 1024, [(5000.0, 4990.0)], 0.11, 400.0, 60.0, server, **changes
    )


def test_the_page_names_the_device_and_stands_beside_the_published() -> None:
    page = render("NVIDIA H100 80GB HBM3 (driver 580.95)", SYSTEM, [_figures()])
    assert "NVIDIA H100 80GB HBM3 (driver 580.95), with a model of Llama-3.1-8B's shape" in page
    assert "5,777 tokens/s" in page
    assert "has not run on a GPU" not in page
    assert "| fp8 | 1024 | 5,000 | 4,990 | 0.998 | 0.110 | 71 | 70.2 |" in page
    assert "| fp8 | a third of the peak | 10.00 | 48.0 | 50.5 | +2.5 | 9.0 | 9.1 | +0.1 |" in page


def test_the_page_of_a_machine_without_a_gpu_says_so() -> None:
    page = render(None, SYSTEM, [_figures()])
    assert "**This has not run on a GPU.**" in page
    assert "5,777" not in page
