"""Search for the best settings."""

from __future__ import annotations

import sys
from argparse import Namespace

from mlperf_suite.commands import Subcommand, say
from mlperf_suite.features.tuning.tuning_options import add_options


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
