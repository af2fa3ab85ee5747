"""The devices that vLLM runs on, as its platform says, which a plugin may bring.

The platform is asked in a process of its own: importing it takes seconds, and a platform may start
its devices. Source: vLLM's documentation, "Plugin System" (docs/design/plugin_system.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any

from mlperf_suite.hardware import Accelerator

_GROUP = "vllm.platform_plugins"
_BUILDS = ("rocm", "xpu", "tpu", "hpu", "neuron")
"""Names in the package or version of vLLM's builds for devices that NVML does not list."""
_PATIENCE_S = 120.0
_QUERY = "mlperf_suite.features.accelerators.platform_query"


def devices_of_plugin() -> tuple[Accelerator, ...]:
    """The devices of a platform plugin of vLLM; none if there is no plugin, or it is not active."""
    plugins = _plugins()
    return _devices(f"vLLM's platform plugin {' or '.join(plugins)}") if plugins else ()


def devices_of_build() -> tuple[Accelerator, ...]:
    """The devices of vLLM's build for neither NVIDIA's GPUs nor CPUs; none with other builds."""
    build = _build()
    return _devices(f"vLLM's {build} build") if build else ()


@cache
def _plugins() -> tuple[str, ...]:
    return tuple(sorted({point.name for point in entry_points(group=_GROUP)}))


@cache
def _build() -> str:
    for package in ("vllm", "vllm-tpu"):
        try:
            words = f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
        if found := next((name for name in _BUILDS if name in words), ""):
            return found
    return ""


@cache
def _devices(of: str) -> tuple[Accelerator, ...]:
    """The devices, which never count as none if vLLM does not answer: a result on them would
    pass as one on a CPU."""
    answer = _ask()
    if answer is None:
        words = f"{of}, which does not answer"
        return (Accelerator(f"unknown device of {of}", maker="", platform=words),)
    return devices_from(answer)


def _ask() -> dict[str, Any] | None:
    """What vLLM's platform says of itself, from `platform_query`; None if it does not answer."""
    # A plugin may lie on a path that only this process has.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    try:
        process = subprocess.run(
            [sys.executable, "-m", _QUERY],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        answer = json.loads(process.stdout.decode(errors="replace").strip().splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return answer if isinstance(answer, dict) else None


def devices_from(answer: dict[str, Any]) -> tuple[Accelerator, ...]:
    """The devices in an answer of `platform_query`; none if vLLM runs on the CPU."""
    names, memories = answer["names"], answer["memories"]
    kind, plugin = _words(answer["device_type"]), _words(answer["plugin"])
    how = f"{plugin} (vLLM's platform plugin)" if plugin else f"vLLM's {answer['platform']}"
    sizes = {f"{round(size / 2**30)} GiB" for size in memories if size}
    platform = ", ".join([how, f"device type {kind}", *sorted(sizes)])
    software = [_words(answer["distribution"])] if answer["distribution"] else []
    software += [f"communication {_words(answer['communication'] or 'not stated')}"]
    software += [f"precisions {', '.join(map(_words, answer['dtypes'])) or 'not stated'}"]
    return tuple(
        Accelerator(
            _words(name) or f"{kind} of {how}",
            memory_bytes=size,
            maker="",
            variable=_words(answer["variable"]),
            platform=platform,
            software="; ".join(software),
        )
        for name, size in zip(names, memories, strict=True)
    )


def _words(value: object) -> str:
    """A plugin's text on one printable line."""
    return "".join(letter for letter in str(value or "") if letter.isprintable())[:100]
