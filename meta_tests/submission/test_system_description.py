"""The description of a system, as far as the machine tells it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_tests.fake_nvml import gpu, install
from meta_tests.made_runs import system_fields
from mlperf_suite.features.submission.system_description import describe_machine, different_machine
from mlperf_suite.hardware import describe_system


def test_the_machine_tells_what_it_can() -> None:
    described = describe_machine(describe_system())
    assert described["host_memory_capacity"].endswith(" GiB")
    assert int(described["host_processors_per_node"]) >= 1
    assert int(described["host_processor_core_count"]) >= 1
    assert "vLLM 0." in described["framework"] and "LoadGen " in described["other_software_stack"]
    assert set(described) == set(system_fields())


def test_a_machine_that_tells_nothing_leaves_all_to_a_person(tmp_path: Path) -> None:
    described = describe_machine({}, tmp_path)
    empty = ("host_processor_model_name", "host_memory_capacity", "host_storage_capacity")
    assert {described[name] for name in (*empty, "host_networking", "framework")} == {""}


def test_disks_cards_and_caches_are_read_from_sys(tmp_path: Path) -> None:
    for path, text in {
        "proc/cpuinfo": "\n\n".join(
            f"model name\t: Made Up 9\nphysical id\t: {n // 4}\ncore id\t: {n % 4}"
            for n in range(8)
        ),
        "proc/meminfo": "MemTotal:       16777216 kB\n",
        "sys/block/nvme0n1/size": "2000000000\n",
        "sys/block/sda/size": "1000000000\n",
        "sys/block/sda/queue/rotational": "1\n",
        "sys/block/loop0/size": "4000000000\n",
        "sys/class/net/eth0/device/vendor": "",
        "sys/class/net/eth0/type": "1\n",
        "sys/class/net/eth0/speed": "100000\n",
        "sys/class/net/ib0/device/vendor": "",
        "sys/class/net/ib0/type": "32\n",
        "sys/class/net/lo/type": "772\n",
        "sys/devices/system/cpu/cpu0/cache/index0/level": "1\n",
        "sys/devices/system/cpu/cpu0/cache/index0/type": "Data\n",
        "sys/devices/system/cpu/cpu0/cache/index0/size": "32K\n",
        "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3500000\n",
        "etc/os-release": 'PRETTY_NAME="Made Up Linux 9"\nID=made\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    described = describe_machine({"vllm_version": "0.30.0"}, tmp_path)
    assert described["host_processor_model_name"] == "Made Up 9"
    assert described["host_processors_per_node"] == "2"
    assert described["host_processor_core_count"] == "4"
    assert described["host_processor_frequency"] == "3.50 GHz at most"
    assert described["host_processor_caches"] == "L1 data 32K"
    assert described["host_processor_interconnect"] == ""
    assert described["host_memory_capacity"] == "16 GiB"
    assert described["host_storage_capacity"] == "1536 GB"
    assert described["host_storage_type"] == "HDD, NVMe SSD"
    assert described["host_network_card_count"] == "2"
    assert described["host_networking"] == "Ethernet 100 Gbit/s, InfiniBand"
    assert described["framework"] == "vLLM 0.30.0"
    assert described["operating_system"].startswith("Made Up Linux 9, Linux ")


def test_accelerators_are_described_as_the_driver_does(monkeypatch: Any) -> None:
    figures = {"Name": "NVIDIA Made Up", "MemoryInfo": SimpleNamespace(total=143_771 * 2**20)}
    install(monkeypatch, gpu(0, **figures), gpu(1, **figures), driver="570.1")
    described = describe_machine({})
    assert described["system_name"] == "2x NVIDIA Made Up"
    assert described["accelerators_per_node"] == "2"
    assert described["accelerator_memory_capacity"] == "140 GiB"
    assert described["accelerator_frequency"] == "1980 MHz at most"
    assert described["accelerator_host_interconnect"] == "PCIe Gen5 x16"
    assert described["accelerator_interconnect"] == ""
    assert "NVIDIA driver 570.1" in described["other_software_stack"]


def test_another_machine_is_told_by_its_hardware() -> None:
    here = describe_system()
    assert different_machine(here, here) == []
    assert different_machine({**here, "gpus": ["H200"]}, here) == ["gpus ['H200'], here []"]


@pytest.mark.parametrize(
    ("used", "name", "count", "between"),
    [
        (None, "8x NVIDIA H100 80GB HBM3", "8", ""),
        (2, "2x NVIDIA H100 80GB HBM3", "2", ""),
        (1, "1x NVIDIA H100 80GB HBM3", "1", "none, one accelerator"),
    ],
)
def test_gpus_that_the_engine_was_not_given_are_not_of_the_system(
    monkeypatch: pytest.MonkeyPatch, used: int | None, name: str, count: str, between: str
) -> None:
    install(monkeypatch, *map(gpu, range(8)))
    described = describe_machine({}, gpus_used=used)
    assert described["system_name"] == name
    assert described["accelerators_per_node"] == count
    assert described["accelerator_interconnect"] == between


def test_an_engine_on_the_cpu_has_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, gpu(0))
    assert describe_machine({}, gpus_used=0)["accelerators_per_node"] == "0"


MACHINE = {"host": "a", "here": True, "replicas": 8, "gpus": 8, "gpu": "NVIDIA H100"}


def test_replicas_on_this_machine_are_one_node() -> None:
    described = describe_machine({}, machines=[{**MACHINE, "gpus": 4, "gpu_memory": 80 * 2**30}])
    assert described["number_of_nodes"] == "1"
    assert described["accelerators_per_node"] == "4"
    assert described["host_processor_model_name"]


def test_replicas_on_other_machines_leave_their_hosts_to_a_person() -> None:
    machines = [
        {**MACHINE, "host": name, "here": False, "gpu_memory": 80 * 2**30} for name in ("a", "b")
    ]
    described = describe_machine({}, machines=machines)
    assert described["number_of_nodes"] == "2"
    assert described["accelerators_per_node"] == "8"
    assert described["accelerator_model_name"] == "NVIDIA H100"
    assert described["accelerator_memory_capacity"] == "80 GiB"
    assert described["system_name"] == "2x 8x NVIDIA H100"
    assert not any(value for name, value in described.items() if name.startswith("host_"))
    assert (
        describe_machine({}, machines=[machines[0], {**machines[1], "gpus": 4}])[
            "accelerators_per_node"
        ]
        == ""
    )
