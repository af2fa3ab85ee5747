"""The earlier run that the regression gate compares with: read once, judged against at each write.

--baseline names a run's folder or a summary.json alone; a folder also tells each answer's score,
and so how far two runs' scores lie apart by chance.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.errors import UsageError
from mlperf_suite.results.reading import number, part
from mlperf_suite.results.regression import METRICS, Change, compare_summaries, differences
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_config, write_json

ROUGE_SAMPLES_JSON = "rouge_samples.json"
MMLU_KIND = ("mmlu", "")
"""The kind of an MMLU run, which has neither category nor scenario."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A baseline: as the user named it, its summary, and its folder where it has one."""

    named: str
    summary: Mapping[str, Any]
    folder: Path | None

    @property
    def kind(self) -> tuple[str, str]:
        """Category and scenario; MMLU_KIND for an MMLU run."""
        meta = self.summary["meta"]
        if meta.get("benchmark") == MMLU_KIND[0]:
            return MMLU_KIND
        return str(meta.get("category")), str(meta.get("scenario"))

    def check(self, current: Mapping[str, Any]) -> None:
        """Raise UsageError that names what differs between this baseline and a run.

        `current`: `meta` and `system` of a summary, as far as they are known.
        """
        refused = self._refused(current)
        if refused:
            raise UsageError(refused)

    def _refused(self, current: Mapping[str, Any]) -> str | None:
        different = differences(self.summary, current)
        if not different:
            return None
        return (
            f"--baseline {self.named}: not comparable: {'; '.join(different)} "
            "(--baseline-allow-different compares all the same)"
        )

    def judge(
        self,
        current: Mapping[str, Any],
        folder: Path,
        max_regression: float,
        *,
        allow_different: bool = False,
    ) -> dict[str, Any]:
        """summary.json's `regression`: what became of each metric, or why nothing was compared.

        Changes are relative to the baseline and in the metric's own direction; `low` and `high`
        are the interval's ends.
        """
        refused = None if allow_different else self._refused(current)
        changes: list[Change] = []
        if refused is None:
            paired = _paired_errors(self.folder, folder) if self.folder else {}
            changes = compare_summaries(self.summary, current, max_regression, paired)
        return {
            "baseline": self.named,
            "baseline_started": self.summary["meta"].get("started"),
            "max_regression": max_regression,
            "refused": refused,
            "different": differences(self.summary, current) if allow_different else [],
            "note": _target_note(self.summary, current),
            "metrics": [_as_json(change) for change in changes],
        }


def _as_json(change: Change) -> dict[str, Any]:
    metric = change.metric
    content = asdict(change) | {
        "metric": metric.name,
        "label": metric.label,
        "unit": metric.unit,
        "higher_is_better": metric.higher_is_better,
        "words": change.words,
    }
    return content


def _target_note(baseline: Mapping[str, Any], current: Mapping[str, Any]) -> str | None:
    """Where queries come at a rate, the rate bounds tokens/s and makes the latency."""
    if part(current, "meta").get("scenario") not in ("Server", "Interactive"):
        return None
    then, now = (number(side, "run", "performance", "target_qps") for side in (baseline, current))
    if then is None or now is None or math.isclose(then, now, rel_tol=0.01):
        return None
    return (
        f"the baseline was sent {then:g} queries/s and this run {now:g}: "
        f"only --server-target-qps {then:g} makes the two alike"
    )


def load_reference(
    path: Path, option: str = "--baseline ", *, needs_figures: bool = True
) -> Reference:
    """Read a baseline. Raises UsageError where there is none or it lacks the figures it needs.

    `option`: what an error names before the path.
    """
    path = path.expanduser()
    if path.is_symlink():
        # results/latest: what it points to now, not what it will point to when this run is there.
        beside = path.parent / Path(os.path.realpath(path)).name
        path = beside if beside.exists() and beside.samefile(path) else Path(os.path.realpath(path))
    file = path / SUMMARY_JSON if path.is_dir() else path
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{option}{path}: {file.name}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{option}{path}: {file.name} is not JSON") from error
    if not isinstance(summary, dict) or not isinstance(summary.get("meta"), dict):
        raise UsageError(f"{option}{path}: {file.name} is no summary of a run")
    run = summary.get("run")
    if needs_figures and not (isinstance(run, dict) and any(run.values())):
        status = summary["meta"].get("status")
        raise UsageError(f"{option}{path}: the run has no figures to compare ({status})")
    return Reference(str(path), summary, file.parent if file.name == SUMMARY_JSON else None)


def load_references(paths: Iterable[Path]) -> dict[tuple[str, str], Reference]:
    """Baselines by category and scenario.

    Raises UsageError, also for two of one kind and for a run that did not come to its end.
    """
    found: dict[tuple[str, str], Reference] = {}
    for path in paths:
        reference = load_reference(path)
        status = reference.summary["meta"].get("status")
        if status in ("failed", "running"):
            raise UsageError(
                f"--baseline {path}: the run did not come to its end (status {status}): "
                "take one that did"
            )
        earlier = found.setdefault(reference.kind, reference)
        if earlier is not reference:
            raise UsageError(
                f"--baseline {path}: {earlier.named} is already the baseline of "
                f"{' '.join(reference.kind)}"
            )
    return found


def write_rouge_samples(
    folder: Path, samples: Mapping[str, Sequence[float]], dataset_sha256: str
) -> None:
    """Write each answer's scores, in percent and in the data's order."""
    if samples:
        write_json(
            folder / ROUGE_SAMPLES_JSON,
            {"dataset_sha256": dataset_sha256, "scores": {k: list(v) for k, v in samples.items()}},
        )


def _paired_errors(baseline: Path, current: Path) -> dict[str, float]:
    """By metric, the standard error of the mean difference of the scores of the same answers."""
    (then_data, then), (now_data, now) = (_answers(folder) for folder in (baseline, current))
    errors = {}
    for metric in METRICS:
        old, new = then.get(metric.name, {}), now.get(metric.name, {})
        if then_data == now_data and len(old) > 1 and old.keys() == new.keys():
            spread = statistics.stdev(old[key] - new[key] for key in old)
            errors[metric.name] = spread / math.sqrt(len(old))
    return errors


def _answers(folder: Path) -> tuple[object, dict[str, dict[object, float]]]:
    """A fingerprint of the data, and by metric the score of each answer, in percent."""
    found: dict[str, dict[object, float]] = {}
    fingerprint: object = None
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        content = json.loads((folder / "Accuracy" / ROUGE_SAMPLES_JSON).read_text())
        fingerprint = content["dataset_sha256"]
        for name, scores in content["scores"].items():
            found[name.lower()] = dict(enumerate(map(float, scores)))
    with (
        contextlib.suppress(OSError, ValueError, KeyError, csv.Error),
        (folder / "samples.csv").open(newline="", encoding="utf-8") as file,
    ):
        fingerprint = part(read_config(folder), "dataset").get("sha256")
        found["mmlu"] = {
            (row["subject"], row["question_id"]): 100.0 * (row["correct"] in ("1", "True", "true"))
            for row in csv.DictReader(file)
        }
    return fingerprint, found
