"""Recorded agent sessions and production traces, replayed on a server."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="replay",
    summary="recorded agent sessions and production traces, replayed on a server",
    needs=("chats", "servers"),
    commands={"replay": "mlperf_suite.features.replay.command"},
)
