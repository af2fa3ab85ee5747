"""A platform plugin of vLLM, made up: the CPU under another name, which counts who asks.

`install` writes it as an installed package would lie there: a module and its entry point. It is
what a maker's plugin is to vLLM (docs/design/plugin_system.md of vLLM): an out-of-tree platform.
"""

from pathlib import Path

DEVICE = "Made-Up NPU 9"
COUNTS = "MADE_UP_PLATFORM_COUNTS"
"""A variable with the file to which the platform appends a line for each question."""
_MODULE = """
import os

from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import PlatformEnum


def _count(question):
    if "{counts}" in os.environ:
        with open(os.environ["{counts}"], "a") as file:
            file.write(f"{{os.getpid()}} {{question}}\\n")


class MadeUpPlatform(CpuPlatform):
    _enum = PlatformEnum.OOT
    device_name = "made_up"
    device_control_env_var = "MADE_UP_VISIBLE_DEVICES"
    dist_backend = "gloo"

    @classmethod
    def device_count(cls):
        _count("device_count")
        return 1

    @classmethod
    def get_device_name(cls, device_id=0):
        _count("get_device_name")
        return "{device}"

    @classmethod
    def check_and_update_config(cls, vllm_config):
        _count("check_and_update_config")
        super().check_and_update_config(vllm_config)


def register():
    return "vllm_made_up.MadeUpPlatform"
"""


def install(folder: Path) -> None:
    """Put the plugin into a folder that is to be on sys.path."""
    (folder / "vllm_made_up.py").write_text(_MODULE.format(counts=COUNTS, device=DEVICE))
    info = folder / "vllm_made_up-0.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-made-up\nVersion: 0.7\n")
    (info / "entry_points.txt").write_text(
        "[vllm.platform_plugins]\nmade_up = vllm_made_up:register\n"
    )
