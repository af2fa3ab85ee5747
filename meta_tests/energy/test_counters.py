"""The counters that a machine shows: GPUs through NVML, CPUs through files as Linux has them."""

from pathlib import Path
from typing import Any

import pytest

from meta_tests.fake_nvml import NVMLError, gpu, install
from mlperf_suite.energy import NVML_LABEL, RAPL_LABEL, Meters, cpu_counters, gpu_counters

NOT_SUPPORTED = NVMLError("Not Supported")


def why(meters: Meters) -> str:
    assert meters.counters == ()
    (absent,) = meters.absent
    return absent.why


# GPUs


def test_each_gpu_is_read_in_joules(monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        monkeypatch,
        *(gpu(i, TotalEnergyConsumption=1500 * (i + 1)) for i in range(7)),
        gpu(7, TotalEnergyConsumption=12_000, EnforcedPowerLimit=NOT_SUPPORTED),
    )
    meters = gpu_counters(environment={})
    assert [counter.limit_watts for counter in meters.counters] == [700.0] * 7 + [None]
    assert [counter.read() for counter in meters.counters] == [1.5 * (i + 1) for i in range(8)]
    assert {(counter.label, counter.gives, counter.note) for counter in meters.counters} == {
        (NVML_LABEL, "energy", "")
    }
    assert meters.counters[3].name == "GPU 3 NVIDIA H100 80GB HBM3"


ALIKE = [gpu(number) for number in range(4)]
UNLIKE = [gpu(0, Name="NVIDIA T400"), gpu(1), gpu(2)]
BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
UNKNOWN = (
    "of several kinds of GPU, which one is number 0 is not known: set CUDA_DEVICE_ORDER=PCI_BUS_ID"
)


@pytest.mark.parametrize(
    ("gpus", "visible", "environment", "idle", "numbers"),
    [
        (ALIKE, None, {}, 0, [0, 1, 2, 3]),
        (ALIKE, None, {}, 3, [0]),
        (ALIKE, "2,0", {}, 0, [2, 0]),
        (ALIKE, "3, 1", {}, 1, [3]),
        (ALIKE, "GPU-2", {}, 0, [2]),
        (ALIKE, "", {}, 0, "no GPU"),
        (ALIKE, None, {}, 4, "no GPU"),
        (ALIKE, "0,7", {}, 0, "names a GPU that the driver does not list"),
        (ALIKE, "MIG-1234", {}, 0, "a part of a GPU"),
        # The beginning of several.
        (ALIKE, "GPU-", {}, 0, "names a GPU that the driver does not list"),
        (UNLIKE, None, {}, 0, [0, 1, 2]),
        (UNLIKE, "2,1,0", {}, 0, [2, 1, 0]),
        (UNLIKE, "GPU-1,GPU-0", {}, 1, [1]),
        (UNLIKE, "0", BY_BUS, 0, [0]),
        (UNLIKE, None, BY_BUS, 2, [0]),
        (UNLIKE, "0", {}, 0, UNKNOWN),
        (UNLIKE, "0,GPU-1", {}, 0, UNKNOWN),
        (UNLIKE, "0", {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, 0, UNKNOWN),
        (UNLIKE, None, {}, 1, UNKNOWN),
    ],
)
def test_only_the_gpus_of_the_run_are_read_and_none_that_cannot_be_told_apart(
    monkeypatch: pytest.MonkeyPatch,
    gpus: list[Any],
    visible: str | None,
    environment: dict[str, str],
    idle: int,
    numbers: list[int] | str,
) -> None:
    """A number means a GPU only where CUDA counts as NVML does."""
    install(monkeypatch, *gpus)
    of_cuda = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    meters = gpu_counters(idle, environment=environment | of_cuda)
    if isinstance(numbers, str):
        assert numbers in why(meters)
    else:
        assert [int(counter.name.split()[1]) for counter in meters.counters] == numbers


def test_of_a_gpu_in_parts_the_run_has_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, gpu(0, MigMode=[1, 1]), gpu(1, MigMode=[0, 1]))
    assert "a part of a GPU (MIG)" in why(gpu_counters(environment={"CUDA_VISIBLE_DEVICES": "0"}))
    assert len(gpu_counters(environment={"CUDA_VISIBLE_DEVICES": "1"}).counters) == 1
    # Nor is a part the whole of a run on several machines.
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


def zone(folder: Path, label: str, uj: int) -> None:
    folder.mkdir(parents=True)
    for name, text in (("name", label), ("energy_uj", uj), ("max_energy_range_uj", 262143328850)):
        (folder / name).write_text(f"{text}\n")


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """A machine of two sockets, with all that Linux may show beside them."""
    root = tmp_path / "powercap"
    (root / "intel-rapl").mkdir(parents=True)
    for socket in range(2):
        zone(root / f"intel-rapl:{socket}", f"package-{socket}", 1_000_000 * (socket + 1))
        zone(root / f"intel-rapl:{socket}:0", "core", 9_000_000)
        zone(root / f"intel-rapl:{socket}:1", "dram", 500_000)
    zone(root / "intel-rapl:2", "psys", 9_000_000)
    zone(root / "intel-rapl-mmio:0", "package-0", 9_000_000)
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
