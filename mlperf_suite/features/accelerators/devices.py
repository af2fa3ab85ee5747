"""The accelerators of this machine, by whoever knows most of them."""

from __future__ import annotations

from mlperf_suite.features.accelerators import amd_smi, intel, nvml, vllm_platform
from mlperf_suite.hardware import NO_COUNTER, Accelerator, AcceleratorSource, GpuMeters


class _Devices(AcceleratorSource):
    """vLLM's platform is asked in a process of its own, which takes seconds: first if a plugin may
    decide what vLLM runs on, last for builds whose devices have no library of their maker here."""

    def devices(self) -> tuple[Accelerator, ...]:
        return (
            vllm_platform.devices_of_plugin()
            or nvml.devices()
            or amd_smi.devices()
            or vllm_platform.devices_of_build()
        )

    def busy(self) -> bool | None:
        if vllm_platform.devices_of_plugin():
            return None
        busy = nvml.busy()
        return amd_smi.busy() if busy is None else busy

    def open_meters(self) -> GpuMeters:
        devices = vllm_platform.devices_of_plugin()
        if not devices:
            meters = nvml.open_meters()
            if not meters.problem:
                return meters
            if amd_smi.devices():
                return amd_smi.open_meters()
            if not (devices := vllm_platform.devices_of_build()):
                return meters
        if devices[0].variable == intel.MODULES:
            return intel.gaudi_meters()
        is_gpu = devices[0].variable == intel.MASK
        return intel.gpu_meters(len(devices)) if is_gpu else GpuMeters(problem=NO_COUNTER)


ACCELERATORS = _Devices()
