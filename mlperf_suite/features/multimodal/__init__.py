"""Benchmarks of pictures and of sound: qwen3-vl's product catalogue, whisper's speech."""

from mlperf_suite.feature import Feature

_FOLDER = "mlperf_suite.features.multimodal"
FEATURE = Feature(
    name="multimodal",
    summary="qwen3-vl and whisper: prompts with a picture, prompts of sound",
    benchmarks=(f"{_FOLDER}.qwen3_vl", f"{_FOLDER}.whisper"),
)
