"""Judge a made tree beside the official submission checker, and long logs alone.

    python -m perf.judging --checker CHECKOUT [--results 300] [--pairs 3]
    python -m perf.judging --answers 2000000 --detail-mib 300

CHECKOUT is a checkout of github.com/mlcommons/inference. The tree has so many results of one
submitter, a third of them in each scenario of llama2-70b-99, none with the figures of another.
"verdicts" judges without pytest, "session" is pytest --logs, which also reports each verdict. Times
are seconds of processor time of a whole process, its start included; the ratio is of verdicts to
the checker.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

from meta_tests import made_runs
from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.made_runs import BEGAN, MadeRun
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, Benchmark
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY
from perf.pairs import in_turn, middle, pairs_parser, print_header, print_row

_BENCHMARK, _ROUND = BENCHMARKS["llama2-70b-99"], ROUNDS["v5.1"]
_JUDGE = (
    "import sys; from pathlib import Path; from mlperf_suite.judging.judge import judge_folder; "
    "judge_folder(Path(sys.argv[1]))"
)
_CHECKER = "tools/submission"
_FIRST_ID = "0B000000"
"""Of each made answer."""
_MIB = 2**20
_LONG = MadeRun(BENCHMARKS["llama3.1-8b"], BENCHMARKS["llama3.1-8b"].scenario("Server"), "accuracy")
_WARNING = made_runs.line("warning_generic_message", "a slow query", ms=0.1, warning=True) + "\n"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process took: seconds of processor time, and the most memory in MiB."""

    seconds: float
    mib: float


def usage_of(command: list[str], folder: Path | None = None) -> Usage:
    """Run a command to its end, with its output discarded. Raises RuntimeError if it crashed."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    # 1: something failed, which the made tree's results do in neither program.
    if process.returncode not in (0, 1):
        raise RuntimeError(f"exit status {process.returncode}: {' '.join(command)}")
    return Usage(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def sides(tree: Path, checkout: Path | None) -> dict[str, Callable[[], Usage]]:
    python = sys.executable
    commands: dict[str, tuple[list[str], Path | None]] = {
        "verdicts": ([python, "-c", _JUDGE, str(tree)], None),
        "session": (
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--logs={tree}"],
            None,
        ),
    }
    if checkout is not None:
        table = ["--version", _ROUND.name, "--csv", str(tree.parent / "summary.csv")]
        check = [python, "-m", "submission_checker.main", "--input", str(tree), *table]
        commands["checker"] = (check, checkout / _CHECKER)
    return {name: partial(usage_of, *command) for name, command in commands.items()}


def write_tree(tree: Path, results: int) -> None:
    """Write so many results, or a few more; each system's days, durations, latencies and answers
    are its own."""
    for number in range(-(-results // len(_BENCHMARK.scenarios))):
        system = f"box_{number:04}"
        began, lasted_ms = BEGAN + timedelta(days=-number % 30), MIN_DURATION_MS + 10 * number
        with patch.multiple(made_runs, BEGAN=began, MIN_DURATION_MS=lasted_ms):
            folder = write_submission(tree, _quicker(_BENCHMARK, number), _ROUND, system=system)
        for log in (folder / "results" / system).rglob(ACCURACY):
            answers = log.read_text()
            log.write_text(answers.replace(_FIRST_ID, f"{number:04X}0000"))


def _quicker(benchmark: Benchmark, number: int) -> Benchmark:
    """The benchmark with lower limits, of which the made latencies are a share."""
    scenarios = tuple(
        replace(s, limits={name: ms * (1 - number / 1e4) for name, ms in s.limits.items()})
        for s in benchmark.scenarios
    )
    return replace(benchmark, scenarios=scenarios)


def write_long_logs(folder: Path, answers: int, detail_mib: int) -> None:
    """Write an accuracy run with so many answers, and so many MiB of warnings in its detail log."""
    folder.mkdir()
    first, rest = _LONG.detail_text.split("\n", 1)
    with (folder / DETAIL).open("w") as file:
        file.write(f"{first}\n")
        for _ in range(detail_mib * _MIB // len(_WARNING)):
            file.write(_WARNING)
        file.write(rest)
    whole = _LONG.accuracy_json.strip("[]\n").split(",\n")
    with (folder / ACCURACY).open("w") as file:
        file.write("[\n")
        for place in range(answers):
            entry = whole[place % len(whole)].partition(",")[2]
            file.write(f'{{ "seq_id" : {place},{entry}{"," * (place < answers - 1)}\n')
        file.write("]\n")
    (folder / SUMMARY).write_text(_LONG.summary)


def main() -> None:
    parser = pairs_parser(__doc__, 3)
    parser.add_argument("--checker", type=Path)
    parser.add_argument("--results", type=int, default=300)
    parser.add_argument("--answers", type=int)
    parser.add_argument("--detail-mib", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        if options.answers:
            write_long_logs(tree, options.answers, options.detail_mib)
            print_header("judged", "processor time, s", "memory, MiB")
            used = sides(tree, None)["verdicts"]()
            print_row(f"{options.answers:,} answers", f"{used.seconds:.1f}", f"{used.mib:,.0f}")
            return
        write_tree(tree, options.results)
        measured = sides(tree, options.checker)
        print_header(f"{options.results} results", *(f"{n}, s" for n in measured), "ratio")
        ratios = []
        for pair in in_turn(measured, options.pairs):
            seconds = [used.seconds for used in pair.results.values()]
            ratios.append(seconds[0] / seconds[-1])
            print_row(pair.number, *(f"{s:.2f}" for s in seconds), f"{ratios[-1]:.2f}")
        print_row("median", *("" for _ in measured), middle(ratios, aim="1"))


if __name__ == "__main__":
    main()
