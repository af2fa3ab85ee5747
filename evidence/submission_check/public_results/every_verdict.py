"""Write every verdict on the results below folders, to compare two versions of the suite.

    python -m evidence.submission_check.public_results.every_verdict FOLDER... --out verdicts.json
    python -m evidence.submission_check.public_results.every_verdict --compare FILE FILE

FOLDER is a checkout of public results, or made trees. With another version's package on PYTHONPATH
the first command gives that version's verdicts. Exit status of the second: 1 if any differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mlperf_suite.judging.judge import judge_folder

Verdicts = dict[str, dict[str, str]]
"""By group of verdicts (a result, a benchmark, a system), and by rule, the status and the words."""


def verdicts_below(folder: Path) -> Verdicts:
    found: Verdicts = {}
    for group in judge_folder(folder):
        title = f"{folder.name}: {group.name}"
        while title in found:
            title += "'"
        found[title] = {v.rule: f"{v.status}: {v.found}: {v.required}" for v in group.verdicts}
    return found


def differences(before: Verdicts, after: Verdicts) -> list[str]:
    """A line for each verdict that is not the same in both, and each group that one lacks."""
    lines = [f"only before: {title}" for title in before.keys() - after.keys()]
    lines += [f"only after: {title}" for title in after.keys() - before.keys()]
    for title in before.keys() & after.keys():
        rules = before[title].keys() | after[title].keys()
        changed = [r for r in sorted(rules) if before[title].get(r) != after[title].get(r)]
        lines += [
            f"{title} {rule}: {before[title].get(rule)} -> {after[title].get(rule)}"
            for rule in changed
        ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", nargs=2, type=Path)
    options = parser.parse_args()
    if options.compare:
        before, after = (json.loads(path.read_text()) for path in options.compare)
        lines = differences(before, after)
        counts = f"{len(after):,} groups, {sum(map(len, after.values())):,} verdicts"
        print("\n".join([*lines, f"{counts}, {len(lines)} differ"]))
        return 1 if lines else 0
    found: dict[str, Any] = {}
    for folder in options.folders:
        found |= verdicts_below(folder)
    options.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
