"""Servers with an OpenAI-compatible API that run already, reached over HTTP, as one engine."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="servers",
    summary="--endpoint: servers with an OpenAI-compatible API that run already, as one engine",
    options="mlperf_suite.features.servers.options",
    engine=("mlperf_suite.features.servers.source", "endpoints"),
    rules=("mlperf_suite.features.servers.stream_rules",),
    report="mlperf_suite.features.servers.report",
)
