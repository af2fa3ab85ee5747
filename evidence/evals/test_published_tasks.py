"""GSM8K, IFEval and MMLU-Pro as lm-eval publishes them, with made-up documents."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from evidence.evals.made_up_data import write_data
from meta_tests.suite_runs import run_python, run_suite
from mlperf_suite.features.evals.lm_eval_tasks import read_task
from mlperf_suite.settings import resolve_settings

LIMIT = 6
needs_ifeval = pytest.mark.skipif(
    not (find_spec("langdetect") and find_spec("immutabledict")),
    reason="IFEval's modules are missing: make evidence",
)


def test_mmlu_pro_is_read_as_published(tmp_path: Path) -> None:
    """Five examples with their chains of thought, by category; no hub is asked."""
    data = write_data(tmp_path)
    settings = resolve_settings({"task_data": str(data), "limit": "27"}, {})
    task = read_task("mmlu_pro", None, settings)
    assert (task.planned, task.shots, task.data) == (27, 5, "TIGER-Lab/MMLU-Pro")
    assert len(task.chosen) == 14 and sum(task.available.values()) == 28
    law = task.loaded["tasks"]["mmlu_pro_law"]
    prompt = law.fewshot_context(law.eval_docs[0], num_fewshot=5)
    assert prompt.count("In law, how many are") == 6
    assert prompt.count("Answer: Let's think step by step. ") == 5
    assert prompt.endswith("Answer: Let's think step by step.")
    assert law.config.generation_kwargs["max_gen_toks"] == 2048


@needs_ifeval
def test_each_task_is_answered_and_scored_on_the_real_engine(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    tasks = "mmlu_pro,gsm8k,ifeval,embedded_facts"
    run_suite(
        tmp_path / "results",
        *("-m", "evals", f"--task={tasks}", f"--task-data={data}", f"--limit={LIMIT}"),
        "--max-model-len=4096",
    )
    summaries = (tmp_path / "results").glob("2*/summary.json")
    found = {s["run"]["evals"]["task"]: s for s in map(json.loads, map(Path.read_text, summaries))}
    assert {*found} == {*tasks.split(",")}
    for task, summary in found.items():
        figures = summary["run"]["evals"]
        assert summary["meta"]["status"] == "complete", task
        assert figures["planned"] == figures["requests"] == min(LIMIT, figures["available"])
    exams = found["mmlu_pro"]["run"]["evals"]
    assert (exams["shots"], exams["available"]) == (5, 28)
    assert exams["by_task"] and all(name.startswith("mmlu_pro_") for name in exams["by_task"])
    assert "inst_level_strict_acc,none" in found["ifeval"]["run"]["evals"]["scores"]


@needs_ifeval
def test_the_answers_are_those_of_lm_evals_backends(tmp_path: Path) -> None:
    data = write_data(tmp_path)
    asked = ("--task=mmlu_pro,gsm8k,ifeval", f"--task-data={data}", f"--limit={LIMIT}")
    process = run_python("-m", "perf.evals", *asked, "--max-model-len=4096")
    assert process.returncode == 0, process.stdout + process.stderr
