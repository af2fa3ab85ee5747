"""How vLLM would be set in a process of its own, without loading it: to compare replicas with.

    python -m mlperf_suite.engines.vllm_settings < CONFIGURATION

Reads the fields of a `VllmConfig` as JSON and prints the settings as JSON on its last line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace

from mlperf_suite.engines.vllm_engine import VllmConfig, settings_of, vllm_environment

_PATIENCE_S = 300.0


def settings_in_process(config: VllmConfig) -> Mapping[str, object] | None:
    """The settings that an engine of this configuration has where it is loaded in the suite's own
    process; None where they cannot be told, as without a device that it could use."""
    plain = replace(config, log_file=None, profiler=None, profile_folder=None)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mlperf_suite.engines.vllm_settings"],
            input=json.dumps(asdict(plain)),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None


def main() -> None:
    """Print the settings for the configuration on standard input."""
    config = VllmConfig(**json.load(sys.stdin))
    with vllm_environment(config):
        print(json.dumps(settings_of(config)))


if __name__ == "__main__":
    main()
