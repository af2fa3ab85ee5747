"""The description of a system, as far as the machine tells it."""

from pathlib import Path

import pytest

from meta_tests.features.submission_check.made_submissions import system_fields
from mlperf_suite.features.submission import system_description
from mlperf_suite.features.submission.system_description import describe_machine, different_machine
from mlperf_suite.hardware import Accelerator, describe_system

H100S = "8x NVIDIA H100 80GB HBM3"


def test_the_machine_tells_what_it_can_and_the_rest_is_a_persons(tmp_path: Path) -> None:
    here = describe_system()
    described = describe_machine(here)
    assert int(described["host_processor_core_count"]) >= 1
    assert "vLLM 0." in described["framework"] and "LoadGen " in described["other_software_stack"]
    assert set(described) == set(system_fields())
    unknown = describe_machine({}, tmp_path)
    empty = ("host_processor_model_name", "host_memory_capacity", "host_storage_capacity")
    assert {unknown[name] for name in (*empty, "host_networking", "framework")} == {""}
    assert different_machine(here, here) == []
    assert different_machine({**here, "gpus": ["H200"]}, here) == ["gpus ['H200'], here []"]


def test_disks_cards_and_caches_are_read_from_sys(tmp_path: Path) -> None:
    cpu0 = "sys/devices/system/cpu/cpu0"
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
        f"{cpu0}/cache/index0/level": "1\n",
        f"{cpu0}/cache/index0/type": "Data\n",
        f"{cpu0}/cache/index0/size": "32K\n",
        f"{cpu0}/cpufreq/cpuinfo_max_freq": "3500000\n",
        "etc/os-release": 'PRETTY_NAME="Made Up Linux 9"\nID=made\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    described = describe_machine({"vllm_version": "0.30.0"}, tmp_path)
    assert described.items() >= {
        ("host_processor_model_name", "Made Up 9"),
        ("host_processors_per_node", "2"),
        ("host_processor_core_count", "4"),
        ("host_processor_frequency", "3.50 GHz at most"),
        ("host_processor_caches", "L1 data 32K"),
        ("host_processor_interconnect", ""),
        ("host_memory_capacity", "16 GiB"),
        ("host_storage_capacity", "1536 GB"),
        ("host_storage_type", "HDD, NVMe SSD"),
        ("host_network_card_count", "2"),
        ("host_networking", "Ethernet 100 Gbit/s, InfiniBand"),
        ("framework", "vLLM 0.30.0"),
    }
    assert described["operating_system"].startswith("Made Up Linux 9, Linux ")


def test_accelerators_are_described_as_the_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    h100 = Accelerator("NVIDIA H100 80GB HBM3", "", "570.1", 143_771 * 2**20, 1980, 5, 16)
    monkeypatch.setattr(system_description, "accelerators", lambda: (h100,) * 8)
    described = describe_machine({})
    assert described["system_name"] == H100S
    assert described["accelerators_per_node"] == "8"
    assert described["accelerator_memory_capacity"] == "140 GiB"
    assert described["accelerator_frequency"] == "1980 MHz at most"
    assert described["accelerator_host_interconnect"] == "PCIe Gen5 x16"
    assert described["accelerator_interconnect"] == ""
    assert "NVIDIA driver 570.1" in described["other_software_stack"]
    # Those that the engine was not given are not of the system.
    of_one = describe_machine({}, gpus_used=1)
    assert of_one["system_name"] == H100S.replace("8", "1", 1)
    assert of_one["accelerators_per_node"] == "1"
    assert of_one["accelerator_interconnect"] == "none, one accelerator"
    assert describe_machine({}, gpus_used=0)["accelerators_per_node"] == "0"


def test_replicas_are_on_one_node_or_their_hosts_are_left_to_a_person() -> None:
    machine = {"host": "a", "gpus": 8, "gpu": "NVIDIA H100", "gpu_memory": 80 * 2**30}
    own = describe_machine({}, machines=[machine | {"here": True, "gpus": 4}])
    assert (own["number_of_nodes"], own["accelerators_per_node"]) == ("1", "4")
    assert own["host_processor_model_name"]
    assert describe_machine({}, machines=[{"here": True}])["accelerators_per_node"] == "0"
    described = describe_machine({}, machines=[machine, machine | {"host": "b"}])
    assert described["number_of_nodes"] == "2"
    assert described["accelerators_per_node"] == "8"
    assert described["accelerator_model_name"] == "NVIDIA H100"
    assert described["accelerator_memory_capacity"] == "80 GiB"
    assert described["system_name"] == "2x 8x NVIDIA H100"
    assert not any(value for name, value in described.items() if name.startswith("host_"))
    uneven = describe_machine({}, machines=[machine, machine | {"host": "b", "gpus": 4}])
    assert uneven["accelerators_per_node"] == ""
