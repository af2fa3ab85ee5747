"""The counters that a machine shows: GPUs through NVML, CPUs through files as Linux has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meta_tests.fake_nvml import NVMLError, gpu, install
from mlperf_suite.energy.meters import NVML_LABEL, RAPL_LABEL, Meters, cpu_counters, gpu_counters

NOT_SUPPORTED = NVMLError("Not Supported")


def why(meters: Meters) -> str:
    assert meters.counters == ()
    (absent,) = meters.absent
    return absent.why


# GPUs


def test_each_gpu_is_read_in_joules(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, *(gpu(i, TotalEnergyConsumption=1500 * (i + 1)) for i in range(8)))
    meters = gpu_counters(environment={})
    assert [counter.read() for counter in meters.counters] == [1.5 * (i + 1) for i in range(8)]
    assert {(counter.label, counter.gives, counter.note) for counter in meters.counters} == {
        (NVML_LABEL, "energy", "")
    }
    assert meters.counters[3].name == "GPU 3 NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("visible", "idle", "numbers"),
    [
        (None, 0, [0, 1, 2, 3]),
        (None, 3, [0]),
        ("2,0", 0, [2, 0]),
        ("3, 1", 1, [3]),
        ("GPU-2", 0, [2]),
    ],
)
def test_only_the_gpus_of_the_run_are_read(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, idle: int, numbers: list[int]
) -> None:
    install(monkeypatch, *map(gpu, range(4)))
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    counters = gpu_counters(idle, environment=environment).counters
    assert [int(counter.name.split()[1]) for counter in counters] == numbers


@pytest.mark.parametrize(
    ("visible", "idle", "reason"),
    [
        ("", 0, "no GPU"),
        (None, 2, "no GPU"),
        ("0,7", 0, "names a GPU that NVML does not find"),
        ("MIG-1234", 0, "a part of a GPU"),
        # The beginning of several.
        ("GPU-", 0, "names a GPU that NVML does not find"),
    ],
)
def test_gpus_that_cannot_be_told_apart_are_not_summed(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, idle: int, reason: str
) -> None:
    install(monkeypatch, *map(gpu, range(2)))
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert reason in why(gpu_counters(idle, environment=environment))


@pytest.mark.parametrize(
    ("environment", "idle", "numbers"),
    [
        ({}, 0, [0, 1, 2]),
        ({"CUDA_VISIBLE_DEVICES": "2,1,0"}, 0, [2, 1, 0]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-0"}, 1, [1]),
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, 0, [0]),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, 2, [0]),
        ({"CUDA_VISIBLE_DEVICES": "0"}, 0, None),
        ({"CUDA_VISIBLE_DEVICES": "0,GPU-1"}, 0, None),
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, 0, None),
        ({}, 1, None),
    ],
)
def test_a_number_means_a_gpu_only_where_cuda_counts_as_nvml_does(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    idle: int,
    numbers: list[int] | None,
) -> None:
    install(monkeypatch, gpu(0, Name="NVIDIA T400"), gpu(1), gpu(2))
    meters = gpu_counters(idle, environment=environment)
    if numbers is None:
        assert why(meters) == (
            "of several kinds of GPU, which one is number 0 is not known: set "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    else:
        assert [int(counter.name.split()[1]) for counter in meters.counters] == numbers


def test_of_a_gpu_in_parts_the_run_has_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, gpu(0, MigMode=[1, 1]), gpu(1, MigMode=[0, 1]))
    assert "a part of a GPU (MIG)" in why(gpu_counters(environment={"CUDA_VISIBLE_DEVICES": "0"}))
    assert len(gpu_counters(environment={"CUDA_VISIBLE_DEVICES": "1"}).counters) == 1


def test_of_a_run_on_several_machines_no_part_is_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, *map(gpu, range(8)))
    assert len(gpu_counters(0, 8, {}).counters) == 8
    assert why(gpu_counters(0, 16, {})) == "the engine has 16 GPUs, 8 of them on this machine"


def test_without_an_energy_counter_the_power_draw_is_read_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, gpu(0), gpu(1, TotalEnergyConsumption=NOT_SUPPORTED))
    counter, draw = gpu_counters(environment={}).counters
    assert (counter.gives, counter.note) == ("energy", "")
    assert (draw.gives, draw.read()) == ("power", 70.0)
    assert "by its power draw" in draw.note and "Not Supported" in draw.note
    # One GPU that tells nothing leaves no sum.
    silent = gpu(1, TotalEnergyConsumption=NOT_SUPPORTED, PowerUsage=NOT_SUPPORTED)
    install(monkeypatch, gpu(0), silent)
    assert why(gpu_counters(environment={})) == (
        "GPU 1 NVIDIA H100 80GB HBM3: neither an energy counter (Not Supported) nor a power draw "
        "(Not Supported)"
    )


def test_a_machine_without_nvml_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, fails_at_init=NVMLError("NVML Shared Library Not Found"))
    assert why(gpu_counters(environment={})) == "NVML: NVML Shared Library Not Found"
    install(monkeypatch)
    assert why(gpu_counters(environment={})) == "NVML finds no GPU"
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert "not installed" in why(gpu_counters(environment={}))


def test_nvml_is_let_go_again(monkeypatch: pytest.MonkeyPatch) -> None:
    handles: list[int] = []
    fake: Any = install(monkeypatch, gpu(0))
    init = fake.nvmlInit

    def hold() -> None:
        init()
        handles.append(1)

    fake.nvmlInit = hold
    fake.nvmlShutdown = handles.pop
    meters = gpu_counters(environment={})
    assert handles == [1]
    meters.close()
    assert handles == []
    gpu_counters(environment={"CUDA_VISIBLE_DEVICES": ""})
    assert handles == []


# CPUs


def zone(root: Path, name: str, label: str, uj: int, parent: str = "") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{label}\n")
    (folder / "energy_uj").write_text(f"{uj}\n")
    (folder / "max_energy_range_uj").write_text("262143328850\n")
    return folder


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """A machine of two sockets, with all that Linux may show beside them."""
    root = tmp_path / "powercap"
    (root / "intel-rapl").mkdir(parents=True)
    for socket in range(2):
        zone(root, f"intel-rapl:{socket}", f"package-{socket}", 1_000_000 * (socket + 1))
        zone(root, f"intel-rapl:{socket}:0", "core", 9_000_000)
        zone(root, f"intel-rapl:{socket}:1", "dram", 500_000)
    zone(root, "intel-rapl:2", "psys", 9_000_000)
    zone(root, "intel-rapl-mmio:0", "package-0", 9_000_000)
    return root


def test_packages_and_their_memory_are_read_and_nothing_twice(powercap: Path) -> None:
    counters = cpu_counters(powercap).counters
    assert {counter.name: counter.read() for counter in counters} == {
        "CPU package-0": 1.0,
        "CPU dram of intel-rapl:0": 0.5,
        "CPU package-1": 2.0,
        "CPU dram of intel-rapl:1": 0.5,
    }
    assert {(counter.label, counter.range_j) for counter in counters} == {
        (RAPL_LABEL, 262143.32885)
    }


def test_a_machine_without_rapl_says_so(powercap: Path, tmp_path: Path) -> None:
    """And one whose counter gives no number."""
    assert "(RAPL)" in why(cpu_counters(tmp_path / "absent"))
    assert "no package" in why(cpu_counters(tmp_path))
    for text in ("", "many\n"):
        (powercap / "intel-rapl:0" / "energy_uj").write_text(text)
        assert "intel-rapl:0" in why(cpu_counters(powercap))


def test_a_counter_that_only_root_may_read_says_so(
    powercap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of root's tests no file is closed to the reader, so the refusal is made."""
    denied = powercap / "intel-rapl:1" / "energy_uj"
    read_text = Path.read_text

    def read(self: Path, *arguments: Any, **options: Any) -> str:
        if self == denied:
            raise PermissionError(13, "Permission denied", str(self))
        return read_text(self, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", read)
    assert why(cpu_counters(powercap)) == f"{denied} is not this user's to read"
