"""Servers that run already, which --endpoint names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlperf_suite.session.engine_source import EngineRequest, EngineSource

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.session.inputs import Inputs
    from mlperf_suite.settings import Settings


class EndpointSource(EngineSource):
    option = "--endpoint"
    loading = "connecting to the endpoint"
    is_one_system = True

    def is_chosen(self, settings: Settings) -> bool:
        return settings.engine_kind == "endpoint"

    def takes(self, media: str) -> bool:
        # A chat's message holds a picture as it is; servers transcribe sound by rules of their own.
        return media == "picture"

    def check_reachable(self, inputs: Inputs) -> None:
        from mlperf_suite.engines.endpoint.server_facts import check_reachable
        from mlperf_suite.session.engines import endpoint_config

        check_reachable(endpoint_config(inputs))

    def load(self, inputs: Inputs, request: EngineRequest) -> Engine:
        from mlperf_suite.engines.endpoint.engine import EndpointEngine
        from mlperf_suite.session.engines import endpoint_config

        # Not before: it loads the tokenizer, for which a mere check for a server would have to
        # wait.
        end_ids = tuple(end for end in inputs.eos_token_ids if end is not None)
        config = endpoint_config(inputs, request.log_file)
        return EndpointEngine.load(replace(config, end_ids=end_ids))


ENGINE = EndpointSource()
