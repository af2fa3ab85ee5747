"""vLLM's profiler: how it is asked for, and whose trace is whose. No model is loaded here."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.engines import vllm_arguments, vllm_engine
from mlperf_suite.engines.protocol import ProfilingEngine, ScoreRequest
from mlperf_suite.engines.vllm_arguments import VllmConfig, choose_arguments
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.engines.vllm_environment import vllm_variables
from mlperf_suite.errors import EngineDiedError, EngineError


class FakeLlm:
    """Leaves a trace in its own folder at each stop, as vLLM does."""

    errored = False

    def __init__(self, folder: Path) -> None:
        self._folder, self._runs = folder, 0

    async def start_profile(self) -> None:
        self._runs += 1
        if self._runs > 2:
            raise RuntimeError("the profiler is\nbusy")

    async def stop_profile(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"rank0.{self._runs}.pt.trace.json.gz").touch()
        (self._folder / "profiler_out_0.txt").touch()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[VllmEngine]:
    config = VllmConfig("m", profiler="torch", profile_folder=tmp_path / "first" / "profile")
    engine_of_run = VllmEngine(config)
    engine_of_run._llm = FakeLlm(tmp_path / "first" / "profile")
    yield engine_of_run
    engine_of_run._llm = None
    engine_of_run.close()


def test_each_run_has_its_own_trace_and_what_the_profiler_refuses_is_one_line(
    engine: VllmEngine, tmp_path: Path
) -> None:
    assert isinstance(engine, ProfilingEngine)
    folders = [tmp_path / name / "profile" for name in ("first", "second")]
    for folder in folders:
        engine.start_profile()
        engine.stop_profile(folder)
    traces = [sorted(path.name for path in folder.glob("*.gz")) for folder in folders]
    assert traces == [["rank0.1.pt.trace.json.gz"], ["rank0.2.pt.trace.json.gz"]]
    with pytest.raises(EngineError, match="vLLM's start_profile: the profiler is busy"):
        engine.start_profile()


def test_vllm_is_asked_for_its_profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = VllmConfig(str(embedded_model_dir()), profile_folder=tmp_path)
    assert choose_arguments(config).arguments.profiler_config.profiler is None
    asked = choose_arguments(replace(config, profiler="torch")).arguments.profiler_config
    assert (asked.profiler, asked.torch_profiler_dir) == ("torch", str(tmp_path))
    assert (asked.torch_profiler_with_stack, asked.ignore_frontend) == (False, True)
    cuda = replace(config, profiler="cuda")
    monkeypatch.setattr(vllm_arguments, "runs_on_cpu", lambda: True)
    with pytest.raises(EngineError, match=r"--profile-run cuda: .*CPU build.*--profile-run torch"):
        choose_arguments(cuda)
    monkeypatch.setattr(vllm_arguments, "runs_on_cpu", lambda: False)
    monkeypatch.setattr(vllm_arguments, "visible_gpus", lambda: 1)
    assert choose_arguments(cuda).arguments.profiler_config.profiler == "cuda"
    # vLLM's own ranges are drawn for Nsight Systems alone.
    names = [vllm_variables("m", profiler) for profiler in (None, "torch", "cuda")]
    ranges = [variables.get("VLLM_NVTX_SCOPES_FOR_PROFILING") for variables in names]
    assert ranges == [None, None, "1"]


# Scoring without an engine: one that hangs, and what is asked of it


def test_an_engine_that_hangs_while_it_scores_is_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*args: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(vllm_engine, "score_one", never)
    engine = VllmEngine(VllmConfig("not loaded", silence_s=0.3))
    try:
        with pytest.raises(
            EngineDiedError, match=r"showed no progress for 0\.005 minutes while 1 req"
        ):
            list(engine.score([ScoreRequest(0, [1, 2], [[3], [4]])]))
    finally:
        engine.close()
