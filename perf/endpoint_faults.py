"""Measure how soon a server's fault ends a run, and show the message.

    python -m perf.endpoint_faults

Each fault of the stand-in server occurs in a performance run (Server, 100 queries/s) on the loaded
engine, or while it is loaded, with the endpoint engine's own settings. Prints the time from the
start of the run or of loading to its end, and its last line; for a run that continues, what is
reported about its answers. "One of many" is a single request with the fault in a run of 40 s whose
other requests are answered; 5 s of the time are given to LoadGen, which cannot be stopped.
"""

from __future__ import annotations

import socket
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from meta_tests.servers.options import FAULTS, Fault, StandIn
from meta_tests.servers.stand_in_server import make_certificate, stand_in_server
from mlperf_suite.engines.endpoint.config import EndpointConfig, parse_endpoint
from mlperf_suite.engines.endpoint.engine import EndpointEngine
from mlperf_suite.errors import SuiteError
from mlperf_suite.loadgen import runner
from perf.server_overhead import served

_RATE, _RUN_MS, _LONG_RUN_MS = 100, 1_000, 40_000
_SAMPLES = 64
"""Few, since LoadGen cannot be stopped and issues each at least once."""
_AFTER_TRIAL = 10
_ONE_OF_MANY: tuple[Fault, ...] = ("no-first-token", "no-answer", "stops")
_WHEN_LOADING: tuple[Fault, ...] = ("redirect", "status-503", "garbage", "dies", "no-answer")


def _config(url: str) -> EndpointConfig:
    return EndpointConfig((parse_endpoint(url),), "stand-in", None, 32_000, key="a-key")


def _loading(config: EndpointConfig) -> tuple[float, str]:
    began = time.monotonic()
    try:
        EndpointEngine.load(config).close()
    except SuiteError as error:
        return time.monotonic() - began, str(error)
    return time.monotonic() - began, "loaded"


def _running(
    fault: Fault, most: int | None = None, run_ms: int = _RUN_MS, first_token_s: float = 0.0
) -> tuple[float, str]:
    options = StandIn(
        fault=fault,
        fault_from=_AFTER_TRIAL,
        fault_for=most,
        first_token_s=first_token_s,
        redirect_to="http://elsewhere",
    )
    with (
        stand_in_server(options) as server,
        closing(EndpointEngine.load(_config(server.url))) as engine,
    ):
        engine.run_begins("Server", "performance")
        began = time.monotonic()
        try:
            served(engine, _RATE, run_ms, samples=_SAMPLES)
        except SuiteError as error:
            return time.monotonic() - began, str(error)
        took_s, run = time.monotonic() - began, engine.take_remote_run()
        cached = run.endpoints[0].cached_tokens
        told = [*run.departures, *([f"{cached:,} cached tokens"] if cached else [])]
        return took_s, "; ".join(told) or "goes on, every answer right"


def _row(what: str, found: tuple[float, str]) -> None:
    print(f"| {what} | {found[0]:.1f} | {found[1]} |", flush=True)


def main() -> None:
    print("| fault | s | what is said |\n|---|---:|---|")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        _row("loading: connection refused", _loading(_config(url)))
    with stand_in_server(StandIn(key="another")) as server:
        _row("loading: wrong key", _loading(_config(server.url)))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificate, key = make_certificate(folder)
        options = StandIn(certificate=str(certificate), certificate_key=str(key))
        server = stack.enter_context(stand_in_server(options))
        _row("loading: TLS that does not verify", _loading(_config(server.url)))
        trusting = replace(_config(server.url), ca_file=certificate)
        _row("loading: the same with its CA file", _loading(trusting))
    for fault in _WHEN_LOADING:
        options = StandIn(fault=fault, everywhere=True, redirect_to="http://elsewhere")
        with stand_in_server(options) as server:
            _row(f"loading: {fault}", _loading(_config(server.url)))
    for fault in FAULTS:
        if runner.abandoned():
            print("an earlier run did not end: the rest was not tried")
            return
        _row(f"running: {fault}", _running(fault))
    for fault in _ONE_OF_MANY:
        for first_token_s in (0.0, 2.0):
            found = _running(fault, 1, _LONG_RUN_MS, first_token_s)
            _row(f"running: {fault}, one of many, TTFT {first_token_s:g} s", found)
            while runner.abandoned():
                time.sleep(0.5)


if __name__ == "__main__":
    main()
