"""Prove the submission command: full-size runs of a replay, a tree of each round, its check.

    python -m evidence.submission
        [--work DIR] [--round ROUND]... [--benchmark ID]... [--at-once N]

Makes up the data, installs a LoadGen of each round, makes the runs (about 25 minutes each, since
they last as long as MLPerf asks), builds a tree of each round with
`python -m mlperf_suite submission` and runs the official checker on it. Runs that are there
already are kept. MLPERF_INFERENCE names a checkout of github.com/mlcommons/inference; without it,
one is cloned into the work folder. Exit status: 0 where the checker accepts every tree, else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from evidence.submission.data import ANSWERS, DATASETS, make_samples, write_data
from evidence.submission.made_data import write_published
from evidence.submission.published import PUBLISHED
from evidence.submission.runs import ProofRun, install_loadgen, make_runs, proof_runs
from evidence.verdicts import CHECKER, LOOKS_OK
from mlperf_suite import SUITE_FOLDER
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.submission_check.submission_rules import (
    MEASUREMENT_FIELDS,
    SYSTEM_FIELDS_FILLED,
    SYSTEM_FIELDS_PRESENT,
)

REPOSITORY = "https://github.com/mlcommons/inference"
WORK = SUITE_FOLDER / "submission-proof"
SUBMITTER = "Replay"
_MADE_UP = "made up for the proof"
_CLOSING = re.compile(r"main\.py:\d+ \w+\] ((?:No)?Results.*|Closed Results.*|SUMMARY:.*)$")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m evidence.submission",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--work", type=Path, default=WORK, help="where data, runs and trees go (%(default)s)"
    )
    parser.add_argument(
        "--round",
        action="append",
        dest="rounds",
        choices=tuple(ROUNDS),
        help="only this round; may be given again",
    )
    parser.add_argument(
        "--benchmark",
        action="append",
        dest="benchmarks",
        choices=(*DATASETS, *PUBLISHED),
        help="only this benchmark; may be given again",
    )
    parser.add_argument(
        "--at-once",
        type=int,
        default=5,
        help="sessions beside each other, about 1 GB of memory each (%(default)s, a round)",
    )
    arguments = parser.parse_args()
    if arguments.at_once < 1:
        parser.error(f"--at-once {arguments.at_once}: must be a whole number from 1")
    try:
        rounds = arguments.rounds or list(ROUNDS)
        benchmarks = arguments.benchmarks or ()
        return prove(arguments.work.resolve(), rounds, arguments.at_once, benchmarks)
    except subprocess.CalledProcessError as error:
        # The failed command has already said why.
        say(f"stopped: {' '.join(error.cmd[:4])} … ended with status {error.returncode}")
        return 1


def prove(work: Path, rounds: Sequence[str], at_once: int, benchmarks: Sequence[str] = ()) -> int:
    """Make what does not exist yet and check every tree. Returns the exit status.

    `benchmarks`: the ids of the benchmarks to prove; all by default.
    """
    # First, since a wrong one would otherwise be found half an hour later.
    checkout = inference_checkout(work)
    if not (checkout / CHECKER).is_dir():
        say(f"MLPERF_INFERENCE={checkout}: holds no {CHECKER}; name a checkout of {REPOSITORY}")
        return 1
    runs = proof_runs(rounds, benchmarks)
    make_data(work / "data", {run.benchmark for run in runs})
    for round_ in rounds:
        install_loadgen(work, round_)
    todo = [run for run in runs if run.finished(work) is None]
    failures = make_runs(todo, work, at_once, say)
    if failures:
        say(f"{len(failures)} of {len(todo)} runs failed; no tree was built")
        return 1
    accepted = []
    for round_ in rounds:
        of_round = [run for run in runs if run.round == round_]
        if not of_round:
            continue
        tree = build_tree(work, "-".join([round_, *benchmarks]), round_, of_round)
        lines, looks_ok = check_tree(tree, checkout, round_)
        say(f"{round_}: the official checker on {tree}:")
        for line in lines:
            say(f"  {line}")
        accepted.append(looks_ok)
    return 0 if accepted and all(accepted) else 1


def make_data(data: Path, benchmarks: Collection[str]) -> None:
    """Make up the data of benchmarks that do not have any yet."""
    if set(benchmarks) & set(DATASETS) and not (data / ANSWERS).is_file():
        say(f"making up the data in {data}")
        write_data(data, make_samples())
    for id_ in sorted(set(benchmarks) & set(PUBLISHED)):
        if not (data / id_ / ANSWERS).is_file():
            say(f"making up the data in {data / id_}")
            write_published(data, PUBLISHED[id_])


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


def inference_checkout(work: Path) -> Path:
    """A checkout of the repository with the official checker."""
    checkout_path = os.environ.get("MLPERF_INFERENCE")
    checkout = Path(checkout_path).resolve() if checkout_path else work / "inference"
    if not checkout.is_dir() and not checkout_path:
        subprocess.run(["git", "clone", "--depth", "1", REPOSITORY, str(checkout)], check=True)
    return checkout


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
