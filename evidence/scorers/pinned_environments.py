"""The suite's scores beside those of the official scripts, each in the environment that it pins.

    python -m evidence.scorers.pinned_environments [BENCHMARK...] [--write]

Runs the accuracy script of a checkout of mlcommons/inference (MLPERF_INFERENCE) on a made accuracy
log, with the packages that the benchmark's own requirements pin, in an environment of its own below
.evidence/scorers; then the suite's scorer on the same log. Every figure must be the same. The
answers are pieces of the embedded articles, or of MLPERF_SUITE_REAL_NEWS, and texts chosen to be
decoded, split or read differently. The scripts of exams need the checkout's submodules.

--tokenizer BENCHMARK=FOLDER: a real model's tokenizer; without it a made one of the same kind.
--metric FOLDER: metrics/rouge of huggingface/evaluate, where the hub cannot be reached.
--mxeval FOLDER: a checkout of amazon-science/mxeval, which the script of programs imports.
--endpoints FOLDER: a checkout of mlcommons/endpoints, whose client scores in v6.1.
--write: the rows of these benchmarks in the table of docs/evidence/scorers.md. Exit status: 1 if
a figure differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from evidence.from_elsewhere import needs_inference
from evidence.scorers.environments import PLACE, Comparison, Options
from evidence.tables import PAGES, rewrite_table, table_after

HEADER = "| benchmark | official script | its packages | answers | figures | differ |"


def comparisons() -> Iterator[Mapping[str, Callable[[Options], Comparison]]]:
    """The comparisons of each module of evidence on official scripts, by benchmark."""
    evidence = Path(__file__).parents[1]
    for path in sorted(evidence.rglob("*_script*.py")):
        if not path.name.startswith("test_"):
            module = path.relative_to(evidence.parent).with_suffix("")
            yield import_module(".".join(module.parts)).COMPARISONS


def _named_folder(text: str) -> tuple[str, Path]:
    name, _, folder = text.partition("=")
    return name, _folder(folder)


def _folder(text: str) -> Path:
    return Path(text).resolve()


def main() -> int:
    """Compare, print and write; 1 if a figure differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK")
    parser.add_argument("--tokenizer", type=_named_folder, action="append", default=[])
    parser.add_argument("--metric", type=_folder)
    parser.add_argument("--mxeval", type=_folder)
    parser.add_argument("--endpoints", type=_folder)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if needs_inference.args[0]:
        parser.error(needs_inference.kwargs["reason"])
    PLACE.mkdir(parents=True, exist_ok=True)
    of_others = (arguments.metric, arguments.mxeval, arguments.endpoints)
    options = Options(dict(arguments.tokenizer), *of_others)
    every = {name: compared for each in comparisons() for name, compared in each.items()}
    if unknown := set(arguments.benchmarks) - every.keys():
        parser.error(f"no script of {', '.join(sorted(unknown))}: {', '.join(every)}")
    found = []
    for name in arguments.benchmarks or every:
        found.append(every[name](options))
        print(" | ".join(found[-1].row), flush=True)
    if arguments.write:
        page = PAGES / "scorers.md"
        lines = table_after(page, HEADER)
        rows = {name: line for line in lines for name in every if line.startswith(f"| {name} |")}
        rows |= {of.benchmark: f"| {' | '.join(of.row)} |" for of in found}
        rewrite_table(page, HEADER, list(rows.values()))
    return int(any(of.different for of in found))


if __name__ == "__main__":
    sys.exit(main())
