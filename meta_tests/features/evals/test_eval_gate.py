"""A task's score in the regression gate: a loss of two points is found, noise is none."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlperf_suite.features.evals.eval_results import (
    EvalDocument,
    EvalScores,
    scores_of,
    write_documents,
)
from mlperf_suite.features.evals.figures import PART, EvalFigures, EvalScore
from mlperf_suite.features.evals.report import EvalReport
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import Config, Meta, Summary

DOCUMENTS, RIGHT, METRIC = 4000, 0.8, "exact_match,none"
ALLOWED = 0.01


def kept_run(folder: Path, right: Sequence[float]) -> Summary:
    """The files and the summary of a run with these answers, 1.0 each if right."""
    folder.mkdir()
    documents = [EvalDocument("t", n, "", "", [], {METRIC: r}) for n, r in enumerate(right)]
    write_documents(folder, EvalScores(METRIC, {}, {}, documents))
    write_json(folder / "config.json", {"dataset": {"sha256": "same"}})
    share = sum(right) / len(right)
    spread = 100 * (share * (1 - share) / len(right)) ** 0.5
    figures = EvalFigures(task="t", score=EvalScore(100 * share, spread, "%", len(right)))
    meta = Meta(benchmark="evals", scenario="t", status="complete")
    return Summary(meta=meta, parts={PART: figures})


def change_of(folder: Path, then: Sequence[float], now: Sequence[float]) -> Any:
    baseline = BaselineRun("then", kept_run(folder / "then", then), folder / "then")
    current = kept_run(folder / "now", now)
    regression = baseline.judge(current, folder / "now", ALLOWED)
    (change,) = regression.metrics
    current = replace(current, regression=regression)
    page = markdown_text(EvalReport().page(current, folder, Config()))
    assert page.startswith("# t: regressed") == (change.outcome == "regressed")
    return change


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("lost", "outcomes"), [(0.0, ("unchanged", "cannot tell")), (0.02, ("regressed",))]
)
def test_two_lost_points_are_found_and_noise_is_not(
    tmp_path: Path, seed: int, lost: float, outcomes: tuple[str, ...]
) -> None:
    """Rounding turns some answers over in both directions: here 1.5% each way. The spread of the
    scores alone would hide two points of so many documents."""
    draw = random.Random(seed)
    then = [float(n < RIGHT * DOCUMENTS) for n in range(DOCUMENTS)]
    now = list(then)
    right, wrong = range(int(RIGHT * DOCUMENTS)), range(int(RIGHT * DOCUMENTS), DOCUMENTS)
    # The number of those that turn differs by chance as well.
    turned = [n for n in draw.sample(right, 120) if draw.random() < 0.5]
    turned += [n for n in draw.sample(wrong, 120) if draw.random() < 0.5]
    for number in turned:
        now[number] = 1.0 - now[number]
    still_right = [n for n in right if now[n]]
    for number in draw.sample(still_right, round(lost * DOCUMENTS)):
        now[number] = 0.0
    change = change_of(tmp_path, then, now)
    assert change.outcome in outcomes, change.words
    assert change.noise_from == "the same samples"


def evaluation(**values: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """A group's task and lm-eval's result of it: by task, each document's metric."""
    samples = {
        name: [
            {
                "doc_id": number,
                "filter": "none",
                "metrics": ["m"],
                "m": value,
                "target": "x",
                "resps": [["a"]],
                "filtered_resps": ["a"],
            }
            for number, value in enumerate(of_task)
        ]
        for name, of_task in values.items()
    }
    flat = {
        n: [p for v in of for p in (v if isinstance(v, list) else [v])] for n, of in values.items()
    }
    results: dict[str, Any] = {n: {"m,none": sum(of) / len(of)} for n, of in flat.items()}
    task = SimpleNamespace(
        name="group",
        loaded={"tasks": dict.fromkeys(values), "groups": {}},
        chosen={name: range(len(of_task)) for name, of_task in values.items()},
        planned=sum(map(len, values.values())),
    )
    return task, {"results": results, "samples": samples}


@pytest.mark.parametrize(("by_size", "score"), [(True, 25.0), (False, 50.0)])
def test_a_groups_score_is_lm_evals_and_the_mean_of_its_documents(
    by_size: bool, score: float
) -> None:
    task, made = evaluation(small=[1.0], large=[0.0, 0.0, 0.0])
    made["results"]["group"] = {"m,none": score / 100}
    aggregate = SimpleNamespace(metric="m", weight_by_size=by_size)
    task.loaded["groups"]["group"] = SimpleNamespace(aggregate_metric_list=[aggregate])
    scores = scores_of(task, made)
    whole = scores.scores["m,none"]
    assert (whole.value, whole.unit, whole.documents) == (pytest.approx(score), "%", 4)
    assert {name: of.value for name, of in scores.by_task.items()} == {"small": 100, "large": 0}
    # What the gate pairs has that mean too.
    paired = [document.score("m,none") for document in scores.documents]
    assert sum(filter(None, paired)) / 4 == pytest.approx(score)


@pytest.mark.parametrize(
    ("values", "value", "unit"),
    [([[True, False], [True]], 66.667, "%"), ([12.5, 3.5], 8.0, "")],
    ids=["several answers of a document", "no share"],
)
def test_what_is_no_share_of_documents_has_no_error(
    values: Sequence[Any], value: float, unit: str
) -> None:
    task, made = evaluation(group=values)
    score = scores_of(task, made).scores["m,none"]
    assert (score.value, score.stderr, score.unit) == (pytest.approx(value, rel=1e-4), None, unit)
