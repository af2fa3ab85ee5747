"""What the user asks a tuning for."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning.conditions import Conditions, conditions_of
from mlperf_suite.features.tuning.serving import ServerTemplate
from mlperf_suite.features.tuning.space import Space, check_names, space_of
from mlperf_suite.features.tuning.target import TARGETS, TuneTarget
from mlperf_suite.features.tuning.trial_run import check_options
from mlperf_suite.features.tuning.tuning_result import PAIRS

_MAX_MINUTES = 100_000
_AROUND_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """What the user asked for.

    `minutes`: the search's; the pairs come on top of it, and `around_minutes` for runs in which one
    setting of the winner is undone. `options`: those of every run. `slots`: for each trial that may
    run beside others, the devices it has to itself; one without a name has all. `serve`: starts a
    server for each run; None for an engine in the run's own process. `conditions`: which choices go
    together.
    """

    out: Path
    minutes: float
    space: Space
    options: Sequence[str] = ()
    target: TuneTarget = TARGETS["offline"]
    pairs: int = PAIRS
    around_minutes: float = 0.0
    slots: Sequence[str] = ("",)
    serve: ServerTemplate | None = None
    conditions: Conditions = ()

    @property
    def measured(self) -> dict[str, object]:
        """The measurement, besides the settings; only runs that agree in it are comparable."""
        # The default is what the environment says.
        variables = {name: os.environ.get(name) for name in self.space if name.isupper()}
        return {
            "target": self.target.name,
            "options": list(self.options),
            "serve": self.serve.text if self.serve else None,
            "gpus": gpus_of(self.slots),
            "variables": variables,
        }


def request_of(arguments: Namespace) -> TuningRequest:
    """The command line of `tune`. Raises UsageError for impossible values."""
    minutes = _minutes("--minutes", arguments.minutes)
    around = arguments.around_minutes
    around = minutes * _AROUND_SHARE if around is None else _minutes("--around-minutes", around, 0)
    if arguments.pairs < PAIRS:
        raise UsageError.for_option("--pairs", arguments.pairs, f"must be a number from {PAIRS}")
    check_options(arguments.options)
    serve = ServerTemplate(arguments.serve) if arguments.serve else None
    if serve:
        serve.check()
    slots = arguments.slot or ("",)
    _check_slots(slots)
    space = space_of(arguments.space, {} if serve else None, gpus_of(slots))
    if arguments.space and not serve:
        check_names(arguments.space)
    if all(len(choices) < 2 for choices in space.values()):
        raise UsageError("--space: nothing to choose from; name a setting with a choice")
    return TuningRequest(
        out=arguments.out,
        minutes=minutes,
        space=space,
        options=arguments.options,
        target=TARGETS[arguments.target],
        pairs=arguments.pairs,
        around_minutes=around,
        slots=slots,
        serve=serve,
        conditions=conditions_of(arguments.space, space),
    )


def gpus_of(slots: Sequence[str]) -> int | None:
    """How many GPUs a trial has; None if it has all."""
    return len(slots[0].split(",")) if slots[0] else None


def _check_slots(slots: Sequence[str]) -> None:
    """Raise UsageError for slots in which trials would disturb each other or not be comparable."""
    lists = [slot.split(",") for slot in slots]
    names = [name.strip() for names in lists for name in names]
    if len(set(names)) < len(names) or ("" in names and names != [""]):
        raise UsageError(
            f"--slot {' --slot '.join(slots)}: name each accelerator once, in one slot only"
        )
    if len({len(names) for names in lists}) > 1:
        raise UsageError(f"--slot {' --slot '.join(slots)}: each must have as many accelerators")


def _minutes(option: str, value: float, least: float = 1e-9) -> float:
    if not least <= value < _MAX_MINUTES:
        bound = f"{'above 0' if least else 'from 0'} and below {_MAX_MINUTES:,}"
        raise UsageError.for_option(option, f"{value:g}", f"must be a number {bound}")
    return value
