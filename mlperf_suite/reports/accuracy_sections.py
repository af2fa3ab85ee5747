"""How accurate a run was: its scores, and answers of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mlperf_suite.reports.feature_report import feature_reports
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Quote,
    Quotes,
    Section,
    in_unit,
    notes,
    record_table,
)
from mlperf_suite.results.schema import (
    AccuracyFigures,
    ScoreFigures,
    Summary,
)
from mlperf_suite.rules.verdict import Verdict

_NAMES = {"gen_len": "length of all answers"}


def accuracy_section(summary: Summary, samples: Sequence[Mapping[str, str]] = ()) -> Section:
    """The scores with a requirement, a sentence with the others, and a few answers of the model.

    `samples`: each with `index`, `input`, `answer` and `reference`.
    """
    accuracy = summary.run.accuracy
    said = filter(None, (report.scores(summary) for report in feature_reports(summary)))
    blocks: list[Block] = [*notes([next(said, "No accuracy result.")])]
    if accuracy is not None:
        blocks = _scores(accuracy, summary.verdicts)
    if samples:
        names = ("The input begins", "The model's answer", "The reference")
        texts = [(s["input"], s["answer"], s["reference"]) for s in samples]
        quotes = [
            Quote(f"Sample {sample['index']}", list(zip(names, of_sample, strict=True)))
            for sample, of_sample in zip(samples, texts, strict=True)
        ]
        blocks.append(Quotes(quotes, "Sample answers", folded=True))
    return Section("How accurate?", blocks)


def _scores(accuracy: AccuracyFigures, verdicts: Sequence[Verdict]) -> list[Block]:
    requirements = {
        v.rule: f"not judged: {v.why}" if v.status == "not judged" else v.required for v in verdicts
    }
    units = Counter(score.unit for score in accuracy.scores)
    rows, rest = [], []
    for score in accuracy.scores:
        requirement = requirements.get(f"accuracy_{score.name.lower()}") or _range(score)
        value = in_unit(score.value, score.unit)
        if requirement or score.is_percentage:
            with_unit = f"{value}%" if score.is_percentage else f"{value} {score.unit}".strip()
            row: dict[str, Cell] = {"score": _name(score), "found": with_unit}
            rows.append(row | {"required": requirement or "not judged"})
        else:
            words = f"{value} {score.unit}".strip()
            rest.append(words if units[score.unit] == 1 else f"{_name(score)} {words}")
    table = record_table(rows, ["score", "required"], style="small")
    return [*table, *notes([f"{', '.join(rest)}."] if rest else [])]


def _name(score: ScoreFigures) -> str:
    return _NAMES.get(score.name, score.name.replace("_", " "))


def _range(score: ScoreFigures) -> str:
    """The requirement on a score, in words; empty if there is none."""
    low, high = (None if v is None else in_unit(v, score.unit) for v in (score.low, score.high))
    if low is None:
        return "" if high is None else f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"
