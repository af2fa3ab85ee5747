"""Finds vLLM's settings in a separate process, without loading a model, to compare replicas with.

    python -m mlperf_suite.engines.vllm_settings < CONFIGURATION

Reads the fields of a `VllmConfig` as JSON and prints the settings as JSON on its last line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from threading import Event

from mlperf_suite.engines.vllm_engine import VllmConfig, settings_of, vllm_environment

_PATIENCE_S = 300.0
_LOOK_S = 0.1


def settings_in_process(config: VllmConfig, stop: Event) -> Mapping[str, object] | None:
    """The settings of an engine of this configuration if loaded in the suite's own process. None if
    they cannot be determined, for example without a usable device, or if `stop` is set first."""
    plain = replace(config, log_file=None, profiler=None, profile_folder=None)
    try:
        with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+") as told:
            json.dump(asdict(plain), asked)
            asked.seek(0)
            command = [sys.executable, "-m", "mlperf_suite.engines.vllm_settings"]
            with subprocess.Popen(
                command, stdin=asked, stdout=told, stderr=subprocess.DEVNULL
            ) as process:
                if not _has_ended(process, stop):
                    process.kill()
                    return None
            told.seek(0)
            found = json.loads(told.read().splitlines()[-1]) if not process.returncode else None
    except (OSError, ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None


def _has_ended(process: subprocess.Popen[bytes], stop: Event) -> bool:
    """Wait for the process to end, until the time limit or until `stop` is set."""
    deadline = time.monotonic() + _PATIENCE_S
    while process.poll() is None:
        if stop.wait(_LOOK_S) or time.monotonic() > deadline:
            return False
    return True


def main() -> None:
    """Print the settings for the configuration on standard input."""
    config = VllmConfig(**json.load(sys.stdin))
    with vllm_environment(config):
        print(json.dumps(settings_of(config)))


if __name__ == "__main__":
    main()
