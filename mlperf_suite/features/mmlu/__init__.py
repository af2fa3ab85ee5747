"""MMLU on the suite's engines, with lm-eval's own tasks, prompts and aggregation.

`engine_lm` imports lm_eval, and therefore torch; it is imported when MMLU runs.
"""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="mmlu",
    summary="MMLU through lm-eval, on an engine with a prefix cache",
    markers={"mmlu": "the MMLU score through lm-eval"},
    options="mlperf_suite.features.mmlu.options",
    kinds={"mmlu": "mlperf_suite.features.mmlu.kind"},
    results=("mmlu",),
    rules=("mlperf_suite.features.mmlu.mmlu_rules",),
    figures={"run.mmlu": "mlperf_suite.features.mmlu.figures.MmluFigures"},
    report="mlperf_suite.features.mmlu.report",
    gate="mlperf_suite.features.mmlu.figures",
    plugin="mlperf_suite.features.mmlu.plugin",
)
