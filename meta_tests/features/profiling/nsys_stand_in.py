"""A stand-in for the command `nsys`, which notes what it is told."""

from pathlib import Path

import pytest

from mlperf_suite.features.profiling import nsight

FAKE = """#!/bin/sh
echo "$@" >> {folder}/told
case "$1" in
sessions) echo "  ID  TIME  STATE  LAUNCH NAME"; echo "  7 00:01 Launched 1 {session}" ;;
start) for a in "$@"; do case "$a" in *.nsys-rep) echo "$a" > {folder}/where ;; esac; done ;;
stop) read -r at < {folder}/where; echo trace > "$at" ;;
esac
exit {status}
"""


def put_nsys(
    folder: Path, monkeypatch: pytest.MonkeyPatch, session: str = nsight.SESSION, status: int = 0
) -> None:
    command = folder / "nsys"
    command.write_text(FAKE.format(folder=folder, session=session, status=status))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
