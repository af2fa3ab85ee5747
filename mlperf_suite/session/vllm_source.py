"""vLLM in this process, which is measured unless the settings choose another engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlperf_suite.session.engine_source import EngineRequest, EngineSource

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.session.inputs import Inputs


class VllmSource(EngineSource):
    def load(self, inputs: Inputs, request: EngineRequest) -> Engine:
        from mlperf_suite.session.engines import load_vllm

        return load_vllm(inputs, request)


ENGINE = VllmSource()
