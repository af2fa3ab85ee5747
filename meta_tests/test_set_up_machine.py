"""What the set-up says of a machine before it installs anything."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scripts.check_machine import NEEDS, Gpu, Machine, _gpus, look, notes, problems

H100 = Gpu("NVIDIA H100 80GB HBM3", "580.95.05", 80.0, 9.0)
GOOD = Machine("x86_64", (2, 36), 500.0, None, 256.0, (H100,), "", "580.95.05")


@pytest.mark.parametrize("build", ["cpu", "gpu"])
def test_nothing_is_said_of_a_machine_that_fits(build: str) -> None:
    machine = GOOD if build == "gpu" else replace(GOOD, gpus=(), kernel_driver=None)
    assert (problems(machine, build), notes(machine, build)) == ([], [])


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (replace(GOOD, architecture="aarch64"), "this machine is aarch64"),
        (replace(GOOD, glibc=(2, 27)), "this system has glibc 2.27"),
        (replace(GOOD, glibc=None), "this system has another C library"),
        (replace(GOOD, disk_free=NEEDS["gpu"].disk), "this folder's has"),
        (replace(GOOD, cache_free=0.5), "set PIP_CACHE_DIR"),
        (
            replace(GOOD, gpus=(replace(H100, driver="550.54.15"),)),
            "driver 580 or newer, and this machine has 550.54.15: update",
        ),
        (replace(GOOD, gpus=(), kernel_driver="535.183.01"), "this machine has 535.183.01"),
        (
            replace(GOOD, gpus=(Gpu("Tesla V100", "580.1", 32.0, 7.0),)),
            "Tesla V100 has compute capability 7.0",
        ),
    ],
)
def test_each_problem_is_a_line_that_says_what_to_do(machine: Machine, message: str) -> None:
    (line,) = problems(machine, "gpu")
    assert message in line
    assert ": " in line and "\n" not in line


def test_the_cpu_build_needs_libnuma() -> None:
    bare = replace(GOOD, gpus=(), numa=False)
    assert problems(bare, "cpu") == [
        "vLLM's CPU build needs libnuma.so.1: apt-get install libnuma1"
    ]
    assert problems(bare, "gpu") == []


def test_the_cpu_build_has_no_need_of_a_driver() -> None:
    old = replace(GOOD, gpus=(replace(H100, driver="470.1", capability=6.0),))
    assert problems(old, "cpu") == []
    assert "BUILD=gpu make setup" in notes(old, "cpu")[0]


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (replace(GOOD, memory=8.0), "8 GB of memory"),
        (replace(GOOD, gpus=(), gpu_answer="nvidia-smi is not installed"), "(nvidia-smi is not"),
        (replace(GOOD, gpus=(replace(H100, memory_gib=16.0),)), "has 16 GiB"),
        (replace(GOOD, compiler=False), "no C compiler, which Triton"),
        (replace(GOOD, python_headers=False), "no Python.h, which Triton"),
    ],
)
def test_what_a_run_will_miss_is_a_note(machine: Machine, message: str) -> None:
    assert problems(machine, "gpu") == []
    (line,) = notes(machine, "gpu")
    assert message in line and "\n" not in line


def _smi(monkeypatch: pytest.MonkeyPatch, *answers: tuple[int, str]) -> tuple[tuple[Gpu, ...], str]:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    replies = iter(answers)

    def run(command: list[str], **keywords: object) -> subprocess.CompletedProcess[str]:
        status, text = next(replies)
        return subprocess.CompletedProcess(command, status, text, "")

    return _gpus(run)


def test_gpus_as_nvidia_smi_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = "NVIDIA A30, 550.54.15, 24576, 8.0\nNVIDIA A30, 550.54.15, [N/A], [N/A]\n"
    cards, _ = _smi(monkeypatch, (0, listing))
    assert cards[0] == Gpu("NVIDIA A30", "550.54.15", 24.0, 8.0)
    assert cards[1] == Gpu("NVIDIA A30", "550.54.15", None, None)


@pytest.mark.parametrize("unknown", ["[N/A]", "[Unknown Error]", "[GPU requires reset]", "N/A", ""])
@pytest.mark.parametrize("field", ["driver", "memory_gib", "capability"])
def test_what_nvidia_smi_does_not_know_is_no_problem(
    monkeypatch: pytest.MonkeyPatch, unknown: str, field: str
) -> None:
    """The other fields and the other GPUs count."""
    fields = ["NVIDIA GB10", "580.95", "24576", "12.1"]
    fields[["driver", "memory_gib", "capability"].index(field) + 1] = unknown
    gpus, _ = _smi(monkeypatch, (0, ", ".join(fields) + "\n"))
    unknown_field: dict[str, Any] = {field: None}
    assert gpus == (replace(Gpu("NVIDIA GB10", "580.95", 24.0, 12.1), **unknown_field),)
    machine = replace(GOOD, gpus=gpus)
    assert (problems(machine, "gpu"), notes(machine, "gpu")) == ([], [])
    old = replace(machine, gpus=(*gpus, Gpu("Tesla V100", "535.1", 16.0, 7.0)))
    assert "Tesla V100 has compute capability 7.0" in problems(old, "gpu")[-1]


def test_the_loaded_driver_counts_where_nvidia_smi_does_not_name_it() -> None:
    machine = replace(GOOD, gpus=(replace(H100, driver=None),), kernel_driver="535.183.01")
    assert "this machine has 535.183.01" in problems(machine, "gpu")[0]


def test_a_gpu_of_unknown_memory_is_not_called_small() -> None:
    unknown = replace(H100, memory_gib=None)
    assert notes(replace(GOOD, gpus=(unknown,)), "gpu") == []
    small = replace(H100, name="A2", memory_gib=16.0)
    assert "A2 has 16 GiB" in notes(replace(GOOD, gpus=(unknown, small)), "gpu")[0]


def test_an_nvidia_smi_that_knows_no_capability_is_asked_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards, _ = _smi(monkeypatch, (2, "Field is not valid"), (0, "Tesla P100, 418.1, 16384\n"))
    assert cards == (Gpu("Tesla P100", "418.1", 16.0, None),)


def test_an_nvidia_smi_without_a_driver_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    message = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\nMake sure"
    )
    cards, question = _smi(monkeypatch, (9, message), (9, message))
    assert cards == ()
    assert question.startswith("nvidia-smi says: NVIDIA-SMI has failed because it couldn't")
    assert "\n" not in question


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    machine = look(tmp_path)
    assert machine.architecture
    assert machine.disk_free > 0
    assert machine.memory > 0.1
