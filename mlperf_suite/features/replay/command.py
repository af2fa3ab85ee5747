"""Replay recorded sessions or a trace."""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mlperf_suite.commands import Subcommand, check_output, say
from mlperf_suite.errors import UsageError


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="recorded sessions, mooncake's trace, or OpenTelemetry's spans as OTLP JSON",
    )
    parser.add_argument(
        "--endpoint", required=True, metavar="URL", help="the server; set API_KEY for its key"
    )
    parser.add_argument("--model", required=True, help="the model's name on the server")
    parser.add_argument(
        "--out", type=Path, default=Path("replay.json"), help="file for the result (replay.json)"
    )
    parser.add_argument(
        "--tool-delays", action="store_true", help="keep the recorded delays of the tools"
    )
    parser.add_argument(
        "--turn-timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="time limit of a turn, in s (600)",
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="only the first N conversations or requests"
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        metavar="DIR",
        help="for a trace: the folder with the model's tokenizer.json (--model, if it is a folder)",
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="F",
        help="for a trace: replay it F times as fast (1)",
    )
    for name in ("ttft", "tpot"):
        parser.add_argument(
            f"--{name}-limit",
            type=float,
            metavar="MS",
            help=f"for a trace: count requests within this {name.upper()} as goodput, in ms",
        )


def _run(arguments: Namespace) -> int:
    from mlperf_suite.features.replay.production_traces import kind_of

    check_output("--out", arguments.out)
    for name in ("turn-timeout", "speed", "ttft-limit", "tpot-limit"):
        value = getattr(arguments, name.replace("-", "_"))
        if value is not None and not 0 < value < math.inf:
            raise UsageError.for_option(f"--{name}", value, "must be a number above 0")
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError.for_option("--limit", arguments.limit, "must be a number from 1")
    if kind_of(arguments.file) == "sessions":
        return _replay_sessions(arguments)
    return _replay_trace(arguments)


def _replay_trace(arguments: Namespace) -> int:
    """Replay a production trace."""
    from mlperf_suite.features.replay.trace_replay import TraceRun, run_trace

    run = TraceRun(
        trace=arguments.file,
        endpoint=arguments.endpoint,
        model=arguments.model,
        tokenizer=arguments.tokenizer or Path(arguments.model),
        out=arguments.out,
        speed=arguments.speed,
        limit=arguments.limit,
        ttft_ms=arguments.ttft_limit,
        tpot_ms=arguments.tpot_limit,
        silence_s=arguments.turn_timeout,
    )
    return run_trace(run, say)


def _replay_sessions(arguments: Namespace) -> int:
    """Replay recorded sessions."""
    from mlperf_suite.features.replay.recorded_sessions import ReplayRequest, run_replay

    for name in ("tokenizer", "speed", "ttft-limit", "tpot-limit"):
        if getattr(arguments, name.replace("-", "_")) not in (None, 1.0):
            raise UsageError(f"--{name}: only for a production trace, not for recorded sessions")
    request = ReplayRequest(
        sessions=arguments.file,
        endpoint=arguments.endpoint,
        model=arguments.model,
        out=arguments.out,
        delays=arguments.tool_delays,
        timeout_s=arguments.turn_timeout,
        limit=arguments.limit,
    )
    return 0 if run_replay(request, say) else 1


COMMAND = Subcommand(
    "replay recorded agent sessions on a chat server, as edge-agentic does, or the "
    "arrivals, lengths and shared prefixes of a production trace on any server",
    _add_options,
    _run,
)
