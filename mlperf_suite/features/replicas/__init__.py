"""Several engines on the nodes of a Ray cluster, as one engine.

Ray places them, starts and ends their processes and reports when one died; requests and answers use
the suite's own sockets. Only this package imports ray, and only inside functions.
"""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="replicas",
    summary="--replicas, --ray: several engines on the nodes of a Ray cluster, as one engine",
    options="mlperf_suite.features.replicas.options",
    engine=("mlperf_suite.features.replicas.source", "replicas"),
    figures={
        "run.replicas": "mlperf_suite.features.replicas.figures.ReplicasRuns",
        "run.scaling": "mlperf_suite.features.replicas.figures.ScalingFigures",
    },
    report="mlperf_suite.features.replicas.report",
    session="mlperf_suite.features.replicas.source",
)
