"""Judge the language results of a public repository, and write docs/evidence/public-results.md.

    python -m evidence.submission_check.public_results CHECKOUT [--page FILE]

CHECKOUT is a checkout of github.com/mlcommons/inference_results_v5.1, or of the folders of its
language benchmarks. Each verdict that failed is shown with the file and the line that it is about.
Exit status: 0, or 2 where the folder has no result.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evidence.tables import PAGES
from mlperf_suite.features.submission_check.scenario_folders import ScenarioFolder
from mlperf_suite.features.submission_check.tree import find_submissions
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.judging.judges import folders_below
from mlperf_suite.judging.verdict_group import VerdictGroup, name_of

PAGE = PAGES / "public-results.md"
_NO_ENTRY = 2
_SHOWN = 60
_ACCURACY, _DETAIL, _TEXT = "mlperf_log_accuracy.json", "mlperf_log_detail.txt", "accuracy.txt"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The part of a result that a rule's verdict is about.

    `file`: relative to the scenario's folder, or to the audit's if `audit` names one. `line`: a
    pattern for the line that shows it; if none matches, the last line is shown.
    """

    file: str
    line: str
    audit: str = ""


_ANSWERS = Evidence(f"accuracy/{_ACCURACY}", r"^\.\.\.|^\]", "TEST06")
EVIDENCE = {
    **dict.fromkeys(
        (
            "test06_log_is_whole",
            "test06_sample_count",
            "test06_first_token",
            "test06_eos",
            "test06_token_count",
        ),
        _ANSWERS,
    ),
    "accuracy_test_mode": Evidence(f"accuracy/{_DETAIL}", '"effective_test_mode"'),
    "accuracy_samples_drawn": Evidence(
        f"accuracy/{_DETAIL}", '"effective_accuracy_log_sampling_target"'
    ),
    "accuracy_every_sample": Evidence(f"accuracy/{_TEXT}", "gen_num"),
    "accuracy_whole_dataset": Evidence(f"accuracy/{_DETAIL}", '"qsl_reported_total_count"'),
    "accuracy_passed": Evidence(f"accuracy/{_DETAIL}", '"effective_test_mode"'),
    "accuracy_log_ends": Evidence(f"accuracy/{_TEXT}", "^hash="),
}
"""By rule, where its verdict shows. For other rules, only the verdict's words are shown."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Failed verdicts of one result about one file and line. `line`: the line or a part of it."""

    result: str
    rules: tuple[str, ...]
    where: str
    line: str
    words: str


def language_results(root: Path) -> list[tuple[VerdictGroup, ScenarioFolder]]:
    """The judged results of all benchmarks that the suite knows, and their folders."""
    root = root.absolute()
    places = {
        name_of(p.division, p.submitter, p.system, p.benchmark, p.scenario): p
        for benchmark in find_submissions(root, tuple(folders_below(root))).benchmarks
        for p in benchmark.scenarios
    }
    return [
        (subject, places[subject.name])
        for subject in judge_folder(root)
        if subject.scenario is not None
    ]


def findings(root: Path, judged: VerdictGroup, place: ScenarioFolder) -> list[Finding]:
    """What failed in a result, grouped by the line that shows it."""
    rows: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for verdict in judged.verdicts:
        if verdict.status == "failed":
            where, line = _line(root, place, verdict.rule)
            rows.setdefault((where, line), []).append((verdict.rule, verdict.found))
    return [
        Finding(judged.name, tuple(rule for rule, _ in rules), where, line, rules[0][1])
        for (where, line), rules in rows.items()
    ]


def _line(root: Path, place: ScenarioFolder, rule: str) -> tuple[str, str]:
    """The file and line that show a rule's verdict, and the text there."""
    evidence = EVIDENCE.get(rule)
    if evidence is None:
        return str(place.folder.relative_to(root)), ""
    folder = place.audit(evidence.audit) if evidence.audit else place.folder
    path = folder / evidence.file
    lines = path.read_text(errors="replace").splitlines()
    at = next((n for n, text in enumerate(lines, 1) if re.search(evidence.line, text)), len(lines))
    copied = " (the file equals the accuracy run's)" if _is_copy(path, place) else ""
    return f"{path.relative_to(root)}:{at}", _matching_line(lines[at - 1], evidence.line) + copied


def _matching_line(text: str, pattern: str) -> str:
    """The relevant part of a line: from the pattern on, truncated."""
    match = re.search(pattern, text)
    part = text[match.start() :] if match else text
    part = part.replace("|", "\\|").strip()
    return f"`{part if len(part) <= _SHOWN else part[: _SHOWN - 1] + '…'}`"


