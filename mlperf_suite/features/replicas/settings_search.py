"""The settings that vLLM chooses in a process of its own, to compare replicas with.

    python -m mlperf_suite.features.replicas.settings_search < CONFIGURATION

Run as a program, it finds them without loading a model: it reads the fields of a `VllmConfig` as
JSON and prints the settings as JSON on its last line.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace

from mlperf_suite.engines.vllm_arguments import VllmConfig, settings_of
from mlperf_suite.engines.vllm_environment import vllm_environment
from mlperf_suite.errors import EngineError

_PATIENCE_S = 300.0
"""How long the other process may take to find the settings, in s."""


class SettingsSearch:
    """Finds the settings that an engine of this configuration has in a process of its own on this
    machine, which vLLM chooses for what it finds there. Raises OSError, and TypeError for an
    argument that JSON cannot hold."""

    def __init__(self, config: VllmConfig) -> None:
        plain = replace(config, log_file=None, profiler=None, profile_folder=None)
        question = json.dumps(asdict(plain))
        # What Ray sets for its processes is no part of a plain one.
        variables = {name: v for name, v in os.environ.items() if not name.startswith("RAY_")}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `end` closes it
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mlperf_suite.features.replicas.settings_search"],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._errors,
            env=variables,
            text=True,
        )
        assert self._process.stdin is not None
        # If it ends before it reads, `result` says so.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(question)

    def result(self) -> Mapping[str, object]:
        """The settings. Raises EngineError if they are not found within some minutes."""
        try:
            self._process.wait(_PATIENCE_S)
            self._output.seek(0)
            settings: dict[str, object] = json.loads(self._output.read().splitlines()[-1])
        except subprocess.TimeoutExpired:
            why = f"no answer within {_PATIENCE_S:.0f} s"
        except (OSError, ValueError, IndexError):
            self._errors.seek(0)
            why = (self._errors.read().strip().splitlines() or ["nothing was said"])[-1]
        else:
            return settings
        raise EngineError(
            f"its engine's settings could not be compared with those of an engine in a process "
            f"of its own: {why}"
        )

    def end(self) -> None:
        """Stop the search, if it still goes on."""
        self._process.kill()
        self._process.wait()
        self._output.close()
        self._errors.close()


def main() -> None:
    """Print the settings for the configuration on standard input."""
    config = VllmConfig(**json.load(sys.stdin))
    with vllm_environment(config.model, config.profiler):
        print(json.dumps(settings_of(config)))


if __name__ == "__main__":
    main()
