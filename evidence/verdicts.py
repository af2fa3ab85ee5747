"""What the official checker and the suite say of a tree, in a few words."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from evidence.tree_edits import Home, Tampering
from meta_tests.judging.trees import broken_rules
from mlperf_suite.benchmarks.rounds import Round

CHECKER = Path("tools/submission")
LOOKS_OK = "SUMMARY: submission looks OK"
_CHECK = re.compile(r"ERROR\] Some (.+?) Checks failed for")
_EXCEPTION = re.compile(r"Running (\w+) in \w+$")
_MAX_LISTED_RULES = 5


def official_verdict(root: Path, checker: Path, round_: Round, table: Path | None = None) -> str:
    """The official checker's verdict on a tree. `table`: where its summary goes."""
    command = [sys.executable, "-m", "submission_checker.main", "--input", str(root)]
    with tempfile.TemporaryDirectory() as folder:
        path = table or Path(folder) / "summary.csv"
        command += ["--version", round_.name, "--csv", str(path)]
        process = subprocess.run(
            command, cwd=checker / CHECKER, capture_output=True, text=True, check=False
        )
    output = process.stdout + process.stderr
    if LOOKS_OK in output:
        return "passes"
    if "SUMMARY:" not in output:
        return f"traceback ({output.strip().splitlines()[-1].split(':')[0]})"
    checks = {
        name.removesuffix(" checks").removesuffix(" check") for name in _CHECK.findall(output)
    }
    raised = {m[1] for line in output.splitlines() if (m := _EXCEPTION.search(line))}
    by_exception = f", by an exception in {', '.join(sorted(raised))}" if raised else ""
    return f"fails: {', '.join(sorted(checks))}{by_exception}"


def own_verdict(
    root: Path, round_: Round, most: int = _MAX_LISTED_RULES, but: Collection[str] = ()
) -> str:
    """The rules that the suite finds broken in a tree, `most` of them by name. `but`: rules left
    out."""
    rules = [rule for rule in broken_rules(root, round_) if rule not in but]
    more = f" and {len(rules) - most} more" if len(rules) > most else ""
    return ", ".join(f"`{rule}`" for rule in rules[:most]) + more or "passes"


def tamper(tree: Path, tampering: Tampering, round_: Round, benchmark: str) -> None:
    """Change a closed tree of one submitter in place."""
    (folder,) = (tree / "closed").iterdir()
    tampering.change(Home(folder, round_.layout, benchmark))


def copies(
    tree: Path, tamperings: Mapping[str, Tampering], round_: Round, benchmark: str
) -> Iterator[tuple[str, Path]]:
    """By the name of each change, a copy of the tree with it, which is gone when the next comes."""
    for name, tampering in tamperings.items():
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copytree(tree, Path(folder) / "tree"))
            tamper(copy, tampering, round_, benchmark)
            yield name, copy
