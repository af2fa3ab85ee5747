"""Make one small mistake after another in the package, and see which the suite's own tests find.

    export MUTANTS_COVERAGE=FILE
    python -m coverage run --rcfile evidence/mutants/coverage.ini -m pytest meta_tests -n 2 \\
        -p evidence.mutants.contexts --ignore meta_tests/real_engine
    python -m coverage combine --rcfile evidence/mutants/coverage.ini
    python -m evidence.mutants [--count 320] [--seed 1] [--only FILE] [--out mutants.json]

Coverage's file says which tests run the line of a mistake; those alone are run, in a copy of the
repository, until one fails: those of its own folder first, quick ones before slow ones. What only
import or an inner session runs is tested by the tests of its folder. A mistake that none of them
finds has survived. `--only` takes the survivors of an earlier report again, for example with other
tests.
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
    "rules": (
        *("mlperf_suite/rules", "mlperf_suite/features/log_consistency"),
        "mlperf_suite/features/endpoints/rules",
    ),
    "judging": (
        *("mlperf_suite/judging", "mlperf_suite/features/submission_check"),
        "mlperf_suite/features/endpoints/judging",
        "mlperf_suite/features/endpoints/official_client_results",
    ),
    "gate": (
        "mlperf_suite/results/regression.py",
        "mlperf_suite/results/comparability.py",
        "mlperf_suite/results/baseline.py",
        "mlperf_suite/features/endpoints/curve/curve_area.py",
    ),
    "client": ("mlperf_suite/features/servers",),
}
"""What is mutated; the same number of mistakes is drawn in each."""
MUTANT_TIMEOUT_S = 900


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


class Tests:
    """Which tests run a line of the package, from coverage's file and the seconds beside it."""

    def __init__(self, data: Path) -> None:
        self._data = CoverageData(str(data))
        self._data.read()
        rows = data.with_name(f"{data.name}.seconds").read_text(encoding="utf-8").splitlines()
        self._seconds = {id_: float(text) for id_, _, text in (r.rpartition("\t") for r in rows)}

    def of(self, file: str, line: int) -> list[str]:
        """pytest's ids of the tests that run a line, those that find a mistake soonest first."""
        # Some tests run a copy of the package.
        copies = [name for name in self._data.measured_files() if name.endswith(f"/{file}")]
        contexts = {
            context
            for copy in copies
            for context in self._data.contexts_by_lineno(copy).get(line, [])
            if context in self._seconds
        }
        own, seconds = tuple(fallback_tests(file)), self._seconds
        return sorted(contexts, key=lambda i: (seconds[i] > 1, not i.startswith(own), seconds[i]))


def fallback_tests(file: str) -> list[str]:
    """The tests of the folder of a file, by the layout of meta_tests."""
    folder = Path("meta_tests", *Path(file).parts[1:-1])
    return [str(folder)] if (ROOT / folder).is_dir() else []


class Copies:
    """Copies of the repository, one for each mutant that is tested at a time, each with a process
    that forks pytest."""

    def __init__(self, folder: Path, count: int) -> None:
        self.free: list[tuple[Path, subprocess.Popen[str]]] = []
        for copy in (folder / str(number) for number in range(count)):
            subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)
            for name in (".venv", ".assets"):
                (copy / name).symlink_to((ROOT / name).resolve())
            server = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
                cwd=folder,
                env={name: v for name, v in os.environ.items() if name != "PYTHONPATH"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.free.append((copy, server))

    def test(self, mutant: Mutant, tests: list[str]) -> Report:
        copy, server = self.free.pop()
        assert server.stdin is not None and server.stdout is not None
        path, ids, output = copy / mutant.file, copy / ".mutant-tests", copy / ".mutant-output"
        source = path.read_text()
        ids.write_text("\n".join(tests))
        try:
            path.write_text(mutated(source, mutant.site))
            words = ["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-rfE", "--tb=no"]
            task = [str(copy), [*words, f"@{ids}"], str(output), MUTANT_TIMEOUT_S]
            server.stdin.write(f"{json.dumps(task)}\n")
            server.stdin.flush()
            status = int(server.stdout.readline())
        finally:
            path.write_text(source)
            self.free.append((copy, server))
        if status == 0:
            return Report(mutant, len(tests), "survived")
        lines = output.read_text(errors="replace").splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        found_by = failed[-1] if failed else "it hangs" if status < 0 else f"exit status {status}"
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
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=Path, help="a report, whose survivors are tested again")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    options = parser.parse_args()
    tests_of = Tests(Path(os.environ["MUTANTS_COVERAGE"]))
    if options.only:
        mutants = list(survivors(json.loads(options.only.read_text())))
    else:
        mutants = list(draw(options.count, options.seed))
    reports: list[Report] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        copies = Copies(Path(folder), options.at_once)

        def judge(mutant: Mutant) -> Report:
            tests = tests_of.of(mutant.file, mutant.site.line) or fallback_tests(mutant.file)
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
