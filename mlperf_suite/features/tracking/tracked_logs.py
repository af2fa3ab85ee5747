"""What is sent of LoadGen logs of others: the figures in them, and the suite's verdicts on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mlperf_suite.errors import SuiteError
from mlperf_suite.features.tracking.trackers import TrackedRun
from mlperf_suite.judging.judge import LOG_NAMES, judge_folder
from mlperf_suite.judging.judges import folders_below
from mlperf_suite.judging.verdict_group import VerdictGroup, name_of
from mlperf_suite.loadgen.logs import DetailLog, read_logs
from mlperf_suite.results.run_folder import file_sha256
from mlperf_suite.rules.verdict import in_words

_SETTINGS, _RESULTS = ("requested_", "effective_"), "result_"
"""What the keys of LoadGen's settings and figures begin with."""
_MOST_CHARACTERS = 500


def log_folders(root: Path) -> Iterator[Path]:
    """The folders of logs at and below a folder."""
    for folder, names in folders_below(root):
        if LOG_NAMES & set(names):
            yield folder


def tracked_logs(folder: Path, root: Path) -> TrackedRun:
    """What is sent of the logs in a folder, judged with all others below `root`. Raises SuiteError
    if they are part of a submission's tree, whose runs are judged together, OSError."""
    name = _name(folder, root)
    group = _judged(root).get(name)
    if group is None:
        raise SuiteError(
            "runs of a submission's tree are judged together and not sent: `track` the results "
            "that the tree was built from"
        )
    detail = read_logs(folder).detail
    sums = [file_sha256(folder / log) for log in sorted(LOG_NAMES) if (folder / log).is_file()]
    checksum = hashlib.sha256("".join(sums).encode()).hexdigest()
    return TrackedRun(
        f"{root.name}/{name}" if folder != root else name,
        checksum,
        params={n: text for n, text in _texts(detail).items() if n.startswith(_SETTINGS)},
        tags={**_tags(group), "mlperf.checksum": checksum},
        metrics={
            **{n: float(v) for n in detail.values if (v := _figure(detail, n)) is not None},
            **{f"rules/{s}": group.count(s) for s in ("passed", "failed", "not judged")},
        },
    )


def _name(folder: Path, root: Path) -> str:
    return name_of("", *(folder.relative_to(root).parts or (root.name,)))


@cache
def _judged(root: Path) -> dict[str, VerdictGroup]:
    return {group.name: group for group in judge_folder(root)}


def _texts(detail: DetailLog) -> dict[str, str]:
    return {name: in_words(value)[:_MOST_CHARACTERS] for name, value in detail.values.items()}


def _figure(detail: DetailLog, name: str) -> float | None:
    return detail.number(name) if name.startswith(_RESULTS) else None


def _tags(group: VerdictGroup) -> dict[str, str]:
    failed, unclear = group.failed_rules, group.count("not judged") + group.count("shortened")
    kind = (group.benchmark.id if group.benchmark else None, group.scenario)
    texts = {
        "verdict": "not valid" if failed else "not a result" if unclear else "valid",
        "kind": " ".join(filter(None, kind)),
        "rules": f"logs of others, judged by the rules of round {group.round.name}",
        "rules_failed": ", ".join(failed),
        "mode": ", ".join(sorted({*filter(None, group.modes)})),
    }
    return {f"mlperf.{name}": text[:_MOST_CHARACTERS] for name, text in texts.items() if text}
