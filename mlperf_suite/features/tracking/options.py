"""The options of tracking."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mlperf_suite.errors import UsageError
from mlperf_suite.features.tracking.trackers import (
    EXPERIMENT,
    EXPERIMENT_VARIABLE,
    MLFLOW,
    URI_VARIABLE,
    TrackingTarget,
)
from mlperf_suite.option_specs import OptionSpec, Values, checked

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

_option = partial(OptionSpec, identifies=None, section="Tracking")
_OFF = "off"


def _target(text: str) -> str:
    """A target in its normalized spelling."""
    return _OFF if text.casefold() == _OFF else TrackingTarget.parse(text, "").words


TARGET = Values(
    _target,
    "must be mlflow, mlflow:URI, MODULE:PLACE of a tracker of your own, or off; users and "
    "passwords belong in the tracker's own variables",
)
OPTIONS = {
    "track": _option(
        "send each result there once the engine has stopped; by default to MLflow if "
        f"{URI_VARIABLE} is set",
        TARGET,
    ),
    "track_experiment": _option(
        "name of the experiment",
        checked(str, str.strip, "must be a name"),
        EXPERIMENT,
        name="track-experiment",
        variable=EXPERIMENT_VARIABLE,
    ),
}
_BY_VARIABLE, _HAS_URI = "track_by_variable", "track_has_uri"
"""Whether only the variable asks for it, which may be there for other programs, and whether it is
there."""


def completed(value: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The target, None if results are not tracked."""
    has_uri, given = bool(environment.get(URI_VARIABLE)), value["track"]
    track = MLFLOW if given is None and has_uri else given
    track = None if track == _OFF else track
    return {"track": track, _BY_VARIABLE: given is None, _HAS_URI: has_uri}


def check(settings: Settings) -> None:
    """Raise UsageError for a tracker that is asked for and has no URI or is not installed."""
    target, options = target_of(settings), settings.feature_options
    if target == TrackingTarget(MLFLOW, "", options["track_experiment"]) and not options[_HAS_URI]:
        raise UsageError(f"--track mlflow: needs {URI_VARIABLE}, or --track mlflow:URI")
    if target and target.fault and not options[_BY_VARIABLE]:
        raise UsageError(f"--track {target.words}: {target.fault}")


def target_of(settings: Settings) -> TrackingTarget | None:
    """Where the results of a session go; None if nowhere."""
    options = settings.feature_options
    return options["track"] and TrackingTarget.parse(options["track"], options["track_experiment"])
