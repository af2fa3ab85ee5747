"""Servers that run already, which --endpoint names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlperf_suite.engines.endpoint.config import EndpointConfig
from mlperf_suite.session.engine_source import EngineRequest, EngineSource

if TYPE_CHECKING:
    from pathlib import Path

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
        from mlperf_suite.features.servers.server_facts import check_reachable

        check_reachable(endpoint_config(inputs))

    def load(self, inputs: Inputs, request: EngineRequest) -> Engine:
        from mlperf_suite.features.servers.engine import EndpointEngine

        # Not before: it loads the tokenizer, for which a mere check for a server would have to
        # wait.
        end_ids = tuple(end for end in inputs.eos_token_ids if end is not None)
        config = endpoint_config(inputs, request.log_file)
        return EndpointEngine.load(replace(config, end_ids=end_ids))


ENGINE = EndpointSource()


def endpoint_config(inputs: Inputs, log_file: Path | None = None) -> EndpointConfig:
    """How to reach the endpoints, from the settings. Raises UsageError without a tokenizer."""
    settings = inputs.settings
    return EndpointConfig(
        tuple(settings.endpoints),
        inputs.model_path,
        inputs.tokenizer_folder,
        inputs.vocabulary,
        served_model=settings.served_model_name,
        kind=settings.endpoint_server,
        routing=settings.endpoint_routing,
        key=settings.api_key,
        headers=dict(settings.endpoint_headers),
        ca_file=settings.endpoint_ca,
        clients=settings.endpoint_clients,
        requests=settings.endpoint_requests,
        context_needed=inputs.context_needed,
        silence_s=settings.engine_silence,
        log_file=log_file,
        chat=bool(inputs.media),
    )
