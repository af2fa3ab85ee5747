"""The embedded model on vLLM, loaded like in a session, or behind HTTP, for the programs of this
folder."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from meta_tests.servers.local_servers import LocalServer
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.session.engines import EngineRequest, load_engine, load_vllm
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings


def embedded_inputs() -> Inputs:
    """Data, prompts and tokenizer of the smoke profile."""
    return Inputs(resolve_settings({}), [LLAMA3_1_8B])


@contextlib.contextmanager
def embedded_engine() -> Iterator[tuple[VllmEngine, Inputs]]:
    """A loaded engine and its inputs; stopped at the end."""
    inputs = embedded_inputs()
    with tempfile.TemporaryDirectory() as folder:
        engine = load_vllm(inputs, EngineRequest("runs", Path(folder) / "engine.log"))
        assert isinstance(engine, VllmEngine)
        try:
            yield engine, inputs
        finally:
            engine.close()


@contextlib.contextmanager
def embedded_endpoint(server: LocalServer) -> Iterator[Engine]:
    """The endpoint engine for this server, as in a session; closed at the end."""
    inputs = Inputs(resolve_settings({"endpoint": [server.url]}), [LLAMA3_1_8B])
    with tempfile.TemporaryDirectory() as folder:
        engine = load_engine(inputs, EngineRequest("runs", Path(folder) / "engine.log"))
        try:
            yield engine
        finally:
            engine.close()
