"""The counters that a machine shows of its CPUs, through files as Linux has them."""

from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.energy import RAPL_LABEL, Meters, cpu_counters


def why(meters: Meters) -> str:
    assert meters.counters == ()
    (absent,) = meters.absent
    return absent.why


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
