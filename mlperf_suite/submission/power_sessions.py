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
    sessions = [folder] if (folder / POWER).is_dir() else below
    if not sessions:
        raise UsageError(
            f"--power {folder}: no session of PTDaemon's client in it, which has the folders "
            f"{POWER}/, {RANGING}/ and {TESTING}/"
        )
    return sessions


def match_sessions(
    sessions: Sequence[Path], logs: Mapping[str, Path]
) -> tuple[dict[str, Path], list[str]]:
    """The session of each result, and a line for each session without a result or with a taken one.

    `logs`: by result, the folder of its performance run. A session belongs to the run with the same
    logs, byte for byte.
    """
    session_of: dict[str, Path] = {}
    reasons = []
    for session in sessions:
        of = [name for name, folder in logs.items() if _same_run(session / TESTING, folder)]
        if not of:
            reasons.append(
                f"{session}: its {TESTING}/ is the performance run of none of the results "
                f"({DETAIL} or {SUMMARY} is another, or is not there)"
            )
        for name in of:
            if name in session_of:
                reasons.append(
                    f"{session}: {name} has {session_of[name]} already; choose one of them"
                )
            session_of.setdefault(name, session)
    return session_of, reasons


def _same_run(first: Path, second: Path) -> bool:
    try:
        return all(
            (first / name).read_bytes() == (second / name).read_bytes()
            for name in (DETAIL, SUMMARY)
        )
    except OSError:
        return False


def copy_session(session: Path, performance: Path) -> None:
    """Copy a session's files to their places in a round. Files that no rule requires are left out;
    the rules report missing ones."""
    paths = [f"{POWER}/{name}" for name in sorted(POWER_FILES)]
    paths += [f"{RANGING}/{name}" for name in sorted(RUN_FILES)]
    for path in (*paths, f"{TESTING}/{SPL}"):
        (performance / path).parent.mkdir(parents=True, exist_ok=True)
        if (session / path).is_file():
            shutil.copyfile(session / path, performance / path)
