"""Requests as a client process makes them, without a network."""

from __future__ import annotations

from array import array
from functools import cache
from typing import Any
from unittest.mock import Mock

import msgspec

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.engines.messages import Sampling, ServerAddress, WorkerConfig
from mlperf_suite.features.servers.adapters import ADAPTERS
from mlperf_suite.features.servers.http_requests import (
    GenerationRequest,
    HttpWorkerState,
    TextCodec,
)

SILENCE_S = 25.0
STREAMED = Sampling(12, 1, 0.0, 1.0, 1, 42, wants_first=True)
WHOLE = Sampling(12, 1, 0.0, 1.0, 1, 42, wants_first=False)


WORKER_CONFIG = WorkerConfig(
    [ServerAddress("h", "h", 1, False, "h:1", "/p", "/p")],
    *("vllm", "m", None, {}, None, None, 32_000, None, 1, SILENCE_S),
)


@cache
def text_codec() -> TextCodec:
    return TextCodec(str(embedded_model_dir()))


def shared_of(form: str, model: str = "m") -> tuple[HttpWorkerState, list[Any]]:
    """What a client's requests share, and the messages that they send to the engine."""
    names = (model, "org/M")
    worker_config = msgspec.structs.replace(
        WORKER_CONFIG, kind=form, model=model, model_names=names
    )
    messages: list[Any] = []
    text = text_codec() if form == "text" else None
    return HttpWorkerState(worker_config, ADAPTERS[form], text, [Mock()], messages.append), messages


def under_way(
    shared: HttpWorkerState, number: int, sampling: Sampling = STREAMED
) -> GenerationRequest:
    """A request that was sent."""
    request = GenerationRequest(shared, number, 0, array("i", [1, 2, 3]).tobytes(), sampling)
    shared.under_way.add(request)
    return request


def piece(**choice: object) -> dict[str, object]:
    return {"model": "m", "choices": [choice]}