def _is_copy(path: Path, place: ScenarioFolder) -> bool:
    accuracy_log = place.folder / "accuracy" / _ACCURACY
    return (
        path != accuracy_log
        and accuracy_log.is_file()
        and path.read_bytes() == accuracy_log.read_bytes()
    )


def page(root: Path, results: Iterable[tuple[VerdictGroup, ScenarioFolder]], commit: str) -> str:
    """The page: the numbers of results and verdicts, and what failed."""
    results = list(results)
    counts = Counter(v.status for judged, _ in results for v in judged.verdicts)
    divisions = Counter(place.division for _, place in results)
    all_findings = [
        finding for judged, place in results for finding in findings(root, judged, place)
    ]
    touched = len({finding.result for finding in all_findings})
    rows = [
        f"| `{finding.where}` | {finding.line or finding.words} | "
        f"{', '.join(f'`{rule}`' for rule in finding.rules)} |"
        for finding in all_findings
    ]
    by_benchmark = Counter(place.benchmark for _, place in results)
    return "\n".join(
        [
            *_INTRODUCTION.format(
                commit=commit,
                results=len(results),
                closed=divisions["closed"],
                open=divisions["open"],
                verdicts=f"{sum(counts.values()):,}",
                passed=f"{counts['passed']:,}",
                failed=f"{counts['failed']:,}",
                not_judged=f"{counts['not judged']:,}",
                touched=touched,
                clean=len(results) - touched,
            ).splitlines(),
            "",
            "| benchmark, as the tree calls it | results |",
            "|---|---:|",
            *(f"| {name} | {count} |" for name, count in sorted(by_benchmark.items())),
            "",
            *_KINDS.splitlines(),
            "",
            "| file and line | what is recorded | rules that fail |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


_INTRODUCTION = """\
# The suite's rules on public results

The language results of MLPerf Inference v5.1, as published in
github.com/mlcommons/inference_results_v5.1 at commit {commit},
judged by the suite as with `--logs`. `make public-results CHECKOUT=DIR` makes this page again.

These results were reviewed and published by MLCommons by its own rules. This page lists
differences between a file and what a rule of this suite requires; many of these rules require more
than the official ones. The files do not say how the differences arose.

| | |
|---|---:|
| results (a system, a benchmark, a scenario) | {results} |
| of the closed division | {closed} |
| of the open division | {open} |
| verdicts | {verdicts} |
| passed | {passed} |
| not judged, since a submission need not bring the file | {not_judged} |
| failed | {failed} |
| results without a failed verdict | {clean} |
| results with one or more | {touched} |"""
_KINDS = """\
## What failed

There are seven kinds:

- **TEST06's log of answers is the accuracy run's.** The file is cut, as the official script cuts
  accuracy logs (`...` in its middle), and is the same, byte by byte, as the cut accuracy log of the
  same result. TEST06 has no answers to judge then. The official script's report of TEST06, in
  the same folder, says that its checks passed.
- **TEST06's log of answers is empty**: a list without an entry. The official script passes it.
- **The accuracy run's detail log is a performance run's.** It says so, and `accuracy.txt` was made
  from 100 answers; the rule `accuracy_passed` of the performance run follows from it.
- **The accuracy run takes a part of the data set**, in the open division.
- **A file of the measurements has a field twice**, with two values. Most JSON readers take the
  second; the suite takes neither.
- **Two systems have the logs of one run**, byte by byte.
- **The hash in accuracy.txt is that of the cut log itself**, where it is to be of the log before it
  was cut; the rule `accuracy_passed` of the performance run follows from it.

Each row is one line of one file, with the rules that fail for it."""


def _commit(root: Path) -> str:
    """The commit of a checkout, "unknown" if git does not report it."""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"`{process.stdout.strip()}`" if process.returncode == 0 else "(not said by the folder)"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m evidence.submission_check.public_results",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--page", type=Path, default=PAGE, help="written (%(default)s)")
    parser.add_argument("--commit", help="of the checkout, where git does not know it")
    options = parser.parse_args()
    root = options.checkout.resolve()
    begun = time.perf_counter()
    results = language_results(root)
    if not results:
        print(f"{root}: no result of a language benchmark", file=sys.stderr)
        return _NO_ENTRY
    seconds = time.perf_counter() - begun
    commit = f"`{options.commit}`" if options.commit else _commit(root)
    options.page.write_text(page(root, results, commit), encoding="utf-8")
    verdicts = sum(len(judged.verdicts) for judged, _ in results)
    print(f"{len(results)} results, {verdicts:,} verdicts in {seconds:.1f} s: {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
