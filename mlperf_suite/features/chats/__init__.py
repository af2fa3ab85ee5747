"""Benchmarks of messages, without LoadGen: recorded conversations, and function calling."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="chats",
    summary="edge-agentic: recorded conversations and function calling, without LoadGen",
    needs=("servers",),
    benchmarks=("mlperf_suite.features.chats.qwen3_6_27b",),
    kinds={"chats": "mlperf_suite.features.chats.kind"},
    rules=("mlperf_suite.features.chats.chat_rules",),
    figures={"run.replay": "mlperf_suite.features.chats.figures.ReplayFigures"},
    report="mlperf_suite.features.chats.report",
    plugin="mlperf_suite.features.chats.plugin",
)
