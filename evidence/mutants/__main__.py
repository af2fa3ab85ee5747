"""Make one small mistake after another in the package, and see which the suite's own tests find.

    python -m coverage run --rcfile evidence/mutants/coverage.ini -m pytest meta_tests -n 2
    python -m coverage combine --rcfile evidence/mutants/coverage.ini
    python -m evidence.mutants DATA [--count 320] [--seed 1] [--only FILE] [--out mutants.json]

DATA is coverage's file, which says which tests run the line of a mistake; those alone are run, in a
copy of the repository, until one fails. What only import or an inner session runs is tested by the
tests of its folder. A mistake that none of them finds has survived. `--only` takes the survivors of
an earlier report again, for example with other tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coverage import CoverageData

from evidence.mutants.sites import Site, mutated, sites
from meta_tests.suite_runs import ROOT

AREAS = {
    "rules": ("mlperf_suite/rules",),
    "judging": ("mlperf_suite/judging", "mlperf_suite/client_results"),
    "gate": (
        "mlperf_suite/results/regression.py",
        "mlperf_suite/results/comparability.py",
        "mlperf_suite/results/baseline.py",
        "mlperf_suite/results/curve_area.py",
    ),
    "client": ("mlperf_suite/engines/endpoint",),
}
"""What is mutated; the same number of mistakes is drawn in each."""
LONGEST_S = 900


@dataclass(frozen=True)
class Mutant:
    area: str
    file: str
    site: Site


@dataclass(frozen=True)
class Report:
    """What became of a mutant: `verdict` is `found` or `survived`, `found_by` the failed test."""

    mutant: Mutant
    tests: int
    verdict: str
    found_by: str = ""


def files_of(area: str) -> list[str]:
    files = []
    for place in AREAS[area]:
        path = ROOT / place
        files += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [path.relative_to(ROOT).as_posix() for path in files]


def draw(count: int, seed: int) -> Iterator[Mutant]:
    """As many of each area, without two of one line."""
    for area in AREAS:
        by_line: dict[tuple[str, int], Mutant] = {}
        chance = random.Random(f"{seed} {area}")
        for file in files_of(area):
            found = sites((ROOT / file).read_text())
            chance.shuffle(found)
            by_line |= {(file, site.line): Mutant(area, file, site) for site in found}
        drawn = sorted(by_line.values(), key=lambda mutant: (mutant.file, mutant.site.index))
        yield from chance.sample(drawn, min(count // len(AREAS), len(drawn)))


def tests_of(data: CoverageData, file: str, line: int) -> list[str]:
    """The test functions that run a line, as pytest's ids without parameters, likeliest first."""
    # Some tests run a copy of the package.
    copies = [name for name in data.measured_files() if name.endswith(f"/{file}")]
    contexts = (c for copy in copies for c in data.contexts_by_lineno(copy).get(line, []))
    own = tuple(fallback_tests(file))
    # Those of its own folder first, which mostly find it and are quick.
    ids = set(filter(None, map(_node_id, contexts)))
    return sorted(ids, key=lambda id_: (not id_.startswith(own), id_))


def _node_id(context: str) -> str:
    """Of `meta_tests.rules.test_limits.test_x`; empty for what is no test of a file here."""
    parts = context.split(".")
    for end in range(len(parts) - 1, 0, -1):
        path = Path(*parts[:end]).with_suffix(".py")
        if (ROOT / path).is_file() and path.name.startswith("test_"):
            return f"{path}::{parts[end]}"
    return ""


def fallback_tests(file: str) -> list[str]:
    """The tests of the folder of a file, by the layout of meta_tests."""
    folder = Path("meta_tests", *Path(file).parts[1:-1])
    return [str(folder)] if (ROOT / folder).is_dir() else []


class Copies:
    """Copies of the repository, one for each mutant that is tested at a time."""

    def __init__(self, folder: Path, count: int) -> None:
        self.free = [folder / str(number) for number in range(count)]
        for copy in self.free:
            subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)
            for name in (".venv", ".assets"):
                (copy / name).symlink_to((ROOT / name).resolve())

    def test(self, mutant: Mutant, tests: list[str]) -> Report:
        copy = self.free.pop()
        path = copy / mutant.file
        source = path.read_text()
        try:
            path.write_text(mutated(source, mutant.site))
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", *tests]
            # Python's caches by time and size alone would keep the file before the mistake.
            variables = {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
            process = subprocess.run(
                [*command, "-rfE", "--tb=no"],
                cwd=copy,
                env=os.environ | variables,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
            output = process.stdout
        except subprocess.TimeoutExpired:
            return Report(mutant, len(tests), "found", "it hangs")
        finally:
            path.write_text(source)
            self.free.append(copy)
        if process.returncode == 0:
            return Report(mutant, len(tests), "survived")
        failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        found_by = failed[-1] if failed else f"exit status {process.returncode}"
        return Report(mutant, len(tests), "found", found_by)


def survivors(reports: list[dict[str, Any]]) -> Iterator[Mutant]:
    """Of a written report."""
    for report in reports:
        fields = report["mutant"]
        if report["verdict"] == "survived":
            yield Mutant(fields["area"], fields["file"], Site(**fields["site"]))


def table(reports: list[Report]) -> str:
    lines = ["| area | mutants | found | survived |", "|---|---:|---:|---:|"]
    for area in (*AREAS, "all"):
        verdicts = [r.verdict for r in reports if area in ("all", r.mutant.area)]
        counts = [verdicts.count(name) for name in ("found", "survived")]
        lines.append(f"| {area} | {len(verdicts)} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=Path, help="a report, whose survivors are tested again")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    options = parser.parse_args()
    data = CoverageData(str(options.data))
    data.read()
    if options.only:
        mutants = list(survivors(json.loads(options.only.read_text())))
    else:
        mutants = list(draw(options.count, options.seed))
    reports: list[Report] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        copies = Copies(Path(folder), options.at_once)

        def judge(mutant: Mutant) -> Report:
            tests = tests_of(data, mutant.file, mutant.site.line) or fallback_tests(mutant.file)
            report = copies.test(mutant, tests)
            site = mutant.site
            print(f"{report.verdict}: {mutant.file}:{site.line} {site.change}", flush=True)
            return report

        for report in pool.map(judge, mutants):
            reports.append(report)
            options.out.write_text(json.dumps([asdict(done) for done in reports], indent=1))
    print(table(reports))


if __name__ == "__main__":
    main()
