"""A platform plugin of vLLM, made up: the CPU under another name, which counts its questions."""

from pathlib import Path

DEVICE = "Made-Up NPU 9"
COUNTS = "MADE_UP_PLATFORM_COUNTS"
"""A variable with the file to which the platform appends a line for each question."""
_MODULE = f"""
import os
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import PlatformEnum

def count(question):
    with open(os.environ.get("{COUNTS}", os.devnull), "a") as file:
        print(os.getpid(), question, file=file)

class MadeUpPlatform(CpuPlatform):
    _enum = PlatformEnum.OOT
    device_control_env_var = "MADE_UP_VISIBLE_DEVICES"

    @classmethod
    def get_device_name(cls, device_id=0):
        count("get_device_name")
        return "{DEVICE}"

    @classmethod
    def check_and_update_config(cls, vllm_config):
        count("check_and_update_config")
        super().check_and_update_config(vllm_config)
        vllm_config.parallel_config.worker_cls = "vllm_made_up_worker.MadeUpWorker"

def register():
    return "vllm_made_up.MadeUpPlatform"
"""
_WORKER = """
from contextlib import nullcontext
from vllm.v1.worker.cpu_worker import CPUWorker

class MadeUpWorker(CPUWorker):
    def _maybe_get_memory_pool_context(self, tag):
        return nullcontext()
"""


def install(folder: Path) -> None:
    """Put the plugin into a folder that is to be on sys.path."""
    (folder / "vllm_made_up.py").write_text(_MODULE)
    (folder / "vllm_made_up_worker.py").write_text(_WORKER)
    info = folder / "vllm_made_up-0.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: vllm-made-up\nVersion: 0.7\n")
    points = "[vllm.platform_plugins]\nmade_up = vllm_made_up:register\n"
    (info / "entry_points.txt").write_text(points)
