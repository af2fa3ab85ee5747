"""Finds the official client that `make endpoints-client` built, and says which one it is."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite import SUITE_FOLDER
from mlperf_suite.assets import nltk_data_dir
from mlperf_suite.errors import UsageError
from mlperf_suite.untrusted_files import read_regular

OFFICIAL_CLIENT = "inference-endpoint"
OFFICIAL_CLIENT_FOLDER = SUITE_FOLDER / ".endpoints-client"
KNOWN_VERSION, KNOWN_COMMIT = "0.1.0", "ea3327530376fef63d706f4105612e17c2c80a8d"
"""What this room was written for and tried with; the set-up's script names the commit too."""
_HOW_TO_GET = (
    "git clone https://github.com/mlcommons/endpoints DIR, then make endpoints-client CHECKOUT=DIR"
)
_VERSION_LIMIT_S = 120.0
"""Its imports alone take seconds, on a busy machine many."""
_COMMIT_LENGTH = 40
METRICS = "metrics"
"""The folder in its environment with the scripts that `evaluate` loads, as metrics/rouge/rouge.py
of github.com/huggingface/evaluate: it looks in the folder that it runs in before the hub."""
_OF_THE_SUITE = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONSTARTUP")


@dataclass(frozen=True, slots=True)
class OfficialClientInstallation:
    """The client in its environment. `commit`: that it was built from; "" if it is unknown."""

    program: Path
    version: str
    commit: str

    @property
    def folder(self) -> Path:
        """Where it runs: beside copies of the scripts that its scorers load, if there are any."""
        metrics = self.program.parent.parent / METRICS
        return metrics if metrics.is_dir() else self.program.parent.parent

    @property
    def environment(self) -> dict[str, str]:
        """Its environment variables: without those that bring the suite's packages into it, and
        with NLTK's data, which its ROUGE splits sentences by."""
        own = {n: value for n, value in os.environ.items() if n not in _OF_THE_SUITE}
        places = [own.get("NLTK_DATA", ""), str(nltk_data_dir())]
        return own | {"NLTK_DATA": os.pathsep.join(filter(None, places))}

    @property
    def words(self) -> str:
        """Which client it is, in words."""
        return f"{OFFICIAL_CLIENT} {self.version}, commit {self.commit[:8] or 'unknown'}"

    @property
    def note(self) -> str:
        """What is unusual about it, in one line; "" if nothing is."""
        if self.commit == KNOWN_COMMIT:
            return ""
        return f"{self.words}: this suite was tried with commit {KNOWN_COMMIT[:8]}"


def find_official_client(folder: Path | None = None) -> OfficialClientInstallation:
    """The client that was built into a folder, by default where `make endpoints-client` does.

    Raises UsageError if it is missing, does not start or is of another version than this room
    writes configurations for.
    """
    folder = OFFICIAL_CLIENT_FOLDER if folder is None else folder
    program = folder / "bin" / OFFICIAL_CLIENT
    if not program.is_file():
        raise UsageError(f"--client {OFFICIAL_CLIENT}: not built in {folder}: {_HOW_TO_GET}")
    version = _version_of(program)
    if version != KNOWN_VERSION:
        raise UsageError(
            f"--client {OFFICIAL_CLIENT}: {program} is version {version or 'unknown'}, known is "
            f"{KNOWN_VERSION}: check out commit {KNOWN_COMMIT[:8]} and make endpoints-client"
        )
    return OfficialClientInstallation(program, version, _commit_of(folder / "source"))


def _version_of(program: Path) -> str:
    try:
        run = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_VERSION_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"no answer within {_VERSION_LIMIT_S:g} s"
        raise UsageError(
            f"--client {OFFICIAL_CLIENT}: {program} does not start: {reason}"
        ) from None
    if run.returncode:
        last = (run.stderr or run.stdout).strip().rpartition("\n")[2]
        raise UsageError(
            f"--client {OFFICIAL_CLIENT}: {program} does not start: {last or 'no message'}"
        )
    return run.stdout.strip()


def _commit_of(source: Path) -> str:
    """The commit that the clone beside the client is at; "" if it does not say."""
    try:
        head = read_regular(source / ".git" / "HEAD").decode("ascii").strip()
    except (OSError, ValueError):
        return ""
    return head if len(head) == _COMMIT_LENGTH and head.isalnum() else ""
