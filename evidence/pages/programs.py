"""The pages of docs/evidence made again, beside those in the repository.

    python -m evidence.pages [PAGE...] [--write]

Runs the programs of evidence/ that write a page's tables, into a copy of the pages, and says for
each page whether it is the same, which lines differ, or why it is not made here. What the programs
compare with is named by the variables of evidence/from_elsewhere.py. --write puts the copy into
docs/evidence. Exit status: 1 if a page differs or a program ends with an error.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from evidence.from_elsewhere import (
    ENDPOINTS_CLI,
    INFERENCE,
    OFFICIAL_CLIENT,
    RESULTS,
    needs_endpoints_cli,
    needs_inference,
    needs_official_client,
    needs_results,
)
from evidence.tables import COMMITTED, PAGES_VARIABLE
from mlperf_suite import SUITE_FOLDER

_MAX_LINES = 40
_WIDTH = 240


@dataclass(frozen=True, slots=True)
class Program:
    """A program that writes tables of a page. `needs`: what it compares with, of others."""

    module: str
    arguments: tuple[str, ...] = ()
    needs: pytest.MarkDecorator | None = None

    @property
    def lacks(self) -> str:
        """How to get what it needs, empty if that is here."""
        absent = self.needs is not None and self.needs.args[0]
        return str(self.needs.kwargs["reason"]) if self.needs and absent else ""

    def error(self, pages: Path) -> str:
        """Run it on a folder of pages; the end of what it says if it fails, else empty."""
        command = [sys.executable, "-m", self.module, *self.arguments]
        surroundings = os.environ | {PAGES_VARIABLE: str(pages)}
        process = subprocess.run(
            command, cwd=SUITE_FOLDER, env=surroundings, capture_output=True, text=True, check=False
        )
        output = (process.stdout + process.stderr).strip().splitlines()
        return f"{self.module}: {output[-1] if output else 'no word'}" if process.returncode else ""


PROGRAMS = {
    "damaged-logs.md": (Program("evidence.damaged_logs.bulk", ("--write",)),),
    "damaged-trees.md": (
        Program(
            "evidence.submission_check.damages", ("--checker", str(INFERENCE)), needs_inference
        ),
    ),
    "edge-agentic.md": (
        Program(
            "evidence.chats.compliance",
            (str(OFFICIAL_CLIENT / "bin" / "python"), "--write"),
            needs_official_client,
        ),
    ),
    "endpoints-packages.md": (
        Program(
            "evidence.endpoints.package_damages",
            (str(ENDPOINTS_CLI), "--write"),
            needs_endpoints_cli,
        ),
    ),
    "forgeries.md": (
        Program(
            "evidence.forgeries.forgeries",
            ("--checker", str(INFERENCE), "--write"),
            needs_inference,
        ),
    ),
    "official-checker.md": (
        Program("evidence.submission_check.official_figures", (), needs_inference),
        Program("evidence.endpoints.client_damages", (str(INFERENCE), "--write"), needs_inference),
    ),
    "public-results.md": (
        Program("evidence.submission_check.public_results", (str(RESULTS),), needs_results),
    ),
}
NOT_MADE = {
    "driver-limit.md": "times of drivers (perf.replicas), beside which nothing else may run",
    "gpu.md": "measured on a GPU by perf.gpu, whose own page is perf/gpu.md",
    "harnesses.md": "read in the code of others, no program writes it",
    "log-consistency.md": "no tables of verdicts: meta_tests and evidence/log_consistency hold it",
    "scorers.md": "environments of others' pins: python -m evidence.scorers.pinned_environments",
    "servers.md": "real servers, and times of their own: python -m evidence.servers.honest_streams",
    "smoke-gate.md": "runs of a real engine and of scripts/measure_reference.py, hours",
}
"""Pages that no program makes on any machine in minutes, and why."""
BY_HAND = {
    "official-checker.md": "its tables with remarks were compared by hand: damages to four real "
    "results, and the TEST06 script's",
}
"""What no program makes again of a page that one does."""


def outcome(page: str, copies: Path) -> tuple[bool, str]:
    """Make a page again in a folder of copies: whether it is as good as the committed one, and in
    words. A page that cannot be made here is."""
    if reason := NOT_MADE.get(page):
        return True, f"not made here: {reason}"
    for program in PROGRAMS[page]:
        if program.lacks:
            return True, f"not made here: {program.lacks}"
        if error := program.error(copies):
            return False, f"ended with an error: {error}"
    before, after = ((folder / page).read_text().splitlines() for folder in (COMMITTED, copies))
    changes = [
        line[:_WIDTH]
        for line in difflib.unified_diff(before, after, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    if not changes:
        return True, f"the same ({BY_HAND[page]})" if page in BY_HAND else "the same"
    more = f"\n  and {len(changes) - _MAX_LINES} lines more" if len(changes) > _MAX_LINES else ""
    return False, "\n  ".join(["differs", *changes[:_MAX_LINES]]) + more


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m evidence.pages", description=__doc__.splitlines()[0]
    )
    every = sorted(path.name for path in COMMITTED.glob("*.md"))
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(every)}")
    parser.add_argument("--write", action="store_true", help="into docs/evidence")
    options = parser.parse_args()
    if unknown := set(options.pages) - set(every):
        parser.error(f"no page of docs/evidence: {', '.join(sorted(unknown))}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        copies = Path(shutil.copytree(COMMITTED, Path(folder) / "evidence"))
        for page in options.pages or every:
            holds, words = outcome(page, copies)
            failed |= not holds
            print(f"{page}: {words}", flush=True)
            if options.write:
                shutil.copyfile(copies / page, COMMITTED / page)
    return 1 if failed else 0
