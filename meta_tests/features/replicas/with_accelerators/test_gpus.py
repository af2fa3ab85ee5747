"""A replica's GPUs, and the cores near them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from meta_tests.features.accelerators.fake_nvml import NVMLError, gpu, install
from meta_tests.features.replicas.nodes import labels
from mlperf_suite.energy import GPU, RAPL_LABEL
from mlperf_suite.features.replicas.near_cores import cores_near
from mlperf_suite.features.replicas.nodes import own_meters


@pytest.fixture
def two_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Four GPUs, two on each of two nodes of four cores, of which this process may use all but the
    last."""
    install(monkeypatch, *map(gpu, range(4)))
    for number in range(4):
        device = tmp_path / f"0000:{number:02x}:00.0"
        device.mkdir()
        (device / "local_cpulist").write_text("0-1,4-5\n" if number < 2 else "2-3,6-7\n")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(7)))
    return tmp_path


@pytest.mark.parametrize(
    ("names", "cores"),
    [
        (["0"], (0, 1, 4, 5)),
        (["2"], (2, 3, 6)),
        (["2", "3"], ()),  # four processes, three cores
        (["GPU-1"], (0, 1, 4, 5)),
        (["1", "2"], ()),  # both nodes: any
        (["4"], ()),
        (["GPU-"], ()),
        ([], ()),
    ],
)
def test_the_cores_near_a_gpu_are_those_of_its_numa_node(
    two_sockets: Path, names: list[str], cores: tuple[int, ...]
) -> None:
    assert cores_near(names, {}, two_sockets) == cores


def test_a_gpu_on_a_bus_of_a_large_domain_is_found(
    monkeypatch: pytest.MonkeyPatch, two_sockets: Path
) -> None:
    install(monkeypatch, gpu(0, PciInfo=SimpleNamespace(busId="00010000:C1:00.0")))
    (two_sockets / "10000:c1:00.0").mkdir()
    (two_sockets / "10000:c1:00.0" / "local_cpulist").write_text("3-5")
    assert cores_near(["0"], {}, two_sockets) == (3, 4, 5)


def test_numbers_of_unlike_gpus_mean_nothing_unless_they_go_by_bus(
    monkeypatch: pytest.MonkeyPatch, two_sockets: Path
) -> None:
    install(monkeypatch, gpu(0), gpu(1, Name="NVIDIA L4"))
    assert cores_near(["1"], {}, two_sockets) == ()
    assert cores_near(["GPU-1"], {}, two_sockets) == (0, 1, 4, 5)
    assert cores_near(["1"], {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, two_sockets) == (0, 1, 4, 5)


def test_where_no_core_is_near_or_a_place_is_not_told_any_will_do(
    monkeypatch: pytest.MonkeyPatch, two_sockets: Path
) -> None:
    for content in ("", "all of them", "900-950"):
        (two_sockets / "0000:00:00.0" / "local_cpulist").write_text(content)
        assert cores_near(["0"], {}, two_sockets) == ()
    (two_sockets / "0000:01:00.0" / "local_cpulist").unlink()
    assert cores_near(["1"], {}, two_sockets) == ()
    install(monkeypatch, gpu(0, PciInfo=NVMLError("Not Supported")))
    assert cores_near(["0"], {}, two_sockets) == ()


def test_a_replica_has_the_gpus_that_ray_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, *map(gpu, range(4)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    gpus = [c for c in own_meters(2).counters if c.kind == GPU]
    assert [counter.uuid for counter in gpus] == ["GPU-3", "GPU-1"]
    # One of them is not on this machine.
    assert [a.kind for a in own_meters(3).absent][:1] == [GPU]
    # Without GPUs, those of the machine are not the replica's.
    assert labels(own_meters(0)) == {RAPL_LABEL}
