"""The command `tune`, the search for the best settings, and its options.

Imports nothing heavy, so that every command of the suite starts fast.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mlperf_suite.commands import Subcommand, say

TARGET_NAMES = ("offline", "server", "interactive", "goodput", "curve")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        choices=TARGET_NAMES,
        default="offline",
        help="what to maximize: tokens/s of Offline, the valid rate of Server or Interactive, "
        "the rate with 99%% of the requests within every latency limit, or the area of the curve "
        "(offline)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=30.0,
        help="time for the search (30); the pairs of runs after it take additional time",
    )
    parser.add_argument(
        "--around-minutes",
        type=float,
        metavar="MINUTES",
        help="time for runs of the winner with one setting undone (a quarter of --minutes)",
    )
    parser.add_argument(
        "--serve",
        metavar="COMMAND",
        help="measure a server that is started for each run with this command, where {flags} are "
        "the settings and {port} the port; only the settings of --space are searched",
    )
    parser.add_argument(
        "--slot",
        action="append",
        metavar="GPUS",
        help="accelerators for one trial, as in CUDA_VISIBLE_DEVICES; each further --slot adds one "
        "parallel trial",
    )
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs, 5 or more (5)")
    parser.add_argument(
        "--space",
        type=Path,
        metavar="FILE",
        help="TOML file of NAME = [choices]; [] leaves a setting out",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="a folder for the runs; the folder of an interrupted tuning is continued",
    )
    parser.add_argument(
        "options", nargs="*", metavar="-- OPTION", help="options of every run, such as --model"
    )


def _run(arguments: Namespace) -> int:
    from mlperf_suite.features.tuning.tune import tune
    from mlperf_suite.features.tuning.tuning_request import request_of

    try:
        tune(request_of(arguments), say)
    except KeyboardInterrupt:
        say("interrupted; repeat the command to continue", sys.stderr)
        return 130
    return 0


COMMAND = Subcommand(
    "search for the engine's best settings, and confirm them in paired runs",
    add_options,
    _run,
    "; options of the runs, as --model, follow a --",
)
