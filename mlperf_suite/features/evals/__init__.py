"""Tasks of lm-eval on the session's engine: likelihoods and generated answers.

`lm_eval_tasks` and `task_lm` import lm_eval, and therefore torch; they are imported when a task is
read.
"""

from mlperf_suite.feature import Feature

_FOLDER = "mlperf_suite.features.evals"
FEATURE = Feature(
    name="evals",
    summary="tasks of lm-eval on the engine under test, such as MMLU-Pro, GSM8K and IFEval",
    needs=("mmlu",),
    markers={"evals": "tasks of lm-eval (--task)"},
    options=f"{_FOLDER}.options",
    kinds={"evals": f"{_FOLDER}.kind"},
    results=("evals",),
    rules=(f"{_FOLDER}.eval_rules",),
    figures={"run.evals": f"{_FOLDER}.figures.EvalFigures"},
    report=f"{_FOLDER}.report",
    gate=f"{_FOLDER}.figures",
    plugin=f"{_FOLDER}.plugin",
)
