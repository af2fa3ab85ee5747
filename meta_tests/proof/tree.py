"""Builds a round's tree with the submission command and runs the official checker on it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from meta_tests.proof.runs import ProofRun
from meta_tests.tampering.verdicts import CHECKER, LOOKS_OK
from mlperf_suite.rules.submission_rules import (
    MEASUREMENT_FIELDS,
    SYSTEM_FIELDS_FILLED,
    SYSTEM_FIELDS_PRESENT,
)

SUBMITTER = "Replay"
_MADE_UP = "made up for the proof"
_CLOSING = re.compile(r"main\.py:\d+ \w+\] ((?:No)?Results.*|Closed Results.*|SUMMARY:.*)$")


def build_tree(work: Path, name: str, round_: str, runs: Sequence[ProofRun]) -> Path:
    """Build the tree of a round's runs from scratch as trees/<name>. Raises CalledProcessError if
    it is refused."""
    system, measurements = work / "system.json", work / "measurements.json"
    system.write_text(json.dumps(_system()))
    measurements.write_text(json.dumps(dict.fromkeys(MEASUREMENT_FIELDS, _MADE_UP)))
    tree = work / "trees" / name
    shutil.rmtree(tree, ignore_errors=True)
    results = [str(run.finished(work)) for run in runs]
    command = [sys.executable, "-m", "mlperf_suite", "submission", "--results", *results]
    command += ["--submitter", SUBMITTER, "--system", str(system), "--division", "closed"]
    command += ["--round", round_, "--out", str(tree), "--allow-replay"]
    command += ["--measurements", str(measurements)]
    subprocess.run(command, check=True)
    return tree


def _system() -> dict[str, str]:
    """A system description with all fields filled except those that the command fills in."""
    fields = dict.fromkeys((*SYSTEM_FIELDS_FILLED, *SYSTEM_FIELDS_PRESENT), _MADE_UP)
    for said_by_the_command in ("submitter", "division", "system_type"):
        del fields[said_by_the_command]
    counts = {"number_of_nodes": "1", "accelerators_per_node": "0"}
    return fields | counts | {"system_name": "Replay", "status": "available"}


def check_tree(tree: Path, checkout: Path, round_: str) -> tuple[list[str], bool]:
    """The official checker's last lines on a tree, and whether it accepts the tree."""
    process = subprocess.run(
        [
            *(sys.executable, "-m", "submission_checker.main"),
            *("--input", str(tree), "--version", round_),
            *("--csv", str(tree.with_name(f"{tree.name}.csv"))),
        ],
        cwd=checkout / CHECKER,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    tree.with_name(f"{tree.name}.checker.log").write_text(process.stdout)
    lines = process.stdout.splitlines()
    closing = [
        match[1].replace(f"{tree}/", "") for line in lines if (match := _CLOSING.search(line))
    ]
    # The last line of a traceback, if the checker crashed.
    return closing or lines[-1:], LOOKS_OK in process.stdout
