"""The options of `tune`; imports nothing heavy, so that every command of the suite starts fast."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

TARGET_NAMES = ("offline", "server", "interactive", "goodput", "curve")


def add_options(parser: ArgumentParser) -> None:
    """Declare the options of `tune`."""
    parser.add_argument(
        "--target",
        choices=TARGET_NAMES,
        default="offline",
        help="what is to be highest: tokens/s of Offline, the valid rate of Server or Interactive, "
        "the rate with 99%% of the requests within both limits, or the area of the curve (offline)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=30.0,
        help="the time for the search (30); the pairs of runs after it come on top",
    )
    parser.add_argument(
        "--around-minutes",
        type=float,
        metavar="MINUTES",
        help="the time for runs of the winner with one setting undone (a quarter of --minutes)",
    )
    parser.add_argument(
        "--serve",
        metavar="COMMAND",
        help="start a server for each run with this command, in which {flags} are the settings and "
        "{port} the port, and measure it; only the settings of --space are searched",
    )
    parser.add_argument(
        "--slot",
        action="append",
        metavar="GPUS",
        help="GPUs for one trial, as CUDA_VISIBLE_DEVICES names them; each further --slot makes "
        "one more trial side by side",
    )
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs, 5 or more (5)")
    parser.add_argument(
        "--space", type=Path, metavar="FILE", help="TOML, NAME = [choices]; [] leaves a name out"
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="a folder for the runs; one of an interrupted tuning goes on",
    )
    parser.add_argument(
        "options", nargs="*", metavar="-- OPTION", help="options of every run, as --model"
    )
