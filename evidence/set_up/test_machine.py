"""What the set-up says of a machine before it installs anything."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.check_machine import NEEDS, Gpu, Machine, _gpus, look, notes, problems

H100 = Gpu("NVIDIA H100 80GB HBM3", "580.95.05", 80.0, 9.0)
UNKNOWN = Gpu("NVIDIA GB10", None, None, None)
V100 = Gpu("Tesla V100", "580.1", 32.0, 7.0)
SMALL = replace(H100, memory_gib=16.0)
GOOD = Machine("x86_64", (2, 36), 500.0, None, 256.0, (H100,), "", "580.95.05")


@pytest.mark.parametrize(
    ("machine", "problem"),
    [
        (replace(GOOD, numa=False), ""),
        (replace(GOOD, gpus=(UNKNOWN,)), ""),
        (replace(GOOD, architecture="aarch64"), "this machine is aarch64"),
        (replace(GOOD, glibc=(2, 27)), "this system has glibc 2.27"),
        (replace(GOOD, glibc=None), "this system has another C library"),
        (replace(GOOD, disk_free=NEEDS["gpu"].disk), "this folder's has"),
        (replace(GOOD, cache_free=0.5), "set PIP_CACHE_DIR"),
        (
            replace(GOOD, gpus=(replace(H100, driver="550.54.15"),)),
            "driver 580 or newer, and this machine has 550.54.15: update",
        ),
        (replace(GOOD, gpus=(UNKNOWN,), kernel_driver="535.183"), "this machine has 535.183"),
        (replace(GOOD, gpus=(UNKNOWN, V100)), "Tesla V100 has compute capability 7.0"),
    ],
)
def test_each_problem_is_a_line_that_says_what_to_do(machine: Machine, problem: str) -> None:
    lines = problems(machine, "gpu")
    assert [problem in line and ": " in line for line in lines] == [True] * bool(problem)
    assert notes(machine, "gpu") == []


def test_the_cpu_build_needs_libnuma_and_no_driver() -> None:
    old = replace(GOOD, gpus=(replace(V100, driver="470.1"),))
    assert problems(old, "cpu") == []
    assert "BUILD=gpu make setup" in notes(old, "cpu")[0]
    bare = replace(GOOD, gpus=(), kernel_driver=None, numa=False)
    assert problems(bare, "cpu") == [
        "vLLM's CPU build needs libnuma.so.1: apt-get install libnuma1"
    ]
    assert notes(bare, "cpu") == []


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (replace(GOOD, memory=8.0), "8 GB of memory"),
        (replace(GOOD, gpus=(), gpu_answer="nvidia-smi is not installed"), "(nvidia-smi is not"),
        (replace(GOOD, gpus=(UNKNOWN, SMALL)), "has 16 GiB"),
        (replace(GOOD, compiler=False), "no C compiler, which Triton"),
        (replace(GOOD, python_headers=False), "no Python.h, which Triton"),
    ],
)
def test_what_a_run_will_miss_is_a_note(machine: Machine, message: str) -> None:
    assert problems(machine, "gpu") == []
    (line,) = notes(machine, "gpu")
    assert message in line and "\n" not in line


def test_gpus_are_read_as_nvidia_smi_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*replies: tuple[int, str]) -> tuple[tuple[Gpu, ...], str]:
        left = iter(replies)
        return _gpus(lambda command, **_: subprocess.CompletedProcess(command, *next(left), ""))

    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    listing = "A30, 550.54.15, 24576, 8.0\nA30, [N/A], [Unknown Error], \n"
    known, unknown = answer((0, listing))[0]
    assert known == Gpu("A30", "550.54.15", 24.0, 8.0)
    assert unknown == Gpu("A30", None, None, None)
    # One that knows no capability is asked without.
    (old,) = answer((2, "Field is not valid"), (0, "Tesla P100, 418.1, 16384\n"))[0]
    assert old == Gpu("Tesla P100", "418.1", 16.0, None)
    failed = (9, "NVIDIA-SMI has failed.\nMake sure")
    assert answer(failed, failed) == ((), "nvidia-smi says: NVIDIA-SMI has failed.")


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    machine = look(tmp_path)
    assert machine.architecture
    assert min(machine.disk_free, machine.memory) > 0


def test_an_accelerator_that_no_build_runs_on_is_named_with_what_to_do() -> None:
    other = replace(GOOD, architecture="aarch64", others=("an Ascend NPU",))
    assert "an Ascend NPU, and the gpu build does not use it" in notes(other, "gpu")[0]
    assert (problems(other, "present"), notes(other, "present")) == ([], [])
