"""Energy of a run: counters of GPUs and CPUs, read alongside it; joules per token; cost.

None of it is MLPerf Power, which is the wall power of the whole system, and every figure says so.
"""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="energy",
    summary="--energy and the prices: joules per token by the machine's own counters, and the cost",
    options="mlperf_suite.features.energy.options",
    session="mlperf_suite.features.energy.session",
    figures={
        "run.energy": "mlperf_suite.features.energy.energy_figures.EnergyFigures",
        "run.cost": "mlperf_suite.features.energy.energy_figures.CostFigures",
    },
    report="mlperf_suite.features.energy.report",
    plugin="mlperf_suite.features.energy.plugin",
)
