"""PTDaemon's sessions in a submission: which result each one measured, and where its files go.

Source: the layout of the official checker (POWER_DIR_PATH), the same in every round:
results/SYSTEM/BENCHMARK/SCENARIO/performance/ with power/, ranging/ and spl.txt in run_1/.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.logs import DETAIL, SUMMARY
from mlperf_suite.rules.power_measurement import (
    POWER,
    POWER_FILES,
    RANGING,
    RUN_FILES,
    SPL,
    TESTING,
)


def find_sessions(folder: Path) -> list[Path]:
    """The sessions of PTDaemon's client in a folder: the folder itself, or those directly below it.

    Raises UsageError if there is none.
    """
    try:
        below = sorted(path for path in folder.iterdir() if (path / POWER).is_dir())
    except OSError as error:
        raise UsageError(f"--power {folder}: {error.strerror}") from error
    found = [folder] if (folder / POWER).is_dir() else below
    if not found:
        raise UsageError(
            f"--power {folder}: no session of PTDaemon's client in it, which has the folders "
            f"{POWER}/, {RANGING}/ and {TESTING}/"
        )
    return found


def match_sessions(
    sessions: Sequence[Path], logs: Mapping[str, Path]
) -> tuple[dict[str, Path], list[str]]:
    """The session of each result, and a line for each session without a result or with a taken one.

    `logs`: by result, the folder of its performance run. A session belongs to the run with the same
    logs, byte for byte.
    """
    found: dict[str, Path] = {}
    reasons = []
    for session in sessions:
        of = [name for name, folder in logs.items() if _same_run(session / TESTING, folder)]
        if not of:
            reasons.append(
                f"{session}: its {TESTING}/ is the performance run of none of the results "
                f"({DETAIL} or {SUMMARY} is another, or is not there)"
            )
        for name in of:
            if name in found:
                reasons.append(f"{session}: {name} has {found[name]} already; choose one of them")
            found.setdefault(name, session)
    return found, reasons


def _same_run(one: Path, other: Path) -> bool:
    try:
        return all(
            (one / name).read_bytes() == (other / name).read_bytes() for name in (DETAIL, SUMMARY)
        )
    except OSError:
        return False


def copy_session(session: Path, performance: Path) -> None:
    """Copy a session's files to their places in a round. Files that no rule requires are left out;
    the rules report missing ones."""
    wanted = [f"{POWER}/{name}" for name in sorted(POWER_FILES)]
    wanted += [f"{RANGING}/{name}" for name in sorted(RUN_FILES)]
    for path in (*wanted, f"{TESTING}/{SPL}"):
        (performance / path).parent.mkdir(parents=True, exist_ok=True)
        if (session / path).is_file():
            shutil.copyfile(session / path, performance / path)
