"""Servers that run already, which --endpoint names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlperf_suite.benchmarks.definition import LOADGEN
from mlperf_suite.features.servers.config import EndpointConfig
from mlperf_suite.session.engine_source import EngineRequest, EngineSource
from mlperf_suite.settings import check_model_is_reachable

if TYPE_CHECKING:
    from pathlib import Path

    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.session.inputs import Inputs
    from mlperf_suite.settings import Settings


class EndpointSource(EngineSource):
    option = "--endpoint"
    loading = "connecting to the endpoint"
    load_s = 2.0
    is_remote = True
    model_hint = "; --served-model-name is the server's own name for it"
    is_one_system = True

    def takes(self, media: str) -> bool:
        # A chat's message holds a picture as it is; servers transcribe sound by rules of their own.
        return media == "picture"

    def urls(self, settings: Settings) -> list[str]:
        return [target.url for target in settings.feature_options["endpoints"]]

    def check(self, inputs: Inputs) -> int | None:
        from mlperf_suite.features.servers.server_facts import check_reachable

        check_model_is_reachable(inputs.settings, self.model_hint)
        config = _without_tokenizer(inputs)
        kinds = {benchmark.run_kind for benchmark in inputs.benchmarks}
        # Conversations are sent as chats, whatever else an engine would send.
        holds_chats = bool(kinds) and LOADGEN not in kinds
        context = check_reachable(replace(config, chat=config.chat or holds_chats))
        # Not before: it may wait for the hub.
        _ = inputs.tokenizer_folder
        return context

    def load(self, inputs: Inputs, request: EngineRequest) -> Engine:
        from mlperf_suite.features.servers.engine import EndpointEngine

        end_ids = tuple(end for end in inputs.eos_token_ids if end is not None)
        config = endpoint_config(inputs, request.log_file)
        return EndpointEngine.load(replace(config, end_ids=end_ids))


ENGINE = EndpointSource()


def endpoint_config(inputs: Inputs, log_file: Path | None = None) -> EndpointConfig:
    """How to reach the endpoints, from the settings. Raises UsageError without a tokenizer."""
    return replace(
        _without_tokenizer(inputs),
        tokenizer=inputs.tokenizer_folder,
        vocabulary=inputs.vocabulary,
        log_file=log_file,
    )


def _without_tokenizer(inputs: Inputs) -> EndpointConfig:
    settings = inputs.settings
    options = settings.feature_options
    return EndpointConfig(
        tuple(options["endpoints"]),
        inputs.model_path,
        None,
        0,
        served_model=options["served_model_name"],
        kind=options["endpoint_server"],
        routing=options["endpoint_routing"],
        key=options["api_key"],
        headers=options["endpoint_headers"],
        ca_file=options["endpoint_ca"],
        clients=options["endpoint_clients"],
        requests=options["endpoint_requests"],
        context_needed=inputs.context_needed,
        silence_s=settings.engine_silence,
        chat=bool(inputs.media),
        notes=options["server_notes"],
    )
